//! Each stage of a search, for all pinned places.
//!
//! The generic functions at the end call one stage of one place, in memory or in a segment.

use std::cmp::Reverse;
use std::sync::Arc;

use vstream_attribute::Filter;
use vstream_index::stages::{
    Candidate, Found, PlaceState, Refine, RotatedQueries, StagedSearch, Wanted,
};
use vstream_index::Probe;
use vstream_segment::SegmentView;
use vstream_store::blocks::{read_together, Block, BlockHandle, BlockReader};
use vstream_store::Error as StoreError;
use vstream_vector::{Neighbor, TopK};

use super::scratch::{nth, TreeScratch, ALWAYS_VISITED, MEMORY_PLACES};
use crate::error::Error;
use crate::tree::Pinned;

impl Pinned {
    /// Leaves of places in memory, and runs of segments.
    pub(super) fn leaves(&self) -> usize {
        let memory: usize = self.memory_places().map(|place| place.leaves()).sum();
        memory + self.view.leaves.run_count()
    }

    /// Offers every visible row that is in no leaf; returns their number.
    pub(in crate::tree) fn scan_loose(
        &self,
        vector: &[f32],
        filter: Option<&Filter>,
        out: &mut TopK,
    ) -> usize {
        self.memory_places().map(|place| place.scan_loose(vector, filter, out)).sum()
    }

    /// Ranks the nearest leaves of each place in memory, and those of all segments together; the
    /// `probes` nearest leaves of all places are among them.
    ///
    /// First sets the filter of the query for all its stages. Errors: `Corrupt`, `Io`.
    pub(in crate::tree) fn rank(
        &self,
        probe: &Probe<'_>,
        probes: usize,
        scratch: &mut TreeScratch,
    ) -> Result<(), Error> {
        let vector = probe.vector;
        scratch.begin(self.segments().count());
        let TreeScratch { memory, segments, queries, leaves, .. } = &mut *scratch;
        for (place, state) in self.memory_places().zip(memory) {
            let Ok(_) = place.select(probe.filter, &mut state.stage);
            let ranked = probes.saturating_add(ALWAYS_VISITED);
            estimate(place, (vector, ranked), queries, state);
            let bound = nth(&mut state.costs, ranked);
            rank(place, bound, queries, state);
            state.always = ALWAYS_VISITED;
        }
        let views: Vec<SegmentView<'_>> = self.segments().collect();
        let query = queries.rotate(self.view.leaves.rotation(), vector);
        for (place, state) in views.iter().zip(&mut *segments) {
            place.select(probe.filter, &mut state.stage)?;
            state.query = query;
            place.rank_none(&mut state.stage);
        }
        let query = queries.get(query);
        self.view.leaves.rank(query, probes, leaves);
        let norm = query.norm();
        for &(cost, base, leaf) in &leaves.ranked {
            for run in self.view.leaves.runs(leaf) {
                let (at, state) = (run.segment as usize, &mut segments[run.segment as usize]);
                views[at].rank_next((cost, base, run.leaf), norm, &mut state.stage);
                state.costs.push(cost);
            }
        }
        for &at in self.view.leaves.partial() {
            let state = &mut segments[at as usize];
            state.always = ALWAYS_VISITED;
            let more = ALWAYS_VISITED.saturating_sub(state.costs.len());
            let last = state.costs.last().copied().unwrap_or(f32::NEG_INFINITY);
            self.view.leaves.nearest_runs(query, at, more, leaves);
            for &(cost, base, leaf) in &leaves.beyond {
                let cost = cost.max(last);
                views[at as usize].rank_next((cost, base, leaf), norm, &mut state.stage);
                state.costs.push(cost);
            }
        }
        Ok(())
    }

    /// Scans the leaves that each place in memory visits, and keeps the `keep` best rows of each
    /// place; returns the number of codes scanned.
    ///
    /// * `passed`: of each place, how many of its nearest leaves were scanned before; empty for none.
    pub(in crate::tree) fn scan_memory(
        &self,
        keep: usize,
        passed: &[usize],
        scratch: &mut TreeScratch,
    ) -> usize {
        let TreeScratch { memory, queries, best, .. } = scratch;
        let mut rows = 0;
        for (at, (place, state)) in self.memory_places().zip(memory).enumerate() {
            keep_leaves(place, f32::INFINITY, passed_of(passed, at), state);
            while place.next_codes(&mut state.stage).is_some() {
                // No bound: memory is scanned first, and the immutable memtable is as cheap to
                // scan.
                let Ok(scanned) = scan(place, &[], (keep, f32::INFINITY), queries, state);
                rows += scanned;
            }
            best.add(&state.candidates);
        }
        rows
    }

