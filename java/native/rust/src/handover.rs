//! The bytes that cross the border when rows change partition.
//!
//! ```text
//! moved range   i64 first code | i64 last code | u16 from | u16 to | i32 zero
//! loads         BUCKETS x ( i32 rows | i32 writes )
//! load of line  BUCKETS x ( f64 rows | f64 work )
//! ```
//!
//! A *bucket* is the top twelve bits of a code: a cell, or a part of a cell where there are fewer
//! cells. With `lsh` it is one of the even intervals in which the load of the line is counted.

use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use vstream_engine::{Adoption, MovedRange};
use vstream_route::Move;
use vstream_settings::CollectionSettings;

use crate::failure::{Failure, Kind, Poison};

/// Buckets of the line of routing codes: the largest number of cells.
pub(crate) const BUCKETS: usize = vstream_route::CELLS_MAX;

const BUCKET_SHIFT: u32 = 64 - BUCKETS.trailing_zeros();
const RANGE_BYTES: usize = 24;
const CELL_LOAD_BYTES: usize = 16;

/// The bucket of a code.
pub(crate) fn bucket(code: u64) -> usize {
    (code >> BUCKET_SHIFT) as usize
}

/// The first code of a bucket.
pub(crate) fn code_of(bucket: usize) -> u64 {
    (bucket as u64) << BUCKET_SHIFT
}

/// Encodes moved ranges for Java, which only passes them on.
pub(crate) fn write_ranges(moves: &[Move]) -> Vec<u8> {
    let mut out = Vec::with_capacity(moves.len() * RANGE_BYTES);
    for range in moves {
        out.extend_from_slice(&range.first.to_le_bytes());
        out.extend_from_slice(&range.last.to_le_bytes());
        out.extend_from_slice(&range.from.to_le_bytes());
        out.extend_from_slice(&range.to.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
    }
    out
}

/// Reads what [`write_ranges`] wrote.
pub(crate) fn read_ranges(bytes: &[u8]) -> Result<Vec<MovedRange>, Failure> {
    if !bytes.len().is_multiple_of(RANGE_BYTES) {
        return Err(Failure::invalid(format!(
            "{} bytes are no whole number of moved ranges of {RANGE_BYTES} bytes.",
            bytes.len()
        )));
    }
    let word = |range: &[u8], at: usize| u64::from_le_bytes(array(&range[at..]));
    let half = |range: &[u8], at: usize| u16::from_le_bytes(array(&range[at..]));
    let ranges: Vec<MovedRange> = bytes
        .chunks_exact(RANGE_BYTES)
        .map(|range| MovedRange {
            first: word(range, 0),
            last: word(range, 8),
            from: half(range, 16),
            to: half(range, 18),
        })
        .collect();
    let whole = ranges.iter().all(|range| range.first <= range.last);
    if !whole || ranges.windows(2).any(|pair| pair[0].last >= pair[1].first) {
        return Err(Failure::invalid("Moved ranges must ascend and may not overlap."));
    }
    Ok(ranges)
}

/// Encodes rows and writes of each bucket for Java.
pub(crate) fn write_loads(rows: &[u32], writes: &[u32]) -> Vec<u8> {
    let words = rows.iter().zip(writes).flat_map(|(&rows, &writes)| [rows, writes]);
    words.flat_map(u32::to_le_bytes).collect()
}

/// Reads rows and work of each bucket, as the control task has added them up.
pub(crate) fn read_cell_loads(bytes: &[u8]) -> Result<(Vec<f64>, Vec<f64>), Failure> {
    if bytes.len() < BUCKETS * CELL_LOAD_BYTES {
        return Err(Failure::invalid(format!(
            "The buffer has {} bytes and the loads of all cells need {}.",
            bytes.len(),
            BUCKETS * CELL_LOAD_BYTES
        )));
    }
    let number = |bytes: &[u8], at: usize| f64::from_le_bytes(array(&bytes[at..]));
    let buckets = bytes.chunks_exact(CELL_LOAD_BYTES).take(BUCKETS);
    Ok(buckets.map(|bucket| (number(bucket, 0), number(bucket, 8))).unzip())
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[..N]);
    array
}

/// Sealed rows that Java has opened.
pub(crate) struct Adopting {
    poison: Poison,
    adoption: Mutex<Adoption>,
}

impl Adopting {
    /// Opens and verifies a sealed snapshot.
    pub(crate) fn open(settings: &CollectionSettings, dir: &Path) -> Result<Adopting, Failure> {
        let adoption = Mutex::new(Adoption::open(&settings.engine(), dir)?);
        Ok(Adopting { poison: Poison::default(), adoption })
    }

    /// Runs `work` on the rows not adopted yet.
    pub(crate) fn with<T>(
        &self,
        work: impl FnOnce(&mut Adoption) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.poison.guard(|| {
            let mut adoption: MutexGuard<'_, Adoption> = self.adoption.lock().map_err(|_| {
                Failure::new(Kind::Internal, "Another call on these rows has just met a defect.")
            })?;
            work(&mut adoption)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_survive_the_way_through_java() {
        let moves = [
            Move { first: 0, last: 9, from: 3, to: 127 },
            Move { first: 1 << 60, last: u64::MAX, from: 127, to: 0 },
        ];
        let read = read_ranges(&write_ranges(&moves)).expect("what was written");
        assert_eq!(read.len(), 2);
        for (read, wrote) in read.iter().zip(moves) {
            assert_eq!(
                (read.first, read.last, read.from, read.to),
                (wrote.first, wrote.last, wrote.from, wrote.to)
            );
        }
        assert!(read_ranges(&[0; 23]).is_err());
        let overlapping = [moves[1], moves[0]];
        assert!(read_ranges(&write_ranges(&overlapping)).is_err());
    }

    #[test]
    fn buckets_are_the_top_bits() {
        assert_eq!(bucket(0), 0);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        for at in [0, 1, 77, BUCKETS - 1] {
            assert_eq!(bucket(code_of(at)), at);
            assert_eq!(bucket(code_of(at) | (u64::MAX >> 12)), at);
        }
        assert_eq!(write_loads(&[1, 2], &[3, 4])[4..9], [3, 0, 0, 0, 2]);
        assert!(read_cell_loads(&[0; 8]).is_err());
    }
}
