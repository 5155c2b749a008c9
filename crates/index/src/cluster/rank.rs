//! Ranks the leaves by how near their centroids are to a query.
//!
//! 1. Rank the nodes by the exact means of their centroids.
//! 2. Rank the leaves of the nearest nodes by their centroids as bytes.

use vstream_quantize::Form;
use vstream_vector::kernels;

use super::scan::ClusterState;
use super::tree::Tree;
use super::Shared;
use crate::stages::{LeafCost, RotatedQuery};

/// Leaves that are ranked at least, however few are probed.
const RANKED_LEAVES_MIN: usize = 1024;

/// Leaves whose reach is prefetched ahead of the ranked one.
const REACH_AHEAD: usize = 12;

/// A leaf that may be visited.
#[derive(Clone, Copy)]
pub(super) struct Ranked {
    /// Leaves are visited in ascending order of it; from the centroid as bytes.
    pub(super) cost: f32,
    /// Distance of the query to the centroid, the constant of the leaf's estimates; known once the
    /// leaf is scanned.
    pub(super) base: f32,
    /// Euclidean distance of the query to the centroid, not squared; known once the leaf is scanned,
    /// with a second look alone.
    pub(super) gap: f32,
    pub(super) node: u32,
    pub(super) child: u32,
}

impl Shared {
    /// Fills `state.ranked` with the `probes` nearest leaves, nearest first.
    pub(super) fn rank(
        &self,
        tree: &Tree,
        query: &RotatedQuery,
        probes: usize,
        state: &mut ClusterState,
    ) {
        self.estimate(tree, query, probes, state);
        let ClusterState { ranked, sorted, .. } = state;
        let probes = probes.clamp(1, ranked.len().max(1));
        if probes < ranked.len() {
            ranked.select_nth_unstable_by(probes - 1, |a, b| a.cost.total_cmp(&b.cost));
            ranked.truncate(probes);
        }
        ranked.sort_unstable_by(|a, b| a.cost.total_cmp(&b.cost));
        *sorted = ranked.len();
    }

    /// Fills `state.ranked` with at least the `probes` nearest leaves, in no order yet.
    pub(super) fn estimate(
        &self,
        tree: &Tree,
        query: &RotatedQuery,
        probes: usize,
        state: &mut ClusterState,
    ) {
        state.begin();
        let ClusterState { scan, estimates, nodes, ranked, .. } = state;
        let rotated = query.vector();
        nodes.clear();
        for (node, centroid) in tree.centroids.chunks_exact(rotated.len()).enumerate() {
            nodes.push((self.form.base(rotated, centroid), node as u32));
        }
        nodes.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        ranked.clear();
        let enough = match self.form {
            Form::L2 => RANKED_LEAVES_MIN.max(probes.saturating_mul(8)),
            // The mean of a node says little of its longest rows.
            Form::InnerProduct => usize::MAX,
        };
        let cost = LeafCost::new(self.form, self.index.dimension, query.norm());
        for &(_, position) in nodes.iter() {
            if ranked.len() >= enough {
                break;
            }
            let node = &tree.nodes[position as usize];
            node.coded.scan(self.form, rotated, scan, estimates);
            for (child, (&estimate, leaf)) in estimates.iter().zip(&node.leaves).enumerate() {
                if let (Form::InnerProduct, Some(later)) =
                    (self.form, node.leaves.get(child + REACH_AHEAD))
                {
                    kernels::prefetch(std::slice::from_ref(&later.id));
                }
                let cost = cost.of_leaf(estimate, || leaf.reach());
                let child = child as u32;
                ranked.push(Ranked { cost, base: 0.0, gap: 0.0, node: position, child });
            }
        }
    }
}

impl ClusterState {
    /// Sorts, behind the leaves that are sorted already, those that cost at most `bound`; returns how
    /// many were sorted before.
    pub(super) fn sort_up_to(&mut self, bound: f32) -> usize {
        let ClusterState { ranked, sorted, .. } = self;
        let (before, rest) = (*sorted, &mut ranked[*sorted..]);
        let mut near = 0;
        for at in 0..rest.len() {
            if rest[at].cost.total_cmp(&bound).is_le() {
                rest.swap(at, near);
                near += 1;
            }
        }
        rest[..near].sort_unstable_by(|a, b| a.cost.total_cmp(&b.cost));
        *sorted += near;
        before
    }
}
