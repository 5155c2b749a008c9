//! The stages of an approximate search, the same for rows in memory and rows in segments.
//!
//! 1. Take the exact distances of rows that are in no leaf ([`ExactSearch::scan_loose`]).
//! 2. Estimate what each leaf costs ([`StagedSearch::estimate_leaves`]), then rank those that seem
//!    near enough ([`StagedSearch::rank_leaves`]).
//! 3. Keep the nearest leaves ([`StagedSearch::keep_leaves`]), scan their codes and keep the least
//!    estimates ([`StagedSearch::scan_codes`]).
//! 4. Take the exact distances of the best candidates ([`StagedSearch::refine`]).
//!
//! [`search_place`] searches one place alone: it calls the stages one after the other. Whoever
//! searches several places as one (the engine) calls each stage for all places before the next
//! stage, and cuts the lists of all places by one bound in between.
//!
//! A query with a filter sets it first ([`StagedSearch::select`]).
//!
//! Stages never read files. A place names the addresses that the next stage needs, and the caller
//! reads them, for all places in one round of reads.

mod candidates;
mod filtered;
mod query;

use std::ops::Range;

use vstream_attribute::Filter;
use vstream_quantize::rabitq::Rotation;
use vstream_vector::{Neighbor, TopK};

pub use self::candidates::{sort_candidates, BestCandidates, Candidate};
pub use self::filtered::{
    audit_filtered, calibrate, need, search_filtered, theta_for, FilteredPlace, FilteredProbe,
    FilteredScratch, FilteredStats, FoundRow, Places, Staged, Stop, Visit, Visited, FEW_MATCHES,
    PATIENCE,
};
pub use self::query::{as_estimate, form_of, LeafCost, RotatedQueries, RotatedQuery};
use crate::probe::{Effort, Probe, SearchStats};
use crate::rows::RowKey;

/// The rows that one place shows at one moment, searched exactly.
pub trait ExactSearch {
    /// Why rows cannot be read; `Infallible` in memory.
    type Error;

    /// Leaves that there are.
    fn leaves(&self) -> usize;

    /// The rotation of vectors before they are coded; `None` if no row of the place is coded.
    fn rotation(&self) -> Option<&Rotation>;

    /// Offers every visible row that is in no leaf and matches; returns how many it looked at.
    fn scan_loose(&self, vector: &[f32], filter: Option<&Filter>, out: &mut TopK) -> usize;

    /// Offers every visible row that matches, or all that may be among the nearest.
    fn exact(
        &self,
        vector: &[f32],
        filter: Option<&Filter>,
        out: &mut TopK,
    ) -> Result<SearchStats, Self::Error>;

    /// Calls `visit` with the key of every visible row that matches, in any order.
    fn for_each_match(
        &self,
        filter: Option<&Filter>,
        visit: &mut dyn FnMut(RowKey),
    ) -> Result<(), Self::Error>;

    /// Adds every visible row that matches, at a distance of at most `radius`, to `out`: see
    /// [`crate::Search::search_radius`].
    fn search_radius(
        &self,
        vector: &[f32],
        radius: f32,
        filter: Option<&Filter>,
        out: &mut Vec<Neighbor>,
    ) -> Result<SearchStats, Self::Error>;
}

/// The rows that one place shows at one moment, searched in stages. See the module's steps.
///
/// The stages come in the order of the methods, with one `State` per place.
pub trait StagedSearch: ExactSearch {
    /// A query's buffers for the place, filled stage by stage and reused from query to query.
    type State: Default;
    /// Where something lies that a stage needs; uninhabited in memory.
    type Address;
    /// The bytes of an address.
    type Block;

    /// Sets the filter of a query, before its other stages: `None` for all rows. Later scans of this
    /// state pass over rows that do not match. Returns an upper bound on the rows that match.
    fn select(&self, filter: Option<&Filter>, state: &mut Self::State) -> Result<u64, Self::Error>;

    /// How many rows the selected filter probably lets through; by default the bound.
    ///
    /// * `at_most`: what [`StagedSearch::select`] returned.
    fn likely(&self, at_most: u64, _: &mut Self::State) -> u64 {
        at_most
    }

