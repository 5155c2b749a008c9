//! An approximate search of rows that match a filter, over any places as one.
//!
//! A fixed number of leaves is no measure of effort here: how many leaves hold the nearest matches
//! depends on how the filter and the vectors are related. So the search goes on until it has evidence.
//!
//! 1. Bound the number of matches by exact counts. If there are few, take the exact distances of all
//!    of them ([`FEW_MATCHES`]).
//! 2. Rank the leaves of all places in one order. Visit them in small rounds; a leaf that holds no match
//!    is passed over.
//! 3. In a round, estimate the rows that match by their codes, lowered by two standard deviations, and
//!    take the exact distance of each row that may be nearer than the k-th so far.
//! 4. Stop if `k` rows are found, [`Stop::patience`] leaves with a match have passed since the last
//!    change of the nearest `k`, and the next leaf is farther than the [margin](Stop::theta) asks for.
//!
//! If the search never stops, it has visited every leaf. The margin is measured and not guessed: an
//! audit says what each true neighbour needed ([`audit_filtered`]), and [`calibrate`] takes a quantile
//! over rows of the collection as queries. A query without a filter is about the worst case, so that a
//! margin from such queries serves all filters (docs/design/index.md).

use std::ops::Range;

use vstream_attribute::Filter;
use vstream_quantize::Form;
use vstream_vector::{Neighbor, TopK};

use super::query::{as_estimate, form_of, RotatedQueries};
use super::{Candidate, Found, PlaceState, ReadBlocks, Refine, StagedSearch, Wanted};
use crate::probe::SearchStats;
use crate::settings::IndexSettings;

/// Up to so many matches an exact search is cheaper than one by codes: 214, 433 and 277 were measured
/// on three data sets, with the ranking of leaves counted.
pub const FEW_MATCHES: u64 = 300;

/// Leaves with a match that a search visits after the last change of its answer. With 10 a margin that
/// is calibrated without a filter collapses on some data, and correlated filters find 0.72.
pub const PATIENCE: usize = 5;

/// Standard deviations by which an estimate is lowered. Two lose at most 0.005 of the neighbours, 1.5
/// lose 0.017.
const DEVIATIONS: f32 = 2.0;
/// The same for audits, which are to miss nothing.
const AUDIT_DEVIATIONS: f32 = 4.0;

/// Leaves whose costs are estimated at first, at least; eight times as many if these do not suffice.
const ESTIMATED_FIRST: usize = 256;
/// Leaves that are put in order at first; four times as many whenever these do not suffice.
const RANKED_FIRST: usize = 64;
/// The first round visits so many leaves, later ones an eighth of those visited before.
const ROUND: usize = 2;
const ROUND_SHARE: usize = 8;
/// A scan keeps all candidates below its bound, at most so many.
const KEPT: usize = 1 << 20;

/// When a search of rows that match stops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stop {
    /// How far the next leaf must be, measured against the k-th nearest row so far.
    ///
    /// For squared distances and cosine: squared distance of the query to the next centroid, over that
    /// to the row. By inner product: cost of the next leaf ([`super::LeafCost`]) less the distance of
    /// the row, over the norm of the query. So in both cases it does not depend on the scale of the
    /// query. Larger is safer; infinite visits every leaf.
    pub theta: f32,
    /// Leaves with a match that must pass without a change: [`PATIENCE`].
    pub patience: usize,
}

/// A query for rows that match.
#[derive(Clone, Copy, Debug)]
pub struct FilteredProbe<'a> {
    /// Settings of all places. Their seeds may differ.
    pub settings: IndexSettings,
    /// The query: `dimension` finite values, normalised under cosine.
    pub vector: &'a [f32],
    /// Neighbours wanted, at least 1.
    pub k: usize,
    /// Rows that may be in the answer; `None` for all.
    pub filter: Option<&'a Filter>,
    /// When to stop.
    pub stop: Stop,
    /// [`Stop::theta`] by the share of the rows that match: that of the first entry whose least share
    /// it reaches counts in place of `stop.theta`.
    pub by_share: &'a [(f64, f32)],
}

impl FilteredProbe<'_> {
    fn theta(&self, share: f64) -> f32 {
        let of_share = self.by_share.iter().find(|&&(least, _)| share >= least);
        of_share.map_or(self.stop.theta, |&(_, theta)| theta)
    }
}

