//! One query over all places: one ranking of leaves, one set of candidates, one list of answers.
//!
//! 1. Rank the leaves of each place, and visit the `probes` nearest of all. The nearest few of memtables and of
//!    segments with a part of the rows of other segments' leaves are visited too, be they farther.
//! 2. Scan the places in memory, and take the exact distances of their best rows: this costs no
//!    read. The worst of the `k` best rows so far says which leaves of segments cannot hold a
//!    better row.
//!    Then search the graphs, which have no leaves (`../graph_view.rs`).
//! 3. Read the codes that are not in memory in one round, and scan the segments, the hottest first.
//!    Keep only rows among the `refine` best estimates so far.
//! 4. Read the rows of the `refine` best estimates of all places in one round, and take their exact
//!    distances.
//!
//! The threshold stop is exact: no row that steps 2 and 3 pass over could have been part of the
//! answer. Where the memtable is the only place, its index searches itself, so an engine without
//! segments pays nothing for these steps. Memtables and segments have the same stages
//! (`vstream_index::stages`); `stages.rs` calls each stage for all places.

mod cautious;
mod filtered;
mod scratch;
mod stages;

use vstream_attribute::Filter;
use vstream_index::stages::{ExactSearch, Refine};
use vstream_index::{depth_from, depth_in_memory, Effort, Probe, Reach, SearchStats};
use vstream_vector::{Neighbor, TopK};

use self::cautious::Caution;
#[cfg(test)]
pub(crate) use self::filtered::share_class;
pub(crate) use self::filtered::{Thetas, SHARE_CLASSES};
pub(crate) use self::scratch::TreeScratch;
pub(super) use self::scratch::MEMORY_PLACES;
use super::audit::{leaves_from, Extent};
use super::heat::nearness;
use super::{Pinned, Tree};
use crate::error::Error;

impl Tree {
    /// Offers the nearest rows of one read snapshot to `out`, which the caller reset to `probe.k`. A
    /// query with a filter goes to [`Tree::search_filtered`].
    ///
    /// Errors: `Corrupt`, `Io`, if a segment cannot be read; `out` is incomplete then.
    pub(crate) fn search(
        &self,
        probe: &Probe<'_>,
        scratch: &mut TreeScratch,
        out: &mut TopK,
    ) -> Result<SearchStats, Error> {
        {
            let view = self.view.load();
            if view.is_in_memory() {
                return Ok(view.memory.search(probe, &mut scratch.memory[0].stage, out));
            }
        }
        self.pin().search(probe, scratch, out)
    }

    /// Adds every row of one read snapshot within `radius` to `out`, in no order. Errors: as
    /// [`Tree::search`].
    pub(crate) fn search_radius(
        &self,
        vector: &[f32],
        radius: f32,
        filter: Option<&Filter>,
        out: &mut Vec<Neighbor>,
    ) -> Result<SearchStats, Error> {
        let pinned = self.pin();
        let mut stats = SearchStats::default();
        for place in pinned.memory_places() {
            let Ok(searched) = place.search_radius(vector, radius, filter, out);
            stats += searched;
        }
        for segment in pinned.segments() {
            stats += segment.search_radius(vector, radius, filter, out)?;
        }
        for graph in pinned.graphs() {
            stats += graph.search_radius(vector, radius, filter, out)?;
        }
        Ok(stats)
    }

    /// True if all rows are in the memtable.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.view.load().is_in_memory()
    }

    /// How far an audit of `k` neighbours goes at first, if `known` was enough before. Where rows are in memory
    /// alone the depth grows with the leaves.
    pub(crate) fn audit_extent(&self, known: Extent, k: usize) -> Extent {
        let all = self.leaves();
        let view = self.view.load();
        if view.is_in_memory() {
            let depth = depth_in_memory(known.depth, k, view.memory.leaves());
            return Extent { depth, leaves: all };
        }
        let does_rank = view.bounds_itself(self.settings().metric);
        let leaves = if does_rank { leaves_from(known.leaves, all) } else { usize::MAX };
        Extent { depth: depth_from(known.depth, k), leaves }
    }

    /// Audits a query over all places: see `vstream_index::Search::audit`. Returns how far it had to go. Errors: as
    /// [`Tree::search`].
    ///
    /// * `begin`, `is_whole`: where there are segments, how far it goes at first, and whether it scans every code
    ///   all the same.
    pub(crate) fn audit(
        &self,
        probe: &Probe<'_>,
        (begin, is_whole): (Extent, bool),
        scratch: &mut TreeScratch,
        out: &mut TopK,
        reach: &mut Vec<Reach>,
    ) -> Result<Extent, Error> {
        {
            let view = self.view.load();
            if view.is_in_memory() {
                let state = &mut scratch.memory[0].stage;
                let depth = view.memory.audit(probe, state, out, reach);
                return Ok(Extent { depth, ..begin });
            }
        }
        let reached = self.pin().audit(probe, (begin, is_whole), scratch, out, reach);
        // Buffers for every run of every leaf are megabytes.
        *scratch = TreeScratch::default();
        reached
    }
}

