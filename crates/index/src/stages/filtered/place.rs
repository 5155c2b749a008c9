//! A place of a search of rows that match: rows in memory or in a segment, at one moment.

use std::ops::Range;

use vstream_attribute::Filter;
use vstream_vector::{Neighbor, TopK};

use super::FilteredProbe;
use crate::probe::SearchStats;
use crate::stages::{
    as_estimate, Candidate, Found, PlaceState, ReadBlocks, Refine, RotatedQueries, Scanned,
    StagedSearch, Wanted,
};

/// A scan keeps all candidates below its bound, at most so many.
const KEPT: usize = 1 << 20;

/// A row of an answer, as a place found it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FoundRow {
    /// The row.
    pub row: Neighbor,
    /// Cost of its leaf for the query.
    pub cost: f32,
    /// The least [`super::Stop::theta`] with which the search came to its leaf; any if negative infinity.
    pub needed: f32,
    /// Where it is among the ranked leaves of its place.
    pub candidate: Candidate,
}

/// A place with its state, for searches over places of several kinds.
pub trait FilteredPlace {
    /// Why rows cannot be read.
    type Error;

    /// Leaves that there are.
    fn leaves(&self) -> usize;

    /// See [`StagedSearch::select`].
    fn select(&mut self, filter: Option<&Filter>) -> Result<u64, Self::Error>;

    /// See [`StagedSearch::likely`].
    fn likely(&mut self, at_most: u64) -> u64;

    /// See [`StagedSearch::sweep`].
    fn sweep(
        &mut self,
        probe: &FilteredProbe<'_>,
        most: u64,
        out: &mut TopK,
    ) -> Result<Option<SearchStats>, Self::Error>;

    /// See [`crate::stages::ExactSearch::scan_loose`].
    fn scan_loose(&mut self, probe: &FilteredProbe<'_>, out: &mut TopK) -> usize;

    /// See [`crate::stages::ExactSearch::exact`].
    fn exact(
        &mut self,
        probe: &FilteredProbe<'_>,
        out: &mut TopK,
    ) -> Result<SearchStats, Self::Error>;

    /// Estimates the costs of the `probes` nearest leaves and adds them to `costs`.
    fn estimate(
        &mut self,
        vector: &[f32],
        probes: usize,
        queries: &mut RotatedQueries,
        costs: &mut Vec<f32>,
    );

    /// Ranks the leaves that cost at most `bound` behind those that are ranked; returns their costs, ascending.
    fn rank(&mut self, bound: f32, queries: &RotatedQueries) -> &[f32];

    /// Ranks the leaves that every search visits, be they beyond its stop, behind those that are ranked. Returns how
    /// many of all ranked leaves they are, the nearest.
    fn rank_always(&mut self, _: &RotatedQueries) -> usize {
        0
    }

    /// Visits ranked leaves: offers their nearest rows that match to `out`. Calls `seen` with each row
    /// that was among the nearest when it was measured.
    fn visit(
        &mut self,
        leaves: Range<usize>,
        ask: &Visit<'_>,
        out: &mut TopK,
        seen: &mut dyn FnMut(FoundRow),
    ) -> Result<Visited, Self::Error>;
}

/// What a visit of leaves is for.
#[derive(Clone, Copy)]
pub struct Visit<'a> {
    /// The query.
    pub probe: &'a FilteredProbe<'a>,
    /// The query after the rotations of the places.
    pub queries: &'a RotatedQueries,
    /// Standard deviations by which estimates are lowered.
    pub deviations: f32,
}

/// What a visit of leaves did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visited {
    /// Codes read, rows that match, leaves with a match.
    pub scanned: Scanned,
    /// Exact distances taken.
    pub exact: usize,
}

/// A place in stages, as a [`FilteredPlace`].
pub struct Staged<'a, P: StagedSearch + ?Sized> {
    /// The place.
    pub place: &'a P,
    /// Its buffers.
    pub state: &'a mut PlaceState<P::State>,
    /// Reads what memory lacks.
    pub read: &'a ReadBlocks<'a, P>,
}

