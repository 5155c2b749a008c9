//! Splits cells that have grown too large.
//!
//! 1. A cell is split if it has many times the rows of the mean cell, or too many to balance
//!    partitions by moving it. The sample must have enough of its rows to show where to cut, and
//!    its interval of codes must be long enough to be halved.
//! 2. Balanced 2-means of the sample's rows in the cell gives the two centroids.
//! 3. The left subcell begins where the cell began, the right one in the middle of its interval.
//!    Older rows keep their code, which now names the left subcell. So they stay where they are,
//!    and only new rows enter the right subcell.

use super::retrain::Retraining;
use super::tree::cluster;
use super::{Cells, Children};
use crate::settings::{CELLS_MAX, ROWS_PER_CELL};
use vstream_vector::SplitMix;

/// Split a cell if it has this many times the rows of the mean cell.
const TIMES_MEAN: usize = 4;
/// Split a cell if it has more than one in this many of the rows of a partition.
const PARTITION_FRACTION: usize = 8;
/// Rows of the sample that a split needs.
const ROWS_MIN: usize = 4 * ROWS_PER_CELL;
/// Least number of codes in a cell. Loads are counted for this many codes together.
const CODES_MIN: u64 = 1 << (64 - CELLS_MAX.trailing_zeros());

impl Cells {
    /// Splits the cells that hold many rows of the sample in two. `None` if no cell is split. The
    /// weights, affinity and counts of the result are those of the old cells; the caller must
    /// compute them anew.
    ///
    /// * `parallelism`: number of partitions of the job, at least 1.
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

    /// First code of the right half of a cell's interval; `None` if the interval is too short.
    fn middle(&self, cell: usize) -> Option<u64> {
        let start = self.starts[cell];
        // The last interval ends at 2^64.
        let end = self.starts.get(cell + 1).copied().unwrap_or(0);
        let half = (end.wrapping_sub(start).wrapping_sub(1) / 2 + 1) / CODES_MIN * CODES_MIN;
        (half >= CODES_MIN).then(|| start + half)
    }

    /// Splits the `chosen` cells, ascending. `centroids` returns the two centroids of each.
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
