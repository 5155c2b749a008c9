//! A query to an index, the effort that it may take, and the work that it took.

use std::ops::AddAssign;

/// How much work a search may do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effort {
    /// Visit `probes` leaves, and more only while they hold fewer than `k` rows. Then refine the
    /// `refine` rows with the least estimates.
    Approximate {
        /// Leaves visited.
        probes: usize,
        /// Rows whose exact distance is taken, at least `k`. With a second look: rows that are
        /// estimated again, and only the best of them get an exact distance.
        refine: usize,
    },
    /// Visit every leaf, and take so many exact distances that hardly a neighbour is missed, as an
    /// audit does.
    Thorough {
        /// Depth to begin with, 0 for the least; see [`crate::Search::audit`].
        depth: usize,
    },
    /// As far as the rows that are found ask for, where nobody knows how much effort a query needs. An
    /// index in memory visits every leaf then.
    Cautious {
        /// As for [`Effort::Thorough`].
        depth: usize,
        /// As [`crate::stages::Stop::theta`]: leaves that are nearer are visited.
        theta: f32,
        /// Rows whose exact distance is taken at least.
        least: usize,
    },
    /// The nearest of all visible rows: the exact distance of each, but of those in leaves that are
    /// proved to be farther.
    Exact,
}

use vstream_attribute::Filter;

/// A query to an index.
#[derive(Clone, Copy, Debug)]
pub struct Probe<'a> {
    /// The query: `dimension` finite values, normalised under cosine.
    pub vector: &'a [f32],
    /// Neighbours wanted, ≥ 1.
    pub k: usize,
    /// Work that the search may do.
    pub effort: Effort,
    /// Rows that may be in the answer; `None` for all.
    pub filter: Option<&'a Filter>,
}

/// Work that a search did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchStats {
    /// Leaves visited.
    pub leaves: usize,
    /// Rows whose code or vector was read.
    pub rows: usize,
    /// Exact distances taken.
    pub exact: usize,
}

impl AddAssign for SearchStats {
    fn add_assign(&mut self, more: SearchStats) {
        self.leaves += more.leaves;
        self.rows += more.rows;
        self.exact += more.exact;
    }
}
