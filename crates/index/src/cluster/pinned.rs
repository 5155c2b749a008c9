//! The rows of one moment: shown, searched alone, or searched in stages with other places.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use vstream_attribute::Filter;
use vstream_quantize::rabitq::Rotation;
use vstream_vector::{Neighbor, TopK};

use super::scan::ClusterState;
use super::tree::Root;
use super::view::View;
use super::Shared;
use crate::probe::{Probe, SearchStats};
use crate::publish::{Guard, Rooted};
use crate::rows::{IndexRow, RowKey, Sequence};
use crate::scratch::Scratch;
use crate::stages::{
    sort_candidates, Candidate, ExactSearch, Found, RotatedQuery, Scanned, StagedSearch, Wanted,
};
use crate::traits::{IndexSnapshot, PinnedRows};

/// A root and a sequence that a reader has pinned.
pub(super) struct Pinned {
    shared: Arc<Shared>,
    root: Arc<Rooted<Root>>,
    pin: Sequence,
}

impl Pinned {
    /// * `as_of`: a sequence of the index that takes the writes, if this one takes none any more.
    pub(super) fn new(shared: &Arc<Shared>, as_of: Option<Sequence>) -> Pinned {
        let (root, pin) = shared.published.pin();
        let root = Guard::into_inner(root);
        Pinned { shared: shared.clone(), root, pin: as_of.unwrap_or(pin) }
    }

    fn view(&self) -> View<'_> {
        View { shared: &self.shared, root: &self.root, pin: self.pin }
    }
}

impl PinnedRows for Pinned {
    fn for_each_row(&self, visit: &mut dyn FnMut(IndexRow<'_>)) {
        self.for_each_leaf_row(&mut |_, row| visit(row));
    }

    fn for_each_leaf_row(&self, visit: &mut dyn FnMut(Option<u32>, IndexRow<'_>)) {
        for (leaf, number) in self.root.tree.leaves().zip(0..) {
            for chunk in leaf.chunks() {
                let show = &mut |row: IndexRow<'_>| visit(Some(number), row);
                chunk.rows.for_each_row(self.view().placed(), show);
            }
        }
        let tail = self.view().tail();
        self.root.tail.for_each_row(tail, &mut |row| visit(None, row));
    }
}

impl ExactSearch for Pinned {
    type Error = Infallible;

    fn leaves(&self) -> usize {
        self.root.tree.leaves
    }

    fn rotation(&self) -> Option<&Rotation> {
        Some(&self.shared.rotation)
    }

    fn scan_loose(&self, vector: &[f32], _: Option<&Filter>, out: &mut TopK) -> usize {
        self.view().scan_tail(vector, out)
    }

    fn exact(
        &self,
        vector: &[f32],
        _: Option<&Filter>,
        out: &mut TopK,
    ) -> Result<SearchStats, Infallible> {
        Ok(self.view().exact(vector, out))
    }

    fn for_each_match(
        &self,
        _: Option<&Filter>,
        visit: &mut dyn FnMut(RowKey),
    ) -> Result<(), Infallible> {
        self.for_each_row(&mut |row| visit(row.key));
        Ok(())
    }

    fn search_radius(
        &self,
        vector: &[f32],
        radius: f32,
        _: Option<&Filter>,
        out: &mut Vec<Neighbor>,
    ) -> Result<SearchStats, Infallible> {
        Ok(self.view().search_radius(vector, radius, out))
    }
}

impl StagedSearch for Pinned {
    type State = Scratch;
    type Address = Infallible;
    type Block = Infallible;

    fn select(&self, _: Option<&Filter>, _: &mut Scratch) -> Result<u64, Infallible> {
        Ok(u64::MAX)
    }

    fn estimate_leaves(
        &self,
        query: &RotatedQuery,
        probes: usize,
        scratch: &mut Scratch,
        costs: &mut Vec<f32>,
    ) {
        let state: &mut ClusterState = scratch.buffers();
        self.shared.rank(&self.root.tree, query, probes, state);
        costs.extend(state.ranked.iter().map(|leaf| leaf.cost));
    }

    /// The order of the estimates is final: an index in memory ranks by nothing else.
    fn rank_leaves(
        &self,
        _: &RotatedQuery,
        bound: f32,
        scratch: &mut Scratch,
        costs: &mut Vec<f32>,
    ) {
        let ClusterState { ranked, .. } = scratch.buffers();
        ranked.truncate(ranked.partition_point(|leaf| leaf.cost.total_cmp(&bound).is_le()));
        costs.extend(ranked.iter().map(|leaf| leaf.cost));
    }

    /// Keeps leaves whatever their distance: codes in memory cost less than the proof.
    fn keep_leaves(&self, leaves: Range<usize>, _: f32, scratch: &mut Scratch) -> usize {
        let ClusterState { ranked, is_scanned, .. } = scratch.buffers();
        *is_scanned = false;
        ranked.truncate(leaves.end);
        ranked.len()
    }

    fn next_codes(&self, scratch: &mut Scratch) -> Option<Vec<Infallible>> {
        let ClusterState { is_scanned, .. } = scratch.buffers();
        (!std::mem::replace(is_scanned, true)).then(Vec::new)
    }

    fn scan_codes(
        &self,
        query: &RotatedQuery,
        _: &[Infallible],
        wanted: Wanted,
        scratch: &mut Scratch,
        candidates: &mut Vec<Candidate>,
    ) -> Scanned {
        let state: &mut ClusterState = scratch.buffers();
        let (view, mut stats) = (self.view(), SearchStats::default());
        // Some of the best may have come after the moment.
        let mut keep = wanted.keep.saturating_add(wanted.keep / 8);
        loop {
            let is_cut = view.scan(query, keep, state, candidates, &mut stats);
            view.drop_hidden(state, candidates);
            if !is_cut || candidates.len() >= wanted.keep {
                break;
            }
            keep = keep.saturating_mul(2);
        }
        sort_candidates(candidates);
        Scanned { rows: stats.rows, matches: stats.rows, leaves: stats.leaves }
    }

    fn rows_of(&self, _: &[Candidate], _: &mut Scratch) -> Vec<Infallible> {
        Vec::new()
    }

    fn refine(
        &self,
        found: Found<'_>,
        _: &[Infallible],
        scratch: &mut Scratch,
        out: &mut TopK,
        seen: &mut dyn FnMut(usize, Neighbor),
    ) -> Result<usize, Infallible> {
        let most = found.candidates.len();
        Ok(self.view().refine(found, most, scratch.buffers(), out, seen).exact)
    }
}

impl IndexSnapshot for Pinned {
    fn sequence(&self) -> u64 {
        self.pin
    }

    fn search(&self, probe: &Probe<'_>, scratch: &mut Scratch, out: &mut TopK) -> SearchStats {
        self.view().search(probe, scratch.buffers(), out)
    }
}
