//! The codes of ranked leaves, and the rows that they point at.
//!
//! 1. Scan the codes; keep the best estimates of visible rows, by a threshold that is lowered
//!    whenever four times as many have passed it.
//! 2. With a second look: estimate those again by four bits per dimension.
//! 3. Take exact distances, the best first: of all, or with a second look of those that may still be
//!    nearer than the k-th.
//!
//! A row that died is left out before the best are kept, so that dead rows take no place of living
//! ones. A leaf's chunk knows which lanes ever died: only those are looked up.

use std::sync::Arc;

use vstream_quantize::rabitq::extended::ExtendedQuery;
use vstream_quantize::rabitq::{QueryTable, BLOCK};
use vstream_quantize::scalar8::ScanScratch;
use vstream_quantize::Form;
use vstream_vector::{kernels, Metric, Neighbor, TopK};

use super::leaf::{Leaf, LeafChunk};
use super::rank::Ranked;
use super::tree::Root;
use super::view::View;
use crate::rows::distance;
use crate::traits::{Refined, SearchStats};

/// Leaves whose heads are asked for ahead of the one that is scanned, and whose centroids.
const HEAD_AHEAD: usize = 6;
const CENTROID_AHEAD: usize = 3;

/// Candidates that are asked for ahead of the one whose distance is taken.
const PREFETCH_AHEAD: usize = 8;

/// Fine codes that are asked for ahead: a line or two each.
const PREFETCH_FINE_AHEAD: usize = 16;

/// Standard errors that an estimate of the second look may be too large by: one in a thousand is by
/// more.
const FINE_ERRORS: f32 = 3.0;

/// Rows beyond the `k` wanted that are measured together after a second look.
const MEASURED_TOGETHER: usize = 8;

/// Buffers of the cluster index.
#[derive(Default)]
pub(crate) struct ClusterScratch {
    pub(super) rotated: Vec<f32>,
    pub(super) table: QueryTable,
    fine: ExtendedQuery,
    pub(super) scan: ScanScratch,
    pub(super) estimates: Vec<f32>,
    pub(super) nodes: Vec<(f32, u32)>,
    pub(super) ranked: Vec<Ranked>,
    pub(super) candidates: Vec<Candidate>,
    /// Candidates by what the second look says they may be as near as, and their positions.
    looked: Vec<(f32, u32)>,
    /// Candidates that were among the nearest when they were measured, and their positions.
    pub(super) measured: Vec<(Neighbor, u32)>,
}

/// A row whose code was looked at.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    pub(super) estimate: f32,
    /// Position in `ranked`.
    pub(super) leaf: u32,
    pub(super) chunk: u16,
    pub(super) lane: u16,
}

/// What became of the candidates.
#[derive(Clone, Copy, Default)]
pub(super) struct Measured {
    /// Exact distances taken.
    pub(super) exact: usize,
    /// Candidates met that the moment does not see.
    pub(super) hidden: usize,
}

