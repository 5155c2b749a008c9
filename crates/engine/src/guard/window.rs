//! The last audits of one kind, and the recall that they give for an effort.
//!
//! 1. Each audit keeps how far a search must go to find each true neighbour, so it tells what any
//!    effort would have found. An estimate is about the effort in force, whatever was in force at
//!    the time of an audit.
//! 2. A correction covers what ranks do not know: what a search really found then, less what the
//!    ranks give for that effort.
//! 3. An audit counts while at most half of the rows were written since. The queries of audits that
//!    no longer count are asked again.

use std::collections::VecDeque;

use vstream_index::stages::need;
use vstream_index::{IndexSettings, Reach};

use super::spread::{later, LATER_FAIR};
use super::{Evidence, RecallEstimate};

/// Most audits behind a decision: of few neighbours each, and of many. A choice by a sample looks
/// better on that sample than it is; with so many audits the mean errs by some half a percent.
const WINDOW: usize = 512;
const WINDOW_OF_MANY: usize = 192;
/// Neighbours above which an audit is one of many.
const MANY: usize = 32;
/// Audits with which a window is no longer short, and fresh audits from which on older ones may go. Were the
/// second number smaller, a window that dropped its older audits would stay short for good.
const WINDOW_FAIR: usize = 48;
/// Most stale audits that count beside a fresh one.
const STALE_PER_FRESH: usize = 3;
/// Least audits for a decision.
pub(super) const WINDOW_MIN: usize = 16;
/// Numbers of the newest audits that are compared with all before them, and how many times their margins together
/// they must find less by before those are dropped.
const NEWEST: [usize; 3] = [WINDOW_MIN, 2 * WINDOW_MIN, WINDOW_FAIR];
const TURNED: f64 = 1.5;
/// The same for audits to be made faster.
const DOUBTED: f64 = 1.0;
/// Turnovers since which some audits should have been made: rows that are few may be near to every query, as long ones
/// are by inner product.
const LOOKED_AFTER: f64 = 0.02;
/// Most queries kept to be asked again.
const AGAIN_MAX: usize = 64;
/// Least and most share of the allowed loss that a decision leaves unused, since it rests on a
/// sample. Between them it leaves half of the estimate's margin.
pub(super) const RESERVE: f64 = 0.1;
const RESERVE_MAX: f64 = 0.5;
/// Turnovers, in halves of the rows, after which an audit should be made again.
pub(super) const REFRESHED_AFTER: f64 = 0.2;
/// Growth of the number of leaves after which an audit should be made again. Leaves grow with the rows, which
/// [`REFRESHED_AFTER`] sees first, or alone when maintenance splits those that ingest left large.
const REFRESHED_GROWTH: f64 = 1.25;
/// Least writes that make one turnover, after which an audit says nothing more.
const TURNOVER_MIN: u64 = 1024;

/// How far a search goes; both `usize::MAX` for an exact one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reached {
    pub(super) probes: usize,
    pub(super) refine: usize,
}

impl Reached {
    pub(super) const EXACT: Reached = Reached { probes: usize::MAX, refine: usize::MAX };

    /// Raised to the least effort for `k`: a row is found by its own vector wherever maintenance
    /// has left it, and codes may err by some rows.
    pub(super) fn for_k(self, k: usize) -> Reached {
        Reached { probes: self.probes.max(8), refine: self.refine.max(4 * k + 40) }
    }

    /// An effort between this one and a greater one, by the share of trust in this one. The first
    /// queries may be easier than those that follow: of words by their frequency, 16 audits at a
    /// target of 0.95 chose an effort that found 0.69 of the neighbours of the next thousand.
    pub(super) fn blend(self, greater: Reached, trust: f64) -> Reached {
        let between = |few: usize, many: usize| match (few, many) {
            _ if many <= few || trust >= 1.0 => few,
            (_, usize::MAX) => many,
            _ => ((few.max(1) as f64).powf(trust) * (many as f64).powf(1.0 - trust)) as usize,
        };
        Reached {
            probes: between(self.probes, greater.probes),
            refine: between(self.refine, greater.refine),
        }
    }
}

/// Size and age of the collection at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) leaves: usize,
    /// Live rows, those in memory by the number of their leaves.
    pub(super) rows: u64,
    /// Writes until then.
    pub(super) writes: u64,
}