    /// Offers every visible row that the selected filter lets through, if the place can find these rows
    /// without their codes and finds at most `most`. Returns `None`, and offers none, if it does not.
    fn sweep(
        &self,
        _vector: &[f32],
        _most: u64,
        _: &mut Self::State,
        _out: &mut TopK,
    ) -> Result<Option<SearchStats>, Self::Error> {
        Ok(None)
    }

    /// Begins a query: estimates the costs of at least the `probes` nearest leaves and adds them to
    /// `costs`, in any order.
    fn estimate_leaves(
        &self,
        query: &RotatedQuery,
        probes: usize,
        state: &mut Self::State,
        costs: &mut Vec<f32>,
    );

    /// Ranks the leaves whose estimated cost is at most `bound`, nearest first, and adds their costs
    /// to `costs`, ascending. Called again with a larger bound, it ranks more leaves behind those that
    /// are ranked, which stay as they are.
    fn rank_leaves(
        &self,
        query: &RotatedQuery,
        bound: f32,
        state: &mut Self::State,
        costs: &mut Vec<f32>,
    );

    /// Begins a scan of the leaves of these ranks. Passes over those that hold no match, and over
    /// those of which the triangle inequality proves that they hold no row within `radius`, a distance
    /// of the metric. Returns how many are left.
    fn keep_leaves(&self, leaves: Range<usize>, radius: f32, state: &mut Self::State) -> usize;

    /// The codes that the next call of [`StagedSearch::scan_codes`] needs and memory lacks; `None` if
    /// all leaves were scanned.
    fn next_codes(&self, state: &mut Self::State) -> Option<Vec<Self::Address>>;

    /// Scans the next codes; returns what it looked at. Then `candidates` are the best visible
    /// rows so far, best first.
    ///
    /// * `codes`: the blocks at the addresses of [`StagedSearch::next_codes`].
    /// * `wanted`: how many candidates are wanted. A place may keep some more.
    /// * `candidates`: empty, or as the last call of this scan left it.
    fn scan_codes(
        &self,
        query: &RotatedQuery,
        codes: &[Self::Block],
        wanted: Wanted,
        state: &mut Self::State,
        candidates: &mut Vec<Candidate>,
    ) -> Result<Scanned, Self::Error>;

    /// The rows that [`StagedSearch::refine`] needs of `candidates` and memory lacks, each address
    /// once.
    fn rows_of(&self, candidates: &[Candidate], state: &mut Self::State) -> Vec<Self::Address>;

    /// Offers the exact distances of candidates; returns how many it took. Calls `seen` with position
    /// and row of each candidate that was among the nearest when it was measured.
    ///
    /// * `found`: with the candidates of the last call of [`StagedSearch::rows_of`].
    /// * `rows`: the blocks at its addresses.
    fn refine(
        &self,
        found: Found<'_>,
        rows: &[Self::Block],
        state: &mut Self::State,
        out: &mut TopK,
        seen: &mut dyn FnMut(usize, Neighbor),
    ) -> Result<usize, Self::Error>;
}

/// What a scan of codes looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Codes.
    pub rows: usize,
    /// Rows that match the filter; all rows without one.
    pub matches: usize,
    /// Leaves with a row that matches.
    pub leaves: usize,
}

/// Which candidates a scan keeps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wanted {
    /// The best so many, ≥ 1.
    pub keep: usize,
    /// Only those with estimates below this bound.
    pub below: f32,
    /// Estimates are lowered by so many standard deviations of their errors before they are compared;
    /// 0 for the estimates themselves. A candidate keeps the lowered estimate.
    pub deviations: f32,
}

/// Which candidates get an exact distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refine {
    /// Those that may be among the nearest: with a second look, the ones that it leaves; without one,
    /// all of them.
    Likely,
    /// All of them.
    Each,
}

/// A query, and the candidates that are refined for it.
#[derive(Clone, Copy)]
pub struct Found<'a> {
    /// The query as it was asked.
    pub vector: &'a [f32],
    /// The query as codes see it.
    pub rotated: &'a RotatedQuery,
    /// Candidates of one place.
    pub candidates: &'a [Candidate],
    /// Which of them get an exact distance.
    pub refine: Refine,
}

