//! Buffers of a query over all places, and the bounds that places share.

use vstream_graph::GraphScratch;
use vstream_index::stages::{Candidate, FilteredScratch, PlaceState, RotatedQueries};
use vstream_index::Scratch;
use vstream_segment::SegmentSearchState;

use crate::tree::leaves::LeafRanking;

/// Number of places in memory: the memtable and the immutable memtable.
pub(in crate::tree) const MEMORY_PLACES: usize = 2;

/// Leaves of each place in memory, and of each partial segment (`Leaves::partial`), that every query visits, the
/// nearest.
///
/// A place with few rows has few leaves, each with rows from everywhere. Their centroids are farther from a query than
/// those of many other leaves, and queries that went by centroids alone did not find the newest rows.
pub(super) const ALWAYS_VISITED: usize = 8;

/// Buffers of one searching thread.
///
/// Places are numbered: those in memory first, then the segments with leaves in the order of the view.
#[derive(Default)]
pub(crate) struct TreeScratch {
    pub(in crate::tree) memory: [PlaceState<Scratch>; MEMORY_PLACES],
    pub(in crate::tree) segments: Vec<PlaceState<SegmentSearchState>>,
    /// Of one graph after the other.
    pub(in crate::tree) graph: GraphScratch,
    pub(super) queries: RotatedQueries,
    /// The leaves of all segments together.
    pub(in crate::tree) leaves: LeafRanking,
    /// Segments, the hottest first.
    pub(super) order: Vec<usize>,
    pub(in crate::tree) best: BestEstimates,
    pub(super) merged: Vec<f32>,
    pub(super) filtered: FilteredScratch,
    /// Id and segment of rows that were among the nearest when their exact distance was taken.
    pub(super) origins: Vec<(u64, usize)>,
}

impl TreeScratch {
    /// Clears the buffers for a query over this many segments.
    pub(super) fn begin(&mut self, segments: usize) {
        self.segments.resize_with(segments, PlaceState::default);
        self.memory.iter_mut().for_each(PlaceState::clear);
        self.segments.iter_mut().for_each(PlaceState::clear);
        self.queries.clear();
    }

    /// Leaves that all places visit.
    pub(in crate::tree) fn leaves(&self) -> usize {
        let memory: usize = self.memory.iter().map(|state| state.leaves).sum();
        memory + self.segments.iter().map(|state| state.leaves).sum::<usize>()
    }

    /// Lets each place visit all its ranked leaves.
    pub(in crate::tree) fn keep_all(&mut self) {
        self.memory.iter_mut().for_each(|state| state.leaves = state.costs.len());
        self.segments.iter_mut().for_each(|state| state.leaves = state.costs.len());
    }

    /// Lets each place visit its ranked leaves that cost no more than `bound`, and those that are always visited.
    pub(in crate::tree) fn keep_within(&mut self, bound: f32) {
        self.memory.iter_mut().for_each(|state| keep_within(state, bound));
        self.segments.iter_mut().for_each(|state| keep_within(state, bound));
    }

    /// Lets the places in memory visit the `n` nearest of their leaves together, and the segments the `n`
    /// nearest of theirs, if they cost no more than `bound`.
    pub(in crate::tree) fn keep_nearest(&mut self, n: usize, bound: f32) {
        let mut merged = std::mem::take(&mut self.merged);
        merged.clear();
        merged.extend(self.memory.iter().flat_map(|state| &state.costs));
        let in_memory = nth(&mut merged, n).min(bound);
        self.merged = merged;
        let in_segments = self.leaves.costs.get(n - 1).copied().unwrap_or(f32::INFINITY).min(bound);
        self.memory.iter_mut().for_each(|state| state.leaves = visited(&state.costs, in_memory));
        self.segments
            .iter_mut()
            .for_each(|state| state.leaves = visited(&state.costs, in_segments));
    }

    /// The costs of ranked leaves, place by place; those of segments by run.
    pub(in crate::tree) fn costs(&self) -> impl Iterator<Item = &[f32]> {
        let memory = self.memory.iter().map(|state| state.costs.as_slice());
        memory.chain(self.segments.iter().map(|state| state.costs.as_slice()))
    }

    /// Drops a segment's candidates that others are better than, and their memory: where every code is
    /// scanned, up to four times as many as wanted pass in each segment before they bound those that follow.
    pub(in crate::tree) fn keep_useful(&mut self, segment: usize) {
        let bound = self.best.bound();
        let found = &mut self.segments[segment].candidates;
        found.retain(|row| row.estimate.total_cmp(&bound).is_le());
        found.shrink_to_fit();
    }

