//! Which leaves of a segment a query visits.
//!
//! 1. Estimate the costs of all leaves from their centroids in bytes.
//! 2. Of those that are near enough by the estimate, take the cost itself.
//! 3. Leave out leaves of which the triangle inequality proves that they hold no better row than
//!    those that are known: the threshold stop.

use vstream_index::{IndexSettings, RadiusBound};
use vstream_quantize::rabitq::QueryTable;
use vstream_quantize::Form;
use vstream_vector::kernels;

use crate::read::Segment;
use crate::search::{SegmentView, Visit};
use crate::write::form_of;

/// `sqrt(2 ln 256)`: what the largest product of 256 random residuals with a query has in
/// deviations, as in `vstream-index`.
const LARGEST: f32 = 3.33;

/// A query as the codes of all segments see it that have the same rotation.
#[derive(Default)]
pub struct RotatedQuery {
    pub(crate) rotated: Vec<f32>,
    pub(crate) table: QueryTable,
    length: f32,
}

impl RotatedQuery {
    /// Rotates `query` as the codes of `segment` are.
    pub fn rotate(&mut self, segment: &Segment, query: &[f32]) {
        self.rotated.resize(segment.rotation.padded(), 0.0);
        segment.rotation.apply(query, &mut self.rotated);
        self.table.build(&self.rotated);
        self.length = kernels::norm_squared(&self.rotated).sqrt();
    }
}

/// A leaf that may be visited.
#[derive(Clone, Copy)]
pub(crate) struct Ranked {
    pub(crate) cost: f32,
    /// Distance of the query to the centroid, the constant of the leaf's estimates.
    pub(crate) base: f32,
    pub(crate) leaf: u32,
}

impl Segment {
    /// What rotates its vectors: equal for segments of one seed and dimension.
    pub fn rotation_seed(&self) -> u64 {
        self.header.seed
    }

    /// What a leaf at `distance` of the query is ordered by.
    fn cost(&self, query: &RotatedQuery, distance: f32, leaf: u32) -> f32 {
        match form_of(self.metric()) {
            Form::L2 => distance,
            Form::InnerProduct => {
                let reach = self.leaves[leaf as usize].reach.min(f32::MAX);
                let deviations = LARGEST / (self.dimension() as f32).sqrt().max(LARGEST);
                distance - query.length * reach * deviations
            }
        }
    }

    /// What `radius`, a distance of the metric, says of leaves, for a query of this norm.
    pub(crate) fn radius_bound(&self, length: f32, radius: f32) -> RadiusBound {
        let (metric, element, dimension) = (self.metric(), self.element(), self.dimension());
        let settings = IndexSettings { metric, element, dimension, seed: self.header.seed };
        RadiusBound::new(settings, length, radius)
    }

    /// False only if no row of a leaf can be within the radius of `bound`.
    ///
    /// * `gap`: distance of the query to the centroid, not squared.
    pub(crate) fn may_hold(&self, leaf: u32, gap: f32, bound: &RadiusBound) -> bool {
        bound.may_hold(gap, self.leaves[leaf as usize].reach)
    }
}

impl SegmentView<'_> {
    /// Begins a visit: adds what each leaf seems to cost to `costs`, in no order; none of a flat
    /// segment. [`SegmentView::rank`] goes on.
    pub fn estimate(&self, query: &RotatedQuery, visit: &mut Visit, costs: &mut Vec<f32>) {
        let segment = self.segment;
        let Visit { scan, estimates, ranked, length, .. } = visit;
        ranked.clear();
        *length = query.length;
        let Some(centroids) = &segment.centroids else { return };
        centroids.scan(form_of(segment.metric()), &query.rotated, scan, estimates);
        let leaves = estimates.iter().zip(0..);
        ranked.extend(leaves.map(|(&estimate, leaf)| Ranked {
            cost: segment.cost(query, estimate, leaf),
            base: 0.0,
            leaf,
        }));
        costs.extend(ranked.iter().map(|leaf| leaf.cost));
    }

    /// Keeps the leaves that seem to cost `bound` at most, the nearest first by what they really
    /// cost; adds that to `costs`.
    pub fn rank(&self, query: &RotatedQuery, bound: f32, visit: &mut Visit, costs: &mut Vec<f32>) {
        let segment = self.segment;
        let Visit { centroid, ranked, .. } = visit;
        ranked.retain(|leaf| leaf.cost.total_cmp(&bound).is_le());
        centroid.resize(segment.rotation.padded(), 0.0);
        let form = form_of(segment.metric());
        for leaf in ranked.iter_mut() {
            segment.centroid(leaf.leaf, centroid);
            leaf.base = form.base(&query.rotated, centroid);
            leaf.cost = segment.cost(query, leaf.base, leaf.leaf);
        }
        ranked.sort_unstable_by(|a, b| a.cost.total_cmp(&b.cost));
        costs.extend(ranked.iter().map(|leaf| leaf.cost));
    }

    /// Ranks the `probes` nearest leaves.
    pub(crate) fn rank_nearest(&self, query: &RotatedQuery, probes: usize, visit: &mut Visit) {
        let mut costs = Vec::new();
        self.estimate(query, visit, &mut costs);
        let probes = probes.max(1);
        let bound = if probes < costs.len() {
            *costs.select_nth_unstable_by(probes - 1, f32::total_cmp).1
        } else {
            f32::INFINITY
        };
        self.rank(query, bound, visit, &mut Vec::new());
        visit.ranked.truncate(probes);
    }

    /// Leaves out the leaves that cannot hold a row within `radius`, a distance of the metric, and
    /// those after the first `leaves`; returns how many of these are left.
    pub fn cut(&self, leaves: usize, radius: f32, visit: &mut Visit) -> usize {
        visit.ranked.truncate(leaves);
        if radius < f32::INFINITY {
            let bound = self.segment.radius_bound(visit.length, radius);
            // The base of a leaf is the squared distance where the bound holds.
            let gap = |leaf: &Ranked| leaf.base.max(0.0).sqrt();
            visit.ranked.retain(|leaf| self.segment.may_hold(leaf.leaf, gap(leaf), &bound));
        }
        visit.ranked.len()
    }
}