/// What a search of rows that match did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilteredStats {
    /// Leaves visited, codes and rows read, exact distances taken.
    pub work: SearchStats,
    /// Rows that match among those whose codes were read.
    pub matches: usize,
    /// Rows that there are.
    pub rows: u64,
    /// Upper bound on the rows that match.
    pub at_most: u64,
    /// True if the answer is exact: all matches were measured.
    pub is_exact: bool,
}

impl FilteredStats {
    /// Share of the rows that match, at most.
    pub fn share(&self) -> f64 {
        self.at_most as f64 / self.rows.max(1) as f64
    }
}

/// A row of an answer, as a place found it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FoundRow {
    /// The row.
    pub row: Neighbor,
    /// Cost of its leaf for the query.
    pub cost: f32,
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

    /// See [`super::ExactSearch::scan_loose`].
    fn scan_loose(&mut self, probe: &FilteredProbe<'_>, out: &mut TopK) -> usize;

    /// See [`super::ExactSearch::exact`].
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

    /// Ranks the leaves that cost at most `bound` behind those that are ranked; returns their costs,
    /// ascending.
    fn rank(&mut self, bound: f32, queries: &RotatedQueries) -> &[f32];

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
    pub scanned: super::Scanned,
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
            let scanned = place.scan_codes(query, &codes, wanted, stage, candidates);
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
                seen(FoundRow { row, cost: costs[candidate.leaf as usize], candidate });
            };
            visited.exact += place.refine(found, &rows, stage, out, noted)?;
            rest = later;
        }
    }
}

/// Buffers of searches of rows that match; reused from query to query.
#[derive(Default)]
pub struct FilteredScratch {
    queries: RotatedQueries,
    /// Estimated costs of leaves of all places, in any order.
    costs: Vec<f32>,
    /// Cost and place of the ranked leaves of all places, ascending.
    order: Vec<(f32, u32)>,
    /// How many leaves were to be ranked.
    asked: usize,
    /// Leaves of each place that were visited.
    visited: Vec<usize>,
}

/// Places of any kind whose rows can be read for the same reasons.
pub type Places<'p, 'a, E> = [&'p mut (dyn FilteredPlace<Error = E> + 'a)];

/// Offers the nearest rows that match to `out`, which it resets. Calls `seen` with the number of the
/// place and each row of a leaf that was among the nearest when it was measured; the last call for a row
/// counts. Rows of an exact search and rows in no leaf are not seen.
///
/// Errors: those of the places; `out` is incomplete then.
pub fn search_filtered<E>(
    places: &mut Places<'_, '_, E>,
    probe: &FilteredProbe<'_>,
    scratch: &mut FilteredScratch,
    out: &mut TopK,
    seen: &mut dyn FnMut(usize, FoundRow),
) -> Result<FilteredStats, E> {
    let mut stats = begin(places, probe)?;
    if stats.at_most <= FEW_MATCHES {
        out.reset(probe.k);
        for place in places.iter_mut() {
            let work = place.exact(probe, out)?;
            add(&mut stats.work, work);
        }
        stats.matches = stats.work.rows;
        stats.is_exact = true;
        return Ok(stats);
    }
    let stop = Stop { theta: probe.theta(stats.share()), ..probe.stop };
    let probe = &FilteredProbe { stop, ..*probe };
    go_on(places, probe, DEVIATIONS, (scratch, &mut stats), out, seen)?;
    Ok(stats)
}

/// Sets the filter of all places, and counts.
fn begin<E>(places: &mut Places<'_, '_, E>, probe: &FilteredProbe<'_>) -> Result<FilteredStats, E> {
    let mut stats = FilteredStats::default();
    for place in places.iter_mut() {
        let rows = place.select(None)?;
        stats.rows = stats.rows.saturating_add(rows);
        stats.at_most = stats.at_most.saturating_add(place.select(probe.filter)?.min(rows));
    }
    Ok(stats)
}