impl View<'_> {
    /// Fills `scratch.candidates` with the `keep` best estimates of the ranked leaves; false if
    /// there were no others.
    ///
    /// Rows that came after the moment may be among them, rows that died before it are not.
    pub(super) fn scan(
        &self,
        keep: usize,
        scratch: &mut ClusterScratch,
        stats: &mut SearchStats,
    ) -> bool {
        let (root, placed) = (self.root, self.placed());
        let ClusterScratch { rotated, table, ranked, candidates, .. } = scratch;
        candidates.clear();
        let mut threshold = f32::INFINITY;
        let mut is_cut = false;
        let mut estimates = [0.0f32; BLOCK];
        let length = self.shared.squared_length(rotated);
        for position in 0..ranked.len() {
            stats.leaves += 1;
            // A leaf's parts are anywhere: its head is asked for first, for it leads to the others.
            let ahead = |leaves: usize| ranked.get(position + leaves).map(|&at| leaf_of(root, at));
            if let Some(leaf) = ahead(HEAD_AHEAD) {
                leaf.prefetch_head();
            }
            if let Some(leaf) = ahead(CENTROID_AHEAD) {
                kernels::prefetch(&leaf.centroid);
            }
            if let Some(leaf) = ahead(1) {
                leaf.prefetch_codes();
            }
            let leaf = leaf_of(root, ranked[position]);
            let base = self.shared.form.base(rotated, &leaf.centroid);
            ranked[position].base = base;
            ranked[position].gap = self.shared.gap(base, length, leaf);
            leaf.for_each_block(|at, chunk, block, rows| {
                let mut mask = table.scan_block_below(block, base, threshold, &mut estimates);
                if mask != 0 {
                    chunk.rows.prefetch_head();
                    mask = leaf.without_dead(chunk, mask, placed);
                }
                while mask != 0 {
                    let lane = mask.trailing_zeros();
                    mask &= mask - 1;
                    candidates.push(Candidate {
                        estimate: estimates[lane as usize],
                        leaf: position as u32,
                        chunk: at as u16,
                        lane: lane as u16,
                    });
                }
                stats.rows += rows;
                if candidates.len() >= keep.saturating_mul(4) {
                    threshold = keep_nearest(candidates, keep);
                    is_cut = true;
                }
            });
        }
        if candidates.len() > keep {
            keep_nearest(candidates, keep);
            is_cut = true;
        }
        is_cut
    }

    /// Drops candidates that the moment does not see.
    pub(super) fn drop_hidden(&self, scratch: &mut ClusterScratch) {
        let ClusterScratch { ranked, candidates, .. } = scratch;
        let placed = self.placed();
        candidates.retain(|candidate| {
            let leaf = leaf_of(self.root, ranked[candidate.leaf as usize]);
            leaf.chunk(candidate.chunk as usize).rows.is_visible(candidate.lane as usize, placed)
        });
    }

    /// Offers the exact distances of candidates. `seen` is told position and row of each that
    /// was among the nearest when it was measured.
    ///
    /// The first candidates are taken in their order, those after a second look by what it says.
    pub(super) fn measure(
        &self,
        query: &[f32],
        which: Refined,
        scratch: &mut ClusterScratch,
        out: &mut TopK,
        seen: &mut dyn FnMut(usize, Neighbor),
    ) -> Measured {
        match which {
            Refined::Best(most)
                if self.shared.second_look && most > out.k() + MEASURED_TOGETHER =>
            {
                self.look_again(most, scratch);
                self.measure_likely(query, scratch, out, seen)
            }
            Refined::Best(most) | Refined::Each(most) => {
                self.measure_first(query, most, scratch, out, seen)
            }
        }
    }

    /// Measures the first `most` that are visible.
    fn measure_first(
        &self,
        query: &[f32],
        most: usize,
        scratch: &ClusterScratch,
        out: &mut TopK,
        seen: &mut dyn FnMut(usize, Neighbor),
    ) -> Measured {
        let ClusterScratch { ranked, candidates, .. } = scratch;
        let mut measured = Measured::default();
        let ahead = |at: usize| {
            if let Some(next) = candidates.get(at) {
                self.chunk_of(ranked, next).rows.prefetch(next.lane as usize);
            }
        };
        (0..PREFETCH_AHEAD).for_each(ahead);
        for (at, candidate) in candidates.iter().enumerate() {
            if measured.exact == most {
                break;
            }
            ahead(at + PREFETCH_AHEAD);
            self.offer(query, (at, candidate), ranked, (&mut measured, out), seen);
        }
        measured
    }

    /// Fills `scratch.looked`: how near each of the first `most` candidates may be, by its fine code.
    fn look_again(&self, most: usize, scratch: &mut ClusterScratch) {
        let ClusterScratch { rotated, fine, ranked, candidates, looked, .. } = scratch;
        fine.build(rotated);
        let padded = rotated.len();
        let candidates = &candidates[..most.min(candidates.len())];
        let ahead = |at: usize| {
            if let Some(next) = candidates.get(at) {
                self.chunk_of(ranked, next).prefetch_fine(padded, next.lane as usize);
            }
        };
        (0..PREFETCH_FINE_AHEAD).for_each(ahead);
        looked.clear();
        looked.extend(candidates.iter().zip(0..).map(|(candidate, at)| {
            ahead(at as usize + PREFETCH_FINE_AHEAD);
            let chunk = self.chunk_of(ranked, candidate);
            let (code, factors) = chunk.fine(padded, candidate.lane as usize);
            let Ranked { base, gap, .. } = ranked[candidate.leaf as usize];
            (fine.estimate(code, factors, base) - FINE_ERRORS * factors.error(gap), at)
        }));
    }

    /// Measures what the second look leaves: until the next row cannot be nearer than the k-th.
    fn measure_likely(
        &self,
        query: &[f32],
        scratch: &mut ClusterScratch,
        out: &mut TopK,
        seen: &mut dyn FnMut(usize, Neighbor),
    ) -> Measured {
        let ClusterScratch { ranked, candidates, looked, .. } = scratch;
        let mut measured = Measured::default();
        let mut rest = looked.as_mut_slice();
        while !rest.is_empty() {
            let now = (out.k() + MEASURED_TOGETHER).min(rest.len());
            if now < rest.len() {
                rest.select_nth_unstable_by(now - 1, |a, b| a.0.total_cmp(&b.0));
            }
            let (next, later) = rest.split_at_mut(now);
            next.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
            let ahead = |at: usize| {
                if let Some(&(_, next)) = next.get(at) {
                    let candidate = &candidates[next as usize];
                    self.chunk_of(ranked, candidate).rows.prefetch(candidate.lane as usize);
                }
            };
            (0..PREFETCH_AHEAD).for_each(ahead);
            for (at, &(least, position)) in next.iter().enumerate() {
                if least > self.shared.as_estimate(out.bound()) {
                    return measured;
                }
                ahead(at + PREFETCH_AHEAD);
                let candidate = (position as usize, &candidates[position as usize]);
                self.offer(query, candidate, ranked, (&mut measured, out), seen);
            }
            rest = later;
        }
        measured
    }

    /// Measures one candidate if it is visible.
    #[inline]
    fn offer(
        &self,
        query: &[f32],
        (at, candidate): (usize, &Candidate),
        ranked: &[Ranked],
        (measured, out): (&mut Measured, &mut TopK),
        seen: &mut dyn FnMut(usize, Neighbor),
    ) {
        let rows = &*self.chunk_of(ranked, candidate).rows;
        let lane = candidate.lane as usize;
        if !rows.is_visible(lane, self.placed()) {
            measured.hidden += 1;
            return;
        }
        measured.exact += 1;
        let distance = distance(self.shared.index.metric, query, rows.vector(lane));
        if distance <= out.bound() {
            let key = rows.key(lane);
            let row = Neighbor { distance, id: key.id, version: key.version };
            seen(at, row);
            out.offer(row);
        }
    }

    #[inline]
    fn chunk_of(&self, ranked: &[Ranked], candidate: &Candidate) -> &LeafChunk {
        leaf_of(self.root, ranked[candidate.leaf as usize]).chunk(candidate.chunk as usize)
    }
}