    /// Begins the scan of the leaves that segments visit, and leaves out those that hold no row
    /// within `radius`.
    ///
    /// * `passed`: as for [`Pinned::scan_memory`], of each segment.
    pub(in crate::tree) fn keep_segment_leaves(
        &self,
        radius: f32,
        passed: &[usize],
        scratch: &mut TreeScratch,
    ) {
        for (at, (place, state)) in self.segments().zip(&mut scratch.segments).enumerate() {
            keep_leaves(&place, radius, passed_of(passed, at), state);
        }
    }

    /// Fills `scratch.order` with the segments, the hottest first.
    pub(super) fn order_segments(&self, scratch: &mut TreeScratch) {
        let TreeScratch { order, .. } = scratch;
        order.clear();
        let segments: Vec<_> = self.live_segments().collect();
        order.extend(0..segments.len());
        if !self.residency.ablation.hot_cold {
            // Reads each heat once, since heats may change during the sort. The bits of
            // non-negative floats sort as the floats do.
            let heat = |&at: &usize| Reverse(segments[at].heat.heat().to_bits());
            order.sort_by_cached_key(heat);
        }
    }

    /// Scans the leaves that segments kept as [`Pinned::scan_segments`] does, the hottest segments first.
    pub(super) fn scan_hottest_first(
        &self,
        keep: usize,
        scratch: &mut TreeScratch,
    ) -> Result<usize, Error> {
        self.order_segments(scratch);
        let order = std::mem::take(&mut scratch.order);
        let scanned = self.scan_segments(&order, keep, |view| view.blocks(), scratch);
        scratch.order = order;
        scanned
    }

    /// Scans the leaves that some segments kept, and keeps the rows among the `keep` best of all
    /// places; returns the number of codes scanned.
    ///
    /// * `order`: segments, scanned in this order. The rows of one segment bound those of the next.
    /// * `blocks`: chooses the reader for codes that are not in memory. One round of reads, or
    ///   none.
    pub(in crate::tree) fn scan_segments(
        &self,
        order: &[usize],
        keep: usize,
        blocks: for<'a> fn(&'a SegmentView<'_>) -> &'a BlockReader,
        scratch: &mut TreeScratch,
    ) -> Result<usize, Error> {
        let all: Vec<SegmentView<'_>> = self.segments().collect();
        let views: Vec<SegmentView<'_>> = order.iter().map(|&at| all[at]).collect();
        let mut rows = 0;
        loop {
            let segments = &mut scratch.segments;
            let next = views.iter().zip(order);
            let next: Vec<Option<Vec<BlockHandle>>> =
                next.map(|(view, &at)| view.next_codes(&mut segments[at].stage)).collect();
            if next.iter().all(Option::is_none) {
                return Ok(rows);
            }
            let wanted: Vec<(&BlockReader, &[BlockHandle])> = views
                .iter()
                .zip(&next)
                .map(|(view, next)| (blocks(view), next.as_deref().unwrap_or(&[])))
                .collect();
            let read = read_together(&wanted)?;
            for (((view, &at), next), read) in views.iter().zip(order).zip(&next).zip(&read) {
                if next.is_some() {
                    rows += scan_segment(view, (at, read), keep, scratch)?;
                }
            }
        }
    }

    /// Offers the exact distances of the candidates of each place in memory; returns the number
    /// taken. Calls `seen` with place, position and row of each candidate that was among the
    /// nearest.
    pub(in crate::tree) fn refine_memory(
        &self,
        vector: &[f32],
        refine: Refine,
        scratch: &mut TreeScratch,
        out: &mut TopK,
        seen: &mut dyn FnMut(usize, usize, Neighbor),
    ) -> usize {
        let TreeScratch { memory, queries, .. } = scratch;
        let mut exact = 0;
        for (number, (place, state)) in self.memory_places().zip(memory).enumerate() {
            let PlaceState { stage, candidates, query, .. } = state;
            let found = Found { vector, rotated: queries.get(*query), candidates, refine };
            let seen = &mut |position, row| seen(number, position, row);
            let Ok(taken) = place.refine(found, &[], stage, out, seen);
            exact += taken;
        }
        exact
    }

