//! One query through the tree.
//!
//! 1. Scan the tail exactly.
//! 2. Rotate the query, rank the leaves by the distance of their centroids.
//! 3. Scan the codes of the nearest leaves; keep the `refine` best estimates by a threshold that
//!    is lowered whenever four times as many have passed it.
//! 4. Take the exact distance of those, nearest estimate first, as one batch.
//!
//! Parameters and what did not pay (pruning by geometry, exact distances inside the scan):
//! SPANN, RaBitQ and our own measurements, see docs/design/index.md.

use std::sync::Arc;

use vstream_quantize::rabitq::{BlockView, QueryTable, BLOCK};
use vstream_vector::{kernels, Metric, Neighbor, TopK};

use super::tree::{Leaf, Root, Tree};
use super::Shared;
use crate::flat::scan_exactly;
use crate::rows::{distance, RowKey, VectorRef, Visible};
use crate::scratch::Scratch;
use crate::search::{Effort, Probe, Search, SearchStats};

/// Leaves scanned for ranking at least, however few are probed.
const RANKED_LEAVES_MIN: usize = 1024;
/// Share of a leaf's spread that ranking by inner product credits to the leaf: rows lie around
/// their centroid, and the one with the largest product is not at the centre.
const INNER_PRODUCT_SPREAD: f32 = 0.25;

/// Candidates that are asked for ahead of the one whose distance is taken.
const PREFETCH_AHEAD: usize = 8;

/// Buffers of the cluster index.
#[derive(Default)]
pub(crate) struct ClusterScratch {
    rotated: Vec<f32>,
    table: QueryTable,
    nodes: Vec<(f32, u32)>,
    ranked: Vec<Ranked>,
    candidates: Vec<Candidate>,
}

#[derive(Clone, Copy)]
struct Ranked {
    /// What leaves are ordered by.
    cost: f32,
    /// Distance of the query to the centroid, the constant of the leaf's estimates.
    base: f32,
    node: u32,
    child: u32,
}

#[derive(Clone, Copy)]
struct Candidate {
    estimate: f32,
    /// Position in `ranked`.
    leaf: u32,
    chunk: u16,
    lane: u16,
}

impl Search for Shared {
    fn search(&self, probe: &Probe<'_>, scratch: &mut Scratch, out: &mut TopK) -> SearchStats {
        let (root, pin) = self.published.pin();
        let tail = Visible { inserted: pin, deleted: pin };
        let placed = Visible { inserted: root.placed, deleted: pin };
        let mut stats = SearchStats::default();
        stats.rows += scan_exactly(&root.tail, self.index, probe.vector, tail, out, |_| ());
        stats.exact = stats.rows;
        match probe.effort {
            Effort::Exact => {
                for leaf in root.tree.leaves() {
                    stats.leaves += 1;
                    for chunk in leaf.chunks() {
                        let query = probe.vector;
                        let rows =
                            scan_exactly(&chunk.rows, self.index, query, placed, out, |_| ());
                        stats.rows += rows;
                        stats.exact += rows;
                    }
                }
            }
            Effort::Approximate { probes, refine } => {
                let scratch = &mut scratch.cluster;
                self.prepare(probe.vector, scratch);
                self.rank(&root.tree, probes, scratch);
                self.scan(&root, refine.max(probe.k), scratch, &mut stats);
                stats.exact += self.refine(&root, probe.vector, placed, scratch, out);
            }
        }
        stats
    }

    fn audit(
        &self,
        probe: &Probe<'_>,
        scratch: &mut Scratch,
        out: &mut TopK,
        ranks: &mut Vec<(u64, Option<u32>)>,
    ) {
        let (root, pin) = self.published.pin();
        let tail = Visible { inserted: pin, deleted: pin };
        let placed = Visible { inserted: root.placed, deleted: pin };
        let scratch = &mut scratch.cluster;
        self.prepare(probe.vector, scratch);
        self.rank(&root.tree, root.tree.leaves, scratch);
        ranks.clear();
        let query = probe.vector;
        scan_exactly(&root.tail, self.index, query, tail, out, |id| ranks.push((id, None)));
        for (rank, leaf) in scratch.ranked.iter().enumerate() {
            for chunk in leaf_of(&root, *leaf).chunks() {
                scan_exactly(&chunk.rows, self.index, query, placed, out, |id| {
                    ranks.push((id, Some(rank as u32)));
                });
            }
        }
        // Rows that were pushed out again by nearer ones do not count.
        ranks.retain(|&(id, _)| out.rows().iter().any(|row| row.id == id));
    }