impl Pinned {
    /// Offers the nearest rows of this read snapshot: see [`Tree::search`].
    pub(crate) fn search(
        &self,
        probe: &Probe<'_>,
        scratch: &mut TreeScratch,
        out: &mut TopK,
    ) -> Result<SearchStats, Error> {
        if self.immutable.is_none() && self.view.segments.is_empty() {
            return Ok(self.memory.search(probe, &mut scratch.memory[0].stage, out));
        }
        if self.view.segments.iter().any(|live| live.segment.is_flat()) {
            return self.exact(probe.vector, probe.filter, out);
        }
        let (mut probes, refine) = match probe.effort {
            Effort::Exact => return self.exact(probe.vector, probe.filter, out),
            Effort::Thorough { depth } => return self.thorough(probe, depth, scratch, out),
            Effort::Cautious { depth, theta, least } => {
                return self.cautious(probe, &Caution { depth, theta, least }, scratch, out);
            }
            Effort::Approximate { probes, refine } => (probes, refine.max(probe.k)),
        };
        let mut stats = SearchStats::default();
        loop {
            let visited = self.approximate(probe, (probes, refine), scratch, out)?;
            stats += visited.stats;
            if out.len() >= probe.k || (visited.is_all && self.graphs().next().is_none()) {
                return Ok(stats);
            }
            if visited.is_all {
                // The list of a graph may end among deleted rows. This is rare, or the rows are few.
                out.reset(probe.k);
                stats += self.exact(probe.vector, probe.filter, out)?;
                return Ok(stats);
            }
            // The visited leaves have fewer than k live rows: visit four times as many.
            probes = probes.max(1).saturating_mul(4);
            out.reset(probe.k);
        }
    }

    /// One search through the `probes` nearest leaves.
    fn approximate(
        &self,
        probe: &Probe<'_>,
        (probes, refine): (usize, usize),
        scratch: &mut TreeScratch,
        out: &mut TopK,
    ) -> Result<Visited, Error> {
        let loose = self.scan_loose(probe.vector, probe.filter, out);
        let mut stats = SearchStats { rows: loose, exact: loose, leaves: 0 };
        self.rank(probe, probes, scratch)?;
        let bound = scratch.nth_cost(probes);
        scratch.keep_within(bound);
        let is_all = scratch.leaves() >= self.leaves();
        let stops = !self.residency.ablation.threshold_stop;
        scratch.best.reset(refine, stops);
        stats.rows += self.scan_memory(refine, &[], scratch);
        scratch.memory.iter_mut().for_each(|state| state.candidates.truncate(refine));
        let vector = probe.vector;
        stats.exact += self.refine_memory(vector, Refine::Likely, scratch, out, &mut |_, _, _| {});
        for graph in self.graphs() {
            stats += graph.search(vector, refine, &mut scratch.graph, out)?;
        }
        let radius = if stops { out.bound() } else { f32::INFINITY };
        self.keep_segment_leaves(radius, &[], scratch);
        stats.leaves = scratch.leaves();
        stats.rows += self.scan_hottest_first(refine, scratch)?;
        let bound = scratch.nth_estimate(refine);
        scratch.segments.iter_mut().for_each(|state| stages::cut(&mut state.candidates, bound));
        let mut origins = std::mem::take(&mut scratch.origins);
        origins.clear();
        let noted =
            &mut |place: usize, _, row: Neighbor| origins.push((row.id, place - MEMORY_PLACES));
        let refined = self.refine_segments(vector, scratch, out, noted);
        self.note(scratch, &mut origins, out);
        scratch.origins = origins;
        stats.exact += refined?;
        Ok(Visited { stats, is_all })
    }

    pub(super) fn exact(
        &self,
        vector: &[f32],
        filter: Option<&Filter>,
        out: &mut TopK,
    ) -> Result<SearchStats, Error> {
        let mut stats = SearchStats::default();
        for place in self.memory_places() {
            let Ok(searched) = place.exact(vector, filter, out);
            stats += searched;
        }
        for segment in self.segments() {
            stats += segment.exact(vector, filter, out)?;
        }
        for graph in self.graphs() {
            stats += graph.exact(vector, filter, out)?;
        }
        Ok(stats)
    }

    /// Updates the heat of segments: which ones the query visited, and which ones its answers are
    /// from.
    fn note(&self, scratch: &TreeScratch, origins: &mut [(u64, usize)], out: &TopK) {
        self.residency.note_query(&self.view.segments);
        let segments: Vec<_> = self.live_segments().collect();
        let visited = segments.iter().zip(&scratch.segments).filter(|(_, state)| state.leaves > 0);
        visited.for_each(|(live, _)| live.heat.note_query());
        origins.sort_unstable();
        let mut rows: Vec<Neighbor> = out.rows().to_vec();
        rows.sort_unstable_by(Neighbor::order);
        for (rank, row) in rows.iter().enumerate() {
            if let Ok(at) = origins.binary_search_by_key(&row.id, |&(id, _)| id) {
                segments[origins[at].1].heat.note_hits(1, nearness(rank, rows.len()));
            }
        }
    }
}

/// The result of one search through some leaves.
struct Visited {
    stats: SearchStats,
    /// True if there are no leaves beyond those visited.
    is_all: bool,
}