/// Visits leaves until the rule says stop.
fn go_on<E>(
    places: &mut Places<'_, '_, E>,
    probe: &FilteredProbe<'_>,
    deviations: f32,
    (scratch, stats): (&mut FilteredScratch, &mut FilteredStats),
    out: &mut TopK,
    seen: &mut dyn FnMut(usize, FoundRow),
) -> Result<(), E> {
    let is_all = probe.stop.theta == f32::INFINITY;
    let mut probes = if is_all { usize::MAX } else { ESTIMATED_FIRST };
    let all: usize = places.iter().map(|place| place.leaves()).sum();
    loop {
        out.reset(probe.k);
        for place in places.iter_mut() {
            let rows = place.scan_loose(probe, out);
            add(&mut stats.work, SearchStats { rows, exact: rows, leaves: 0 });
        }
        scratch.estimate(places, probe, probes);
        if rounds(places, probe, deviations, (&mut *scratch, &mut *stats), out, seen)?
            || scratch.order.len() >= all
            || probes == usize::MAX
        {
            return Ok(());
        }
        // More leaves may come before some that were visited: rows must not be offered twice.
        probes = probes.saturating_mul(8);
    }
}

impl FilteredScratch {
    /// Begins to rank: estimates the costs of at least the `probes` nearest leaves.
    fn estimate<E>(
        &mut self,
        places: &mut Places<'_, '_, E>,
        probe: &FilteredProbe<'_>,
        probes: usize,
    ) {
        let FilteredScratch { queries, costs, order, asked, visited } = self;
        queries.clear();
        costs.clear();
        order.clear();
        *asked = 0;
        visited.clear();
        visited.resize(places.len(), 0);
        for place in places.iter_mut() {
            place.estimate(probe.vector, probes, queries, costs);
        }
    }

    /// Puts more leaves in order; false if all whose costs are estimated are in order.
    fn rank_more<E>(&mut self, places: &mut Places<'_, '_, E>) -> bool {
        let before = self.order.len();
        while self.order.len() == before {
            let FilteredScratch { queries, costs, order, asked, .. } = &mut *self;
            if *asked >= costs.len() {
                return false;
            }
            *asked = (4 * *asked).max(RANKED_FIRST);
            let bound = match *asked < costs.len() {
                true => *costs.select_nth_unstable_by(*asked - 1, f32::total_cmp).1,
                false => f32::INFINITY,
            };
            for (number, place) in places.iter_mut().enumerate() {
                let costs = place.rank(bound, queries);
                order.extend(costs.iter().map(|&cost| (cost, number as u32)));
            }
        }
        // Stable, so that the leaves of one place keep their order.
        self.order[before..].sort_by(|a, b| a.0.total_cmp(&b.0));
        true
    }
}

