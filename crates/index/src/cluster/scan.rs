//! Scans the codes of ranked leaves, and takes exact distances of the best rows.
//!
//! 1. Scan the codes; keep the least estimates of rows that are not dead.
//! 2. With a second look: estimate those rows again by four bits per dimension.
//! 3. Take exact distances: of all, or with a second look of those that may still be nearer than the
//!    k-th.
//!
//! Dead rows are left out before the best are kept, so they take no place of living rows. Each chunk
//! knows which lanes ever died, and only those lanes are looked up.

use std::ops::Range;
use std::sync::Arc;

use vstream_quantize::rabitq::extended::ExtendedQuery;
use vstream_quantize::rabitq::BLOCK;
use vstream_quantize::scalar8::ScanScratch;
use vstream_quantize::Form;
use vstream_vector::{kernels, Neighbor, TopK};

use super::leaf::{position, split_position, Leaf, LeafChunk, LeafId, COLUMN_STEPS};
use super::rank::Ranked;
use super::tree::Root;
use super::view::View;
use crate::filter::{Compiled, SUMMARY_STEPS};
use crate::probe::SearchStats;
use crate::rows::{distance, RowChunk};
use crate::stages::{
    as_estimate, sort_candidates, BestCandidates, Candidate, Found, Refine, RotatedQuery, Scanned,
    Wanted,
};
use crate::turns::work_done;

/// Leaves whose heads are prefetched ahead of the scanned one, and whose centroids are.
const HEAD_AHEAD: usize = 6;
const CENTROID_AHEAD: usize = 3;

/// Summaries that are asked before a search knows whether they leave out many leaves.
const ASKED: usize = 16;

/// What a distance costs, in units of a turn, and after how many it is said.
const MEASURE_UNITS: usize = 10;
const MEASURED_IN_TURN: usize = 64;

/// Rows that are prefetched ahead of the one whose distance is taken.
const PREFETCH_AHEAD: usize = 8;

/// Fine codes that are prefetched ahead: a line or two each.
const PREFETCH_FINE_AHEAD: usize = 16;

/// Standard errors that an estimate of the second look may be too large by. One estimate in a
/// thousand is off by more.
const FINE_ERRORS: f32 = 3.0;

/// Rows beyond the `k` wanted that are measured together after a second look.
const MEASURED_TOGETHER: usize = 8;

/// A query's buffers for the stages of a search, reused from query to query.
#[derive(Default)]
pub(super) struct ClusterState {
    fine: ExtendedQuery,
    pub(super) scan: ScanScratch,
    pub(super) estimates: Vec<f32>,
    pub(super) nodes: Vec<(f32, u32)>,
    pub(super) ranked: Vec<Ranked>,
    /// How many of them, the first, are sorted by cost.
    pub(super) sorted: usize,
    /// Ranks of the leaves that are scanned, if only a part of the ranked is.
    pub(super) kept: Option<Range<usize>>,
    /// With a filter: those of them that may hold a match.
    pub(super) matching: Vec<u32>,
    /// True if `matching` is filled for the kept leaves.
    is_matched: bool,
    /// Leaves whose summaries were asked, and those that these left out.
    asked: usize,
    excluded: usize,
    /// True once these leaves were scanned.
    pub(super) is_scanned: bool,
    /// Which rows are wanted; `None` for all.
    pub(super) filter: Option<Compiled>,
    /// Columns that the filter reads.
    pub(super) columns: Vec<u16>,
    /// Leaves that the filter's keywords are in, a bit per id; meaningful if that is known.
    pub(super) listed: Vec<u64>,
    pub(super) is_listed: bool,
    /// Rows that were among the nearest when they were measured.
    pub(super) origins: Vec<Origin>,
    /// After a second look: the least distance that each candidate may have, and its position.
    looked: Vec<(f32, u32)>,
}

/// Where a row of an answer is: node, leaf of the node, and position in the leaf.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) id: u64,
    pub(super) node: u32,
    pub(super) child: u32,
    pub(super) row: u32,
}

/// Buffers of a search of this index alone.
#[derive(Default)]
pub(super) struct ClusterScratch {
    pub(super) query: RotatedQuery,
    pub(super) state: ClusterState,
    pub(super) candidates: Vec<Candidate>,
    /// Candidates that were among the nearest when they were measured, and their positions.
    pub(super) measured: Vec<(Neighbor, u32)>,
}

/// The result of a scan of rows that match.
#[derive(Clone, Copy)]
pub(super) struct ScannedMatches {
    pub(super) counts: Scanned,
    /// True if there were other candidates below the bound.
    pub(super) is_cut: bool,
}