    /// Offers the exact distances of all candidates of each segment: see [`Pinned::refine_memory`].
    /// Cost: one round of reads.
    pub(in crate::tree) fn refine_segments(
        &self,
        vector: &[f32],
        scratch: &mut TreeScratch,
        out: &mut TopK,
        seen: &mut dyn FnMut(usize, usize, Neighbor),
    ) -> Result<usize, Error> {
        let TreeScratch { segments, queries, .. } = scratch;
        let views: Vec<SegmentView<'_>> = self.segments().collect();
        let wanted: Vec<Vec<BlockHandle>> = views
            .iter()
            .zip(&mut *segments)
            .map(|(view, state)| view.rows_of(&state.candidates, &mut state.stage))
            .collect();
        let asked: Vec<(&BlockReader, &[BlockHandle])> =
            views.iter().map(SegmentView::blocks).zip(wanted.iter().map(Vec::as_slice)).collect();
        let read = read_together(&asked)?;
        let mut exact = 0;
        for (number, ((view, state), read)) in views.iter().zip(segments).zip(&read).enumerate() {
            let PlaceState { stage, candidates, query, .. } = state;
            let refine = Refine::Each;
            let found = Found { vector, rotated: queries.get(*query), candidates, refine };
            let seen = &mut |position, row| seen(MEMORY_PLACES + number, position, row);
            exact += view.refine(found, read, stage, out, seen)?;
        }
        Ok(exact)
    }
}

/// What a search keeps of one segment.
pub(super) type SegmentState = PlaceState<vstream_segment::SegmentSearchState>;

/// Scans the next codes of a segment, given by its position and the blocks read.
fn scan_segment(
    view: &SegmentView<'_>,
    (at, read): (usize, &[Arc<Block>]),
    keep: usize,
    scratch: &mut TreeScratch,
) -> Result<usize, StoreError> {
    let TreeScratch { segments, queries, best, .. } = &mut *scratch;
    let state = &mut segments[at];
    let is_first = state.candidates.is_empty();
    let rows = scan(view, read, (keep, best.bound()), queries, state)?;
    if is_first {
        best.add(&state.candidates);
    } else {
        // `best` already holds the candidates of earlier rounds, so it is rebuilt.
        let mut best = std::mem::take(&mut scratch.best);
        best.replace(scratch.candidates());
        scratch.best = best;
    }
    Ok(rows)
}

fn estimate<P: StagedSearch + ?Sized>(
    place: &P,
    (vector, probes): (&[f32], usize),
    queries: &mut RotatedQueries,
    state: &mut PlaceState<P::State>,
) {
    state.query = queries.rotate(place.rotation(), vector);
    let query = queries.get(state.query);
    place.estimate_leaves(query, probes, &mut state.stage, &mut state.costs);
}

fn rank<P: StagedSearch + ?Sized>(
    place: &P,
    bound: f32,
    queries: &RotatedQueries,
    state: &mut PlaceState<P::State>,
) {
    state.costs.clear();
    place.rank_leaves(queries.get(state.query), bound, &mut state.stage, &mut state.costs);
}

fn keep_leaves<P: StagedSearch + ?Sized>(
    place: &P,
    radius: f32,
    passed: usize,
    state: &mut PlaceState<P::State>,
) {
    let leaves = passed..state.leaves.max(passed);
    state.leaves = place.keep_leaves(leaves, radius, &mut state.stage);
    state.candidates.clear();
}

fn passed_of(passed: &[usize], place: usize) -> usize {
    passed.get(place).copied().unwrap_or(0)
}

fn scan<P: StagedSearch + ?Sized>(
    place: &P,
    codes: &[P::Block],
    (keep, below): (usize, f32),
    queries: &RotatedQueries,
    state: &mut PlaceState<P::State>,
) -> Result<usize, P::Error> {
    let PlaceState { stage, candidates, query, .. } = state;
    let wanted = Wanted { keep, below, deviations: 0.0 };
    let scanned = place.scan_codes(queries.get(*query), codes, wanted, stage, candidates)?;
    Ok(scanned.rows)
}

/// Cuts candidates, sorted best first, to those with estimates up to `bound`.
pub(super) fn cut(candidates: &mut Vec<Candidate>, bound: f32) {
    candidates.truncate(candidates.partition_point(|row| row.estimate.total_cmp(&bound).is_le()));
}
