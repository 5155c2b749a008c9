//! The rows of one moment: shown, searched alone, or searched in stages with other places.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use vstream_attribute::Filter;
use vstream_quantize::rabitq::Rotation;
use vstream_vector::{Neighbor, TopK};

use super::scan::{ClusterScratch, ClusterState};
use super::sweep::Swept;
use super::tree::Root;
use super::view::View;
use super::Shared;
use crate::filter::{Compiled, Counts};
use crate::least_ids::LeastIds;
use crate::probe::{Probe, SearchStats};
use crate::publish::{Guard, Rooted};
use crate::rows::{IndexRow, RowKey, Sequence, CARRIED_STEPS};
use crate::scratch::Scratch;
use crate::stages::{
    sort_candidates, Candidate, ExactSearch, Found, RotatedQuery, Scanned, StagedSearch, Wanted,
};
use crate::traits::{IndexSnapshot, PinnedRows};
use crate::wanted::Wanted as Rows;

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

    pub(super) fn view(&self) -> View<'_> {
        View { shared: &self.shared, root: &self.root, pin: self.pin }
    }

    /// Shows the rows that are left, by the map of ids and, if that is not enough, by a walk.
    fn find_in_leaves(&self, mut wanted: Rows, visit: &mut dyn FnMut(usize, IndexRow<'_>)) {
        let view = self.view();
        self.look_up(&mut wanted, visit);
        for leaf in self.root.tree.leaves() {
            if wanted.is_done() {
                return;
            }
            leaf.chunks().for_each(|chunk| wanted.find(&chunk.rows, view.placed(), visit));
        }
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

    fn for_each_serial_row(
        &self,
        is_chosen: &dyn Fn(u16) -> bool,
        visit: &mut dyn FnMut(Option<u32>, IndexRow<'_>),
    ) {
        let mut leaves: Vec<_> = self.root.tree.leaves().collect();
        leaves.sort_unstable_by_key(|leaf| (leaf.serial, leaf.id));
        for leaf in leaves {
            for chunk in leaf.chunks() {
                let show = &mut |row: IndexRow<'_>| visit(Some(leaf.serial), row);
                chunk.rows.for_each_row_of(is_chosen, self.view().placed(), show);
            }
        }
        let tail = self.view().tail();
        self.root.tail.for_each_row_of(is_chosen, tail, &mut |row| visit(None, row));
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

    fn scan_loose(&self, vector: &[f32], filter: Option<&Filter>, out: &mut TopK) -> usize {
        let view = self.view();
        view.scan_tail(vector, view.compile(filter).as_ref(), out)
    }

    fn exact(
        &self,
        vector: &[f32],
        filter: Option<&Filter>,
        out: &mut TopK,
    ) -> Result<SearchStats, Infallible> {
        let view = self.view();
        Ok(view.exact(vector, view.compile(filter).as_ref(), &mut Vec::new(), out))
    }

    fn for_each_match(
        &self,
        filter: Option<&Filter>,
        visit: &mut dyn FnMut(RowKey),
    ) -> Result<(), Infallible> {
        let view = self.view();
        let filter = view.compile(filter);
        let filter = filter.as_ref();
        let tail = &view.root.tail;
        tail.for_each_match(filter, view.tail(), |lane| visit(tail.key(lane)));
        view.for_each_chunk(filter, |rows| {
            rows.for_each_match(filter, view.placed(), |lane| visit(rows.key(lane)));
        });
        Ok(())
    }

    fn search_radius(
        &self,
        vector: &[f32],
        radius: f32,
        filter: Option<&Filter>,
        out: &mut Vec<Neighbor>,
    ) -> Result<SearchStats, Infallible> {
        Ok(self.view().search_radius(vector, radius, filter, out))
    }
}

impl StagedSearch for Pinned {
    type State = Scratch;
    type Address = Infallible;
    type Block = Infallible;

    fn select(&self, filter: Option<&Filter>, scratch: &mut Scratch) -> Result<u64, Infallible> {
        let (view, state) = (self.view(), scratch.buffers::<ClusterState>());
        let rows = self.shared.rows();
        let filter = view.compile(filter);
        let most = filter.as_ref().map_or(rows, |f| f.at_most(rows, &self.shared.living));
        state.set_filter(&view, filter);
        Ok(most)
    }

    fn likely(&self, at_most: u64, scratch: &mut Scratch) -> u64 {
        let state: &mut ClusterState = scratch.buffers();
        let Some(filter) = &state.filter else { return at_most };
        let (view, rows) = (self.view(), self.shared.rows());
        let sample = |part: &Compiled| view.sampled_share(part);
        let counts = Counts { rows, living: &self.shared.living, sample: &sample };
        ((filter.likely_share(&counts) * rows as f64).round() as u64).min(at_most)
    }

    fn sweep(
        &self,
        vector: &[f32],
        most: u64,
        scratch: &mut Scratch,
        out: &mut TopK,
    ) -> Result<Option<SearchStats>, Infallible> {
        let ClusterState { filter, columns, origins, .. } = scratch.buffers();
        let Some(filter) = filter else { return Ok(None) };
        let swept = Swept { filter, columns };
        Ok(self.view().sweep(vector, swept, most, origins, out))
    }

    fn estimate_leaves(
        &self,
        query: &RotatedQuery,
        probes: usize,
        scratch: &mut Scratch,
        costs: &mut Vec<f32>,
    ) {
        let state: &mut ClusterState = scratch.buffers();
        self.shared.estimate(&self.root.tree, query, probes, state);
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
        let state: &mut ClusterState = scratch.buffers();
        let before = state.sort_up_to(bound);
        costs.extend(state.ranked[before..state.sorted].iter().map(|leaf| leaf.cost));
    }

    /// Keeps leaves whatever their distance: codes in memory cost less than the proof.
    fn keep_leaves(&self, leaves: Range<usize>, _: f32, scratch: &mut Scratch) -> usize {
        scratch.buffers::<ClusterState>().keep(&self.view(), leaves)
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
    ) -> Result<Scanned, Infallible> {
        let state: &mut ClusterState = scratch.buffers();
        let (view, mut counts) = (self.view(), Scanned::default());
        // Some of the best may have come after the moment.
        let mut keep = wanted.keep.saturating_add(wanted.keep / 8);
        loop {
            candidates.clear();
            let more = Wanted { keep, ..wanted };
            let is_cut = if state.filter.is_some() || wanted.deviations != 0.0 {
                let scanned = view.scan_matches(query, more, state, candidates);
                let rows = counts.rows + scanned.counts.rows;
                counts = Scanned { rows, ..scanned.counts };
                scanned.is_cut
            } else {
                let mut stats = SearchStats::default();
                let is_cut = view.scan(query, more, state, candidates, &mut stats);
                counts.rows += stats.rows;
                (counts.matches, counts.leaves) = (stats.rows, stats.leaves);
                is_cut
            };
            if !is_cut && wanted.deviations != 0.0 {
                // All of these are measured, and hidden ones passed over then.
                break;
            }
            view.drop_hidden(state, candidates);
            if !is_cut || candidates.len() >= wanted.keep {
                break;
            }
            keep = keep.saturating_mul(2);
        }
        sort_candidates(candidates);
        Ok(counts)
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

    fn read_rows(
        &self,
        rows: &[Neighbor],
        scratch: &mut Scratch,
        visit: &mut dyn FnMut(usize, IndexRow<'_>),
    ) {
        let (view, mut wanted) = (self.view(), Rows::new(rows));
        wanted.find(&self.root.tail, view.tail(), visit);
        // The search of this index alone and the stages have buffers of their own.
        let alone = std::mem::take(&mut scratch.buffers::<ClusterScratch>().state.origins);
        let staged = std::mem::take(&mut scratch.buffers::<ClusterState>().origins);
        let origins = alone.iter().chain(&staged).filter(|origin| wanted.has(origin.id));
        let places: Vec<_> = origins.filter_map(|origin| view.find_origin(origin)).collect();
        for step in 0..CARRIED_STEPS {
            places.iter().for_each(|&(chunk, lane)| chunk.prefetch_carried(step, lane));
        }
        for (chunk, lane) in places {
            wanted.look_at(chunk, lane, view.placed(), visit);
        }
        scratch.buffers::<ClusterScratch>().state.origins = alone;
        scratch.buffers::<ClusterState>().origins = staged;
        // The rows of exact searches have no origin.
        self.find_in_leaves(wanted, visit);
    }

    fn read_ids(&self, ids: &[u64], visit: &mut dyn FnMut(usize, IndexRow<'_>)) {
        let mut wanted = Rows::of_ids(ids);
        wanted.find(&self.root.tail, self.view().tail(), visit);
        self.find_in_leaves(wanted, visit);
    }

    fn least_ids(&self, filter: Option<&Filter>, least: &mut LeastIds) {
        let view = self.view();
        let filter = view.compile(filter);
        let filter = filter.as_ref();
        self.root.tail.least_ids(filter, view.tail(), least);
        if filter.is_some() {
            view.for_each_chunk(filter, |rows| rows.least_ids(filter, view.placed(), least));
            return;
        }
        for leaf in self.root.tree.leaves() {
            leaf.chunks().for_each(|chunk| chunk.rows.prefetch_head());
            leaf.chunks().for_each(|chunk| chunk.rows.prefetch_ids());
            leaf.chunks().for_each(|chunk| chunk.rows.least_ids(None, view.placed(), least));
        }
    }
}
