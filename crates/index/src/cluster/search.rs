//! One query through the tree.
//!
//! 1. Scan the tail exactly.
//! 2. Rotate the query, rank the leaves by the distance of their centroids.
//! 3. Scan the codes of the nearest leaves; keep the best estimates, an eighth more than `refine`, by
//!    a threshold that is lowered whenever four times as many have passed it.
//! 4. With a second look: estimate those again by four bits per dimension, and keep a tenth.
//! 5. Take the exact distance of the `refine` best of those that are visible, as one batch.
//!
//! Parameters and what did not pay (pruning by geometry, exact distances inside the scan):
//! SPANN, RaBitQ and our own measurements, see docs/design/index.md.

use std::sync::Arc;

use vstream_quantize::rabitq::extended::ExtendedQuery;
use vstream_quantize::rabitq::{QueryTable, BLOCK};
use vstream_quantize::scalar8::ScanScratch;
use vstream_quantize::Form;
use vstream_vector::{kernels, Neighbor, TopK};

use super::leaf::Leaf;
use super::stages::Pinned;
use super::tree::{Root, Tree};
use super::{ClusterReader, Shared};
use crate::flat::{scan_exactly, scan_within};
use crate::radius::RadiusBound;
use crate::rows::{distance, Sequence, Visible};
use crate::scratch::Scratch;
use crate::search::{
    CodeRanks, Effort, PinnedRows, Probe, Reach, Search, SearchStats, Staged, CODE_RANK_MAX,
};

/// Leaves scanned for ranking at least, however few are probed.
const RANKED_LEAVES_MIN: usize = 1024;
/// Share of a leaf's spread that ranking by inner product credits to the leaf: rows lie around
/// their centroid, and the one with the largest product is not at the centre.
const INNER_PRODUCT_SPREAD: f32 = 0.25;

/// Leaves whose heads are asked for ahead of the one that is scanned, and whose centroids.
const HEAD_AHEAD: usize = 6;
const CENTROID_AHEAD: usize = 3;

/// Candidates that are asked for ahead of the one whose distance is taken.
const PREFETCH_AHEAD: usize = 8;

/// Fine codes that are asked for ahead: a line or two each.
const PREFETCH_FINE_AHEAD: usize = 16;

/// Rows measured exactly after a second look, beyond twice those wanted: among the best 20 by four
/// bits are 998 of 1,000 of the 10 nearest (docs/design/index.md), and some rows are dead.
const AFTER_SECOND_LOOK: usize = 8;

/// Buffers of the cluster index.
#[derive(Default)]
pub(crate) struct ClusterScratch {
    rotated: Vec<f32>,
    table: QueryTable,
    fine: ExtendedQuery,
    scan: ScanScratch,
    estimates: Vec<f32>,
    nodes: Vec<(f32, u32)>,
    pub(super) ranked: Vec<Ranked>,
    pub(super) candidates: Vec<Candidate>,
}

#[derive(Clone, Copy)]
pub(super) struct Ranked {
    /// What leaves are ordered by, from their centroids as bytes.
    pub(super) cost: f32,
    /// Distance of the query to the centroid, the constant of the leaf's estimates; known once the
    /// leaf is scanned.
    base: f32,
    node: u32,
    child: u32,
}

#[derive(Clone, Copy)]
pub(super) struct Candidate {
    pub(super) estimate: f32,
    /// Position in `ranked`.
    pub(super) leaf: u32,
    pub(super) chunk: u16,
    pub(super) lane: u16,
}

/// Which candidates are refined: the first `most` of those that are visible.
#[derive(Clone, Copy)]
struct Refined {
    visible: Visible,
    most: usize,
}

