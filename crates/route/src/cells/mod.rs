//! The encoder `cells`: balanced clusters of a sample, numbered along the cut of their own graph.
//!
//! Training, each step in its file:
//!
//! 1. `tree`: halve the sample again and again into leaves of equal size; a few rounds of k-means
//!    round them off. The means are the root cells, each a cell at first.
//! 2. `neighbors`: find the nearest rows of every row, and count how often two cells share them.
//! 3. `order`: cut that graph of cells into halves of equal load with few shared neighbours across
//!    the cut, again and again. The cells are numbered in the order of this tree; shards are its
//!    subtrees, so that every power-of-two parallelism cuts where the tree was cut.
//! 4. `calibrate`: with rows held out from steps 1 to 3, find how much of a query's expected
//!    neighbours the visited partitions must hold, for each parallelism.
//!
//! While the job runs, `learn` divides the cells that have grown too large and finds out anew where
//! neighbours are, from rows that live now.

mod affinity;
mod calibrate;
mod nearest;
mod neighbors;
mod order;
mod retrain;
mod split;
mod train;
mod tree;

#[cfg(test)]
mod tests;

pub(crate) use affinity::NeighborCounts;
pub(crate) use nearest::Scratch;
pub use retrain::LiveSample;
pub(crate) use retrain::{Retraining, Target};
pub(crate) use train::{ranges, train, CellsSettings};

use std::ops::Range;

/// Trained cells.
///
/// Training makes *root cells*, which stay for ever: the root cell of a vector is the one nearest to it. A root cell
/// is one cell until it is split; then its subcells are cells, and the vector belongs to the nearest of
/// them. So the code of a vector may change, but it always lies in the interval of its root cell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cells {
    /// `root cells × form dimension`, row-major, in the order of the line.
    pub(crate) roots: Vec<f32>,
    /// First code of each cell: ascending, those of all root cells among them.
    pub(crate) starts: Vec<u64>,
    /// Which cells are those of which root cell; follows from `starts`.
    pub(crate) children: Children,
    /// Centroids of the cells of those root cells that have more than one, row-major, in order.
    pub(crate) subcells: Vec<f32>,
    /// Dimensions of a form.
    pub(crate) dimension: usize,
    /// Shards of the template.
    pub(crate) shards: u16,
    /// What a cell weighs when it is as near as can be: its share of the load, finite, ≥ 0, over
    /// the sum of its row of `affinity`.
    pub(crate) weights: Vec<f32>,
    /// `cells × shards`: where the neighbours of a query in this cell were found, and where the
    /// rows near to its centroid are; each row's largest entry is 255.
    pub(crate) affinity: Vec<u8>,
    /// What `affinity` is made of, cell by cell; empty in templates that older versions wrote,
    /// whose ranges therefore stay as they are.
    pub(crate) neighbor_counts: NeighborCounts,
    /// Squared distance beyond the nearest cell at which a cell weighs 1/e; finite, > 0.
    pub(crate) temperature: f32,
    /// Share of the expected neighbours to visit at parallelism `1..=shards`, each in `[0, 1]`.
    pub(crate) thresholds: Vec<f32>,
}

impl Cells {
    /// Number of cells.
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The cell that a code of this template names: the last that does not begin behind it.
    pub(crate) fn cell_of(&self, code: u64) -> usize {
        self.starts.partition_point(|&start| start <= code).max(1) - 1
    }

    /// The cells of a root cell.
    pub(crate) fn cells_of(&self, root: usize) -> Range<usize> {
        self.children.cells[root] as usize..self.children.cells[root + 1] as usize
    }

    /// The centroids of the subcells of a root cell; none if it is one cell.
    fn subcells_of(&self, root: usize) -> &[f32] {
        let subcells =
            self.children.subcells[root] as usize..self.children.subcells[root + 1] as usize;
        &self.subcells[subcells.start * self.dimension..subcells.end * self.dimension]
    }

