//! A query with a filter, over all places. `vstream_index::stages` says how far it goes; this file
//! shows it the places of a moment, in memory and in segments, as one list.

use std::cell::RefCell;
use std::convert::Infallible;
use std::ops::Range;

use vstream_attribute::Filter;
use vstream_index::stages::{
    audit_filtered, search_filtered, FilteredPlace, FilteredProbe, FilteredScratch, FilteredStats,
    PlaceState, Places, RotatedQueries, RotatedQuery, Staged, Stop, Visit, Visited, PATIENCE,
};
use vstream_index::{Effort, IndexSnapshot, Probe, SearchStats};
use vstream_quantize::scalar8::ScanScratch;
use vstream_segment::SegmentView;
use vstream_store::blocks::BlockHandle;
use vstream_store::Error as StoreError;
use vstream_vector::TopK;

use super::scratch::ALWAYS_VISITED;
use super::TreeScratch;
use crate::error::Error;
use crate::tree::{Leaves, Pinned, Tree, NOT_SERVED};

/// Least share of the rows that match, by class but the last.
const SHARES: [f64; 3] = [0.2, 0.04, 0.008];
/// Classes of that share: a filter that few rows pass needs another θ than one that many pass.
pub(crate) const SHARE_CLASSES: usize = SHARES.len() + 1;

/// The class of a share of rows that match.
pub(crate) fn share_class(share: f64) -> usize {
    SHARES.iter().take_while(|&&least| share < least).count()
}

/// Where searches with a filter may stop, by class of the share of rows that match.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thetas(pub(crate) [f32; SHARE_CLASSES]);

impl Thetas {
    /// Searches visit every leaf.
    pub(crate) const NONE: Thetas = Thetas([f32::INFINITY; SHARE_CLASSES]);

    /// As [`FilteredProbe::by_share`].
    fn by_share(&self) -> [(f64, f32); SHARE_CLASSES] {
        std::array::from_fn(|class| (SHARES.get(class).copied().unwrap_or(0.0), self.0[class]))
    }
}

/// What is done with the places of a moment.
type Work<'w> = dyn FnMut(
        &mut Places<'_, '_, StoreError>,
        &FilteredProbe<'_>,
        &mut FilteredScratch,
    ) -> Result<FilteredStats, StoreError>
    + 'w;

/// A place in memory, whose rows can always be read.
struct InMemory<'a> {
    staged: Staged<'a, dyn IndexSnapshot + 'a>,
    always: Always,
}

/// Leaves of a place that every query visits, the nearest.
struct Always {
    /// How many.
    count: usize,
    /// Estimated cost of the last of them.
    bound: f32,
}

impl Always {
    fn new(count: usize) -> Always {
        Always { count, bound: f32::NEG_INFINITY }
    }

    /// Begins a ranking.
    ///
    /// * `costs`: the estimates; that of a leaf without rows is infinite.
    fn begin(&mut self, costs: &[f32]) {
        if self.count == 0 {
            return;
        }
        let finite = costs.iter().copied().filter(|cost| *cost < f32::INFINITY);
        let mut costs: Vec<f32> = finite.collect();
        self.count = self.count.min(costs.len());
        if let Some(last) = self.count.checked_sub(1) {
            self.bound = *costs.select_nth_unstable_by(last, f32::total_cmp).1;
        }
    }
}

impl FilteredPlace for InMemory<'_> {
    type Error = StoreError;

    fn leaves(&self) -> usize {
        self.staged.leaves()
    }

    fn select(&mut self, filter: Option<&Filter>) -> Result<u64, StoreError> {
        let Ok(most) = self.staged.select(filter);
        Ok(most)
    }

    fn likely(&mut self, at_most: u64) -> u64 {
        self.staged.likely(at_most)
    }

    fn sweep(
        &mut self,
        probe: &FilteredProbe<'_>,
        most: u64,
        out: &mut TopK,
    ) -> Result<Option<SearchStats>, StoreError> {
        let Ok(swept) = self.staged.sweep(probe, most, out);
        Ok(swept)
    }

    fn scan_loose(&mut self, probe: &FilteredProbe<'_>, out: &mut TopK) -> usize {
        self.staged.scan_loose(probe, out)
    }

    fn exact(
        &mut self,
        probe: &FilteredProbe<'_>,
        out: &mut TopK,
    ) -> Result<SearchStats, StoreError> {
        let Ok(stats) = self.staged.exact(probe, out);
        Ok(stats)
    }

    fn estimate(
        &mut self,
        vector: &[f32],
        probes: usize,
        queries: &mut RotatedQueries,
        costs: &mut Vec<f32>,
    ) {
        let before = costs.len();
        self.staged.estimate(vector, probes, queries, costs);
        self.always.begin(&costs[before..]);
    }

    fn rank(&mut self, bound: f32, queries: &RotatedQueries) -> &[f32] {
        self.staged.rank(bound, queries)
    }

    fn rank_always(&mut self, queries: &RotatedQueries) -> usize {
        self.rank(self.always.bound, queries);
        self.always.count
    }

    fn visit(
        &mut self,
        leaves: Range<usize>,
        ask: &Visit<'_>,
        out: &mut TopK,
        seen: &mut dyn FnMut(vstream_index::stages::FoundRow),
    ) -> Result<Visited, StoreError> {
        let Ok(visited) = self.staged.visit(leaves, ask, out, seen);
        Ok(visited)
    }
}