impl Moment {
    /// How many times half of the rows may have been written since `then`.
    pub(super) fn turnovers_since(&self, then: &Moment) -> f64 {
        let half = (self.rows / 2).max(TURNOVER_MIN);
        self.writes.saturating_sub(then.writes) as f64 / half as f64
    }

    /// True if so much was written since `then`, or so many leaves were split, that an audit of then should be
    /// made again.
    fn has_moved_on(&self, then: &Moment) -> bool {
        self.turnovers_since(then) > REFRESHED_AFTER || self.has_split(then)
    }

    /// True if so many leaves were split since `then` that an audit of then says little of probes.
    fn has_split(&self, then: &Moment) -> bool {
        self.most_growth_since(then) > REFRESHED_GROWTH
    }

    /// True if so much was written since `then` that an audit of then says little about now.
    pub(super) fn has_outlived(&self, then: &Moment) -> bool {
        self.turnovers_since(then) > 1.0
    }

    /// Ratio of the leaves now to those of `then`, at least 1. If new rows come from the same
    /// distribution, no neighbour's leaf falls farther in rank than by this ratio.
    pub(super) fn most_growth_since(&self, then: &Moment) -> f64 {
        (self.leaves as f64 / then.leaves.max(1) as f64).max(1.0)
    }

    /// Ratio of the rows now to those of `then`, at least 1: no more estimates are better than that of a
    /// neighbour.
    pub(super) fn more_rows_since(&self, then: &Moment) -> f64 {
        (self.rows as f64 / then.rows.max(1) as f64).max(1.0)
    }

    /// Factor by which the rank of a neighbour's leaf has grown. It lies between 1, where new
    /// leaves are small ones of the same shape, and the ratio of leaves, where all leaves are as
    /// near.
    pub(super) fn growth_since(&self, then: &Moment) -> f64 {
        self.most_growth_since(then).sqrt()
    }

    /// Rank now of the leaf of a neighbour that had `rank` then. Leaves may have been more then, but none is
    /// beyond the last one of now.
    pub(super) fn leaf_rank(&self, rank: u32, then: &Moment) -> f64 {
        let last = self.leaves.saturating_sub(1) as f64;
        (f64::from(rank) * self.growth_since(then)).min(last)
    }

    /// Probes in the tree of `then` that are as many as `probes` now: at least one, and all where these are all.
    pub(super) fn probes_then(&self, probes: usize, then: &Moment) -> usize {
        if probes >= self.leaves {
            return usize::MAX;
        }
        ((probes as f64 / self.growth_since(then)) as usize).max(1)
    }
}

/// One query, answered through every code, or those of enough leaves, and as a reader would be.
pub(super) struct Audit {
    pub(super) query: Vec<f32>,
    /// Neighbours asked for.
    pub(super) k: usize,
    pub(super) reach: Vec<Reach>,
    pub(super) at: Moment,
    /// Queries of its class until then.
    pub(super) asked: usize,
    /// The search made then as a reader makes it, if one was made.
    pub(super) made: Option<Made>,
    /// True if the query is a row that has copies.
    pub(super) is_of_copy: bool,
}

/// The result of a search made as a reader makes it.
#[derive(Clone, Copy)]
pub(super) struct Made {
    pub(super) k: usize,
    pub(super) effort: Reached,
    /// Share of its true neighbours that it found.
    pub(super) found: f64,
}

impl Audit {
    /// Share of the `k` true neighbours that `effort` finds, by their ranks.
    pub(super) fn share(&self, k: usize, effort: Reached, now: &Moment) -> f64 {
        let effort = effort.for_k(k);
        let growth = now.growth_since(&self.at);
        let probes = now.probes_then(effort.probes, &self.at);
        let (mut found, mut all) = (0, 0);
        for (hit, weight) in self.hits(k) {
            all += weight;
            let is_visited = |rank| now.leaf_rank(rank, &self.at) < effort.probes as f64;
            let in_leaves = hit.leaf.is_none_or(is_visited);
            let in_codes = || {
                hit.code
                    .as_ref()
                    .is_none_or(|code| code.with_probes(probes) * growth < effort.refine as f64)
            };
            found += if in_leaves && in_codes() { weight } else { 0 };
        }
        if all == 0 {
            return 1.0;
        }
        f64::from(found) / f64::from(all)
    }

    /// The noted neighbours among the first `k`, with the weight of each.
    pub(super) fn hits(&self, k: usize) -> impl Iterator<Item = (&Reach, u32)> {
        let k = k as u32;
        let first = self.reach.iter().take_while(move |hit| hit.nth < k);
        first.map(move |hit| (hit, hit.weight.min(k - hit.nth)))
    }