impl<P: StagedSearch + ?Sized> FilteredPlace for Staged<'_, P> {
    type Error = P::Error;

    fn leaves(&self) -> usize {
        self.place.leaves()
    }

    fn select(&mut self, filter: Option<&Filter>) -> Result<u64, P::Error> {
        self.place.select(filter, &mut self.state.stage)
    }

    fn likely(&mut self, at_most: u64) -> u64 {
        self.place.likely(at_most, &mut self.state.stage)
    }

    fn sweep(
        &mut self,
        probe: &FilteredProbe<'_>,
        most: u64,
        out: &mut TopK,
    ) -> Result<Option<SearchStats>, P::Error> {
        self.place.sweep(probe.vector, most, &mut self.state.stage, out)
    }

    fn scan_loose(&mut self, probe: &FilteredProbe<'_>, out: &mut TopK) -> usize {
        self.place.scan_loose(probe.vector, probe.filter, out)
    }

    fn exact(
        &mut self,
        probe: &FilteredProbe<'_>,
        out: &mut TopK,
    ) -> Result<SearchStats, P::Error> {
        self.place.exact(probe.vector, probe.filter, out)
    }

    fn estimate(
        &mut self,
        vector: &[f32],
        probes: usize,
        queries: &mut RotatedQueries,
        costs: &mut Vec<f32>,
    ) {
        self.state.clear();
        self.state.query = queries.rotate(self.place.rotation(), vector);
        let query = queries.get(self.state.query);
        self.place.estimate_leaves(query, probes, &mut self.state.stage, costs);
    }

    fn rank(&mut self, bound: f32, queries: &RotatedQueries) -> &[f32] {
        let PlaceState { stage, costs, query, .. } = &mut *self.state;
        let before = costs.len();
        self.place.rank_leaves(queries.get(*query), bound, stage, costs);
        &costs[before..]
    }

    fn visit(
        &mut self,
        leaves: Range<usize>,
        ask: &Visit<'_>,
        out: &mut TopK,
        seen: &mut dyn FnMut(FoundRow),
    ) -> Result<Visited, P::Error> {
        let Staged { place, state, read } = self;
        let PlaceState { stage, candidates, costs, query, .. } = &mut **state;
        let (probe, query) = (ask.probe, ask.queries.get(*query));
        let mut visited = Visited::default();
        candidates.clear();
        if place.keep_leaves(leaves, out.bound(), stage) == 0 {
            return Ok(visited);
        }
        let bound = |out: &TopK| as_estimate(probe.settings, out.bound());
        let wanted = Wanted { keep: KEPT, below: bound(out), deviations: ask.deviations };
        while let Some(addresses) = place.next_codes(stage) {
            let codes = read(&addresses)?;
            let scanned = place.scan_codes(query, &codes, wanted, stage, candidates)?;
            visited.scanned.rows += scanned.rows;
            visited.scanned.matches += scanned.matches;
            visited.scanned.leaves += scanned.leaves;
        }
        // A few at a time: each lowers the bound for the next.
        let together = (2 * probe.k).max(32);
        let mut rest = &candidates[..];
        loop {
            let bound = bound(out);
            let likely = rest.partition_point(|row| row.estimate < bound).min(together);
            if likely == 0 {
                return Ok(visited);
            }
            let (next, later) = rest.split_at(likely);
            let rows = read(&place.rows_of(next, stage))?;
            let (vector, refine) = (probe.vector, Refine::Likely);
            let found = Found { vector, rotated: query, candidates: next, refine };
            let noted = &mut |position: usize, row| {
                let candidate: Candidate = next[position];
                let cost = costs[candidate.leaf as usize];
                seen(FoundRow { row, cost, needed: f32::NEG_INFINITY, candidate });
            };
            visited.exact += place.refine(found, &rows, stage, out, noted)?;
            rest = later;
        }
    }
}
