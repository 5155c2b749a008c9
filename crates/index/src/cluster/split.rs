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

use vstream_vector::{kernels, KMeans, KMeansSettings};

use super::maintain::alive_rows;
use super::place::Incoming;
use super::tree::{Leaf, LeafId};
use super::{Cluster, Place};
use crate::rows::VectorRef;

const ITERATIONS: usize = 6;

/// The living rows of a leaf, unpacked.
struct Members {
    at: Vec<(usize, usize)>,
    /// `rows × dimension`.
    vectors: Vec<f32>,
    /// `rows × padded`.
    rotated: Vec<f32>,
}

impl Cluster {
    pub(super) fn split(&mut self, old: LeafId) {
        let dimension = self.shared.index.dimension;
        let padded = self.shared.rotation.padded();
        let neighbours = self.neighbours(old);
        let (leaf, node) = self.take_leaf(old);
        let members = self.unpack(&leaf);
        let sides = self.two_sides(&members.vectors);
        let centers = means(&members.vectors, dimension, &sides);
        let new = centers.map(|center| self.new_leaf(center, node));
        self.replace_child(node, old, &new);
        // `split_node` may have moved the new leaves to another node; `new_leaf` recorded `node`.
        let new_centroids = new.map(|id| self.state(id).leaf.clone());

        let mut groups: [Vec<u32>; 2] = [Vec::new(), Vec::new()];
        let mut leavers: Vec<(LeafId, u32)> = Vec::new();
        for (i, rotated) in members.rotated.chunks_exact(padded).enumerate() {
            let side = usize::from(sides[i]);
            let own = kernels::l2_squared(rotated, &new_centroids[side].centroid);
            let before = kernels::l2_squared(rotated, &leaf.centroid);
            let nearer = if before < own { nearest(&neighbours, rotated, own) } else { None };
            match nearer {
                Some(target) => leavers.push((target, i as u32)),
                None => groups[side].push(i as u32),
            }
        }
        for (side, rows) in groups.iter().enumerate() {
            let rows = rows.iter().map(|&i| members.row(&leaf, i as usize, padded, None));
            self.append(new[side], rows);
        }
        self.counts.moved += leavers.len() as u64;
        let placed = Some(self.placed);
        for (target, i) in leavers {
            let row = members.row(&leaf, i as usize, padded, placed);
            self.append(target, std::iter::once(row));
        }
        self.reassign_from(&neighbours, &new_centroids);
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

    fn unpack(&mut self, leaf: &Leaf) -> Members {
        let (dimension, padded) = (self.shared.index.dimension, self.shared.rotation.padded());
        let at = alive_rows(leaf);
        let mut vectors = vec![0.0; at.len() * dimension];
        let mut rotated = vec![0.0; at.len() * padded];
        for (i, &(chunk, lane)) in at.iter().enumerate() {
            let vector = &mut vectors[i * dimension..][..dimension];
            leaf.chunk(chunk).rows.vector(lane).read(vector);
            self.shared.rotation.apply(vector, &mut rotated[i * padded..][..padded]);
        }
        Members { at, vectors, rotated }
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

    /// Moves rows of `neighbours` that a new leaf serves better, in place.
    fn reassign_from(&mut self, neighbours: &[Arc<Leaf>], new: &[Arc<Leaf>; 2]) {
        let mut vector = vec![0.0; self.shared.index.dimension];
        for leaf in neighbours {
            for (chunk, lane) in alive_rows(leaf) {
                let rows = leaf.chunk(chunk).rows.clone();
                let own = gap(rows.vector(lane), &leaf.center, &mut vector);
                let gaps =
                    [0, 1].map(|side| gap(rows.vector(lane), &new[side].center, &mut vector));
                let side = usize::from(gaps[1] < gaps[0]);
                if gaps[side] >= own {
                    continue;
                }
                let position = super::tree::position(chunk, lane);
                self.kill(Place { leaf: leaf.id, position }, self.placed);
                let rotated = self.rotate(rows.vector(lane));
                let row = Incoming {
                    key: rows.key(lane),
                    vector: rows.vector(lane),
                    inserted: self.placed,
                    rotated: &rotated,
                };
                self.append(new[side].id, std::iter::once(row));
                self.counts.moved += 1;
            }
        }
    }
}

impl Members {
    fn row<'a>(
        &'a self,
        leaf: &'a Leaf,
        i: usize,
        padded: usize,
        inserted: Option<u64>,
    ) -> Incoming<'a> {
        let (chunk, lane) = self.at[i];
        let rows = &leaf.chunk(chunk).rows;
        Incoming {
            key: rows.key(lane),
            vector: rows.vector(lane),
            inserted: inserted.unwrap_or_else(|| rows.inserted(lane)),
            rotated: &self.rotated[i * padded..][..padded],
        }
    }
}

/// Squared distance of a stored vector to a centre; `buffer` is used for rows that are not `f32`.
fn gap(row: VectorRef<'_>, center: &[f32], buffer: &mut [f32]) -> f32 {
    match row {
        VectorRef::F32(row) => kernels::l2_squared(row, center),
        VectorRef::U8(_) => {
            row.read(buffer);
            kernels::l2_squared(buffer, center)
        }
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