    /// The θ that each noted neighbour among the first `k` needs (`vstream_index::stages::need`), with its weight.
    pub(super) fn needs(
        &self,
        k: usize,
        settings: IndexSettings,
    ) -> impl Iterator<Item = (f32, u32)> + '_ {
        let norm = self.query.iter().map(|x| x * x).sum::<f32>().sqrt();
        let kth = self.hits(k).last().map_or(0.0, |(last, _)| last.distance);
        self.hits(k).map(move |(hit, weight)| {
            let needed = hit.leaf.map(|_| need(settings, norm, hit.cost, kth));
            (needed.unwrap_or(f32::NEG_INFINITY), weight)
        })
    }

    /// Share found by the search made then, less the share that the ranks give for it.
    fn surprise(&self, k: usize) -> f64 {
        match self.made {
            Some(made) if made.k == k => made.found - self.share(k, made.effort, &self.at),
            _ => 0.0,
        }
    }

    /// Share that `effort` finds, corrected by [`Audit::surprise`].
    fn corrected(&self, k: usize, effort: Reached, now: &Moment) -> f64 {
        self.share(k, effort, now) + self.surprise(k)
    }
}

/// Neighbours that a statement is about: `k` of each audit, or all that an audit asked for if fewer
/// or if `None`.
pub(super) type Neighbours = Option<usize>;

/// The last audits that still count, oldest first.
#[derive(Default)]
pub(super) struct Window {
    pub(super) audits: VecDeque<Audit>,
    /// Queries of audits that no longer count, with their k.
    again: VecDeque<(Vec<f32>, usize)>,
    /// True once the audits spoke for more than the first queries.
    is_spread: bool,
    /// True if the newest audits found less than those before when both were last compared.
    is_less: bool,
    /// True if an audit came since then.
    has_news: bool,
}

impl Window {
    pub(super) fn len(&self) -> usize {
        self.audits.len()
    }

    /// True while more audits make a decision notably surer.
    pub(super) fn is_short(&self) -> bool {
        self.audits.len() < WINDOW_FAIR
    }

    /// Drops stale audits once there are enough fresh ones: those of before leaves were split, which tell
    /// nothing of the new ones; all of them if fresh ones find less by `effort`, since after a drift the stale
    /// ones describe rows that are gone; else those beyond [`STALE_PER_FRESH`] to a fresh one. A choice by the
    /// fresh ones alone, some fifty, would look better on these than it is. That fresh ones find more is no
    /// reason: they are looked at after each audit, and of fifty some are lucky.
    ///
    /// Before that all but as many as a window has that is not short, if the newest find less: a few rows that were written
    /// since, or queries of another kind, changed what a search must do. Of audits that nothing changed some look so
    /// by chance; then queries go farther for a while.
    pub(super) fn drop_stale(&mut self, of: Neighbours, effort: Reached, now: &Moment) {
        if std::mem::take(&mut self.has_news) && self.has_turned(of, effort, now) {
            while self.len() > WINDOW_FAIR {
                let audit = self.audits.pop_front().expect("more audits");
                self.keep_query(audit);
            }
            return;
        }
        let fresh = self.fresh(now);
        if fresh < WINDOW_FAIR || fresh == self.len() {
            return;
        }
        while let Some(at) = self.audits.iter().position(|audit| now.has_split(&audit.at)) {
            self.audits.remove(at).into_iter().for_each(|audit| self.keep_query(audit));
        }
        let kept = if self.is_contradicted(of, effort, now) { 0 } else { STALE_PER_FRESH * fresh };
        while self.len() - fresh > kept {
            let Some(stale) = self.take_stale(now) else { return };
            self.keep_query(stale);
        }
    }

    /// True if the newest audits found less than those before when both were last compared, and rows were written since
    /// all but a few: whether that is chance, more audits should say soon.
    pub(super) fn is_doubted(&self, now: &Moment) -> bool {
        self.is_less && self.is_behind(now)
    }

    /// True if rows were written since all but a few audits.
    pub(super) fn is_behind(&self, now: &Moment) -> bool {
        let is_newer = |audit: &&Audit| now.turnovers_since(&audit.at) <= LOOKED_AFTER;
        self.audits.iter().rev().take_while(is_newer).count() < WINDOW_FAIR
    }

