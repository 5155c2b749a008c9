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

use vstream_attribute::Filter;
use vstream_vector::{kernels, Neighbor, TopK};

use super::leaf::Leaf;
use super::postings::ListedLeaf;
use super::scan::{best_first, ClusterScratch, ClusterState, Origin};
use super::sweep::Swept;
use super::tree::Root;
use super::Shared;
use crate::filter::Compiled;
use crate::flat::{scan_exactly, scan_radius};
use crate::probe::{Effort, Probe, SearchStats};
use crate::radius::RadiusBound;
use crate::reach::{depth_in_memory, depth_needed, note, positions_of, Reach};
use crate::rows::{RowChunk, Sequence, Visible};
use crate::stages::{sort_candidates, Candidate, Found, Refine, RotatedQuery, Wanted};

/// Listed leaves whose heads are prefetched ahead.
const LISTED_AHEAD: usize = 4;

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
        scratch.state.set_filter(self, self.compile(probe.filter));
        match probe.effort {
            Effort::Exact => {
                let ClusterState { filter, origins, .. } = &mut scratch.state;
                self.exact(probe.vector, filter.as_ref(), origins, out)
            }
            Effort::Approximate { probes, refine } => {
                self.approximate(probe, (probes, refine.max(probe.k)), scratch, out)
            }
            Effort::Thorough { depth } | Effort::Cautious { depth, .. } => {
                let mut stats = SearchStats::default();
                self.thorough(probe, depth, scratch, out, &mut stats);
                stats
            }
        }
    }

    /// The filter in codes; the view is pinned already.
    pub(super) fn compile(&self, filter: Option<&Filter>) -> Option<Compiled> {
        filter.map(|filter| Compiled::new(filter, &self.shared.dictionary))
    }

    /// Offers every visible row of the tail that matches; returns how many there were.
    pub(super) fn scan_tail(
        &self,
        query: &[f32],
        filter: Option<&Compiled>,
        out: &mut TopK,
    ) -> usize {
        scan_exactly(&self.root.tail, self.shared.index, (query, filter), self.tail(), out)
    }

    /// Offers every visible row that matches. With a filter, notes where the rows are that were among
    /// the nearest.
    pub(super) fn exact(
        &self,
        query: &[f32],
        filter: Option<&Compiled>,
        origins: &mut Vec<Origin>,
        out: &mut TopK,
    ) -> SearchStats {
        if let Some(filter) = filter {
            let mut columns = Vec::new();
            filter.add_columns(&mut columns);
            let swept = Swept { filter, columns: &columns };
            let all = self.sweep(query, swept, u64::MAX, origins, out);
            return all.expect("no bound on the matches");
        }
        let rows = self.scan_tail(query, filter, out);
        let mut stats = SearchStats { rows, exact: rows, leaves: 0 };
        stats.leaves = self.for_each_chunk(filter, |rows| {
            let query = (query, filter);
            let rows = scan_exactly(rows, self.shared.index, query, self.placed(), out);
            stats.rows += rows;
            stats.exact += rows;
        });
        stats
    }

    /// Calls `visit` with every chunk of leaves that may hold a match; returns how many leaves.
    ///
    /// Where the filter asks for keywords that few rows have, only the chunks that have had them.
    pub(super) fn for_each_chunk(
        &self,
        filter: Option<&Compiled>,
        mut visit: impl FnMut(&RowChunk),
    ) -> usize {
        if let Some(listed) = filter.and_then(|filter| self.listed(filter)) {
            for (at, (leaf, chunks)) in listed.iter().enumerate() {
                if let Some((next, _)) = listed.get(at + LISTED_AHEAD) {
                    next.prefetch_head();
                }
                let chunks = chunks.iter().map(|&chunk| leaf.chunk(usize::from(chunk)));
                chunks.for_each(|chunk| visit(&chunk.rows));
            }
            return listed.len();
        }
        let may_match =
            |leaf: &&Arc<Leaf>| filter.is_none_or(|filter| leaf.summaries.may_match(filter));
        let mut leaves = 0;
        for leaf in self.root.tree.leaves().filter(may_match) {
            leaves += 1;
            leaf.chunks().for_each(|chunk| visit(&chunk.rows));
        }
        leaves
    }

    /// The chunks that may hold a match; `None` if that is not known short of a look at every leaf.
    pub(super) fn listed(&self, filter: &Compiled) -> Option<Vec<ListedLeaf>> {
        let living = |code| u64::from(self.shared.living.get(code));
        let codes = filter.required(&living)?;
        self.shared.postings.find(&codes, self.root.placed)
    }

    /// Sets the bits of the leaves that may hold a match, by id; false if that is not known short of a
    /// look at every leaf.
    pub(super) fn listed_leaves(&self, filter: &Compiled, leaves: &mut Vec<u64>) -> bool {
        let living = |code| u64::from(self.shared.living.get(code));
        let codes = filter.required(&living);
        codes.is_some_and(|codes| self.shared.postings.mark(&codes, self.root.placed, leaves))
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
        let rows = self.scan_tail(probe.vector, scratch.state.filter.as_ref(), out);
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
                self.start_over(probe, scratch.state.filter.as_ref(), out);
            }
            if out.len() >= probe.k || ranked >= self.root.tree.leaves {
                return stats;
            }
            probes = ranked.saturating_mul(4);
            self.start_over(probe, scratch.state.filter.as_ref(), out);
        }
    }

    /// Empties `out` but for the rows of the tail.
    fn start_over(&self, probe: &Probe<'_>, filter: Option<&Compiled>, out: &mut TopK) {
        out.reset(probe.k);
        self.scan_tail(probe.vector, filter, out);
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
        candidates.clear();
        let is_cut = self.scan(query, best(keep), state, candidates, stats);
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
        let mut depth = depth_in_memory(depth, probe.k, self.root.tree.leaves);
        loop {
            self.start_over(probe, state.filter.as_ref(), out);
            candidates.clear();
            let is_cut = self.scan(query, best(depth), state, candidates, stats);
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
        scratch.state.set_filter(self, self.compile(probe.filter));
        let depth = self.thorough(probe, depth, scratch, out, &mut SearchStats::default());
        let candidates = &scratch.candidates;
        let ranks_of = |position: u32| {
            let own = candidates[position as usize].leaf;
            let cost = scratch.state.ranked[own as usize].cost;
            (own, cost, candidates[..position as usize].iter().map(|better| better.leaf))
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
        filter: Option<&Filter>,
        out: &mut Vec<Neighbor>,
    ) -> SearchStats {
        let View { shared, root, .. } = *self;
        let filter = self.compile(filter);
        let query = (vector, filter.as_ref());
        let mut rotated = vec![0.0; shared.rotation.padded()];
        shared.rotation.apply(vector, &mut rotated);
        let mut stats = SearchStats::default();
        stats.rows += scan_radius(&root.tail, shared.index, query, self.tail(), radius, out);
        let length = kernels::norm_squared(&rotated).sqrt();
        let bound = RadiusBound::new(shared.index, length, radius);
        let may_hold = |leaf: &&Arc<Leaf>| {
            let gap = kernels::l2_squared(&rotated, &leaf.centroid).sqrt();
            bound.may_hold(gap, leaf.reach())
                && filter.as_ref().is_none_or(|filter| leaf.summaries.may_match(filter))
        };
        for leaf in root.tree.leaves().filter(may_hold) {
            stats.leaves += 1;
            for chunk in leaf.chunks() {
                let rows = &chunk.rows;
                stats.rows += scan_radius(rows, shared.index, query, self.placed(), radius, out);
            }
        }
        stats.exact = stats.rows;
        stats
    }
}

/// The best so many estimates.
fn best(keep: usize) -> Wanted {
    Wanted { keep, below: f32::INFINITY, deviations: 0.0 }
}

/// The candidates of a search of this index alone.
fn likely<'a>(
    probe: &Probe<'a>,
    rotated: &'a RotatedQuery,
    candidates: &'a [Candidate],
) -> Found<'a> {
    Found { vector: probe.vector, rotated, candidates, refine: Refine::Likely }
}