/// What the segments of a moment share: the costs of their leaves, each computed once.
struct SharedCosts<'a> {
    leaves: &'a Leaves,
    scan: ScanScratch,
    estimates: Vec<f32>,
    /// Cost and base by leaf; the cost is not a number until it is computed.
    exact: Vec<(f32, f32)>,
    centroid: Vec<f32>,
}

impl<'a> SharedCosts<'a> {
    fn new(leaves: &'a Leaves) -> SharedCosts<'a> {
        let (scan, centroid) = (ScanScratch::default(), Vec::new());
        SharedCosts { leaves, scan, estimates: Vec::new(), exact: Vec::new(), centroid }
    }

    fn estimate(&mut self, query: &RotatedQuery) {
        if self.exact.is_empty() {
            self.leaves.estimate(query, &mut self.scan, &mut self.estimates);
            self.exact = vec![(f32::NAN, 0.0); self.estimates.len()];
        }
    }

    /// The estimated cost of a leaf; beyond all others for one that its segment does not serve.
    fn estimated(&self, leaf: u32) -> f32 {
        match leaf {
            NOT_SERVED => f32::INFINITY,
            leaf => self.estimates[leaf as usize],
        }
    }

    fn exact(&mut self, query: &RotatedQuery, leaf: u32) -> (f32, f32) {
        if leaf == NOT_SERVED {
            return (f32::INFINITY, 0.0);
        }
        let known = &mut self.exact[leaf as usize];
        if known.0.is_nan() {
            *known = self.leaves.exact(query, leaf, &mut self.centroid);
        }
        *known
    }
}

/// A segment, whose leaves have the costs that all segments share.
struct InSegment<'a> {
    staged: Staged<'a, SegmentView<'a>>,
    /// Its position among the segments with leaves.
    at: usize,
    shared: &'a RefCell<SharedCosts<'a>>,
    always: Always,
}

impl FilteredPlace for InSegment<'_> {
    type Error = StoreError;

    fn leaves(&self) -> usize {
        self.staged.leaves()
    }

    fn select(&mut self, filter: Option<&Filter>) -> Result<u64, StoreError> {
        self.staged.select(filter)
    }

    fn likely(&mut self, at_most: u64) -> u64 {
        self.staged.likely(at_most)
    }

    fn sweep(
        &mut self,
        probe: &FilteredProbe<'_>,
        most: u64,
        out: &mut TopK,
    ) -> Result<Option<SearchStats>, StoreError> {
        self.staged.sweep(probe, most, out)
    }

    fn scan_loose(&mut self, probe: &FilteredProbe<'_>, out: &mut TopK) -> usize {
        self.staged.scan_loose(probe, out)
    }

    fn exact(
        &mut self,
        probe: &FilteredProbe<'_>,
        out: &mut TopK,
    ) -> Result<SearchStats, StoreError> {
        self.staged.exact(probe, out)
    }

    fn estimate(
        &mut self,
        vector: &[f32],
        _: usize,
        queries: &mut RotatedQueries,
        costs: &mut Vec<f32>,
    ) {
        let Staged { place, state, .. } = &mut self.staged;
        state.clear();
        let mut shared = self.shared.borrow_mut();
        state.query = queries.rotate(shared.leaves.rotation(), vector);
        let query = queries.get(state.query);
        shared.estimate(query);
        let own = shared.leaves.of_segment(self.at);
        let own = own.iter().map(|&leaf| shared.estimated(leaf));
        place.estimate_by(own.clone(), query.norm(), &mut state.stage);
        let before = costs.len();
        costs.extend(own);
        self.always.begin(&costs[before..]);
    }

    fn rank(&mut self, bound: f32, queries: &RotatedQueries) -> &[f32] {
        let Staged { place, state, .. } = &mut self.staged;
        let PlaceState { stage, costs, query, .. } = &mut **state;
        let query = queries.get(*query);
        let (before, mut shared) = (costs.len(), self.shared.borrow_mut());
        let exact = &mut |leaf: u32| {
            let leaf = shared.leaves.of_segment(self.at)[leaf as usize];
            shared.exact(query, leaf)
        };
        place.rank_by(bound, exact, stage, costs);
        &costs[before..]
    }

    fn rank_always(&mut self, queries: &RotatedQueries) -> usize {
        self.rank(self.always.bound, queries);
        self.always.count
    }

    fn visit(
        &mut self,
        leaves: Range<usize>,
        ask: &Visit<'_>,
        out: &mut TopK,
        seen: &mut dyn FnMut(vstream_index::stages::FoundRow),
    ) -> Result<Visited, StoreError> {
        self.staged.visit(leaves, ask, out, seen)
    }
}