    /// True if the newest audits find less by `effort` than those before, by much more than both may err. Notes whether
    /// they find less at all.
    fn has_turned(&mut self, of: Neighbours, effort: Reached, now: &Moment) -> bool {
        let share = |audit: &Audit| audit.corrected(of.unwrap_or(audit.k), effort, now);
        let shares: Vec<f64> = self.audits.iter().map(share).collect();
        let is_less = |newest, by| less_of_newest(&shares, newest) > by;
        let few = [NEWEST[0] / 2, NEWEST[0], NEWEST[1]];
        self.is_less = few.into_iter().any(|newest| is_less(newest, DOUBTED));
        NEWEST.into_iter().any(|newest| is_less(newest, TURNED))
    }

    /// True if fresh audits find less by `effort` than stale ones, by more than both may err.
    fn is_contradicted(&self, of: Neighbours, effort: Reached, now: &Moment) -> bool {
        let found = |is_stale: bool| -> Vec<f64> {
            let audits = self.audits.iter().filter(|audit| now.has_moved_on(&audit.at) == is_stale);
            audits.map(|audit| audit.corrected(of.unwrap_or(audit.k), effort, now)).collect()
        };
        let (stale, fresh) = (found(true), found(false));
        if stale.is_empty() || fresh.is_empty() {
            return false;
        }
        let ((old, old_margin), (new, new_margin)) = (interval(&stale), interval(&fresh));
        old - new > old_margin.hypot(new_margin)
    }

    fn keep_query(&mut self, audit: Audit) {
        if self.again.len() == AGAIN_MAX {
            self.again.pop_front();
        }
        self.again.push_back((audit.query, audit.k));
    }

    /// True if a decision needs nothing beside these audits: they are not few, and not of the first
    /// queries alone.
    pub(super) fn is_fair(&self) -> bool {
        self.is_spread && !self.is_short()
    }

    /// Trust in the decision of a window that is not fair, from 0 to 1.
    pub(super) fn fairness(&self) -> f64 {
        let beyond = self.audits.len().saturating_sub(WINDOW_MIN);
        let by_count = beyond as f64 / (WINDOW_FAIR - WINDOW_MIN) as f64;
        let by_spread = if self.is_spread { 1.0 } else { self.later() as f64 / LATER_FAIR as f64 };
        by_count.min(by_spread).min(1.0)
    }

    fn later(&self) -> usize {
        later(self.audits.iter().map(|audit| audit.asked))
    }

    /// Number of fresh audits, which need not be made again yet. They may be older than stale ones: leaves are
    /// fewer after a flush than before it.
    pub(super) fn fresh(&self, now: &Moment) -> usize {
        self.audits.iter().filter(|audit| !now.has_moved_on(&audit.at)).count()
    }

    /// True if most audits are stale.
    pub(super) fn is_stale(&self, now: &Moment) -> bool {
        self.fresh(now) * 2 < self.audits.len()
    }

    /// True while more audits make an estimate notably surer.
    pub(super) fn is_half_full(&self) -> bool {
        self.audits.back().is_some_and(|last| self.audits.len() * 2 >= capacity(last.k))
    }

    pub(super) fn push(&mut self, audit: Audit) {
        while self.audits.len() >= capacity(audit.k) {
            self.audits.pop_front();
        }
        self.audits.push_back(audit);
        self.has_news = true;
        self.is_spread &= self.audits.len() > 1;
        if !self.is_spread && !self.is_short() {
            let later = self.later();
            self.is_spread = later >= LATER_FAIR;
            self.outvote_first(later);
        }
    }

    /// Drops the oldest audits of the first queries, so that these do not outvote `later` ones. That begins
    /// with the first of the later ones, since trust in the window grows with each; until these are many,
    /// enough of the others stay for a window that is not short.
    fn outvote_first(&mut self, later: usize) {
        if later > 0 {
            let first = self.audits.len() - later;
            let kept = later.max(WINDOW_FAIR.saturating_sub(later));
            self.audits.drain(..first.saturating_sub(kept));
        }
    }

    /// Writes at the first of the last [`WINDOW_MIN`] audits, which are enough for a decision.
    pub(super) fn supported_writes(&self) -> Option<u64> {
        let first = self.audits.len().checked_sub(WINDOW_MIN)?;
        Some(self.audits[first].at.writes)
    }