impl ClusterState {
    /// Forgets the last query, but for the filter.
    pub(super) fn begin(&mut self) {
        self.kept = None;
        self.is_matched = false;
        self.sorted = 0;
        (self.asked, self.excluded) = (0, 0);
        self.origins.clear();
    }

    /// Sets the filter of a query.
    pub(super) fn set_filter(&mut self, view: &View<'_>, filter: Option<Compiled>) {
        self.begin();
        self.is_listed =
            filter.as_ref().is_some_and(|filter| view.listed_leaves(filter, &mut self.listed));
        self.columns.clear();
        if let Some(filter) = &filter {
            filter.add_columns(&mut self.columns);
        }
        self.filter = filter;
    }

    /// Ranks of the leaves that are scanned.
    fn kept(&self) -> Range<usize> {
        let all = self.sorted;
        let Range { start, end } = self.kept.clone().unwrap_or(0..all);
        start.min(all)..end.min(all)
    }

    /// Keeps leaves of these ranks; returns how many of them may hold a match.
    pub(super) fn keep(&mut self, view: &View<'_>, ranks: Range<usize>) -> usize {
        self.kept = Some(ranks);
        (self.is_scanned, self.is_matched) = (false, false);
        if self.filter.is_none() {
            return self.kept().len();
        }
        self.find_matching(view);
        self.matching.len()
    }

    /// Fills `matching`, unless it is filled.
    fn find_matching(&mut self, view: &View<'_>) {
        if std::mem::replace(&mut self.is_matched, true) {
            return;
        }
        let kept = self.kept();
        let ClusterState { ranked, sorted, filter, listed, is_listed, .. } = self;
        let ClusterState { matching, columns, asked, excluded, .. } = self;
        matching.clear();
        for rank in kept {
            // The next leaves will be asked for soon, be it in this round or in the next.
            if let Some(&next) = ranked[..*sorted].get(rank + HEAD_AHEAD) {
                let next = leaf_of(view.root, next);
                next.prefetch_head();
            }
            for step in 0..SUMMARY_STEPS {
                let later = rank + HEAD_AHEAD - step * HEAD_AHEAD / SUMMARY_STEPS;
                if let Some(&next) = ranked[..*sorted].get(later).filter(|_| !*is_listed) {
                    leaf_of(view.root, next).summaries.prefetch(step, columns);
                }
            }
            let leaf = leaf_of(view.root, ranked[rank]);
            let may_match = match filter {
                Some(_) if *is_listed => is_in(listed, leaf.id),
                // A summary costs about as much as the columns: where hardly any leaves a leaf out,
                // only some are asked.
                Some(filter) if *asked < ASKED || *excluded * 4 >= *asked || rank % 8 == 0 => {
                    let may_match = leaf.summaries.may_match(filter);
                    *asked += 1;
                    *excluded += usize::from(!may_match);
                    may_match
                }
                Some(_) | None => true,
            };
            if may_match {
                matching.push(rank as u32);
            }
        }
    }
}

/// True if a set of leaves, a bit per id, has this one.
fn is_in(listed: &[u64], leaf: LeafId) -> bool {
    let word = listed.get(leaf as usize / 64).copied().unwrap_or(0);
    word >> (leaf % 64) & 1 == 1
}

/// Counts of a refinement.
#[derive(Clone, Copy, Default)]
pub(super) struct Measured {
    /// Exact distances taken.
    pub(super) exact: usize,
    /// Candidates met that the view does not see.
    pub(super) hidden: usize,
}

