//! Searches the rows of one moment. A search composes these stages:
//!
//! 1. [`View::scan_tail`]: exact distances of the rows of the tail.
//! 2. [`Shared::rank`]: the leaves nearest to the query (`rank.rs`).
//! 3. [`View::scan`]: the least estimates among the codes of these leaves (`scan.rs`).
//! 4. [`View::refine`]: exact distances of the best candidates, after a second look if the index
//!    keeps fine codes (`scan.rs`).
//!
//! A search goes on until it has `k` rows or has visited every leaf, and takes more candidates if
//! some of those it took are not visible at the moment.
//!
//! Parameters and what did not pay (pruning by geometry, exact distances inside the scan): SPANN,
//! RaBitQ and our own measurements, see docs/design/index.md.

use std::sync::Arc;

use vstream_vector::{kernels, Neighbor, TopK};

use super::leaf::Leaf;
use super::scan::{best_first, ClusterScratch};
use super::tree::Root;
use super::Shared;
use crate::flat::{scan_exactly, scan_radius};
use crate::probe::{Effort, Probe, SearchStats};
use crate::radius::RadiusBound;
use crate::reach::{depth_from, depth_needed, note, positions_of, Reach};
use crate::rows::{Sequence, Visible};
use crate::stages::{sort_candidates, Candidate, Found, Refine, RotatedQuery};

/// Rows by estimate that an audit measures per leaf at least. They cost about as much as the codes,
/// all of which an audit scans anyway.
const DEPTH_PER_LEAF: usize = 16;

/// A root, and the sequence as of which its rows are seen.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) shared: &'a Shared,
    pub(super) root: &'a Root,
    pub(super) pin: Sequence,
}

