//! The encoder `cells`: balanced clusters of a sample, in an order that keeps cells with shared
//! neighbours together.
//!
//! Training has four steps, each in its own file:
//!
//! 1. `tree` halves the sample recursively into leaves of equal size, and a few rounds of k-means
//!    refine the leaves. The means are the centroids of the root cells.
//! 2. `neighbors` finds the nearest rows of every row and counts how many neighbours each two cells
//!    share.
//! 3. `order` cuts this graph of cells recursively into halves of equal load that share few
//!    neighbours. The cells are numbered in the order of the resulting tree, and shards are its
//!    subtrees. So every parallelism that is a power of two cuts where the tree was cut.
//! 4. `calibrate` takes rows that steps 1 to 3 did not use. It computes, for each parallelism, the
//!    share of a query's expected neighbours that the visited partitions must hold.
//!
//! While the job runs, `retrain` splits the cells that have grown too large (`split`) and learns
//! from live rows where neighbours are now (`affinity`).

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
/// Training makes *root cells*, which never change. The root cell of a vector is the one with the
/// nearest centroid. A root cell is one cell until it is split. After that its *subcells* are the
/// cells, and a vector belongs to the nearest subcell of its nearest root cell. So a later template
/// may give a vector another code, but the code always lies in the interval of the same root cell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cells {
    /// `root cells × form dimension`, row-major: the centroids in the order of the line.
    pub(crate) roots: Vec<f32>,
    /// First code of each cell, ascending. The first code of every root cell is among them.
    pub(crate) starts: Vec<u64>,
    /// Assigns cells to root cells; computed from `starts`.
    pub(crate) children: Children,
    /// Centroids of the subcells of the split root cells, row-major, in the order of the line.
    pub(crate) subcells: Vec<f32>,
    /// Dimensions of a row form or query form.
    pub(crate) dimension: usize,
    /// Number of shards of the template.
    pub(crate) shards: u16,
    /// Weight of each cell for a query at distance 0 of its centroid: the cell's share of the load,
    /// divided by the sum of its row of `affinity`. Finite, ≥ 0.
    pub(crate) weights: Vec<f32>,
    /// `cells × shards`: where the neighbours of a query in this cell were found, and where the
    /// rows near its centroid are. The largest entry of each row is 255.
    pub(crate) affinity: Vec<u8>,
    /// The counts from which `affinity` is computed. Empty in a template that version 1 wrote,
    /// whose ranges therefore cannot change.
    pub(crate) neighbor_counts: NeighborCounts,
    /// Squared distance beyond that of the nearest cell at which a cell weighs 1/e; finite, > 0.
    pub(crate) temperature: f32,
    /// For each parallelism `1..=shards`, the share of the expected neighbours to visit, in
    /// `[0, 1]`.
    pub(crate) thresholds: Vec<f32>,
}

impl Cells {
    /// Number of cells.
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The cell that holds `code`: the last one whose first code is not above it.
    pub(crate) fn cell_of(&self, code: u64) -> usize {
        self.starts.partition_point(|&start| start <= code).max(1) - 1
    }

    /// The cells of a root cell.
    pub(crate) fn cells_of(&self, root: usize) -> Range<usize> {
        self.children.cells[root] as usize..self.children.cells[root + 1] as usize
    }

    /// The centroids of the subcells of a root cell; empty if it is not split.
    fn subcells_of(&self, root: usize) -> &[f32] {
        let subcells =
            self.children.subcells[root] as usize..self.children.subcells[root + 1] as usize;
        &self.subcells[subcells.start * self.dimension..subcells.end * self.dimension]
    }

    /// For each cell, whether its root cell is split.
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

    /// The same cells with another assignment to shards.
    ///
    /// * `shard_of_cell`: one shard for each cell.
    /// * `rows`: present number of rows of each cell, in any unit. They replace the former loads of
    ///   the root cells. Inside a split root cell the former shares stay, because its older rows
    ///   all lie in its first subcell.
    pub(crate) fn with_shards(&self, shard_of_cell: &[u16], rows: &[f64]) -> Cells {
        let shares = self.shares();
        // Adds half a row to every cell, since a query may be near an empty cell too.
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

    /// The same cells with another assignment to shards and these shares of the load.
    fn with_shards_and_loads(&self, shard_of_cell: &[u16], rows: &[f64], loads: &[f64]) -> Cells {
        let mut cut = self.clone();
        cut.affinity = cut.affinity(&cut.shard_shares(shard_of_cell, rows), rows);
        cut.weights = loads.iter().zip(cut.sums()).map(|(l, sum)| *l as f32 / sum).collect();
        cut
    }

    /// The expected share of the load of each cell.
    fn shares(&self) -> Vec<f64> {
        let loads = self.weights.iter().zip(self.sums());
        loads.map(|(&weight, sum)| f64::from(weight * sum)).collect()
    }

    /// Sum of each row of `affinity`.
    fn sums(&self) -> impl Iterator<Item = f32> + '_ {
        let rows = self.affinity.chunks_exact(usize::from(self.shards));
        rows.map(|row| row.iter().map(|&a| f32::from(a)).sum())
    }

    /// The first code of a cell. Rows of the cell get it as their code.
    pub(crate) fn code(&self, cell: usize) -> u64 {
        self.starts[cell]
    }
}

/// The cells and the subcell centroids of each root cell. Entry `i` is the number of the first one
/// of root cell `i`; one more entry at the end is the total.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Children {
    pub(crate) cells: Vec<u32>,
    pub(crate) subcells: Vec<u32>,
}

impl Children {
    /// Assigns cells to `roots` root cells. `None` unless `starts` ascend and the first code of
    /// every root cell is among them.
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

    /// Root cells of which none is split.
    pub(crate) fn unsplit(roots: usize) -> Children {
        Children { cells: (0..=roots as u32).collect(), subcells: vec![0; roots + 1] }
    }

    /// Number of subcell centroids.
    pub(crate) fn subcell_count(&self) -> usize {
        self.subcells.last().map_or(0, |&subcells| subcells as usize)
    }
}

/// First code of root cell `root` of `roots`: its number in the top bits.
pub(crate) fn code(root: usize, roots: usize) -> u64 {
    let bits = roots.next_power_of_two().trailing_zeros();
    // A single root cell needs no bits, and a shift by 64 must give 0.
    (root as u64).checked_shl(64 - bits).unwrap_or(0)
}
