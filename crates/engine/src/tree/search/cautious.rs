//! A query while nothing is known about how far a search must go: right after a load, or when rows come
//! faster than audits.
//!
//! A scan of every code would be sure, but of a collection that is larger than memory it reads thousands
//! of rows. So the query says itself how far it must go:
//!
//! 1. A short search of the nearest leaves finds the distance of some k-th row, which bounds the true one.
//! 2. Leaves whose squared distance is below `theta` times that of this row are visited too. Margins that
//!    audits find for a recall of 0.95 are 0.9 to 1.3 for ten rows; where distances hardly differ, as in
//!    data that is hard, this bound leaves nothing out.
//! 3. Rows are measured in the order of their estimates, until the last of the nearest was found among the
//!    first quarter of those that were measured: the rule of audits.
//!
//! Each leaf is scanned once and each row measured once, unless more leaves are near than were ranked: at first
//! only the nearest quarter is. Then the search begins again. What audits of some time ago found of margins and
//! estimates still says much, though more was written since than a decision may outlive: both are relative to
//! the distances that a query finds, and hardly change when rows of the same kind come. The guard passes them
//! as `theta` and `least`; the rule of step 3 holds as well.

use vstream_index::stages::{need, Candidate, Refine};
use vstream_index::{depth_from, depth_needed, Probe, SearchStats};
use vstream_vector::{Neighbor, TopK};

use super::scratch::{TreeScratch, MEMORY_PLACES};
use super::stages::SegmentState;
use crate::error::Error;
use crate::tree::Pinned;

/// At least so many rows are searched for: fewer say little about how far to go.
const WANTED_MIN: usize = 10;
/// Leaves that the short search visits in memory, and in segments; rows of segments that it measures per row
/// that is wanted.
const PROBES: usize = 32;
const SHORT_PER_WANTED: usize = 8;
/// Part of all leaves that are ranked at first, and the least number of them: few queries visit more, and to rank
/// every leaf of ten million rows, with its runs, takes longer than to visit those. Tests have few leaves.
const RANKED_PART: usize = 4;
const RANKED_MIN: usize = if cfg!(test) { 8 } else { 1_024 };
/// Rows that are wanted above which all are ranked: a search that began again would measure some thousand twice.
const RANKED_WANTED: usize = 112;
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

/// How a search ended.
#[derive(PartialEq, Eq)]
enum Ended {
    /// It found the nearest rows.
    Found,
    /// The short search found fewer rows than are wanted.
    FewRows,
    /// The last ranked leaf is to be visited, and there are others.
    FewLeaves,
}

/// Rows of segments that one query found.
#[derive(Default)]
struct Rows {
    /// Rows that are not measured yet, by segment, best first.
    rest: Vec<Vec<Candidate>>,
    /// Estimates of those that are.
    measured: Vec<f32>,
    /// Rows that were among the nearest when they were measured, with their estimates.
    nearest: Vec<(u64, f32)>,
}

impl Rows {
    /// Takes the candidates of all segments.
    fn take(&mut self, segments: &mut [SegmentState]) {
        self.rest.resize_with(segments.len(), Vec::new);
        for (rest, state) in self.rest.iter_mut().zip(segments) {
            rest.append(&mut state.candidates);
            rest.sort_unstable_by(|a, b| a.estimate.total_cmp(&b.estimate));
        }
    }

    /// The least estimates of all rows, ascending.
    fn order(&self, most: usize) -> Vec<f32> {
        let rest = self.rest.iter().flatten().map(|row| row.estimate);
        let mut order: Vec<f32> = self.measured.iter().copied().chain(rest).collect();
        order.sort_unstable_by(f32::total_cmp);
        order.truncate(most);
        order
    }