impl View<'_> {
    /// Which rows of the tail are visible.
    pub(super) fn tail(&self) -> Visible {
        Visible { inserted: self.pin, deleted: self.pin }
    }

    /// Which rows of leaves are visible.
    pub(super) fn placed(&self) -> Visible {
        Visible { inserted: self.root.placed, deleted: self.pin }
    }

    /// Offers the nearest visible rows.
    pub(super) fn search(
        &self,
        probe: &Probe<'_>,
        scratch: &mut ClusterScratch,
        out: &mut TopK,
    ) -> SearchStats {
        match probe.effort {
            Effort::Exact => self.exact(probe.vector, out),
            Effort::Approximate { probes, refine } => {
                self.approximate(probe, (probes, refine.max(probe.k)), scratch, out)
            }
            Effort::Thorough { depth } => {
                let mut stats = SearchStats::default();
                self.thorough(probe, depth, scratch, out, &mut stats);
                stats
            }
        }
    }

    /// Offers every visible row of the tail; returns how many there were.
    pub(super) fn scan_tail(&self, query: &[f32], out: &mut TopK) -> usize {
        scan_exactly(&self.root.tail, self.shared.index, query, self.tail(), out)
    }

    /// Offers every visible row.
    pub(super) fn exact(&self, query: &[f32], out: &mut TopK) -> SearchStats {
        let rows = self.scan_tail(query, out);
        let mut stats = SearchStats { rows, exact: rows, leaves: 0 };
        for leaf in self.root.tree.leaves() {
            stats.leaves += 1;
            for chunk in leaf.chunks() {
                let rows = scan_exactly(&chunk.rows, self.shared.index, query, self.placed(), out);
                stats.rows += rows;
                stats.exact += rows;
            }
        }
        stats
    }

    /// Offers the nearest rows of `probes` leaves, or of as many as hold `k` rows, by the `refine`
    /// least estimates.
    fn approximate(
        &self,
        probe: &Probe<'_>,
        (mut probes, refine): (usize, usize),
        scratch: &mut ClusterScratch,
        out: &mut TopK,
    ) -> SearchStats {
        let rows = self.scan_tail(probe.vector, out);
        let mut stats = SearchStats { rows, exact: rows, leaves: 0 };
        scratch.query.rotate(&self.shared.rotation, probe.vector);
        loop {
            let ClusterScratch { query, state, .. } = scratch;
            self.shared.rank(&self.root.tree, query, probes, state);
            let ranked = state.ranked.len();
            // Some of the best may have come after the moment.
            let mut keep = refine.saturating_add(refine / 8);
            while self.scan_and_refine(probe, (keep, refine), scratch, out, &mut stats) {
                keep = keep.saturating_mul(2);
                self.start_over(probe, out);
            }
            if out.len() >= probe.k || ranked >= self.root.tree.leaves {
                return stats;
            }
            probes = ranked.saturating_mul(4);
            self.start_over(probe, out);
        }
    }

    /// Empties `out` but for the rows of the tail.
    fn start_over(&self, probe: &Probe<'_>, out: &mut TopK) {
        out.reset(probe.k);
        self.scan_tail(probe.vector, out);
    }

    /// Scans the ranked leaves and refines the `refine` least estimates. Returns true if fewer of the
    /// `keep` least are visible although there are others: then a larger `keep` finds more.
    ///
    /// Visibility is checked late, when a row is measured: the check touches a cache line per row.
    fn scan_and_refine(
        &self,
        probe: &Probe<'_>,
        (keep, refine): (usize, usize),
        scratch: &mut ClusterScratch,
        out: &mut TopK,
        stats: &mut SearchStats,
    ) -> bool {
        let ClusterScratch { query, state, candidates, .. } = scratch;
        let is_cut = self.scan(query, keep, state, candidates, stats);
        best_first(candidates, refine);
        let found = likely(probe, query, candidates);
        let measured = self.refine(found, refine, state, out, &mut |_, _| {});
        stats.exact += measured.exact;
        if !is_cut || measured.hidden == 0 {
            return false;
        }
        self.drop_hidden(state, candidates);
        candidates.len() < refine
    }

    /// Offers the nearest rows by every code, with as many exact distances as it takes; returns the
    /// depth. Then `scratch.candidates` are the best by estimate, best first, and `scratch.measured`
    /// are the positions of the rows of `out` among them, sorted by id.
    fn thorough(
        &self,
        probe: &Probe<'_>,
        depth: usize,
        scratch: &mut ClusterScratch,
        out: &mut TopK,
        stats: &mut SearchStats,
    ) -> usize {
        let ClusterScratch { query, state, candidates, measured } = scratch;
        query.rotate(&self.shared.rotation, probe.vector);
        self.shared.rank(&self.root.tree, query, usize::MAX, state);
        let least = self.root.tree.leaves * DEPTH_PER_LEAF;
        let mut depth = depth_from(depth, probe.k).max(least);
        loop {
            self.start_over(probe, out);
            let is_cut = self.scan(query, depth, state, candidates, stats);
            self.drop_hidden(state, candidates);
            sort_candidates(candidates);
            measured.clear();
            let seen = &mut |position: usize, row| measured.push((row, position as u32));
            let found = likely(probe, query, candidates);
            stats.exact += self.refine(found, usize::MAX, state, out, seen).exact;
            positions_of(out.rows(), measured, |position| candidates[position as usize].leaf);
            let needed = depth_needed(measured.iter().map(|&(_, position)| position as usize));
            if !is_cut || needed <= depth {
                return depth;
            }
            depth = depth.saturating_mul(4);
        }
    }

    /// See `Search::audit`.
    pub(super) fn audit(
        &self,
        probe: &Probe<'_>,
        depth: usize,
        scratch: &mut ClusterScratch,
        out: &mut TopK,
        reach: &mut Vec<Reach>,
    ) -> usize {
        let depth = self.thorough(probe, depth, scratch, out, &mut SearchStats::default());
        let candidates = &scratch.candidates;
        let ranks_of = |position: u32| {
            let own = candidates[position as usize].leaf;
            (own, candidates[..position as usize].iter().map(|better| better.leaf))
        };
        note(out.rows(), &scratch.measured, ranks_of, reach);
        depth
    }

    /// Copies the vector of a living row to `out`: see `Search::sample`.
    pub(super) fn sample(&self, pick: u64, out: &mut Vec<f32>) -> Option<u64> {
        let tree = &self.root.tree;
        let number = (pick % tree.leaves.max(1) as u64) as usize;
        let leaf = tree.leaves().nth(number)?;
        let chunks: Vec<_> = leaf.chunks().collect();
        let pick = (pick / tree.leaves as u64) as usize;
        let rows = &chunks.get(pick % chunks.len().max(1))?.rows;
        let lane = (pick / chunks.len()) % rows.len().max(1);
        if lane >= rows.len() || !rows.is_visible(lane, self.placed()) {
            return None;
        }
        out.resize(self.shared.index.dimension, 0.0);
        rows.vector(lane).read(out);
        Some(rows.key(lane).id)
    }

    /// Adds every visible row within `radius` of a query to `out`.
    pub(super) fn search_radius(
        &self,
        vector: &[f32],
        radius: f32,
        out: &mut Vec<Neighbor>,
    ) -> SearchStats {
        let View { shared, root, .. } = *self;
        let mut rotated = vec![0.0; shared.rotation.padded()];
        shared.rotation.apply(vector, &mut rotated);
        let mut stats = SearchStats::default();
        stats.rows += scan_radius(&root.tail, shared.index, vector, self.tail(), radius, out);
        let length = kernels::norm_squared(&rotated).sqrt();
        let bound = RadiusBound::new(shared.index, length, radius);
        let may_hold = |leaf: &&Arc<Leaf>| {
            let gap = kernels::l2_squared(&rotated, &leaf.centroid).sqrt();
            bound.may_hold(gap, leaf.reach())
        };
        for leaf in root.tree.leaves().filter(may_hold) {
            stats.leaves += 1;
            for chunk in leaf.chunks() {
                let rows = &chunk.rows;
                stats.rows += scan_radius(rows, shared.index, vector, self.placed(), radius, out);
            }
        }
        stats.exact = stats.rows;
        stats
    }
}

/// The candidates of a search of this index alone.
fn likely<'a>(
    probe: &Probe<'a>,
    rotated: &'a RotatedQuery,
    candidates: &'a [Candidate],
) -> Found<'a> {
    Found { vector: probe.vector, rotated, candidates, refine: Refine::Likely }
}
