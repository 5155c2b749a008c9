//! Which leaves a query visits: those whose centroids are nearest.
//!
//! 1. Rank the nodes by the means of their centroids, exactly.
//! 2. Rank the leaves of the nearest nodes by their centroids as bytes.

use vstream_quantize::Form;
use vstream_vector::kernels;

use super::leaf::Leaf;
use super::scan::ClusterScratch;
use super::tree::Tree;
use super::Shared;

/// Leaves scanned for ranking at least, however few are probed.
const RANKED_LEAVES_MIN: usize = 1024;

/// Leaves whose reach is asked for ahead of the one that is ranked.
const AHEAD: usize = 12;

/// A leaf that may be visited.
#[derive(Clone, Copy)]
pub(super) struct Ranked {
    /// What leaves are ordered by, from their centroids as bytes.
    pub(super) cost: f32,
    /// Distance of the query to the centroid, the constant of the leaf's estimates; known once the
    /// leaf is scanned.
    pub(super) base: f32,
    /// Euclidean distance of the two, not squared; known as `base` is, for a second look.
    pub(super) gap: f32,
    pub(super) node: u32,
    pub(super) child: u32,
}

impl Shared {
    /// Rotates the query and builds its table.
    pub(super) fn prepare(&self, query: &[f32], scratch: &mut ClusterScratch) {
        scratch.rotated.resize(self.rotation.padded(), 0.0);
        self.rotation.apply(query, &mut scratch.rotated);
        scratch.table.build(&scratch.rotated);
    }

    /// Fills `scratch.ranked` with the `probes` nearest leaves, nearest first.
    pub(super) fn rank(&self, tree: &Tree, probes: usize, scratch: &mut ClusterScratch) {
        let ClusterScratch { rotated, scan, estimates, nodes, ranked, .. } = scratch;
        nodes.clear();
        for (node, centroid) in tree.centroids.chunks_exact(rotated.len()).enumerate() {
            nodes.push((self.form.base(rotated, centroid), node as u32));
        }
        nodes.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        ranked.clear();
        let enough = match self.form {
            Form::L2 => RANKED_LEAVES_MIN.max(probes.saturating_mul(8)),
            // A node's mean says little of its longest rows.
            Form::InnerProduct => usize::MAX,
        };
        let credit = self.credit(kernels::norm_squared(rotated).sqrt());
        for &(_, node) in nodes.iter() {
            if ranked.len() >= enough {
                break;
            }
            let of = &tree.nodes[node as usize];
            of.coded.scan(self.form, rotated, scan, estimates);
            for (child, (&estimate, leaf)) in estimates.iter().zip(&of.leaves).enumerate() {
                if let (Form::InnerProduct, Some(later)) = (self.form, of.leaves.get(child + AHEAD))
                {
                    kernels::prefetch(std::slice::from_ref(&later.id));
                }
                let cost = match self.form {
                    Form::L2 => estimate,
                    Form::InnerProduct => estimate - credit * finite_reach(leaf),
                };
                let child = child as u32;
                ranked.push(Ranked { cost, base: 0.0, gap: 0.0, node, child });
            }
        }
        let probes = probes.clamp(1, ranked.len().max(1));
        if probes < ranked.len() {
            ranked.select_nth_unstable_by(probes - 1, |a, b| a.cost.total_cmp(&b.cost));
            ranked.truncate(probes);
        }
        ranked.sort_unstable_by(|a, b| a.cost.total_cmp(&b.cost));
    }

    /// How much a leaf's best row is credited by inner product, in parts of the leaf's reach.
    ///
    /// A row `x = c + r` has the product `<q, c> + <q, r>`. Over residuals of one length in random
    /// directions `<q, r>` has the deviation `|q| |r| / sqrt(D)`, and the largest of `n` of them is
    /// about `sqrt(2 ln n)` deviations.
    fn credit(&self, query_length: f32) -> f32 {
        /// `sqrt(2 ln 256)`: a leaf has some 256 rows.
        const LARGEST: f32 = 3.33;
        query_length * LARGEST / (self.index.dimension as f32).sqrt().max(LARGEST)
    }
}

/// How far rows of the leaf are from its centroid at most.
fn finite_reach(leaf: &Leaf) -> f32 {
    leaf.reach().min(f32::MAX)
}
