//! Splits of cells that have grown too large.
//!
//! 1. A cell is split if it has many times the rows of the mean cell, or too many to level partitions
//!    by moving it, the sample has enough of them to tell where to cut, and its interval of codes can
//!    be halved.
//! 2. Balanced 2-means of the sample's rows that are nearest to it gives the two centroids.
//! 3. The left subcell begins where the cell began, the right subcell in the middle of its interval. Rows
//!    that were there before keep their code, which is that of the left subcell from now on; so they
//!    stay where they are, and only what knows of the right subcell looks for new rows there.

use super::retrain::Retraining;
use super::tree::cluster;
use super::{Cells, Children};
use crate::settings::{CELLS_MAX, ROWS_PER_CELL};
use vstream_vector::SplitMix;

/// A cell is split if it has this many times the rows of the mean cell.
const TIMES_MEAN: usize = 4;
/// A cell is split if it has more than one in so many of the rows of a partition.
const PARTITION_FRACTION: usize = 8;
/// Rows of the sample that it takes to split a cell.
const ROWS_MIN: usize = 4 * ROWS_PER_CELL;
/// Codes that a cell has at least: a load is counted for so many codes together.
const CODES_MIN: u64 = 1 << (64 - CELLS_MAX.trailing_zeros());

impl Cells {
    /// The same cells, those that hold many of the retraining's rows split in two; weights, affinity and
    /// answers still speak of the old ones and must be learned anew. `None` if no cell is split.
    ///
    /// * `parallelism`: partitions of the job, at least 1.
    pub(super) fn split(
        &self,
        retraining: &Retraining,
        parallelism: u32,
        random: &mut SplitMix,
    ) -> Option<Cells> {
        let mut members = vec![Vec::new(); self.len()];
        for (row, &cell) in retraining.nearest.iter().enumerate() {
            members[cell as usize].push(row as u32);
        }
        let rows = retraining.nearest.len();
        let partition_rows = rows / (PARTITION_FRACTION * parallelism as usize);
        let large = ROWS_MIN.max(partition_rows.min(TIMES_MEAN * rows / self.len()));
        let room = CELLS_MAX - self.len();
        let mut chosen: Vec<usize> = (0..self.len())
            .filter(|&cell| members[cell].len() >= large && self.middle(cell).is_some())
            .collect();
        chosen.sort_by_key(|&cell| std::cmp::Reverse(members[cell].len()));
        chosen.truncate(room);
        if chosen.is_empty() {
            return None;
        }
        chosen.sort_unstable();
        Some(self.divided(&chosen, |cell| {
            let rows = retraining.forms_of(&members[cell]);
            cluster(rows.rows(), 2, random).0
        }))
    }

    /// Where the right half of a cell's interval begins, if it can be halved.
    fn middle(&self, cell: usize) -> Option<u64> {
        let start = self.starts[cell];
        // The last interval ends at 2^64.
        let end = self.starts.get(cell + 1).copied().unwrap_or(0);
        let half = (end.wrapping_sub(start).wrapping_sub(1) / 2 + 1) / CODES_MIN * CODES_MIN;
        (half >= CODES_MIN).then(|| start + half)
    }

    /// Splits the `chosen` cells, ascending; `centroids` gives the two of each.
    fn divided(&self, chosen: &[usize], mut centroids: impl FnMut(usize) -> Vec<f32>) -> Cells {
        let mut chosen = chosen.iter().copied().peekable();
        let (mut starts, mut subcells) = (Vec::new(), Vec::new());
        for root in 0..self.root_count() {
            let cells = self.cells_of(root);
            let mut old = self.subcells_of(root).chunks_exact(self.dimension);
            for cell in cells {
                starts.push(self.starts[cell]);
                let own = old.next();
                if chosen.peek() == Some(&cell) {
                    chosen.next();
                    starts.extend(self.middle(cell));
                    subcells.extend(centroids(cell));
                } else {
                    subcells.extend(own.into_iter().flatten());
                }
            }
        }
        let children = Children::from_starts(&starts, self.root_count()).unwrap_or_default();
        Cells { starts, children, subcells, ..self.clone() }
    }
}
