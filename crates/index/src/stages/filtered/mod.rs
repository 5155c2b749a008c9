//! An approximate search of rows that match a filter, over any places as one.
//!
//! A fixed number of leaves is no measure of effort here: how many leaves hold the nearest matches
//! depends on how the filter and the vectors are related. So the search goes on until it has evidence.
//!
//! 1. Bound the number of matches by exact counts. If there are few, take the exact distances of all
//!    of them ([`FEW_MATCHES`]).
//! 2. If there are probably not many more, a place in memory looks for them by their columns alone, and
//!    takes their exact distances ([`StagedSearch::sweep`]): a search by codes would go through most
//!    leaves for them, and read their codes too. A place that finds more than it should stays a place
//!    for the steps below.
//! 3. Rank the leaves of all other places in one order. Visit them in small rounds; a leaf that holds no match
//!    is passed over.
//! 4. In a round, estimate the rows that match by their codes, lowered by two standard deviations, and
//!    take the exact distance of each row that may be nearer than the k-th so far.
//! 5. Stop if `k` rows are found, [`Stop::patience`] leaves with a match have passed since the last
//!    change of the nearest `k`, and the next leaf is farther than the [margin](Stop::theta) asks for.
//!
//! If the search never stops, it has visited every leaf. The margin is measured and not guessed: an
//! audit says what each true neighbour needed ([`audit_filtered`]), and [`calibrate`] takes a quantile
//! over rows of the collection as queries. A query without a filter is about the worst case, so that a
//! margin from such queries serves all filters (docs/design/index.md).

mod audit;
mod place;

use vstream_attribute::Filter;
use vstream_quantize::Form;
use vstream_vector::{Neighbor, TopK};

pub use self::audit::{audit_filtered, calibrate, theta_for};
pub use self::place::{FilteredPlace, FoundRow, Staged, Visit, Visited};
use super::query::{as_estimate, form_of, RotatedQueries};
use crate::probe::SearchStats;
use crate::settings::IndexSettings;

/// Up to so many matches an exact search is cheaper than one by codes: 214, 433 and 277 were measured
/// on three data sets, with the ranking of leaves counted.
pub const FEW_MATCHES: u64 = 300;

/// If probably so many rows match at most, places look for all of them, and give up when they find more
/// than [`SWEPT_MAX`].
const SWEPT_LIKELY: u64 = 600;
const SWEPT_MAX: u64 = 2 * SWEPT_LIKELY;

/// Leaves with a match that a search visits after the last change of its answer. With 10 a margin that
/// is calibrated without a filter collapses on some data, and correlated filters find 0.72.
pub const PATIENCE: usize = 5;

/// Standard deviations by which an estimate is lowered. Two lose at most 0.005 of the neighbours, 1.5
/// lose 0.017.
const DEVIATIONS: f32 = 2.0;

/// Leaves whose costs are estimated at first, at least; eight times as many if these do not suffice.
const ESTIMATED_FIRST: usize = 256;
/// Leaves that are put in order at first; four times as many whenever these do not suffice.
const RANKED_FIRST: usize = 64;
/// The first round visits so many leaves, later ones an eighth of those visited before.
const ROUND: usize = 2;
const ROUND_SHARE: usize = 8;
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
    /// How many of them probably match.
    pub likely: u64,
    /// True if the answer is exact: all matches were measured.
    pub is_exact: bool,
}

impl FilteredStats {
    /// Share of the rows that probably matches.
    pub fn share(&self) -> f64 {
        self.likely as f64 / self.rows.max(1) as f64
    }

    /// Counts a visit of so many leaves.
    fn count(&mut self, leaves: usize, done: Visited) {
        self.matches += done.scanned.matches;
        self.work += SearchStats { leaves, rows: done.scanned.rows, exact: done.exact };
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
    /// True for places all of whose matches were measured before any leaf was visited.
    swept: Vec<bool>,
    /// The nearest of these matches.
    kept: Vec<Neighbor>,
    /// The largest θ of those with which the search would have stopped before.
    passed: f32,
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
            let work = match place.sweep(probe, u64::MAX, out)? {
                Some(work) => work,
                None => place.exact(probe, out)?,
            };
            stats.work += work;
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
        let most = place.select(probe.filter)?.min(rows);
        stats.rows = stats.rows.saturating_add(rows);
        stats.at_most = stats.at_most.saturating_add(most);
        // Few matches need no estimate.
        let likely = if most <= FEW_MATCHES { most } else { place.likely(most).min(most) };
        stats.likely = stats.likely.saturating_add(likely);
    }
    Ok(stats)
}