impl super::Shared {
    /// What [`Shared::gap`] needs of the query.
    fn squared_length(&self, rotated: &[f32]) -> f32 {
        match self.form {
            Form::InnerProduct if self.second_look => kernels::norm_squared(rotated),
            _ => 0.0,
        }
    }

    /// What a distance of the metric is as an estimate, for a row of a length as it may be.
    fn as_estimate(&self, distance: f32) -> f32 {
        match self.index.metric {
            // Of two directions: |a - b|^2 = 2 (1 - cos).
            Metric::Cosine => 2.0 * distance + 3.0 * self.index.element.roundoff(),
            Metric::L2 | Metric::InnerProduct => distance,
        }
    }

    /// Euclidean distance of the query to a centroid, if there is a second look.
    fn gap(&self, base: f32, squared_length: f32, leaf: &Leaf) -> f32 {
        if !self.second_look {
            return 0.0;
        }
        let squared = match self.form {
            Form::L2 => base,
            Form::InnerProduct => {
                squared_length + kernels::norm_squared(&leaf.centroid) + 2.0 * base
            }
        };
        squared.max(0.0).sqrt()
    }
}

pub(super) fn leaf_of(root: &Root, ranked: Ranked) -> &Arc<Leaf> {
    &root.tree.nodes[ranked.node as usize].leaves[ranked.child as usize]
}

pub(super) fn sort(candidates: &mut [Candidate]) {
    candidates.sort_unstable_by(|a, b| a.estimate.total_cmp(&b.estimate));
}

/// Brings the `first` least estimates, in no order, before the others, in order: those are looked at
/// one by one if some of the first turn out to be hidden.
pub(super) fn best_first(candidates: &mut [Candidate], first: usize) {
    if first < candidates.len() {
        candidates.select_nth_unstable_by(first, |a, b| a.estimate.total_cmp(&b.estimate));
        sort(&mut candidates[first..]);
    }
}

/// Keeps the `keep` least estimates, in no order; returns the largest of them.
fn keep_nearest(candidates: &mut Vec<Candidate>, keep: usize) -> f32 {
    let (_, last, _) =
        candidates.select_nth_unstable_by(keep - 1, |a, b| a.estimate.total_cmp(&b.estimate));
    let threshold = last.estimate;
    candidates.truncate(keep);
    threshold
}