    /// True if the last of the nearest was found early among the first `measured` of `order`.
    fn is_enough(&mut self, order: &[f32], measured: usize, out: &TopK) -> bool {
        self.nearest.retain(|&(id, _)| out.rows().iter().any(|row| row.id == id));
        let better =
            |estimate: f32| order.partition_point(|other| other.total_cmp(&estimate).is_lt());
        depth_needed(self.nearest.iter().map(|&(_, estimate)| better(estimate))) <= measured
    }
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
        let ranked = match wanted > RANKED_WANTED {
            true => usize::MAX,
            false => (self.view.leaves.len() / RANKED_PART).max(RANKED_MIN),
        };
        let (mut stats, mut ended) = self.bounded(probe, (caution, ranked), scratch, out)?;
        if ended == Ended::FewLeaves {
            out.reset(wanted);
            let again = self.bounded(probe, (caution, usize::MAX), scratch, out)?;
            stats += again.0;
            ended = again.1;
        }
        if ended != Ended::Found {
            out.reset(probe.k);
            stats += self.thorough(probe, caution.depth, scratch, out)?;
            return Ok(stats);
        }
        if wanted > probe.k {
            let rows: Vec<Neighbor> = out.rows().to_vec();
            out.reset(probe.k);
            rows.into_iter().for_each(|row| {
                out.offer(row);
            });
        }
        Ok(stats)
    }

    /// Offers the nearest rows, as many as `out` was reset to, if it finds them.
    ///
    /// * `ranked`: leaves that are ranked.
    fn bounded(
        &self,
        probe: &Probe<'_>,
        (caution, ranked): (&Caution, usize),
        scratch: &mut TreeScratch,
        out: &mut TopK,
    ) -> Result<(SearchStats, Ended), Error> {
        let wanted = probe.k.max(WANTED_MIN);
        self.rank(probe, ranked, scratch)?;
        let loose = self.scan_loose(probe.vector, probe.filter, out);
        let mut stats = SearchStats { rows: loose, exact: loose, leaves: 0 };
        let mut rows = Rows::default();
        let keep = depth_from(caution.depth, probe.k).max(caution.least);

        scratch.keep_nearest(PROBES, f32::INFINITY);
        let in_memory: Vec<usize> = scratch.memory.iter().map(|state| state.leaves).collect();
        let in_segments: Vec<usize> = scratch.segments.iter().map(|state| state.leaves).collect();
        self.visit(probe.vector, keep, (&[], &[]), (scratch, &mut rows, out), &mut stats)?;
        let short = keep.min(SHORT_PER_WANTED * wanted);
        stats.exact +=
            self.measure_in_order(probe.vector, (short, short), &mut rows, scratch, out)?;
        if out.len() < wanted {
            return Ok((stats, Ended::FewRows));
        }

        let near = out.bound();
        let is_near = |cost: &f32| need(self.settings, 1.0, *cost, near) < caution.theta;
        let probes = scratch.probe_costs().filter(is_near).count();
        let is_cut = |costs: &[f32], all| costs.len() < all && costs.last().is_none_or(is_near);
        let mut memory = self.memory_places().zip(&scratch.memory);
        if memory.any(|(place, state)| is_cut(&state.costs, place.leaves()))
            || is_cut(&scratch.leaves.costs, self.view.leaves.len())
        {
            return Ok((stats, Ended::FewLeaves));
        }
        let bound = scratch.nth_cost(probes.max(PROBES));
        scratch.keep_within(bound);
        let passed = (&*in_memory, &*in_segments);
        self.visit(probe.vector, keep, passed, (scratch, &mut rows, out), &mut stats)?;
        let range = (caution.least, keep);
        stats.exact += self.measure_in_order(probe.vector, range, &mut rows, scratch, out)?;
        Ok((stats, Ended::Found))
    }

    /// Scans the leaves that are visited, but for those that were `passed` in memory and in segments. Offers
    /// the rows in memory, and adds those of segments to `rows`.
    fn visit(
        &self,
        vector: &[f32],
        keep: usize,
        (in_memory, in_segments): (&[usize], &[usize]),
        (scratch, rows, out): (&mut TreeScratch, &mut Rows, &mut TopK),
        stats: &mut SearchStats,
    ) -> Result<(), Error> {
        scratch.best.reset(keep, true);
        stats.rows += self.scan_memory(keep, in_memory, scratch);
        stats.exact += self.refine_memory(vector, Refine::Likely, scratch, out, &mut |_, _, _| {});
        self.keep_segment_leaves(out.bound(), in_segments, scratch);
        stats.leaves += scratch.leaves();
        stats.rows += self.scan_hottest_first(keep, scratch)?;
        rows.take(&mut scratch.segments);
        Ok(())
    }

    /// Offers the exact distances of rows of segments, the best estimates first, until no more are needed;
    /// returns how many were taken.
    ///
    /// * `least`, `most`: how many are taken at least, if there are so many, and at most, with those that were
    ///   taken before.
    fn measure_in_order(
        &self,
        vector: &[f32],
        (least, most): (usize, usize),
        rows: &mut Rows,
        scratch: &mut TreeScratch,
        out: &mut TopK,
    ) -> Result<usize, Error> {
        let order = rows.order(most);
        let (mut exact, mut measured) = (0, 0);
        while measured < order.len() {
            measured = (measured + MEASURED_TOGETHER).max(least).min(order.len());
            let last = order[measured - 1];
            let Rows { rest, measured: known, nearest } = &mut *rows;
            for (state, rest) in scratch.segments.iter_mut().zip(rest) {
                let next = rest.partition_point(|row| row.estimate.total_cmp(&last).is_le());
                state.candidates.clear();
                state.candidates.extend(rest.drain(..next));
                known.extend(state.candidates.iter().map(|row| row.estimate));
            }
            let round: Vec<Vec<f32>> = estimates(&scratch.segments);
            let seen = &mut |place: usize, position: usize, row: Neighbor| {
                nearest.push((row.id, round[place - MEMORY_PLACES][position]));
            };
            exact += self.refine_segments(vector, scratch, out, seen)?;
            if rows.is_enough(&order, measured, out) {
                break;
            }
        }
        Ok(exact)
    }
}

fn estimates(segments: &[SegmentState]) -> Vec<Vec<f32>> {
    let of = |state: &SegmentState| state.candidates.iter().map(|row| row.estimate).collect();
    segments.iter().map(of).collect()
}

#[cfg(test)]
mod tests;
