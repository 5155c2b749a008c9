//! A query while nothing is known about how far a search must go: right after a load, or when rows come
//! faster than audits.
//!
//! A scan of every code would be sure, but of a collection that is larger than memory it reads thousands
//! of rows. So the query says itself how far it must go:
//!
//! 1. A short search finds the distance of some k-th row, which bounds the true one.
//! 2. Leaves whose squared distance is below `theta` times that of this row are visited. Margins that
//!    audits find for a recall of 0.95 are 0.9 to 1.3 for ten rows; where distances hardly differ, as in
//!    data that is hard, this bound leaves nothing out.
//! 3. Rows are measured in the order of their estimates, until the last of the nearest was found among the
//!    first quarter of those that were measured: the rule of audits.

use vstream_index::stages::{need, Candidate, Refine};
use vstream_index::{depth_from, depth_needed, Probe, SearchStats};
use vstream_vector::{Neighbor, TopK};

use super::add;
use super::scratch::{TreeScratch, MEMORY_PLACES};
use super::stages::SegmentState;
use crate::error::Error;
use crate::tree::Pinned;

/// At least so many rows are searched for: fewer say little about how far to go.
const WANTED_MIN: usize = 10;
/// Leaves that the short search visits, and rows that it measures at least.
const PROBES: usize = 32;
const REFINE: usize = 256;
/// Rows of segments that are measured in one round after the first.
const MEASURED_TOGETHER: usize = 128;

/// How far such a query goes.
pub(super) struct Caution {
    /// Rows to measure at most, if audits found that to be enough.
    pub(super) depth: usize,
    /// Squared distance of the nearest leaf that is not visited, over that of the k-th row of a short
    /// search.
    pub(super) theta: f32,
    /// Rows of segments to measure at least.
    pub(super) least: usize,
}

impl Pinned {
    /// Offers the nearest rows, as far as those that are found say that others may be near.
    ///
    /// Errors: as [`Pinned::search`].
    pub(super) fn cautious(
        &self,
        probe: &Probe<'_>,
        caution: &Caution,
        scratch: &mut TreeScratch,
        out: &mut TopK,
    ) -> Result<SearchStats, Error> {
        if !self.view.bounds_itself(self.settings.metric) {
            return self.thorough(probe, caution.depth, scratch, out);
        }
        let wanted = probe.k.max(WANTED_MIN);
        out.reset(wanted);
        let short = (PROBES, REFINE.max(4 * wanted));
        let mut stats = self.approximate(probe, short, scratch, out)?.stats;
        let (found, near) = (out.len(), out.bound());
        if found < wanted {
            out.reset(probe.k);
            add(&mut stats, self.thorough(probe, caution.depth, scratch, out)?);
            return Ok(stats);
        }
        out.reset(wanted);
        add(&mut stats, self.within(probe, near, caution, scratch, out)?);
        if wanted > probe.k {
            let rows: Vec<Neighbor> = out.rows().to_vec();
            out.reset(probe.k);
            rows.into_iter().for_each(|row| {
                out.offer(row);
            });
        }
        Ok(stats)
    }

    /// Offers the nearest rows of leaves that are not far beside the distance `near`.
    fn within(
        &self,
        probe: &Probe<'_>,
        near: f32,
        caution: &Caution,
        scratch: &mut TreeScratch,
        out: &mut TopK,
    ) -> Result<SearchStats, Error> {
        self.rank(probe, usize::MAX, scratch)?;
        let is_near = |cost: &f32| need(self.settings, 1.0, *cost, near) < caution.theta;
        let probes = scratch.probe_costs().filter(is_near).count();
        let bound = scratch.nth_cost(probes.max(PROBES));
        scratch.keep_within(bound);
        let loose = self.scan_loose(probe.vector, probe.filter, out);
        let mut stats = SearchStats { rows: loose, exact: loose, leaves: scratch.leaves() };
        let keep = depth_from(caution.depth, probe.k).max(caution.least);
        scratch.best.reset(keep, true);
        stats.rows += self.scan_memory(keep, scratch);
        stats.exact +=
            self.refine_memory(probe.vector, Refine::Likely, scratch, out, &mut |_, _, _| {});
        self.keep_segment_leaves(out.bound(), scratch);
        stats.rows += self.scan_hottest_first(keep, scratch)?;
        stats.exact += self.measure_in_order(probe.vector, (caution.least, keep), scratch, out)?;
        Ok(stats)
    }

    /// Offers the exact distances of candidates of segments, the best estimates first, until no more are
    /// needed; returns how many were taken.
    ///
    /// * `least`, `most`: how many are taken at least, if there are so many, and at most.
    fn measure_in_order(
        &self,
        vector: &[f32],
        (least, most): (usize, usize),
        scratch: &mut TreeScratch,
        out: &mut TopK,
    ) -> Result<usize, Error> {
        let take = |state: &mut SegmentState| std::mem::take(&mut state.candidates);
        let all: Vec<Vec<Candidate>> = scratch.segments.iter_mut().map(take).collect();
        let mut order: Vec<f32> = all.iter().flatten().map(|row| row.estimate).collect();
        order.sort_unstable_by(f32::total_cmp);
        order.truncate(most);
        let mut rest: Vec<&[Candidate]> = all.iter().map(Vec::as_slice).collect();
        // Rows that were among the nearest when they were measured, and how many estimates are better.
        let mut ranks: Vec<(u64, usize)> = Vec::new();
        let (mut exact, mut measured) = (0, 0);
        while measured < order.len() {
            measured = (measured + MEASURED_TOGETHER).max(least).min(order.len());
            let last = order[measured - 1];
            let mut round: Vec<&[Candidate]> = Vec::with_capacity(rest.len());
            for (state, rest) in scratch.segments.iter_mut().zip(&mut rest) {
                let next = rest.partition_point(|row| row.estimate.total_cmp(&last).is_le());
                let (next, later) = rest.split_at(next);
                state.candidates.clear();
                state.candidates.extend_from_slice(next);
                round.push(next);
                *rest = later;
            }
            let seen = &mut |place: usize, position: usize, row: Neighbor| {
                let estimate = round[place - MEMORY_PLACES][position].estimate;
                let better = order.partition_point(|other| other.total_cmp(&estimate).is_lt());
                ranks.push((row.id, better));
            };
            exact += self.refine_segments(vector, scratch, out, seen)?;
            let is_nearest = |id: u64| out.rows().iter().any(|row| row.id == id);
            ranks.retain(|&(id, _)| is_nearest(id));
            if depth_needed(ranks.iter().map(|&(_, rank)| rank)) <= measured {
                break;
            }
        }
        Ok(exact)
    }
}

#[cfg(test)]
mod tests;