    fn for_each_row(&self, visit: &mut dyn FnMut(RowKey, VectorRef<'_>)) {
        let (root, pin) = self.published.pin();
        let tail = Visible { inserted: pin, deleted: pin };
        let placed = Visible { inserted: root.placed, deleted: pin };
        let chunks = root.tree.leaves().flat_map(|leaf| leaf.chunks());
        for (rows, visible) in
            chunks.map(|chunk| (&chunk.rows, placed)).chain(Some((&root.tail, tail)))
        {
            for lane in (0..rows.len()).filter(|&lane| rows.is_visible(lane, visible)) {
                visit(rows.key(lane), rows.vector(lane));
            }
        }
    }

    fn leaves(&self) -> usize {
        self.published.root().tree.leaves
    }
}

impl Shared {
    fn prepare(&self, query: &[f32], scratch: &mut ClusterScratch) {
        scratch.rotated.resize(self.rotation.padded(), 0.0);
        self.rotation.apply(query, &mut scratch.rotated);
        scratch.table.build(&scratch.rotated);
    }

    /// Cost by which leaves are ordered, and the base of their estimates.
    fn leaf_cost(&self, rotated: &[f32], norm: f32, centroid: &[f32]) -> (f32, f32) {
        match self.index.metric {
            Metric::L2 | Metric::Cosine => {
                let distance = kernels::l2_squared(rotated, centroid);
                (distance, distance)
            }
            Metric::InnerProduct => {
                let product = kernels::inner_product(rotated, centroid);
                let size = kernels::inner_product(centroid, centroid).sqrt();
                (-(product + INNER_PRODUCT_SPREAD * norm * size), -product)
            }
        }
    }

    /// Fills `scratch.ranked` with the `probes` nearest leaves, nearest first.
    fn rank(&self, tree: &Tree, probes: usize, scratch: &mut ClusterScratch) {
        let padded = self.rotation.padded();
        let rotated = &scratch.rotated;
        let norm = kernels::inner_product(rotated, rotated).sqrt();
        scratch.nodes.clear();
        for (node, centroid) in tree.centroids.chunks_exact(padded).enumerate() {
            scratch.nodes.push((self.leaf_cost(rotated, norm, centroid).0, node as u32));
        }
        scratch.nodes.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        scratch.ranked.clear();
        let enough = RANKED_LEAVES_MIN.max(8 * probes);
        for &(_, node) in &scratch.nodes {
            if scratch.ranked.len() >= enough {
                break;
            }
            let centroids = &tree.nodes[node as usize].centroids;
            for (child, centroid) in centroids.chunks_exact(padded).enumerate() {
                let (cost, base) = self.leaf_cost(rotated, norm, centroid);
                scratch.ranked.push(Ranked { cost, base, node, child: child as u32 });
            }
        }
        let probes = probes.clamp(1, scratch.ranked.len().max(1));
        if probes < scratch.ranked.len() {
            scratch.ranked.select_nth_unstable_by(probes - 1, |a, b| a.cost.total_cmp(&b.cost));
            scratch.ranked.truncate(probes);
        }
        scratch.ranked.sort_unstable_by(|a, b| a.cost.total_cmp(&b.cost));
    }

    /// Fills `scratch.candidates` with the `keep` best estimates of the ranked leaves.
    fn scan(
        &self,
        root: &Root,
        keep: usize,
        scratch: &mut ClusterScratch,
        stats: &mut SearchStats,
    ) {
        let ClusterScratch { table, ranked, candidates, .. } = scratch;
        candidates.clear();
        let mut threshold = f32::INFINITY;
        let mut estimates = [0.0f32; BLOCK];
        for (position, leaf) in ranked.iter().enumerate() {
            stats.leaves += 1;
            for (at, chunk) in leaf_of(root, *leaf).chunks().enumerate() {
                let scanned = chunk.with_codes(|block| {
                    let view =
                        BlockView { codes: &block.codes, add: &block.add, scale: &block.scale };
                    let mut mask =
                        table.scan_block_below(&view, leaf.base, threshold, &mut estimates);
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
                    block.len
                });
                stats.rows += scanned.unwrap_or(0);
                if candidates.len() >= 4 * keep {
                    threshold = keep_nearest(candidates, keep);
                }
            }
        }
        if candidates.len() > keep {
            keep_nearest(candidates, keep);
        }
        candidates.sort_unstable_by(|a, b| a.estimate.total_cmp(&b.estimate));
    }

    /// Offers the candidates' exact distances, nearest estimate first; returns how many it took.
    fn refine(
        &self,
        root: &Root,
        query: &[f32],
        visible: Visible,
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
            if !rows.is_visible(lane, visible) {
                continue;
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

fn leaf_of(root: &Root, ranked: Ranked) -> &Arc<Leaf> {
    &root.tree.nodes[ranked.node as usize].leaves[ranked.child as usize]
}

/// Keeps the `keep` least estimates, in no order; returns the largest of them.
fn keep_nearest(candidates: &mut Vec<Candidate>, keep: usize) -> f32 {
    let (_, last, _) =
        candidates.select_nth_unstable_by(keep - 1, |a, b| a.estimate.total_cmp(&b.estimate));
    let threshold = last.estimate;
    candidates.truncate(keep);
    threshold
}
