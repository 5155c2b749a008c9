//! Ranks the leaves of a segment for a query.
//!
//! 1. Estimate the costs of all leaves from their centroids in bytes.
//! 2. Compute the cost from the exact distance for the leaves that seem near enough.
//! 3. Leave out leaves that, by the triangle inequality, hold no better row than those known: the
//!    threshold stop.

use std::ops::Range;

use vstream_index::stages::{form_of, LeafCost, RotatedQuery};
use vstream_index::{IndexSettings, RadiusBound};

use crate::read::Segment;
use crate::search::{SegmentSearchState, SegmentView, LEAVES_AHEAD};

/// A leaf that a query may visit.
#[derive(Clone, Copy)]
pub(crate) struct Ranked {
    pub(crate) cost: f32,
    /// Distance of the query to the centroid: the constant of the leaf's estimates.
    pub(crate) base: f32,
    pub(crate) leaf: u32,
}

impl Segment {
    /// The cost function of leaves for a query of this norm.
    fn leaf_cost(&self, norm: f32) -> LeafCost {
        LeafCost::new(form_of(self.metric()), self.dimension(), norm)
    }

    /// The bound on leaves that follows from `radius`, a distance of the metric, for a query whose
    /// norm is `length`.
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
    /// See `StagedSearch::estimate_leaves`. A flat segment has no leaves to estimate.
    pub(crate) fn estimate(
        &self,
        query: &RotatedQuery,
        state: &mut SegmentSearchState,
        costs: &mut Vec<f32>,
    ) {
        let segment = self.segment;
        let SegmentSearchState { scan, estimates, ranked, sorted, norm, .. } = state;
        ranked.clear();
        *sorted = 0;
        *norm = query.norm();
        if !segment.is_cluster() {
            return;
        }
        segment.centroids().scan(form_of(segment.metric()), query.vector(), scan, estimates);
        let cost = segment.leaf_cost(*norm);
        let leaves = estimates.iter().zip(&segment.leaves).zip(0..);
        ranked.extend(leaves.map(|((&estimate, entry), leaf)| Ranked {
            cost: cost.of_leaf(estimate, || entry.reach),
            base: 0.0,
            leaf,
        }));
        costs.extend(ranked.iter().map(|leaf| leaf.cost));
    }

    /// See `StagedSearch::rank_leaves`. Orders by exact distances to the centroids.
    pub(crate) fn rank(
        &self,
        query: &RotatedQuery,
        bound: f32,
        state: &mut SegmentSearchState,
        costs: &mut Vec<f32>,
    ) {
        let segment = self.segment;
        let mut centroid = std::mem::take(&mut state.centroid);
        centroid.resize(segment.rotation.padded(), 0.0);
        let form = form_of(segment.metric());
        let cost = segment.leaf_cost(state.norm);
        let exact = &mut |leaf: u32| {
            segment.centroid(leaf, &mut centroid);
            let base = form.base(query.vector(), &centroid);
            (cost.of_leaf(base, || segment.leaves[leaf as usize].reach), base)
        };
        self.rank_by(bound, exact, state, costs);
        state.centroid = centroid;
    }

    /// Takes the estimated cost of each leaf, in their order, from a ranking of the leaves of several
    /// segments together.
    ///
    /// * `norm`: norm of the query.
    pub fn estimate_by(
        &self,
        costs: impl Iterator<Item = f32>,
        norm: f32,
        state: &mut SegmentSearchState,
    ) {
        state.ranked.clear();
        state.sorted = 0;
        state.norm = norm;
        state.ranked.extend(costs.zip(0..).map(|(cost, leaf)| Ranked { cost, base: 0.0, leaf }));
    }

    /// Takes some leaves as ranked, after those that are: cost, base and number of each, in ascending
    /// order of costs. The leaves come from a ranking of several segments together.
    pub fn rank_next(
        &self,
        (cost, base, leaf): (f32, f32, u32),
        norm: f32,
        state: &mut SegmentSearchState,
    ) {
        state.norm = norm;
        state.ranked.push(Ranked { cost, base, leaf });
        state.sorted = state.ranked.len();
    }

    /// Forgets what leaves are ranked.
    pub fn rank_none(&self, state: &mut SegmentSearchState) {
        state.ranked.clear();
        state.sorted = 0;
    }

    /// Ranks the leaves that are estimated to cost at most `bound` behind those that are ranked.
    ///
    /// * `exact`: cost and base of a leaf, from the exact distance to its centroid.
    pub fn rank_by(
        &self,
        bound: f32,
        exact: &mut dyn FnMut(u32) -> (f32, f32),
        state: &mut SegmentSearchState,
        costs: &mut Vec<f32>,
    ) {
        let SegmentSearchState { ranked, sorted, .. } = state;
        let rest = &mut ranked[*sorted..];
        let mut near = 0;
        for at in 0..rest.len() {
            if rest[at].cost.total_cmp(&bound).is_le() {
                rest.swap(at, near);
                near += 1;
            }
        }
        let next = &mut rest[..near];
        *sorted += near;
        for leaf in next.iter_mut() {
            (leaf.cost, leaf.base) = exact(leaf.leaf);
        }
        next.sort_unstable_by(|a, b| a.cost.total_cmp(&b.cost));
        costs.extend(next.iter().map(|leaf| leaf.cost));
    }

    /// See `StagedSearch::keep_leaves`.
    pub(crate) fn keep(
        &self,
        leaves: Range<usize>,
        radius: f32,
        state: &mut SegmentSearchState,
    ) -> usize {
        let SegmentSearchState { ranked, sorted, kept, selected, norm, .. } = state;
        let end = leaves.end.min(*sorted);
        let from = leaves.start.min(end);
        let bound = (radius < f32::INFINITY).then(|| self.segment.radius_bound(*norm, radius));
        // Where the bound holds, the base of a leaf is the squared distance.
        let gap = |leaf: &Ranked| leaf.base.max(0.0).sqrt();
        let is_near = |leaf: &Ranked| {
            bound.as_ref().is_none_or(|bound| self.segment.may_hold(leaf.leaf, gap(leaf), bound))
        };
        let may_match = |leaf: &Ranked| {
            let compiled = selected.as_ref().map(|selected| &selected.compiled);
            compiled.is_none_or(|compiled| self.segment.leaf_matches(compiled, leaf.leaf) > 0)
        };
        kept.clear();
        let ranks = ranked[from..end].iter().zip(from as u32..);
        kept.extend(ranks.filter(|(leaf, _)| is_near(leaf) && may_match(leaf)).map(|(_, at)| at));
        // So many are scanned in several rounds. Where all are scanned, in the order of the file each round reads a
        // part of it, in few reads; by their distance each would read from all over it.
        if kept.len() > LEAVES_AHEAD && bound.is_none() {
            kept.sort_unstable_by_key(|&at| ranked[at as usize].leaf);
        }
        state.begin_scan();
        state.kept.len()
    }
}
