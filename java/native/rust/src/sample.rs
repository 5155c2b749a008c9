//! Samples of live rows, from which a running job retrains templates.
//!
//! ```text
//! sampled row   i64 id | i64 code | dimension x f32
//! ```
//!
//! The id of a row alone decides whether a sample has it. So the samples of all partitions form one
//! even sample. A row that is in two partitions for a moment is recognised by its id. A sample
//! drawn with a larger share can be thinned to a smaller one.

use std::collections::HashSet;

use vstream_vector::SplitMix;

use crate::failure::Failure;

/// Bytes before the vector of a sampled row.
const HEADER: usize = 16;

/// The rule that draws rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Draw {
    /// Share of all rows, 0 to 1.
    share: f64,
    /// Slice of the drawn rows, below `slices`.
    slice: u64,
    slices: u64,
}

impl Draw {
    /// Slice number `slice` of `slices` of a sample that holds `share` of all rows.
    pub(crate) fn new(share: f64, slice: i32, slices: i32) -> Result<Draw, Failure> {
        let number = |x: i32| u64::try_from(x).ok();
        match (number(slice), number(slices)) {
            (Some(slice), Some(slices)) if slice < slices && (0.0..=1.0).contains(&share) => {
                Ok(Draw { share, slice, slices })
            }
            _ => Err(Failure::invalid(format!(
                "There is no slice {slice} of {slices} of a sample of the share {share}; give a \
                 share of 0 to 1 and a slice below their number."
            ))),
        }
    }

    /// True if the row is drawn.
    pub(crate) fn takes(&self, id: u64) -> bool {
        let hash = SplitMix(id).next();
        // The upper bits decide whether the row is drawn, the lower bits its slice.
        ((hash >> 11) as f64) * (0.5f64).powi(53) < self.share
            && (hash & 0xffff) % self.slices == self.slice
    }
}

/// Appends a row.
pub(crate) fn push(id: u64, code: u64, vector: &[f32], out: &mut Vec<u8>) {
    out.extend_from_slice(&id.to_le_bytes());
    out.extend_from_slice(&code.to_le_bytes());
    vector.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes()));
}

/// Reads the vectors, back to back, and the codes of the sampled rows in `bytes`: each row once,
/// and only rows that a sample of `share` holds.
pub(crate) fn read(
    bytes: &[u8],
    dimension: usize,
    share: f64,
) -> Result<(Vec<f32>, Vec<u64>), Failure> {
    let row_bytes = HEADER + dimension * size_of::<f32>();
    if !bytes.len().is_multiple_of(row_bytes) {
        return Err(Failure::invalid(format!(
            "{} bytes are no whole number of sampled rows of {row_bytes} bytes.",
            bytes.len()
        )));
    }
    let draw = Draw::new(share, 0, 1)?;
    let rows = bytes.len() / row_bytes;
    let mut seen = HashSet::with_capacity(rows);
    let (mut vectors, mut codes) = (Vec::with_capacity(rows * dimension), Vec::with_capacity(rows));
    for row in bytes.chunks_exact(row_bytes) {
        let (header, vector) = row.split_at(HEADER);
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&header[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let id = word(0);
        if draw.takes(id) && seen.insert(id) {
            codes.push(word(8));
            let number = |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
            vectors.extend(vector.chunks_exact(4).map(number));
        }
    }
    Ok((vectors, codes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_a_sample_and_a_smaller_share_is_a_part_of_it() {
        let drawn = |share, slice, slices| -> Vec<u64> {
            let draw = Draw::new(share, slice, slices).expect("a good draw");
            (0..20_000).filter(|&id| draw.takes(id)).collect()
        };
        let all = drawn(0.25, 0, 1);
        assert!((4_700..5_300).contains(&all.len()), "{}", all.len());
        let mut slices: Vec<u64> = (0..4).flat_map(|slice| drawn(0.25, slice, 4)).collect();
        slices.sort_unstable();
        assert_eq!(slices, all);
        assert!(drawn(0.1, 0, 1).iter().all(|id| all.contains(id)));
        assert_eq!(drawn(1.0, 0, 1).len(), 20_000);
        assert!(drawn(0.0, 0, 1).is_empty());
        for (share, slice, slices) in [(1.1, 0, 1), (f64::NAN, 0, 1), (0.5, 1, 1), (0.5, -1, 0)] {
            assert!(Draw::new(share, slice, slices).is_err());
        }
    }

    #[test]
    fn rows_are_read_once_and_thinned() {
        let mut bytes = Vec::new();
        for id in (0..1_000).chain(0..10) {
            push(id, id << 50, &[id as f32, 0.5], &mut bytes);
        }
        let (vectors, codes) = read(&bytes, 2, 1.0).expect("whole rows");
        assert_eq!(codes, (0..1_000).map(|id| id << 50).collect::<Vec<u64>>());
        assert_eq!(vectors[14..18], [7.0, 0.5, 8.0, 0.5]);
        let (_, some) = read(&bytes, 2, 0.5).expect("whole rows");
        assert!((400..600).contains(&some.len()));
        assert!(read(&bytes[1..], 2, 1.0).is_err());
        assert!(read(&bytes, 2, 1.5).is_err());
        assert_eq!(read(&[], 2, 1.0).expect("no rows").1.len(), 0);
    }
}