/// Visits the ranked leaves in rounds; true if the rule said stop.
fn rounds<E>(
    places: &mut Places<'_, '_, E>,
    probe: &FilteredProbe<'_>,
    deviations: f32,
    (scratch, stats): (&mut FilteredScratch, &mut FilteredStats),
    out: &mut TopK,
    seen: &mut dyn FnMut(usize, FoundRow),
) -> Result<bool, E> {
    let norm = norm_of(probe.vector);
    let (mut from, mut since) = (0, 0);
    while from < scratch.order.len() || scratch.rank_more(places) {
        let FilteredScratch { queries, order, visited, .. } = &mut *scratch;
        let ask = Visit { probe, queries, deviations };
        let to = (from + ROUND.max(from / ROUND_SHARE)).min(order.len());
        let (mut leaves, mut is_changed) = (0, false);
        for (number, place) in places.iter_mut().enumerate() {
            let of_place = |leaf: &&(f32, u32)| leaf.1 as usize == number;
            let count = order[from..to].iter().filter(of_place).count();
            if count == 0 {
                continue;
            }
            let first = visited[number];
            visited[number] += count;
            let noted = &mut |row: FoundRow| {
                is_changed = true;
                seen(number, row);
            };
            let done = place.visit(first..first + count, &ask, out, noted)?;
            leaves += done.scanned.leaves;
            stats.matches += done.scanned.matches;
            let rows = done.scanned.rows;
            add(&mut stats.work, SearchStats { leaves: count, rows, exact: done.exact });
        }
        since = if is_changed { 0 } else { since + leaves };
        from = to;
        if out.len() >= probe.k
            && since >= probe.stop.patience
            && (from < scratch.order.len() || scratch.rank_more(places))
        {
            let (next, _) = scratch.order[from];
            if need(probe.settings, norm, next, out.bound()) >= probe.stop.theta {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The least [`Stop::theta`] with which a search does not stop before a leaf.
///
/// * `norm`: of the query.
/// * `cost`: of the leaf.
/// * `kth`: distance of the k-th nearest row.
pub fn need(settings: IndexSettings, norm: f32, cost: f32, kth: f32) -> f32 {
    let kth = as_estimate(settings, kth);
    match form_of(settings.metric) {
        Form::L2 if kth > 0.0 => cost.max(0.0) / kth,
        // No leaf is far beside a distance of nothing.
        Form::L2 => {
            if cost > 0.0 {
                f32::INFINITY
            } else {
                0.0
            }
        }
        Form::InnerProduct => (cost - kth) / norm.max(f32::MIN_POSITIVE),
    }
}

fn norm_of(vector: &[f32]) -> f32 {
    vector.iter().map(|x| x * x).sum::<f32>().sqrt()
}

/// Visits every leaf, and says which [`Stop::theta`] each true neighbour needs; the needs replace
/// `needs`. A row in no leaf needs none: it is negative infinity.
///
/// An audit misses hardly a neighbour. It costs the codes of all matches. `probe.stop` is not read.
///
/// Errors: those of the places.
pub fn audit_filtered<E>(
    places: &mut Places<'_, '_, E>,
    probe: &FilteredProbe<'_>,
    scratch: &mut FilteredScratch,
    out: &mut TopK,
    needs: &mut Vec<f32>,
) -> Result<FilteredStats, E> {
    let stop = Stop { theta: f32::INFINITY, patience: usize::MAX };
    let probe = FilteredProbe { stop, ..*probe };
    let mut stats = begin(places, &probe)?;
    let mut costs: Vec<(u64, f32)> = Vec::new();
    let seen = &mut |_, found: FoundRow| costs.push((found.row.id, found.cost));
    go_on(places, &probe, AUDIT_DEVIATIONS, (scratch, &mut stats), out, seen)?;
    // The distance of the farthest is that of the k-th, or of the last match.
    let kth = out.rows().iter().map(|row| row.distance).fold(f32::NEG_INFINITY, f32::max);
    let norm = norm_of(probe.vector);
    needs.clear();
    for row in out.rows() {
        let cost = costs.iter().rev().find(|(id, _)| *id == row.id).map(|&(_, cost)| cost);
        needs.push(match cost {
            Some(cost) => need(probe.settings, norm, cost, kth),
            None => f32::NEG_INFINITY,
        });
    }
    Ok(stats)
}

/// The margin with which a share `target` of neighbours is found, given what each needs; 1 without any.
/// Sorts `needs`.
pub fn theta_for(needs: &mut [f32], target: f64) -> f32 {
    needs.sort_unstable_by(f32::total_cmp);
    let last = needs.len().saturating_sub(1);
    let at = (needs.len() as f64 * target).ceil() as usize;
    needs.get(at.saturating_sub(1).min(last)).copied().unwrap_or(1.0)
}

/// The margin for `k` neighbours, from rows of the places as queries, each without itself.
///
/// * `samples`: id and vector of each row; 200 to 300 of them.
/// * `target`: somewhat above the recall that is wanted: 0.96 to 0.97 for 0.95.
///
/// Cost: an audit per sample. Errors: those of the places.
pub fn calibrate<E>(
    places: &mut Places<'_, '_, E>,
    settings: IndexSettings,
    samples: &[(u64, Vec<f32>)],
    (k, target): (usize, f64),
) -> Result<Stop, E> {
    let (mut scratch, mut out) = (FilteredScratch::default(), TopK::new(k));
    let (mut needs, mut all) = (Vec::new(), Vec::new());
    let stop = Stop { theta: f32::INFINITY, patience: PATIENCE };
    for (id, vector) in samples {
        let others = Filter::Not(Box::new(Filter::Ids(vec![*id])));
        let probe =
            FilteredProbe { settings, vector, k, filter: Some(&others), stop, by_share: &[] };
        audit_filtered(places, &probe, &mut scratch, &mut out, &mut needs)?;
        all.append(&mut needs);
    }
    Ok(Stop { theta: theta_for(&mut all, target), patience: PATIENCE })
}

fn add(stats: &mut SearchStats, more: SearchStats) {
    stats.leaves += more.leaves;
    stats.rows += more.rows;
    stats.exact += more.exact;
}