    /// For each cell, whether its root cell has several.
    pub(crate) fn in_split_root(&self) -> impl Iterator<Item = bool> + '_ {
        (0..self.root_count()).flat_map(|root| {
            let cells = self.cells_of(root).len();
            std::iter::repeat_n(cells > 1, cells)
        })
    }

    /// Number of root cells.
    pub(crate) fn root_count(&self) -> usize {
        self.children.cells.len() - 1
    }

    /// The same cells cut into shards in another way.
    ///
    /// * `shard_of_cell`: one per cell.
    /// * `rows`: rows that each cell holds by now, any unit; they replace what was known of them.
    ///   Among the subcells of a root cell the old shares stay, as its older rows are all in one of them.
    pub(crate) fn with_shards(&self, shard_of_cell: &[u16], rows: &[f64]) -> Cells {
        let shares = self.shares();
        // Half a row for every cell: an empty one may still be hit.
        let total: f64 = rows.iter().map(|rows| rows + 0.5).sum();
        let mut loads = Vec::with_capacity(self.len());
        for root in 0..self.root_count() {
            let cells = self.cells_of(root);
            let held: f64 = rows[cells.clone()].iter().map(|rows| rows + 0.5).sum();
            let known: f64 = shares[cells.clone()].iter().sum();
            let even = 1.0 / cells.len() as f64;
            loads.extend(cells.map(|cell| {
                let share = if known > 0.0 { shares[cell] / known } else { even };
                held / total * share
            }));
        }
        self.with_shards_and_loads(shard_of_cell, rows, &loads)
    }

    /// The same cells cut into shards in another way, with these shares of the load.
    fn with_shards_and_loads(&self, shard_of_cell: &[u16], rows: &[f64], loads: &[f64]) -> Cells {
        let mut cut = self.clone();
        cut.affinity = cut.affinity(&cut.shard_shares(shard_of_cell, rows), rows);
        cut.weights = loads.iter().zip(cut.sums()).map(|(l, sum)| *l as f32 / sum).collect();
        cut
    }

    /// Share of the load that each cell is expected to have.
    fn shares(&self) -> Vec<f64> {
        let loads = self.weights.iter().zip(self.sums());
        loads.map(|(&weight, sum)| f64::from(weight * sum)).collect()
    }

    /// Sum of each row of `affinity`.
    fn sums(&self) -> impl Iterator<Item = f32> + '_ {
        let rows = self.affinity.chunks_exact(usize::from(self.shards));
        rows.map(|row| row.iter().map(|&a| f32::from(a)).sum())
    }

    /// The first code of a cell, which its rows get: the common prefix of all codes in it.
    pub(crate) fn code(&self, cell: usize) -> u64 {
        self.starts[cell]
    }
}

/// Which cells, and which subcell centroids, are those of which root cell: for each root cell the number of its
/// first one, and last how many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Children {
    pub(crate) cells: Vec<u32>,
    pub(crate) subcells: Vec<u32>,
}

impl Children {
    /// Children of `root cells` root cells whose cells begin at `starts`; `None` unless these ascend and the
    /// start of every root cell is among them.
    pub(crate) fn from_starts(starts: &[u64], roots: usize) -> Option<Children> {
        if !starts.windows(2).all(|pair| pair[0] < pair[1]) {
            return None;
        }
        let mut children = Children { cells: Vec::with_capacity(roots + 1), subcells: vec![0] };
        for root in 0..roots {
            children.cells.push(starts.binary_search(&code(root, roots)).ok()? as u32);
        }
        children.cells.push(starts.len() as u32);
        let mut subcells = 0;
        for pair in children.cells.windows(2) {
            subcells += if pair[1] - pair[0] > 1 { pair[1] - pair[0] } else { 0 };
            children.subcells.push(subcells);
        }
        Some(children)
    }

    /// Every root cell one cell.
    pub(crate) fn unsplit(roots: usize) -> Children {
        Children { cells: (0..=roots as u32).collect(), subcells: vec![0; roots + 1] }
    }

    /// Number of subcell centroids.
    pub(crate) fn subcell_count(&self) -> usize {
        self.subcells.last().map_or(0, |&subcells| subcells as usize)
    }
}

/// Code of root cell number `root cell` among `root cells`: its number in the top bits.
pub(crate) fn code(root: usize, roots: usize) -> u64 {
    let bits = roots.next_power_of_two().trailing_zeros();
    // One root cell needs no bits, and a shift by 64 is none.
    (root as u64).checked_shl(64 - bits).unwrap_or(0)
}