    /// How many of the ranked leaves are always visited, place by place.
    pub(in crate::tree) fn always(&self) -> impl Iterator<Item = usize> + '_ {
        let memory = self.memory.iter().map(|state| state.always);
        memory.chain(self.segments.iter().map(|state| state.always))
    }

    /// The candidates, place by place.
    pub(in crate::tree) fn candidates(&self) -> impl Iterator<Item = &[Candidate]> {
        let memory = self.memory.iter().map(|state| state.candidates.as_slice());
        memory.chain(self.segments.iter().map(|state| state.candidates.as_slice()))
    }

    /// The costs of the ranked leaves that count as probes; those that places in memory always visit do not.
    pub(in crate::tree) fn probe_costs(&self) -> impl Iterator<Item = f32> + '_ {
        let counted = |state: &'_ PlaceState<Scratch>| state.always.min(state.costs.len());
        let memory = self.memory.iter().flat_map(move |state| &state.costs[counted(state)..]);
        memory.copied().chain(self.leaves.costs.iter().copied())
    }

    /// The `n`-th least of those costs; infinite if there are fewer.
    pub(super) fn nth_cost(&mut self, n: usize) -> f32 {
        let mut merged = std::mem::take(&mut self.merged);
        merged.clear();
        merged.extend(self.probe_costs());
        self.merged = merged;
        nth(&mut self.merged, n)
    }

    /// The `n`-th least estimate of all candidates; infinite if there are fewer.
    pub(super) fn nth_estimate(&mut self, n: usize) -> f32 {
        let mut merged = std::mem::take(&mut self.merged);
        merged.clear();
        self.candidates().for_each(|found| merged.extend(found.iter().map(|row| row.estimate)));
        self.merged = merged;
        nth(&mut self.merged, n)
    }
}

/// The `keep` least estimates of all places so far.
pub(in crate::tree) struct BestEstimates {
    keep: usize,
    /// If false, no place bounds another.
    is_shared: bool,
    /// A bound that is known before there are as many estimates.
    below: f32,
    estimates: Vec<f32>,
}

impl Default for BestEstimates {
    fn default() -> BestEstimates {
        BestEstimates { keep: 0, is_shared: false, below: f32::INFINITY, estimates: Vec::new() }
    }
}

impl BestEstimates {
    pub(in crate::tree) fn reset(&mut self, keep: usize, is_shared: bool) {
        (self.keep, self.is_shared, self.below) = (keep, is_shared, f32::INFINITY);
        self.estimates.clear();
    }

    /// Begins again with a bound that rows found before have set, which are found once more.
    pub(in crate::tree) fn reset_within(&mut self, keep: usize) {
        let below = self.bound().next_up();
        self.reset(keep, true);
        self.below = below;
    }

    /// Adds the candidates of one place.
    pub(super) fn add(&mut self, found: &[Candidate]) {
        self.estimates.extend(found.iter().map(|row| row.estimate));
        if self.estimates.len() > self.keep {
            self.estimates.select_nth_unstable_by(self.keep - 1, f32::total_cmp);
            self.estimates.truncate(self.keep);
        }
    }

    /// Starts over with the candidates of all places.
    pub(super) fn replace<'a>(&mut self, places: impl Iterator<Item = &'a [Candidate]>) {
        self.estimates.clear();
        places.for_each(|found| self.add(found));
    }

    /// An estimate must be below this bound to be among the `keep` least.
    pub(in crate::tree) fn bound(&self) -> f32 {
        if !self.is_shared || self.estimates.len() < self.keep {
            return self.below;
        }
        // Places may have added estimates that are above a bound known before.
        self.estimates.iter().copied().fold(f32::NEG_INFINITY, f32::max).min(self.below)
    }
}

fn keep_within<S>(state: &mut PlaceState<S>, bound: f32) {
    let always = state.always.min(state.costs.len());
    state.leaves = visited(&state.costs, bound).max(always);
}

/// Leaves that cost no more than `bound`, of costs that ascend.
fn visited(costs: &[f32], bound: f32) -> usize {
    costs.partition_point(|cost| cost.total_cmp(&bound).is_le())
}

/// The `n`-th least value; infinite if there are fewer.
pub(super) fn nth(values: &mut [f32], n: usize) -> f32 {
    if n >= values.len() {
        return f32::INFINITY;
    }
    *values.select_nth_unstable_by(n.max(1) - 1, f32::total_cmp).1
}

#[cfg(test)]
mod tests;
