//! Which rows share a block: the layouts of Starling (Wang et al., SIGMOD 2024).
//!
//! A search that reads a block for one row gets the others for nothing. They are worth something if
//! they are neighbours in the graph. The *overlap ratio* of a row is the share of the other rows of
//! its block that are its neighbours; OR(G) is the mean over all rows (`overlap.rs`).
//!
//! * [`Layout::IdOrder`]: rows as they came. The layout of DiskANN.
//! * [`Layout::Bnp`], block neighbour padding: a row, then its neighbours that have no place yet
//!   (`padding.rs`).
//! * [`Layout::Bnf`], block neighbour frequency: passes over all rows, each row to the block that
//!   holds most of its neighbours (`frequency.rs`).
//! * [`Layout::Bns`], block neighbour swap: after BNF, pairs of rows of two blocks change places
//!   while that adds neighbours inside blocks (`swaps.rs`).

mod frequency;
mod mutual;
mod overlap;
mod padding;
mod swaps;
#[cfg(test)]
mod tests;

use crate::build::Graph;
use mutual::Mutual;
pub(crate) use overlap::overlap;

/// How rows are put into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// In the order in which they came.
    IdOrder,
    /// Block neighbour padding.
    Bnp,
    /// Block neighbour frequency.
    Bnf {
        /// Passes over all rows (β), 1..=64; 16 is good.
        passes: u8,
    },
    /// Block neighbour swap, after BNF.
    Bns {
        /// Passes of BNF before, 1..=64.
        passes: u8,
        /// Passes of swaps, 1..=64.
        swaps: u8,
    },
}

/// Most passes of a layout.
pub(crate) const PASSES_MAX: u8 = 64;

impl Layout {
    /// The name in messages and tables.
    pub fn name(self) -> &'static str {
        match self {
            Layout::IdOrder => "id order",
            Layout::Bnp => "BNP",
            Layout::Bnf { .. } => "BNF",
            Layout::Bns { .. } => "BNS",
        }
    }

    /// The stored form: kind, passes, swaps.
    pub(crate) fn tags(self) -> [u8; 3] {
        match self {
            Layout::IdOrder => [0, 0, 0],
            Layout::Bnp => [1, 0, 0],
            Layout::Bnf { passes } => [2, passes, 0],
            Layout::Bns { passes, swaps } => [3, passes, swaps],
        }
    }

    /// The layout of a stored form, if it is one.
    pub(crate) fn from_tags(tags: [u8; 3]) -> Option<Layout> {
        let layout = match tags {
            [0, 0, 0] => Layout::IdOrder,
            [1, 0, 0] => Layout::Bnp,
            [2, passes, 0] => Layout::Bnf { passes },
            [3, passes, swaps] => Layout::Bns { passes, swaps },
            _ => return None,
        };
        layout.is_valid().then_some(layout)
    }

    /// True if the numbers of passes are in their ranges.
    pub(crate) fn is_valid(self) -> bool {
        let fits = |n: u8| (1..=PASSES_MAX).contains(&n);
        match self {
            Layout::IdOrder | Layout::Bnp => true,
            Layout::Bnf { passes } => fits(passes),
            Layout::Bns { passes, swaps } => fits(passes) && fits(swaps),
        }
    }
}

/// The rows in the order of their places. Every `capacity` of them are a block; only the last block
/// may be shorter.
///
/// Cost: O(edges) per pass. Memory: 8 bytes per edge beside the graph. A function of its arguments.
pub(crate) fn arrange(graph: &Graph, capacity: usize, layout: Layout, seed: u64) -> Vec<u32> {
    match layout {
        Layout::IdOrder => (0..graph.len() as u32).collect(),
        _ if capacity == 1 => (0..graph.len() as u32).collect(),
        Layout::Bnp => padding::order(graph, capacity),
        Layout::Bnf { passes } => {
            frequency::order(&Mutual::of(graph), (capacity, usize::from(passes)), seed)
        }
        Layout::Bns { passes, swaps } => {
            let mutual = Mutual::of(graph);
            let mut order = frequency::order(&mutual, (capacity, usize::from(passes)), seed);
            swaps::improve(&mutual, &mut order, (capacity, usize::from(swaps)), seed);
            order
        }
    }
}