impl View<'_> {
    /// Fills `candidates` with the least estimates of the ranked leaves; false if there were no others
    /// below the bound. Adds the visited leaves and scanned codes to `stats`.
    ///
    /// Rows that came after the view's moment may be among them, rows that died before it are not.
    pub(super) fn scan(
        &self,
        query: &RotatedQuery,
        wanted: Wanted,
        state: &mut ClusterState,
        candidates: &mut Vec<Candidate>,
        stats: &mut SearchStats,
    ) -> bool {
        if state.filter.is_some() || wanted.deviations != 0.0 {
            let scanned = self.scan_matches(query, wanted, state, candidates);
            stats.leaves += scanned.counts.leaves;
            stats.rows += scanned.counts.rows;
            return scanned.is_cut;
        }
        let (root, placed) = (self.root, self.placed());
        let kept = state.kept();
        let ranked = &mut state.ranked;
        let mut best = BestCandidates::new(wanted.keep, wanted.below, candidates);
        let mut estimates = [0.0f32; BLOCK];
        for rank in kept {
            stats.leaves += 1;
            let rows_before = stats.rows;
            prefetch_leaves(root, ranked, rank);
            let leaf = leaf_of(root, ranked[rank]);
            let base = self.shared.form.base(query.vector(), &leaf.centroid);
            ranked[rank].base = base;
            ranked[rank].gap = self.shared.gap(base, query, leaf);
            leaf.for_each_block(|at, chunk, block, rows| {
                let threshold = best.threshold();
                let table = query.table();
                let mut mask = table.scan_block_below(block, base, threshold, &mut estimates);
                if mask != 0 {
                    chunk.rows.prefetch_head();
                    mask = leaf.without_dead(chunk, mask, placed);
                }
                while mask != 0 {
                    let lane = mask.trailing_zeros() as usize;
                    mask &= mask - 1;
                    let (estimate, row) = (estimates[lane], position(at, lane));
                    best.push(Candidate { estimate, leaf: rank as u32, row });
                }
                stats.rows += rows;
                best.lower();
            });
            work_done(stats.rows - rows_before);
        }
        best.finish()
    }

    /// Does a [`View::scan`] of rows that match, with lowered estimates if these are wanted.
    ///
    /// Codes of 32 rows without a match are not read. A match that came after the view's moment
    /// counts as one.
    pub(super) fn scan_matches(
        &self,
        query: &RotatedQuery,
        wanted: Wanted,
        state: &mut ClusterState,
        candidates: &mut Vec<Candidate>,
    ) -> ScannedMatches {
        state.find_matching(self);
        let (root, placed) = (self.root, self.placed());
        let kept = state.kept();
        let ClusterState { ranked, sorted, matching, filter, columns, .. } = state;
        let all = Compiled::All;
        let filter = filter.as_ref().unwrap_or(&all);
        let mut best = BestCandidates::new(wanted.keep, wanted.below, candidates);
        let mut estimates = [0.0f32; BLOCK];
        let mut counts = Scanned::default();
        for (at, &rank) in matching.iter().enumerate() {
            prefetch_matching(columns, |leaves| {
                // Behind the last leaf of this round come those of the next.
                let later = || (kept.end + at + leaves - matching.len()) as u32;
                let rank = matching.get(at + leaves).copied().unwrap_or_else(later);
                ranked[..*sorted].get(rank as usize).map(|&next| leaf_of(root, next))
            });
            let leaf = leaf_of(root, ranked[rank as usize]);
            let (matches_before, rows_before) = (counts.matches, counts.rows);
            let mut bases = None;
            leaf.for_each_match(filter, |at, chunk, block, mask| {
                let mut mask = leaf.without_dead(chunk, mask, placed);
                if mask == 0 {
                    return;
                }
                let (base, gap) = *bases.get_or_insert_with(|| {
                    let base = self.shared.form.base(query.vector(), &leaf.centroid);
                    (base, self.shared.gap_of(base, query, leaf))
                });
                counts.matches += mask.count_ones() as usize;
                counts.rows += BLOCK;
                let (table, threshold) = (query.table(), best.threshold());
                mask &= if wanted.deviations == 0.0 {
                    table.scan_block_below(block, base, threshold, &mut estimates)
                } else {
                    let bases = (base, gap);
                    let deviations = wanted.deviations;
                    table.scan_block_lowered(block, bases, deviations, threshold, &mut estimates)
                };
                if mask != 0 {
                    chunk.rows.prefetch_head();
                }
                while mask != 0 {
                    let lane = mask.trailing_zeros() as usize;
                    mask &= mask - 1;
                    let (estimate, row) = (estimates[lane], position(at, lane));
                    best.push(Candidate { estimate, leaf: rank, row });
                }
                best.lower();
            });
            if let Some((base, gap)) = bases {
                (ranked[rank as usize].base, ranked[rank as usize].gap) = (base, gap);
            }
            counts.leaves += usize::from(counts.matches > matches_before);
            work_done(counts.rows - rows_before);
        }
        ScannedMatches { counts, is_cut: best.finish() }
    }

    /// Drops candidates that the view does not see.
    pub(super) fn drop_hidden(&self, state: &ClusterState, candidates: &mut Vec<Candidate>) {
        let placed = self.placed();
        candidates.retain(|candidate| {
            let (chunk, lane) = self.row_of(&state.ranked, candidate);
            chunk.rows.is_visible(lane, placed)
        });
    }

    /// Offers the exact distances of the best `most` candidates, and says how many it took. Calls
    /// `seen` with position and row of each candidate that was among the nearest when it was
    /// measured.
    ///
    /// Without a second look, hidden candidates do not count among the `most`.
    pub(super) fn refine(
        &self,
        found: Found<'_>,
        most: usize,
        state: &mut ClusterState,
        out: &mut TopK,
        seen: &mut dyn FnMut(usize, Neighbor),
    ) -> Measured {
        let pays = self.shared.second_look && most > out.k() + MEASURED_TOGETHER;
        if found.refine == Refine::Likely && pays {
            self.look_again(found, most, state);
            self.measure_likely(found, state, out, seen)
        } else {
            self.measure_first(found, most, state, out, seen)
        }
    }

    /// Measures the first `most` candidates that are visible.
    fn measure_first(
        &self,
        found: Found<'_>,
        most: usize,
        state: &mut ClusterState,
        out: &mut TopK,
        seen: &mut dyn FnMut(usize, Neighbor),
    ) -> Measured {
        let ClusterState { ranked, origins, .. } = state;
        let mut measured = Measured::default();
        let prefetch = |position: usize| {
            if let Some(next) = found.candidates.get(position) {
                let (chunk, lane) = self.row_of(ranked, next);
                chunk.rows.prefetch(lane);
            }
        };
        (0..PREFETCH_AHEAD).for_each(prefetch);
        for position in 0..found.candidates.len() {
            if measured.exact == most {
                break;
            }
            prefetch(position + PREFETCH_AHEAD);
            self.measure(found, position, (ranked, origins), (&mut measured, out), seen);
            if position % MEASURED_IN_TURN == MEASURED_IN_TURN - 1 {
                work_done(MEASURED_IN_TURN * MEASURE_UNITS);
            }
        }
        measured
    }

    /// Fills `state.looked`: how near each of the first `most` candidates may be, by its fine code.
    fn look_again(&self, found: Found<'_>, most: usize, state: &mut ClusterState) {
        let ClusterState { fine, ranked, looked, .. } = state;
        let rotated = found.rotated.vector();
        fine.build(rotated);
        let padded = rotated.len();
        let candidates = &found.candidates[..most.min(found.candidates.len())];
        let prefetch = |position: usize| {
            if let Some(next) = candidates.get(position) {
                let (chunk, lane) = self.row_of(ranked, next);
                chunk.prefetch_fine(padded, lane);
            }
        };
        (0..PREFETCH_FINE_AHEAD).for_each(prefetch);
        looked.clear();
        looked.extend(candidates.iter().zip(0..).map(|(candidate, position)| {
            prefetch(position as usize + PREFETCH_FINE_AHEAD);
            let (chunk, lane) = self.row_of(ranked, candidate);
            let (code, factors) = chunk.fine(padded, lane);
            let Ranked { base, gap, .. } = ranked[candidate.leaf as usize];
            (fine.estimate(code, factors, base) - FINE_ERRORS * factors.error(gap), position)
        }));
    }

    /// Measures the candidates of the second look, nearest first, until the next cannot be nearer
    /// than the k-th.
    fn measure_likely(
        &self,
        found: Found<'_>,
        state: &mut ClusterState,
        out: &mut TopK,
        seen: &mut dyn FnMut(usize, Neighbor),
    ) -> Measured {
        let ClusterState { ranked, looked, origins, .. } = state;
        let mut measured = Measured::default();
        let mut rest = looked.as_mut_slice();
        while !rest.is_empty() {
            let together = (out.k() + MEASURED_TOGETHER).min(rest.len());
            if together < rest.len() {
                rest.select_nth_unstable_by(together - 1, |a, b| a.0.total_cmp(&b.0));
            }
            let (next, later) = rest.split_at_mut(together);
            next.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
            let prefetch = |at: usize| {
                if let Some(&(_, position)) = next.get(at) {
                    let candidate = &found.candidates[position as usize];
                    let (chunk, lane) = self.row_of(ranked, candidate);
                    chunk.rows.prefetch(lane);
                }
            };
            (0..PREFETCH_AHEAD).for_each(prefetch);
            for (at, &(least, position)) in next.iter().enumerate() {
                if least > as_estimate(self.shared.index, out.bound()) {
                    return measured;
                }
                prefetch(at + PREFETCH_AHEAD);
                let places = (&**ranked, &mut *origins);
                self.measure(found, position as usize, places, (&mut measured, out), seen);
            }
            rest = later;
        }
        measured
    }

    /// Measures one candidate if it is visible.
    #[inline]
    fn measure(
        &self,
        found: Found<'_>,
        position: usize,
        (ranked, origins): (&[Ranked], &mut Vec<Origin>),
        (measured, out): (&mut Measured, &mut TopK),
        seen: &mut dyn FnMut(usize, Neighbor),
    ) {
        let (chunk, lane) = self.row_of(ranked, &found.candidates[position]);
        let rows = &*chunk.rows;
        if !rows.is_visible(lane, self.placed()) {
            measured.hidden += 1;
            return;
        }
        measured.exact += 1;
        let distance = distance(self.shared.index.metric, found.vector, rows.vector(lane));
        if distance <= out.bound() {
            let key = rows.key(lane);
            let row = Neighbor { distance, id: key.id, version: key.version };
            let Candidate { leaf, row: at, .. } = found.candidates[position];
            let Ranked { node, child, .. } = ranked[leaf as usize];
            origins.push(Origin { id: key.id, node, child, row: at });
            seen(position, row);
            out.offer(row);
        }
    }

    /// Chunk and lane of an origin; `None` if it is that of another root.
    pub(super) fn find_origin(&self, origin: &Origin) -> Option<(&RowChunk, usize)> {
        let leaf =
            self.root.tree.nodes.get(origin.node as usize)?.leaves.get(origin.child as usize)?;
        let (chunk, lane) = split_position(origin.row);
        let rows = &leaf.chunk_if(chunk)?.rows;
        let is_there = lane < rows.len() && rows.id(lane) == origin.id;
        is_there.then_some((&**rows, lane))
    }

    /// Chunk and lane of a candidate.
    #[inline]
    fn row_of(&self, ranked: &[Ranked], candidate: &Candidate) -> (&LeafChunk, usize) {
        let (chunk, lane) = split_position(candidate.row);
        (leaf_of(self.root, ranked[candidate.leaf as usize]).chunk(chunk), lane)
    }
}