impl Search for ClusterReader {
    fn search(&self, probe: &Probe<'_>, scratch: &mut Scratch, out: &mut TopK) -> SearchStats {
        let shared = &*self.0;
        let (root, pin) = shared.published.pin();
        let tail = Visible { inserted: pin, deleted: pin };
        let placed = Visible { inserted: root.placed, deleted: pin };
        let mut stats = SearchStats::default();
        stats.rows += scan_exactly(&root.tail, shared.index, probe.vector, tail, out);
        stats.exact = stats.rows;
        match probe.effort {
            Effort::Exact => shared.exact(&root, probe.vector, placed, &mut stats, out),
            Effort::Approximate { probes, refine } => {
                let scratch = &mut scratch.cluster;
                shared.prepare(probe.vector, scratch);
                shared.rank(&root.tree, probes, scratch);
                let refine = refine.max(probe.k);
                // An eighth of the best estimates may be those of dead rows. A second look tells them
                // apart too late to make up for them: it would look at more rows than were asked for.
                let spare = if shared.second_look { 0 } else { refine / 8 };
                shared.scan(&root, refine.saturating_add(spare), scratch, &mut stats);
                if shared.second_look {
                    shared.look_again(&root, 2 * probe.k + AFTER_SECOND_LOOK, scratch);
                }
                best_first(&mut scratch.candidates, refine);
                stats.exact += shared.refine(
                    &root,
                    probe.vector,
                    Refined { visible: placed, most: refine },
                    scratch,
                    out,
                );
            }
        }
        stats
    }

    fn within(&self, vector: &[f32], radius: f32, out: &mut Vec<Neighbor>) -> SearchStats {
        let (root, pin) = self.0.published.pin();
        self.0.within(&root, pin, (vector, radius), out)
    }

    fn audit(
        &self,
        probe: &Probe<'_>,
        scratch: &mut Scratch,
        out: &mut TopK,
        reach: &mut Vec<Reach>,
    ) {
        let shared = &*self.0;
        let (root, pin) = shared.published.pin();
        let tail = Visible { inserted: pin, deleted: pin };
        let placed = Visible { inserted: root.placed, deleted: pin };
        let scratch = &mut scratch.cluster;
        shared.prepare(probe.vector, scratch);
        shared.rank(&root.tree, usize::MAX, scratch);
        shared.scan(&root, CODE_RANK_MAX, scratch, &mut SearchStats::default());
        sort(&mut scratch.candidates);
        scan_exactly(&root.tail, shared.index, probe.vector, tail, out);
        shared.refine(
            &root,
            probe.vector,
            Refined { visible: placed, most: usize::MAX },
            scratch,
            out,
        );
        reach.clear();
        let unplaced = |row: &Neighbor| Reach { id: row.id, leaf: None, code: None };
        reach.extend(out.rows().iter().map(unplaced));
        let probes = match probe.effort {
            Effort::Approximate { probes, .. } => u32::try_from(probes).unwrap_or(u32::MAX),
            Effort::Exact => u32::MAX,
        };
        // Leaves of the visible candidates so far: what a search refines before the next one.
        let mut before: Vec<u32> = Vec::with_capacity(scratch.candidates.len());
        for candidate in &scratch.candidates {
            let leaf = leaf_of(&root, scratch.ranked[candidate.leaf as usize]);
            let rows = &leaf.chunk(candidate.chunk as usize).rows;
            let lane = candidate.lane as usize;
            if !rows.is_visible(lane, placed) {
                continue;
            }
            let id = rows.key(lane).id;
            if let Some(hit) = reach.iter_mut().find(|hit| hit.id == id) {
                let up_to = |last| before.iter().filter(|&&leaf| leaf <= last).count() as u32;
                hit.leaf = Some(candidate.leaf);
                hit.code = Some(CodeRanks {
                    own: up_to(candidate.leaf),
                    visited: up_to(candidate.leaf.max(probes.saturating_sub(1))),
                    all: before.len() as u32,
                });
            }
            before.push(candidate.leaf);
        }
    }

    fn pin(&self) -> Box<dyn PinnedRows> {
        Box::new(Pinned::new(&self.0, None))
    }

    fn stage(&self, at: Option<u64>) -> Box<dyn Staged> {
        Box::new(Pinned::new(&self.0, at))
    }

    fn leaves(&self) -> usize {
        self.0.published.root().tree.leaves
    }

    fn writes(&self) -> u64 {
        self.0.published.sequence()
    }
}