/// Takes the exact distances of all matches in places that can do so, if few rows are likely to match.
/// Returns how many leaves the other places have.
fn sweep<E>(
    places: &mut Places<'_, '_, E>,
    probe: &FilteredProbe<'_>,
    (scratch, stats): (&mut FilteredScratch, &mut FilteredStats),
    out: &mut TopK,
) -> Result<usize, E> {
    let (mut left, is_few) = (0, probe.filter.is_some() && stats.likely <= SWEPT_LIKELY);
    out.reset(probe.k);
    scratch.swept.clear();
    for place in places.iter_mut() {
        let work = if is_few { place.sweep(probe, SWEPT_MAX, out)? } else { None };
        scratch.swept.push(work.is_some());
        match work {
            Some(work) => {
                stats.matches += work.exact;
                stats.work += work;
            }
            None => left += place.leaves(),
        }
    }
    scratch.kept.clear();
    scratch.kept.extend_from_slice(out.rows());
    stats.is_exact = scratch.swept.iter().all(|&is_swept| is_swept);
    Ok(left)
}

/// Sweeps places, and visits leaves of the others until the rule says stop.
fn go_on<E>(
    places: &mut Places<'_, '_, E>,
    probe: &FilteredProbe<'_>,
    deviations: f32,
    (scratch, stats): (&mut FilteredScratch, &mut FilteredStats),
    out: &mut TopK,
    seen: &mut dyn FnMut(usize, FoundRow),
) -> Result<(), E> {
    let all = sweep(places, probe, (&mut *scratch, &mut *stats), out)?;
    if stats.is_exact {
        return Ok(());
    }
    let is_all = probe.stop.theta == f32::INFINITY;
    let mut probes = if is_all { usize::MAX } else { ESTIMATED_FIRST };
    loop {
        out.reset(probe.k);
        for &row in &scratch.kept {
            out.offer(row);
        }
        for (place, _) in places.iter_mut().zip(&scratch.swept).filter(|(_, &swept)| !swept) {
            let rows = place.scan_loose(probe, out);
            stats.work += SearchStats { rows, exact: rows, leaves: 0 };
        }
        scratch.estimate(places, probe, probes);
        if rounds(places, probe, deviations, (&mut *scratch, &mut *stats), out, seen)? {
            return visit_always(places, probe, deviations, (scratch, stats), out, seen);
        }
        if scratch.order.len() >= all || probes == usize::MAX {
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
        let FilteredScratch { queries, costs, order, asked, visited, swept, passed, .. } = self;
        *passed = f32::NEG_INFINITY;
        queries.clear();
        costs.clear();
        order.clear();
        *asked = 0;
        visited.clear();
        visited.resize(places.len(), 0);
        for (place, _) in places.iter_mut().zip(swept).filter(|(_, swept)| !**swept) {
            place.estimate(probe.vector, probes, queries, costs);
        }
    }

    /// Puts more leaves in order; false if all whose costs are estimated are in order.
    fn rank_more<E>(&mut self, places: &mut Places<'_, '_, E>) -> bool {
        let before = self.order.len();
        while self.order.len() == before {
            let FilteredScratch { queries, costs, order, asked, swept, .. } = &mut *self;
            if *asked >= costs.len() {
                return false;
            }
            *asked = (4 * *asked).max(RANKED_FIRST);
            let bound = match *asked < costs.len() {
                true => *costs.select_nth_unstable_by(*asked - 1, f32::total_cmp).1,
                false => f32::INFINITY,
            };
            for (number, place) in places.iter_mut().enumerate().filter(|(at, _)| !swept[*at]) {
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
        let FilteredScratch { queries, order, visited, passed, .. } = &mut *scratch;
        let needed = passed.next_up();
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
                seen(number, FoundRow { needed, ..row });
            };
            let done = place.visit(first..first + count, &ask, out, noted)?;
            leaves += done.scanned.leaves;
            stats.count(count, done);
        }
        since = if is_changed { 0 } else { since + leaves };
        from = to;
        if out.len() >= probe.k
            && since >= probe.stop.patience
            && (from < scratch.order.len() || scratch.rank_more(places))
        {
            let (next, _) = scratch.order[from];
            let need = need(probe.settings, norm, next, out.bound());
            if need >= probe.stop.theta {
                return Ok(true);
            }
            scratch.passed = scratch.passed.max(need);
        }
    }
    Ok(false)
}

/// Visits the leaves beyond the stop that every search visits. They are ranked only now: the rule looks at the next
/// ranked leaf, behind which no nearer one may be.
fn visit_always<E>(
    places: &mut Places<'_, '_, E>,
    probe: &FilteredProbe<'_>,
    deviations: f32,
    (scratch, stats): (&mut FilteredScratch, &mut FilteredStats),
    out: &mut TopK,
    seen: &mut dyn FnMut(usize, FoundRow),
) -> Result<(), E> {
    let FilteredScratch { queries, visited, swept, passed, .. } = scratch;
    let ask = Visit { probe, queries, deviations };
    for (number, place) in places.iter_mut().enumerate().filter(|(at, _)| !swept[*at]) {
        let (first, end) = (visited[number], place.rank_always(queries));
        if first < end {
            let needed = passed.next_up();
            let noted = &mut |row: FoundRow| seen(number, FoundRow { needed, ..row });
            let done = place.visit(first..end, &ask, out, noted)?;
            stats.count(end - first, done);
        }
    }
    Ok(())
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
