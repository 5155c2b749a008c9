//! Scans the codes of ranked leaves, and takes exact distances of the best rows.
//!
//! 1. Scan the codes; keep the least estimates of rows that are not dead.
//! 2. With a second look: estimate those rows again by four bits per dimension.
//! 3. Take exact distances: of all, or with a second look of those that may still be nearer than the
//!    k-th.
//!
//! Dead rows are left out before the best are kept, so they take no place of living rows. Each chunk
//! knows which lanes ever died, and only those lanes are looked up.

use std::sync::Arc;

use vstream_quantize::rabitq::extended::ExtendedQuery;
use vstream_quantize::rabitq::BLOCK;
use vstream_quantize::scalar8::ScanScratch;
use vstream_quantize::Form;
use vstream_vector::{kernels, Metric, Neighbor, TopK};

use super::leaf::{position, split_position, Leaf, LeafChunk};
use super::rank::Ranked;
use super::tree::Root;
use super::view::View;
use crate::probe::SearchStats;
use crate::rows::distance;
use crate::stages::{sort_candidates, BestCandidates, Candidate, Found, Refine, RotatedQuery};

/// Leaves whose heads are prefetched ahead of the scanned one, and whose centroids are.
const HEAD_AHEAD: usize = 6;
const CENTROID_AHEAD: usize = 3;

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
    /// True once the ranked leaves were scanned.
    pub(super) is_scanned: bool,
    /// After a second look: the least distance that each candidate may have, and its position.
    looked: Vec<(f32, u32)>,
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

/// Counts of a refinement.
#[derive(Clone, Copy, Default)]
pub(super) struct Measured {
    /// Exact distances taken.
    pub(super) exact: usize,
    /// Candidates met that the view does not see.
    pub(super) hidden: usize,
}

impl View<'_> {
    /// Fills `candidates` with the `keep` least estimates of the ranked leaves; false if there were
    /// no others. Adds the visited leaves and scanned codes to `stats`.
    ///
    /// Rows that came after the view's moment may be among them, rows that died before it are not.
    pub(super) fn scan(
        &self,
        query: &RotatedQuery,
        keep: usize,
        state: &mut ClusterState,
        candidates: &mut Vec<Candidate>,
        stats: &mut SearchStats,
    ) -> bool {
        let (root, placed) = (self.root, self.placed());
        let ranked = &mut state.ranked;
        candidates.clear();
        let mut best = BestCandidates::new(keep, f32::INFINITY, candidates);
        let mut estimates = [0.0f32; BLOCK];
        for rank in 0..ranked.len() {
            stats.leaves += 1;
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
        }
        best.finish()
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
        state: &ClusterState,
        out: &mut TopK,
        seen: &mut dyn FnMut(usize, Neighbor),
    ) -> Measured {
        let mut measured = Measured::default();
        let prefetch = |position: usize| {
            if let Some(next) = found.candidates.get(position) {
                let (chunk, lane) = self.row_of(&state.ranked, next);
                chunk.rows.prefetch(lane);
            }
        };
        (0..PREFETCH_AHEAD).for_each(prefetch);
        for position in 0..found.candidates.len() {
            if measured.exact == most {
                break;
            }
            prefetch(position + PREFETCH_AHEAD);
            self.measure(found, position, &state.ranked, (&mut measured, out), seen);
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
        let ClusterState { ranked, looked, .. } = state;
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
                if least > self.shared.as_estimate(out.bound()) {
                    return measured;
                }
                prefetch(at + PREFETCH_AHEAD);
                self.measure(found, position as usize, ranked, (&mut measured, out), seen);
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
        ranked: &[Ranked],
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
            seen(position, row);
            out.offer(row);
        }
    }

    /// Chunk and lane of a candidate.
    #[inline]
    fn row_of(&self, ranked: &[Ranked], candidate: &Candidate) -> (&LeafChunk, usize) {
        let (chunk, lane) = split_position(candidate.row);
        (leaf_of(self.root, ranked[candidate.leaf as usize]).chunk(chunk), lane)
    }
}

impl super::Shared {
    /// A distance of the metric as an estimate would state it, rounded up by the error that the
    /// length of a stored row may have.
    fn as_estimate(&self, distance: f32) -> f32 {
        match self.index.metric {
            // For two directions: |a - b|^2 = 2 (1 - cos).
            Metric::Cosine => 2.0 * distance + 3.0 * self.index.element.roundoff(),
            Metric::L2 | Metric::InnerProduct => distance,
        }
    }

    /// Euclidean distance of the query to a centroid; 0 without a second look, which alone needs it.
    fn gap(&self, base: f32, query: &RotatedQuery, leaf: &Leaf) -> f32 {
        if !self.second_look {
            return 0.0;
        }
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