impl Shared {
    /// Offers every visible row of the leaves.
    pub(super) fn exact(
        &self,
        root: &Root,
        query: &[f32],
        placed: Visible,
        stats: &mut SearchStats,
        out: &mut TopK,
    ) {
        for leaf in root.tree.leaves() {
            stats.leaves += 1;
            for chunk in leaf.chunks() {
                let rows = scan_exactly(&chunk.rows, self.index, query, placed, out);
                stats.rows += rows;
                stats.exact += rows;
            }
        }
    }

    /// Adds every row that is visible at `pin` and within the radius of a query, `near`.
    pub(super) fn within(
        &self,
        root: &Root,
        pin: Sequence,
        near: (&[f32], f32),
        out: &mut Vec<Neighbor>,
    ) -> SearchStats {
        let (vector, radius) = near;
        let tail = Visible { inserted: pin, deleted: pin };
        let placed = Visible { inserted: root.placed, deleted: pin };
        let mut rotated = vec![0.0; self.rotation.padded()];
        self.rotation.apply(vector, &mut rotated);
        let mut stats = SearchStats::default();
        stats.rows += scan_within(&root.tail, self.index, vector, tail, radius, out);
        let length = kernels::norm_squared(&rotated).sqrt();
        let bound = RadiusBound::new(self.index, length, radius);
        let may_hold = |leaf: &&Arc<Leaf>| {
            let gap = kernels::l2_squared(&rotated, &leaf.centroid).sqrt();
            bound.may_hold(gap, leaf.reach())
        };
        for leaf in root.tree.leaves().filter(may_hold) {
            stats.leaves += 1;
            for chunk in leaf.chunks() {
                stats.rows += scan_within(&chunk.rows, self.index, vector, placed, radius, out);
            }
        }
        stats.exact = stats.rows;
        stats
    }

    pub(super) fn prepare(&self, query: &[f32], scratch: &mut ClusterScratch) {
        scratch.rotated.resize(self.rotation.padded(), 0.0);
        self.rotation.apply(query, &mut scratch.rotated);
        scratch.table.build(&scratch.rotated);
    }

    /// What a leaf or node is ordered by, from the distance of its centroid.
    fn cost(&self, distance: f32, query_length: f32, centroid_length: f32) -> f32 {
        match self.form {
            Form::L2 => distance,
            Form::InnerProduct => distance - INNER_PRODUCT_SPREAD * query_length * centroid_length,
        }
    }

    /// Fills `scratch.ranked` with the `probes` nearest leaves, nearest first.
    pub(super) fn rank(&self, tree: &Tree, probes: usize, scratch: &mut ClusterScratch) {
        let ClusterScratch { rotated, scan, estimates, nodes, ranked, .. } = scratch;
        let length = kernels::norm_squared(rotated).sqrt();
        nodes.clear();
        for (node, centroid) in tree.centroids.chunks_exact(rotated.len()).enumerate() {
            let distance = self.form.base(rotated, centroid);
            let cost = self.cost(distance, length, kernels::norm_squared(centroid).sqrt());
            nodes.push((cost, node as u32));
        }
        nodes.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        ranked.clear();
        let enough = RANKED_LEAVES_MIN.max(probes.saturating_mul(8));
        for &(_, node) in nodes.iter() {
            if ranked.len() >= enough {
                break;
            }
            let of = &tree.nodes[node as usize];
            of.coded.scan(self.form, rotated, scan, estimates);
            for (child, (&estimate, &size)) in estimates.iter().zip(&of.lengths).enumerate() {
                let cost = self.cost(estimate, length, size);
                ranked.push(Ranked { cost, base: 0.0, node, child: child as u32 });
            }
        }
        let probes = probes.clamp(1, ranked.len().max(1));
        if probes < ranked.len() {
            ranked.select_nth_unstable_by(probes - 1, |a, b| a.cost.total_cmp(&b.cost));
            ranked.truncate(probes);
        }
        ranked.sort_unstable_by(|a, b| a.cost.total_cmp(&b.cost));
    }

