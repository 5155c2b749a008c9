//! The encoder `cells`: balanced clusters of a sample, numbered along the cut of their own graph.
//!
//! Training, each step in its file:
//!
//! 1. `tree`: halve the sample again and again into leaves of equal size; a few rounds of k-means
//!    round them off. The means are the cells.
//! 2. `neighbors`: find the nearest rows of every row, and count how often two cells share them.
//! 3. `order`: cut that graph of cells into halves of equal load with few shared neighbours across
//!    the cut, again and again. The cells are numbered in the order of this tree; shards are its
//!    subtrees, so that every power-of-two parallelism cuts where the tree was cut.
//! 4. `calibrate`: with rows held out from steps 1 to 3, find how much of a query's expected
//!    neighbours the visited partitions must hold, for each parallelism.

mod affinity;
mod calibrate;
mod nearest;
mod neighbors;
mod order;
mod train;
mod tree;

#[cfg(test)]
mod tests;

pub(crate) use affinity::Answers;
pub(crate) use nearest::Scratch;
pub(crate) use train::{ranges, train, CellsSettings};

/// Trained cells.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cells {
    /// `cells × form dimension`, row-major, in the order of the numbers.
    pub(crate) centroids: Vec<f32>,
    /// Dimensions of a form.
    pub(crate) dimension: usize,
    /// Shards of the template.
    pub(crate) shards: u16,
    /// What a cell weighs when it is as near as can be: its share of the load, finite, ≥ 0, over
    /// the sum of its row of `affinity`.
    pub(crate) weights: Vec<f32>,
    /// `cells × shards`: where the neighbours of a query in this cell were found, and the cell's
    /// own shard; each row's largest entry is 255.
    pub(crate) affinity: Vec<u8>,
    /// What `affinity` is made of, cell by cell; empty in templates that older versions wrote,
    /// whose ranges therefore stay as they are.
    pub(crate) answers: Answers,
    /// Squared distance beyond the nearest cell at which a cell weighs 1/e; finite, > 0.
    pub(crate) temperature: f32,
    /// Share of the expected neighbours to visit at parallelism `1..=shards`, each in `[0, 1]`.
    pub(crate) thresholds: Vec<f32>,
}

impl Cells {
    /// Number of cells.
    pub(crate) fn len(&self) -> usize {
        self.weights.len()
    }

    /// The cell that a code of this template names. Codes of no cell belong to the last one.
    pub(crate) fn cell_of(&self, code: u64) -> usize {
        let bits = self.len().next_power_of_two().trailing_zeros();
        let cell = code.checked_shr(64 - bits).unwrap_or(0) as usize;
        cell.min(self.len() - 1)
    }

    /// The same cells cut into shards in another way.
    ///
    /// * `shard_of_cell`: one per cell.
    /// * `rows`: rows that each cell holds by now, any unit; they replace what training expected.
    pub(crate) fn recut(&self, shard_of_cell: &[u16], rows: &[f64]) -> Cells {
        let mut recut = self.clone();
        recut.affinity = self.answers.affinity(shard_of_cell, self.shards);
        // Half a row for every cell: an empty one may still be hit.
        let total: f64 = rows.iter().map(|rows| rows + 0.5).sum();
        let sums = recut.affinity.chunks_exact(usize::from(self.shards));
        let sums = sums.map(|row| row.iter().map(|&a| f32::from(a)).sum::<f32>());
        recut.weights =
            rows.iter().zip(sums).map(|(rows, sum)| ((rows + 0.5) / total) as f32 / sum).collect();
        recut
    }

    /// Code of a cell: its number in the top bits, so that the code of a cell which is split later
    /// is the common prefix of its parts.
    pub(crate) fn code(&self, cell: usize) -> u64 {
        code(cell, self.len())
    }
}

/// Code of cell number `cell` among `cells`.
pub(crate) fn code(cell: usize, cells: usize) -> u64 {
    let bits = cells.next_power_of_two().trailing_zeros();
    // One cell needs no bits, and a shift by 64 is none.
    (cell as u64).checked_shl(64 - bits).unwrap_or(0)
}