/// A query's state for one place: the place's own buffers, and the results of the stages so far.
#[derive(Default)]
pub struct PlaceState<S> {
    /// The place's own buffers.
    pub stage: S,
    /// Position of the query that has the place's rotation, for callers that rotate it several ways.
    pub query: usize,
    /// Costs of its ranked leaves, ascending.
    pub costs: Vec<f32>,
    /// Leaves that are visited, the first of the ranked.
    pub leaves: usize,
    /// Ranked leaves that are visited whatever they cost, the first, where several places are searched as one.
    pub always: usize,
    /// Its candidates, best first.
    pub candidates: Vec<Candidate>,
}

impl<S> PlaceState<S> {
    /// Forgets what the last query found. The place's own buffers stay as they are.
    pub fn clear(&mut self) {
        self.costs.clear();
        (self.leaves, self.always) = (0, 0);
        self.candidates.clear();
    }
}

/// Reads some addresses of a place, in one round of reads.
pub type ReadBlocks<'a, P> = dyn Fn(
        &[<P as StagedSearch>::Address],
    ) -> Result<Vec<<P as StagedSearch>::Block>, <P as ExactSearch>::Error>
    + 'a;

/// Offers the nearest rows of one place to `out`, which was reset to `probe.k`.
///
/// Calls the stages one after the other, and again for more leaves if those that it visited hold
/// fewer than `k` rows. Takes every row unless `probe.effort` is [`Effort::Approximate`].
///
/// Errors: those of the place and of `read`; `out` is incomplete then.
pub fn search_place<P: StagedSearch>(
    place: &P,
    probe: &Probe<'_>,
    read: &ReadBlocks<'_, P>,
    (query, state): (&mut RotatedQuery, &mut PlaceState<P::State>),
    out: &mut TopK,
) -> Result<SearchStats, P::Error> {
    let (Effort::Approximate { mut probes, refine }, Some(rotation)) =
        (probe.effort, place.rotation())
    else {
        return place.exact(probe.vector, probe.filter, out);
    };
    query.rotate(rotation, probe.vector);
    place.select(probe.filter, &mut state.stage)?;
    let rows = place.scan_loose(probe.vector, probe.filter, out);
    let mut stats = SearchStats { rows, exact: rows, leaves: 0 };
    let keep = refine.max(probe.k);
    let wanted = Wanted { keep, below: f32::INFINITY, deviations: 0.0 };
    loop {
        rank_nearest(place, query, probes, state);
        state.leaves = place.keep_leaves(0..probes.max(1), f32::INFINITY, &mut state.stage);
        stats.leaves += state.leaves;
        let PlaceState { stage, candidates, .. } = &mut *state;
        candidates.clear();
        while let Some(addresses) = place.next_codes(stage) {
            let codes = read(&addresses)?;
            stats.rows += place.scan_codes(query, &codes, wanted, stage, candidates)?.rows;
        }
        candidates.truncate(wanted.keep);
        if rows + candidates.len() >= probe.k || probes >= place.leaves() {
            let rows = read(&place.rows_of(candidates, stage))?;
            let refine = Refine::Likely;
            let found = Found { vector: probe.vector, rotated: query, candidates, refine };
            stats.exact += place.refine(found, &rows, stage, out, &mut |_, _| {})?;
            return Ok(stats);
        }
        // So many rows of these leaves are gone that fewer than k are left.
        probes = probes.max(1).saturating_mul(4);
    }
}

/// Ranks the `probes` nearest leaves of one place.
fn rank_nearest<P: StagedSearch>(
    place: &P,
    query: &RotatedQuery,
    probes: usize,
    state: &mut PlaceState<P::State>,
) {
    let PlaceState { stage, costs, .. } = state;
    costs.clear();
    place.estimate_leaves(query, probes, stage, costs);
    let nth = probes.max(1) - 1;
    let bound = match nth < costs.len() {
        true => *costs.select_nth_unstable_by(nth, f32::total_cmp).1,
        false => f32::INFINITY,
    };
    costs.clear();
    place.rank_leaves(query, bound, stage, costs);
}

#[cfg(test)]
mod tests;
