//! Finds the nearest leaf of each row of a batch.
//!
//! 1. The exact means of the nodes' centroids say which nodes are nearest to a row.
//! 2. Byte centroids select a few leaves of these nodes. The batch goes node by node: each node's
//!    centroids are read once for all rows that compare them. At a million rows they are in no fast cache.
//! 3. Exact distances decide among the few.
//!
//! Rows are grouped by Euclidean distance under every metric.

use vstream_quantize::scalar8::ScanScratch;
use vstream_quantize::Form;
use vstream_vector::kernels;

use super::leaf::{Leaf, LeafId};
use super::tree::Tree;
use crate::turns::work_done;

/// Routing a row compares the leaves of so many nodes.
const ROUTED_NODES: usize = 8;

/// Routing a row takes the exact distances of so many leaves.
const ROUTED_EXACTLY: usize = 6;

/// Rows that are compared with one node after the other, so that these rows stay in the nearest cache.
const TILE: usize = 8;

/// Estimates that are compared with a bound at once.
const STRIDE: usize = 16;

/// Buffers of routing.
#[derive(Default)]
pub(super) struct RouteScratch {
    /// Squared distances of some rows to all nodes, row by row.
    distances: Vec<f32>,
    /// Squared distance and position of each node, for one row.
    nodes: Vec<(f32, u32)>,
    /// Whether it is not the row's nearest, node and row, for each of the nearest nodes of each row.
    visits: Vec<(bool, u32, u32)>,
    scan: ScanScratch,
    estimates: Vec<f32>,
    /// The nearest leaves of each row.
    near: Vec<Near>,
}

/// The leaves of the least estimates, least first.
#[derive(Clone, Copy)]
struct Near([(f32, u32, u32); ROUTED_EXACTLY]);

impl Near {
    const NONE: Near = Near([(f32::INFINITY, 0, 0); ROUTED_EXACTLY]);

    /// Takes what is less than its greatest among the estimates of a node's leaves.
    fn take(&mut self, node: u32, estimates: &[f32]) {
        let (blocks, rest) = estimates.as_chunks::<STRIDE>();
        for (at, block) in blocks.iter().enumerate() {
            let bound = self.0[ROUTED_EXACTLY - 1].0;
            // Most blocks have none, which a comparison without branches says.
            if block.iter().fold(false, |any, &x| any | (x < bound)) {
                self.insert(node, at * STRIDE, block);
            }
        }
        self.insert(node, blocks.len() * STRIDE, rest);
    }

    /// Inserts those of some estimates that are less than its greatest.
    ///
    /// * `first`: the leaf of the first.
    fn insert(&mut self, node: u32, first: usize, estimates: &[f32]) {
        let near = &mut self.0;
        for (&estimate, child) in estimates.iter().zip(first as u32..) {
            if estimate < near[ROUTED_EXACTLY - 1].0 {
                // Its place is no guess that a processor gets right: all slots choose without a branch.
                let mut given = (estimate, node, child);
                for slot in near.iter_mut() {
                    let (less, more) =
                        if given.0 < slot.0 { (given, *slot) } else { (*slot, given) };
                    (*slot, given) = (less, more);
                }
            }
        }
    }

    /// Its leaves; the first leaf of a node if no estimate was finite.
    fn leaves<'a>(&'a self, tree: &'a Tree) -> impl Iterator<Item = &'a Leaf> {
        let found = self.0.iter().take_while(|near| near.0 < f32::INFINITY).count();
        let leaf = |&(_, node, child): &(f32, u32, u32)| {
            &*tree.nodes[node as usize].leaves[child as usize]
        };
        self.0[..found.max(1)].iter().map(leaf)
    }
}

/// Appends, for each rotated row, the leaf whose centroid is nearest to it among those of the nearest
/// nodes.
///
/// * `rotated`: `rows × padded`. The tree has a leaf.
pub(super) fn nearest_leaves(
    tree: &Tree,
    rotated: &[f32],
    padded: usize,
    scratch: &mut RouteScratch,
    out: &mut Vec<LeafId>,
) {
    let row = |at: usize| &rotated[at * padded..][..padded];
    let rows = rotated.len() / padded;
    nearest_nodes(tree, rotated, padded, scratch);
    let RouteScratch { visits, scan, estimates, near, .. } = scratch;
    // The nearest nodes first: behind them few leaves are among the nearest.
    visits.sort_unstable();
    near.clear();
    near.resize(rows, Near::NONE);
    for &(_, node, at) in visits.iter() {
        let coded = &tree.nodes[node as usize].coded;
        coded.scan(Form::L2, row(at as usize), scan, estimates);
        near[at as usize].take(node, estimates);
        work_done(estimates.len() / 2);
    }
    let prefetch = |of: &Near| of.leaves(tree).for_each(|leaf| kernels::prefetch(&leaf.centroid));
    near.first().into_iter().for_each(prefetch);
    for at in 0..rows {
        near.get(at + 1).into_iter().for_each(prefetch);
        let leaves = near[at].leaves(tree);
        let exact = leaves.map(|leaf| (kernels::l2_squared(row(at), &leaf.centroid), leaf.id));
        let nearest = exact.min_by(|a, b| a.0.total_cmp(&b.0));
        out.push(nearest.expect("a tree with a leaf").1);
    }
}

/// Fills `visits` with the nearest nodes of each row.
fn nearest_nodes(tree: &Tree, rotated: &[f32], padded: usize, scratch: &mut RouteScratch) {
    let RouteScratch { distances, nodes, visits, .. } = scratch;
    let count = tree.nodes.len();
    visits.clear();
    for (tile, rows) in rotated.chunks(TILE * padded).enumerate() {
        distances.clear();
        distances.resize(rows.len() / padded * count, 0.0);
        for (node, centroid) in tree.centroids.chunks_exact(padded).enumerate() {
            for (at, row) in rows.chunks_exact(padded).enumerate() {
                distances[at * count + node] = kernels::l2_squared(row, centroid);
            }
        }
        for (at, distances) in distances.chunks_exact(count).enumerate() {
            nodes.clear();
            nodes.extend(distances.iter().zip(0..).map(|(&distance, node)| (distance, node)));
            if nodes.len() > ROUTED_NODES {
                nodes.select_nth_unstable_by(ROUTED_NODES - 1, |a, b| a.0.total_cmp(&b.0));
                nodes.truncate(ROUTED_NODES);
            }
            let row = (tile * TILE + at) as u32;
            let nearest = nodes.iter().fold(f32::INFINITY, |least, node| least.min(node.0));
            visits.extend(nodes.iter().map(|&(distance, node)| (distance > nearest, node, row)));
        }
    }
}

#[cfg(test)]
mod tests;
