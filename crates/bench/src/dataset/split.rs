//! Rows with names, dealt into a base and held-out queries.

use std::collections::HashSet;

use vstream_vector::SplitMix;

use super::folder::Staging;
use super::DatasetError;

/// Queries at the front of the query file that a person will recognise.
const FAMILIAR_QUERIES: usize = 64;

/// Named vectors of one dimension, most frequent name first.
pub(super) struct NamedRows {
    pub(super) dimension: usize,
    /// `names.len() x dimension` numbers.
    pub(super) values: Vec<f32>,
    pub(super) names: Vec<String>,
}

/// Row numbers of the two parts.
pub(super) struct Split {
    pub(super) base: Vec<u32>,
    pub(super) queries: Vec<u32>,
}

impl NamedRows {
    pub(super) fn row(&self, row: u32) -> &[f32] {
        let start = row as usize * self.dimension;
        &self.values[start..start + self.dimension]
    }

    /// Scales every row to length 1.
    ///
    /// The sum is taken in double precision and in order, so every machine writes the same bytes.
    pub(super) fn normalise(&mut self) {
        for row in self.values.chunks_exact_mut(self.dimension) {
            let norm = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
            if norm > 0.0 {
                row.iter_mut().for_each(|x| *x = (f64::from(*x) / norm) as f32);
            }
        }
    }

    /// Rows worth keeping: finite, not zero, and not equal to an earlier one. Without the last
    /// condition a query could be a row of the base under another name.
    fn distinct(&self) -> Vec<u32> {
        let mut seen = HashSet::with_capacity(self.names.len());
        let bytes = |row: u32| self.row(row).iter().flat_map(|x| x.to_bits().to_le_bytes());
        (0..self.names.len() as u32)
            .filter(|&row| self.row(row).iter().all(|x| x.is_finite()))
            .filter(|&row| self.row(row).iter().any(|&x| x != 0.0))
            .filter(|&row| seen.insert(bytes(row).collect::<Vec<u8>>()))
            .collect()
    }

    /// Shuffles the rows and holds `queries` of them out. The query file starts with its most
    /// frequent names, so that the first answers can be judged by eye; the rest stays shuffled.
    pub(super) fn split(&self, queries: usize, seed: u64) -> Split {
        let mut rows = self.distinct();
        let mut chance = SplitMix(seed);
        for last in (1..rows.len()).rev() {
            rows.swap(last, chance.below(last + 1));
        }
        let base = rows.split_off(queries.min(rows.len()));
        let mut queries = rows;
        let familiar = FAMILIAR_QUERIES.min(queries.len());
        let mut by_frequency = queries.clone();
        by_frequency.sort_unstable();
        by_frequency.truncate(familiar);
        queries.retain(|row| by_frequency.binary_search(row).is_err());
        by_frequency.append(&mut queries);
        Split { base, queries: by_frequency }
    }

    /// Writes `<part>.fbin` and `<part>.words.txt`.
    pub(super) fn write(
        &self,
        part: &str,
        rows: &[u32],
        staging: &mut Staging,
    ) -> Result<(), DatasetError> {
        staging.write(&format!("{part}.fbin"), |out| {
            out.write_all(&(rows.len() as u32).to_le_bytes())?;
            out.write_all(&(self.dimension as u32).to_le_bytes())?;
            for &row in rows {
                for x in self.row(row) {
                    out.write_all(&x.to_le_bytes())?;
                }
            }
            Ok(())
        })?;
        staging.write(&format!("{part}.words.txt"), |out| {
            rows.iter().try_for_each(|&row| writeln!(out, "{}", self.names[row as usize]))
        })
    }
}