    /// Takes out the oldest audit that is stale: so much has changed since that it should be made again.
    pub(super) fn take_stale(&mut self, now: &Moment) -> Option<Audit> {
        let at = self.audits.iter().position(|audit| now.has_moved_on(&audit.at))?;
        self.audits.remove(at)
    }

    /// Drops audits that say nothing about `now` any more; their queries are kept.
    pub(super) fn forget(&mut self, now: &Moment) {
        while self.audits.front().is_some_and(|oldest| now.has_outlived(&oldest.at)) {
            let audit = self.audits.pop_front().expect("a first audit");
            self.keep_query(audit);
        }
    }

    /// Takes a query to audit again, with its k, while the window is short.
    pub(super) fn ask_again(&mut self) -> Option<(Vec<f32>, usize)> {
        if self.is_short() {
            self.again.pop_back()
        } else {
            None
        }
    }

    /// Takes the query of a stale audit, with its k.
    pub(super) fn ask_stale(&mut self, now: &Moment) -> Option<(Vec<f32>, usize)> {
        self.take_stale(now).map(|audit| (audit.query, audit.k))
    }

    /// The recall of `effort` by the audits; `None` without audits.
    pub(super) fn estimate(
        &self,
        of: Neighbours,
        effort: Reached,
        now: &Moment,
    ) -> Option<RecallEstimate> {
        let shares: Vec<f64> = self
            .audits
            .iter()
            .map(|audit| audit.corrected(of.unwrap_or(audit.k), effort, now))
            .collect();
        let (recall, margin) = interval(&shares);
        (!shares.is_empty()).then(|| RecallEstimate {
            recall,
            margin,
            audits: shares.len(),
            evidence: if of.is_some() { Evidence::Rows } else { Evidence::Queries },
        })
    }

    /// True if `effort` meets `target`, and not by much more.
    pub(super) fn confirms(
        &self,
        of: Neighbours,
        effort: Reached,
        target: f64,
        now: &Moment,
    ) -> bool {
        let loss = 1.0 - target;
        let Some(estimate) = self.estimate(of, effort, now) else { return false };
        let aim = aim(target, &estimate);
        let enough = aim - RESERVE * loss..=aim + 2.0 * RESERVE * loss;
        enough.contains(&estimate.recall)
    }

    /// Mean of [`Audit::surprise`] over the audits.
    pub(super) fn surprise(&self, of: Neighbours) -> f64 {
        let known = self.audits.iter().map(|audit| audit.surprise(of.unwrap_or(audit.k)));
        known.sum::<f64>() / self.audits.len().max(1) as f64
    }
}

/// The mean of the shares that audits found, and half the width of its 95 % confidence interval.
///
/// The interval is Student's for the mean over queries. Two queries are added that lost two more
/// neighbours of ten than the mean. So the interval is not empty when no audit lost any, and about
/// as wide then as by the rule of three.
pub(super) fn interval(shares: &[f64]) -> (f64, f64) {
    const ADDED: f64 = 2.0 * 0.2 * 0.2;
    let n = shares.len() as f64;
    let mean = shares.iter().sum::<f64>() / n;
    let variance = (shares.iter().map(|share| (share - mean).powi(2)).sum::<f64>() + ADDED)
        / (n - 1.0).max(1.0);
    // Within 1 % of Student's quantile from 8 audits on.
    let quantile = 1.96 + 2.6 / (n - 1.0).max(1.0);
    let margin = quantile * (variance / n).sqrt();
    (mean.clamp(0.0, 1.0), margin.min(1.0))
}

/// How much less the newest audits found than those before, by what both may err; 0 if these are few.
fn less_of_newest(shares: &[f64], newest: usize) -> f64 {
    let Some(older) = shares.len().checked_sub(newest).filter(|&n| n >= WINDOW_MIN) else {
        return 0.0;
    };
    let ((old, old_margin), (new, new_margin)) =
        (interval(&shares[..older]), interval(&shares[older..]));
    (old - new) / old_margin.hypot(new_margin)
}

/// Most audits kept of `k` neighbours each.
fn capacity(k: usize) -> usize {
    if k > MANY {
        WINDOW_OF_MANY
    } else {
        WINDOW
    }
}

/// Recall to aim at, so that `target` is met although the estimate may be too high.
pub(super) fn aim(target: f64, estimate: &RecallEstimate) -> f64 {
    let loss = 1.0 - target;
    target + (0.5 * estimate.margin).clamp(RESERVE * loss, RESERVE_MAX * loss)
}

#[cfg(test)]
mod tests;