impl super::Shared {
    /// Euclidean distance of the query to a centroid; 0 without a second look, which alone needs it.
    fn gap(&self, base: f32, query: &RotatedQuery, leaf: &Leaf) -> f32 {
        if self.second_look {
            self.gap_of(base, query, leaf)
        } else {
            0.0
        }
    }

    /// Euclidean distance of the query to a centroid.
    fn gap_of(&self, base: f32, query: &RotatedQuery, leaf: &Leaf) -> f32 {
        let squared = match self.form {
            Form::L2 => base,
            Form::InnerProduct => {
                query.norm_squared() + kernels::norm_squared(&leaf.centroid) + 2.0 * base
            }
        };
        squared.max(0.0).sqrt()
    }
}

/// Prefetches what the scan of the next leaves needs. The parts of a leaf lie anywhere in memory: its
/// head comes first, because it leads to the others.
#[inline]
fn prefetch_leaves(root: &Root, ranked: &[Ranked], rank: usize) {
    let ahead = |leaves: usize| ranked.get(rank + leaves).map(|&next| leaf_of(root, next));
    if let Some(leaf) = ahead(HEAD_AHEAD) {
        leaf.prefetch_head();
    }
    if let Some(leaf) = ahead(CENTROID_AHEAD) {
        kernels::prefetch(&leaf.centroid);
    }
    if let Some(leaf) = ahead(1) {
        leaf.prefetch_codes();
    }
}

/// Prefetches what the scan of the matches of later leaves needs.
///
/// * `ahead`: the leaf that comes so many leaves later.
#[inline]
fn prefetch_matching<'a>(columns: &[u16], ahead: impl Fn(usize) -> Option<&'a Arc<Leaf>>) {
    for step in 0..COLUMN_STEPS {
        if let Some(next) = ahead(COLUMN_STEPS - step) {
            next.prefetch_columns(step, columns, None);
        }
    }
    if let Some(next) = ahead(CENTROID_AHEAD) {
        kernels::prefetch(&next.centroid);
    }
    if let Some(next) = ahead(1) {
        next.prefetch_codes();
    }
}

fn leaf_of(root: &Root, ranked: Ranked) -> &Arc<Leaf> {
    &root.tree.nodes[ranked.node as usize].leaves[ranked.child as usize]
}

/// Moves the `first` least estimates, in no order, before the others, in order: the others are
/// measured one by one if some of the first turn out to be hidden.
pub(super) fn best_first(candidates: &mut [Candidate], first: usize) {
    if first < candidates.len() {
        candidates.select_nth_unstable_by(first, |a, b| a.estimate.total_cmp(&b.estimate));
        sort_candidates(&mut candidates[first..]);
    }
}
