//! LIRE: split a leaf and reassign the rows for which another leaf is now nearer.
//!
//! 1. 2-means over the living rows; if a side is below a quarter, cut at that quantile instead, so
//!    that equal vectors and outliers are divided too.
//! 2. A row of the old leaf that the old centroid served better than its new one may belong to a
//!    neighbour: check the neighbours' centroids (first necessary condition).
//! 3. A row of a neighbouring leaf for which a new centroid is nearer than its own moves to the
//!    new leaf (second condition, checked on the `reassign_leaves` nearest leaves).
//!
//! Source: SPFresh (SOSP '23), section 3; costs and the choice of 16 neighbours: measured, see
//! docs/design/index.md.

use std::sync::Arc;

use vstream_vector::{kernels, KMeans, KMeansSettings, Metric};

use super::batch::{alive_lanes, Batch};
use super::leaf::{Leaf, LeafId};
use super::{Cluster, Place};
use crate::rows::distance;

const ITERATIONS: usize = 6;

impl Cluster {
    pub(super) fn split(&mut self, old: LeafId) {
        let dimension = self.shared.index.dimension;
        let neighbours = self.neighbours(old);
        let (leaf, node) = self.take_leaf(old);
        let rows = Batch::of_leaf(&self.shared, &leaf);
        let vectors = rows.vectors();
        let sides = self.two_sides(&vectors);
        let ids = means(&vectors, dimension, &sides).map(|center| self.new_leaf(center, node));
        self.replace_child(node, old, &ids);
        let new = ids.map(|id| self.state(id).leaf.clone());

        let mut groups: [Vec<usize>; 2] = [Vec::new(), Vec::new()];
        let mut leavers: Vec<(LeafId, usize)> = Vec::new();
        for (row, &side) in sides.iter().enumerate() {
            let (side, rotated) = (usize::from(side), rows.rotated(row));
            let own = kernels::l2_squared(rotated, &new[side].centroid);
            let before = kernels::l2_squared(rotated, &leaf.centroid);
            let nearer = if before < own { nearest(&neighbours, rotated, own) } else { None };
            match nearer {
                Some(target) => leavers.push((target, row)),
                None => groups[side].push(row),
            }
        }
        for (id, group) in ids.into_iter().zip(groups) {
            self.append(id, group.into_iter().map(|row| rows.incoming(row, None)));
        }
        self.counts.moved += leavers.len() as u64;
        self.append_moved(&rows, leavers);
        self.reassign_from(&neighbours, &new);
        self.counts.splits += 1;
    }

    /// The leaves nearest to `of`, without it.
    fn neighbours(&self, of: LeafId) -> Vec<Arc<Leaf>> {
        let centroid = self.state(of).leaf.centroid.clone();
        let mut near: Vec<(f32, &Arc<Leaf>)> = Vec::new();
        let padded = self.shared.rotation.padded();
        let mut nodes: Vec<(f32, usize)> = (self.tree.centroids.chunks_exact(padded))
            .map(|c| kernels::l2_squared(&centroid, c))
            .zip(0..)
            .collect();
        nodes.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        for &(_, node) in nodes.iter().take(8) {
            for leaf in self.tree.nodes[node].leaves.iter().filter(|leaf| leaf.id != of) {
                near.push((kernels::l2_squared(&centroid, &leaf.centroid), leaf));
            }
        }
        near.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        near.iter().take(self.settings.reassign_leaves).map(|&(_, leaf)| leaf.clone()).collect()
    }

    /// Side of each row; each side holds at least a quarter of the rows.
    fn two_sides(&self, vectors: &[f32]) -> Vec<bool> {
        let dimension = self.shared.index.dimension;
        let settings = KMeansSettings {
            clusters: 2,
            iterations: ITERATIONS,
            seed: self.shared.index.seed ^ self.sequence,
            balance: 0.0,
        };
        let parts = KMeans::train(vectors, dimension, settings);
        let (first, second) = parts.centroids.split_at(dimension);
        let mut order: Vec<(f32, u32)> = vectors
            .chunks_exact(dimension)
            .map(|row| kernels::l2_squared(row, first) - kernels::l2_squared(row, second))
            .zip(0..)
            .collect();
        order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let n = order.len();
        let natural = order.partition_point(|&(difference, _)| difference < 0.0);
        let cut =
            if order[0].0 == order[n - 1].0 { n / 2 } else { natural.clamp(n / 4, n - n / 4) };
        let mut sides = vec![false; n];
        for &(_, row) in &order[cut..] {
            sides[row as usize] = true;
        }
        sides
    }

    /// Moves rows of `neighbours` that a new leaf serves better.
    fn reassign_from(&mut self, neighbours: &[Arc<Leaf>], new: &[Arc<Leaf>; 2]) {
        let mut moved = Batch::new(&self.shared);
        let mut targets = Vec::new();
        for leaf in neighbours {
            for (at, chunk) in leaf.chunks().enumerate() {
                for lane in alive_lanes(&chunk.rows) {
                    let row = chunk.rows.vector(lane);
                    let own = distance(Metric::L2, &leaf.center, row);
                    let gaps = [0, 1].map(|side| distance(Metric::L2, &new[side].center, row));
                    let side = usize::from(gaps[1] < gaps[0]);
                    if gaps[side] < own {
                        targets.push((new[side].id, moved.len()));
                        moved.push(&self.shared, &chunk.rows, lane, self.placed);
                        let position = super::leaf::position(at, lane);
                        self.kill(Place { leaf: leaf.id, position }, self.placed);
                    }
                }
            }
        }
        self.counts.moved += targets.len() as u64;
        self.append_moved(&moved, targets);
    }
}

/// The leaf whose centroid is nearer to `rotated` than `bound`, if any.
fn nearest(leaves: &[Arc<Leaf>], rotated: &[f32], bound: f32) -> Option<LeafId> {
    let mut best = (bound, None);
    for leaf in leaves {
        let distance = kernels::l2_squared(rotated, &leaf.centroid);
        if distance < best.0 {
            best = (distance, Some(leaf.id));
        }
    }
    best.1
}

/// Mean of the rows of each side.
fn means(vectors: &[f32], dimension: usize, sides: &[bool]) -> [Vec<f32>; 2] {
    [false, true].map(|side| {
        let mut mean = vec![0.0f32; dimension];
        let mut n = 0.0f32;
        for (row, _) in vectors.chunks_exact(dimension).zip(sides).filter(|(_, &s)| s == side) {
            mean.iter_mut().zip(row).for_each(|(m, &x)| *m += x);
            n += 1.0;
        }
        mean.iter_mut().for_each(|m| *m /= n.max(1.0));
        mean
    })
}