    /// Fills `scratch.candidates` with the `keep` best estimates of the ranked leaves.
    pub(super) fn scan(
        &self,
        root: &Root,
        keep: usize,
        scratch: &mut ClusterScratch,
        stats: &mut SearchStats,
    ) {
        let ClusterScratch { rotated, table, ranked, candidates, .. } = scratch;
        candidates.clear();
        let mut threshold = f32::INFINITY;
        let mut estimates = [0.0f32; BLOCK];
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
            let base = self.form.base(rotated, &leaf.centroid);
            ranked[position].base = base;
            leaf.for_each_block(|at, chunk, block, rows| {
                let mut mask = table.scan_block_below(block, base, threshold, &mut estimates);
                if mask != 0 {
                    chunk.rows.prefetch_head();
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
                if candidates.len() >= 4 * keep {
                    threshold = keep_nearest(candidates, keep);
                }
            });
        }
        if candidates.len() > keep {
            keep_nearest(candidates, keep);
        }
    }

    /// Estimates the candidates by their fine codes and keeps the `keep` best.
    fn look_again(&self, root: &Root, keep: usize, scratch: &mut ClusterScratch) {
        let ClusterScratch { rotated, fine, ranked, candidates, .. } = scratch;
        if candidates.len() <= keep {
            return;
        }
        fine.build(rotated);
        let padded = rotated.len();
        let chunk_of = |candidate: &Candidate| {
            leaf_of(root, ranked[candidate.leaf as usize]).chunk(candidate.chunk as usize)
        };
        let ahead = |candidates: &[Candidate], at: usize| {
            if let Some(next) = candidates.get(at) {
                chunk_of(next).prefetch_fine(padded, next.lane as usize);
            }
        };
        (0..PREFETCH_FINE_AHEAD).for_each(|at| ahead(candidates, at));
        for at in 0..candidates.len() {
            ahead(candidates, at + PREFETCH_FINE_AHEAD);
            let candidate = &mut candidates[at];
            let (code, factors) = chunk_of(candidate).fine(padded, candidate.lane as usize);
            let base = ranked[candidate.leaf as usize].base;
            candidate.estimate = fine.estimate(code, factors, base);
        }
        keep_nearest(candidates, keep);
    }

    /// Offers the exact distances of the candidates that are to be refined; returns how many it took.
    fn refine(
        &self,
        root: &Root,
        query: &[f32],
        which: Refined,
        scratch: &ClusterScratch,
        out: &mut TopK,
    ) -> usize {
        let rows_of = |candidate: &Candidate| {
            let leaf = leaf_of(root, scratch.ranked[candidate.leaf as usize]);
            &*leaf.chunk(candidate.chunk as usize).rows
        };
        let candidates = &scratch.candidates;
        let ahead = |at: usize| {
            if let Some(next) = candidates.get(at) {
                rows_of(next).prefetch(next.lane as usize);
            }
        };
        (0..PREFETCH_AHEAD).for_each(ahead);
        let mut exact = 0;
        for (at, candidate) in candidates.iter().enumerate() {
            ahead(at + PREFETCH_AHEAD);
            let rows = rows_of(candidate);
            let lane = candidate.lane as usize;
            if !rows.is_visible(lane, which.visible) {
                continue;
            }
            if exact == which.most {
                break;
            }
            exact += 1;
            let distance = distance(self.index.metric, query, rows.vector(lane));
            if distance <= out.bound() {
                let key = rows.key(lane);
                out.offer(Neighbor { distance, id: key.id, version: key.version });
            }
        }
        exact
    }
}

pub(super) fn leaf_of(root: &Root, ranked: Ranked) -> &Arc<Leaf> {
    &root.tree.nodes[ranked.node as usize].leaves[ranked.child as usize]
}

pub(super) fn sort(candidates: &mut [Candidate]) {
    candidates.sort_unstable_by(|a, b| a.estimate.total_cmp(&b.estimate));
}

/// Brings the `first` least estimates, in no order, before the others, in order: those are looked at
/// one by one if some of the first turn out to be dead.
fn best_first(candidates: &mut [Candidate], first: usize) {
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