impl Tree {
    /// Visits every leaf for a query, and writes to `needs` the θ that each true neighbour needs, nearest
    /// first; see `guard/filtered.rs`. Returns the class of the share of the rows that match; `None`
    /// where searches are exact. Errors: as [`Tree::search`].
    pub(crate) fn needs(
        &self,
        probe: &Probe<'_>,
        scratch: &mut TreeScratch,
        out: &mut TopK,
        needs: &mut Vec<f32>,
    ) -> Result<Option<usize>, Error> {
        let pinned = self.pin();
        if pinned.is_exact() {
            return Ok(None);
        }
        let stats = pinned.over_places(probe, &[], scratch, &mut |places, probe, scratch| {
            audit_filtered(places, probe, scratch, out, needs)
        })?;
        Ok((!stats.is_exact).then(|| share_class(stats.share())))
    }

    /// Offers the nearest rows of one read snapshot that match to `out`. Exact if `probe.effort` is;
    /// otherwise it goes as far as `thetas` say. Returns also the class of the share of the rows that
    /// match; `None` if the answer is exact. Errors: as [`Tree::search`].
    pub(crate) fn search_filtered(
        &self,
        probe: &Probe<'_>,
        thetas: &Thetas,
        scratch: &mut TreeScratch,
        out: &mut TopK,
    ) -> Result<(SearchStats, Option<usize>), Error> {
        self.pin().search_filtered(probe, thetas, scratch, out)
    }
}

impl Pinned {
    /// As [`Tree::search_filtered`], on this read snapshot.
    pub(crate) fn search_filtered(
        &self,
        probe: &Probe<'_>,
        thetas: &Thetas,
        scratch: &mut TreeScratch,
        out: &mut TopK,
    ) -> Result<(SearchStats, Option<usize>), Error> {
        if probe.effort == Effort::Exact || self.is_exact() {
            return Ok((self.exact(probe.vector, probe.filter, out)?, None));
        }
        let by_share = thetas.by_share();
        let stats =
            self.over_places(probe, &by_share, scratch, &mut |places, probe, scratch| {
                search_filtered(places, probe, scratch, out, &mut |_, _| {})
            })?;
        Ok((stats.work, (!stats.is_exact).then(|| share_class(stats.share()))))
    }

    /// True if filtered searches read every row that matches: some place has no leaves.
    fn is_exact(&self) -> bool {
        self.is_flat() || self.graphs().next().is_some()
    }

    /// Does some work on all places of this moment.
    fn over_places(
        &self,
        probe: &Probe<'_>,
        by_share: &[(f64, f32)],
        scratch: &mut TreeScratch,
        work: &mut Work<'_>,
    ) -> Result<FilteredStats, Error> {
        let views: Vec<SegmentView<'_>> = self.segments().collect();
        let reads: Vec<_> = views
            .iter()
            .map(|view| move |wanted: &[BlockHandle]| view.blocks().read_many(wanted))
            .collect();
        scratch.begin(views.len());
        let TreeScratch { memory, segments, filtered, .. } = scratch;
        let nothing = |_: &[Infallible]| Ok(Vec::new());
        let places = views.len() + self.memory_places().count();
        let always = if places > 1 { ALWAYS_VISITED } else { 0 };
        let partial = self.view.leaves.partial();
        let memory = self.memory_places().zip(memory);
        let mut memory: Vec<InMemory<'_>> = memory
            .map(|(place, state)| {
                let staged = Staged { place, state, read: &nothing };
                InMemory { staged, always: Always::new(always) }
            })
            .collect();
        let shared = RefCell::new(SharedCosts::new(&self.view.leaves));
        let segments = views.iter().zip(segments).zip(&reads).enumerate();
        let mut segments: Vec<InSegment<'_>> = segments
            .map(|(at, ((place, state), read))| {
                let staged = Staged { place, state, read };
                let is_partial = partial.binary_search(&(at as u32)).is_ok();
                let always = Always::new(if is_partial { always } else { 0 });
                InSegment { staged, at, shared: &shared, always }
            })
            .collect();
        let mut places: Vec<&mut dyn FilteredPlace<Error = StoreError>> = Vec::new();
        places.extend(memory.iter_mut().map(|place| place as &mut dyn FilteredPlace<Error = _>));
        places.extend(segments.iter_mut().map(|place| place as &mut dyn FilteredPlace<Error = _>));
        let probe = FilteredProbe {
            settings: self.settings,
            vector: probe.vector,
            k: probe.k,
            filter: probe.filter,
            stop: Stop { theta: f32::INFINITY, patience: PATIENCE },
            by_share,
        };
        Ok(work(&mut places, &probe, filtered)?)
    }
}
