//! The last audits of one kind: what they say of an effort.
//!
//! 1. Each audit keeps how far a search must go to find each true neighbour, so it can be asked what
//!    any effort would have found. An estimate speaks of the effort in force, whatever was in force
//!    when an audit was made.
//! 2. What a search really found then, less what the ranks say of that effort, corrects for what
//!    ranks do not know.
//! 3. An audit counts as long as at most half of the rows were written since. The queries of those
//!    that no longer count are asked again.

use std::collections::VecDeque;

use vstream_index::Reach;

use super::{Evidence, RecallEstimate};

/// Audits that a decision rests on at most: of few neighbours each, and of many. A choice by a
/// sample looks better on that sample than it is; with so many the mean errs by some half a percent.
const WINDOW: usize = 512;
const WINDOW_OF_MANY: usize = 192;
/// Neighbours that are many.
const MANY: usize = 32;
/// Audits with which a window is no longer short, and of now that make older ones superfluous. With a
/// smaller number for the second a window would be short for good once it had dropped these.
const WINDOW_FAIR: usize = 48;
/// Audits before a decision.
pub(super) const WINDOW_MIN: usize = 16;
/// Queries kept to be asked again.
const AGAIN_MAX: usize = 64;
/// Share of the allowed loss that a decision leaves unused at least, and at most, since it is made
/// from a sample: between them half of the estimate's margin.
pub(super) const RESERVE: f64 = 0.1;
const RESERVE_MAX: f64 = 0.5;
/// Part of half of the rows that may be written until an audit is made anew.
pub(super) const REFRESHED_AFTER: f64 = 0.2;
/// Leaves whose rows take half of the writes after which an audit says nothing more: half of the
/// rows of a leaf as a rule.
const WRITES_PER_LEAF: u64 = 128;

/// How far a search goes; both `usize::MAX` for an exact one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reached {
    pub(super) probes: usize,
    pub(super) refine: usize,
}

impl Reached {
    pub(super) const EXACT: Reached = Reached { probes: usize::MAX, refine: usize::MAX };

    /// So far at least that a row is found by its own vector wherever maintenance has left it, and
    /// that codes may err by some rows.
    pub(super) fn for_k(self, k: usize) -> Reached {
        Reached { probes: self.probes.max(8), refine: self.refine.max(4 * k + 40) }
    }
}

/// What the collection was like at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) leaves: usize,
    /// Writes until then.
    pub(super) writes: u64,
}

impl Moment {
    /// How often half of the rows may have been written over since `then`.
    pub(super) fn turnovers_since(&self, then: &Moment) -> f64 {
        let half = self.leaves.max(8) as u64 * WRITES_PER_LEAF;
        self.writes.saturating_sub(then.writes) as f64 / half as f64
    }

    /// True if so much was written since `then` that what was seen then is better looked at again.
    fn has_moved_on(&self, then: &Moment) -> bool {
        self.turnovers_since(then) > REFRESHED_AFTER
    }

    /// True if so much was written since `then` that it says little of now.
    pub(super) fn has_outlived(&self, then: &Moment) -> bool {
        self.turnovers_since(then) > 1.0
    }

    /// How many times as many leaves there are as `then`: no neighbour's leaf stands farther down
    /// than in proportion, if rows come from where they came from.
    pub(super) fn most_growth_since(&self, then: &Moment) -> f64 {
        (self.leaves as f64 / then.leaves.max(1) as f64).max(1.0)
    }

    /// How much farther down the same neighbour's leaf stands: between not at all, where new leaves
    /// are small ones of the same shape, and in proportion, where all are as near.
    pub(super) fn growth_since(&self, then: &Moment) -> f64 {
        self.most_growth_since(then).sqrt()
    }
}

/// One query that was answered through every code and as a reader would be.
pub(super) struct Audit {
    pub(super) query: Vec<f32>,
    /// Neighbours that were asked for.
    pub(super) k: usize,
    pub(super) reach: Vec<Reach>,
    pub(super) at: Moment,
    /// The search of a reader at that time, if one was made.
    pub(super) made: Option<Made>,
    /// True if the query is a row that has copies.
    pub(super) is_of_copy: bool,
}

/// What a search found.
#[derive(Clone, Copy)]
pub(super) struct Made {
    pub(super) k: usize,
    pub(super) effort: Reached,
    /// Share of its true neighbours.
    pub(super) found: f64,
}

impl Audit {
    /// Share of the `k` true neighbours that `effort` finds, by their ranks.
    pub(super) fn share(&self, k: usize, effort: Reached, now: &Moment) -> f64 {
        let effort = effort.for_k(k);
        let growth = now.growth_since(&self.at);
        // Of the tree of then; the nearest leaf is always among them.
        let probes = ((effort.probes as f64 / growth) as usize).max(1);
        let (mut found, mut all) = (0, 0);
        for (hit, weight) in self.hits(k) {
            all += weight;
            let in_leaves =
                hit.leaf.is_none_or(|rank| f64::from(rank) * growth < effort.probes as f64);
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

    /// The noted ones among the first `k` neighbours, with the weight of each.
    pub(super) fn hits(&self, k: usize) -> impl Iterator<Item = (&Reach, u32)> {
        let k = k as u32;
        let first = self.reach.iter().take_while(move |hit| hit.nth < k);
        first.map(move |hit| (hit, hit.weight.min(k - hit.nth)))
    }

    /// What the ranks did not know of the search that was made.
    fn surprise(&self, k: usize) -> f64 {
        match self.made {
            Some(made) if made.k == k => made.found - self.share(k, made.effort, &self.at),
            _ => 0.0,
        }
    }

    /// What `effort` finds, corrected by what the effort of the time really found.
    fn corrected(&self, k: usize, effort: Reached, now: &Moment) -> f64 {
        self.share(k, effort, now) + self.surprise(k)
    }
}

/// Which neighbours a statement is about: `k` of each audit, or those that it asked for if fewer.
pub(super) type Neighbours = Option<usize>;

/// The last audits that still count, oldest first.
#[derive(Default)]
pub(super) struct Window {
    pub(super) audits: VecDeque<Audit>,
    /// Queries of audits that no longer count, with their k.
    again: VecDeque<(Vec<f32>, usize)>,
}

impl Window {
    pub(super) fn len(&self) -> usize {
        self.audits.len()
    }

    /// True while more audits make a decision notably surer.
    pub(super) fn is_short(&self) -> bool {
        self.audits.len() < WINDOW_FAIR
    }

    /// Drops audits that are better made again, where enough are left that were made since: after a
    /// drift they speak of what is gone.
    pub(super) fn drop_stale(&mut self, now: &Moment) {
        if self.fresh(now) >= WINDOW_FAIR {
            while let Some(stale) = self.take_stale(now) {
                self.keep_query(stale);
            }
        }
    }

    fn keep_query(&mut self, audit: Audit) {
        if self.again.len() == AGAIN_MAX {
            self.again.pop_front();
        }
        self.again.push_back((audit.query, audit.k));
    }

    /// Audits that need not be made again yet.
    pub(super) fn fresh(&self, now: &Moment) -> usize {
        let is_fresh = |audit: &&Audit| !now.has_moved_on(&audit.at);
        self.audits.iter().rev().take_while(is_fresh).count()
    }

    /// True if most audits are better made again.
    pub(super) fn is_stale(&self, now: &Moment) -> bool {
        let middle = self.audits.get(self.audits.len() / 2);
        middle.is_some_and(|audit| now.has_moved_on(&audit.at))
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
    }

    /// Writes until the last audits began that are enough for a decision.
    pub(super) fn supported_writes(&self) -> Option<u64> {
        let first = self.audits.len().checked_sub(WINDOW_MIN)?;
        Some(self.audits[first].at.writes)
    }

    /// Takes out the oldest audit if so much was written since that it is better made again.
    pub(super) fn take_stale(&mut self, now: &Moment) -> Option<Audit> {
        if self.audits.front().is_some_and(|audit| now.has_moved_on(&audit.at)) {
            self.audits.pop_front()
        } else {
            None
        }
    }

    /// Drops what no longer says anything of `now`.
    pub(super) fn forget(&mut self, now: &Moment) {
        while self.audits.front().is_some_and(|oldest| now.has_outlived(&oldest.at)) {
            let audit = self.audits.pop_front().expect("a first audit");
            self.keep_query(audit);
        }
    }

    /// A query that is worth another audit, and its k.
    pub(super) fn ask_again(&mut self) -> Option<(Vec<f32>, usize)> {
        if self.is_short() {
            self.again.pop_back()
        } else {
            None
        }
    }

    /// The query of an audit that is better made again, and its k.
    pub(super) fn ask_stale(&mut self, now: &Moment) -> Option<(Vec<f32>, usize)> {
        self.take_stale(now).map(|audit| (audit.query, audit.k))
    }

    /// What the audits say of the recall of `effort`; `None` without audits.
    ///
    /// The interval is Student's for the mean over queries, with two queries added that lost two
    /// neighbours of ten more than the mean: so it is not empty when no audit lost any, and about
    /// as wide then as the rule of three says.
    pub(super) fn estimate(
        &self,
        of: Neighbours,
        effort: Reached,
        now: &Moment,
    ) -> Option<RecallEstimate> {
        const ADDED: f64 = 2.0 * 0.2 * 0.2;
        let shares: Vec<f64> = self
            .audits
            .iter()
            .map(|audit| audit.corrected(of.unwrap_or(audit.k), effort, now))
            .collect();
        let n = shares.len() as f64;
        let mean = shares.iter().sum::<f64>() / n;
        let variance = (shares.iter().map(|share| (share - mean).powi(2)).sum::<f64>() + ADDED)
            / (n - 1.0).max(1.0);
        // Within 1 % of Student's quantile from 8 audits on.
        let quantile = 1.96 + 2.6 / (n - 1.0).max(1.0);
        let margin = quantile * (variance / n).sqrt();
        (!shares.is_empty()).then(|| RecallEstimate {
            recall: mean.clamp(0.0, 1.0),
            margin: margin.min(1.0),
            audits: shares.len(),
            evidence: if of.is_some() { Evidence::Rows } else { Evidence::Queries },
        })
    }

    /// True if `effort` does what `target` asks for, and not much more.
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

    /// Mean of what the ranks did not know of the searches that were made.
    pub(super) fn surprise(&self, of: Neighbours) -> f64 {
        let known = self.audits.iter().map(|audit| audit.surprise(of.unwrap_or(audit.k)));
        known.sum::<f64>() / self.audits.len().max(1) as f64
    }
}

/// Audits of so many neighbours that are kept.
fn capacity(k: usize) -> usize {
    if k > MANY {
        WINDOW_OF_MANY
    } else {
        WINDOW
    }
}

/// What to aim at, so that `target` is met although the estimate may be too high.
pub(super) fn aim(target: f64, estimate: &RecallEstimate) -> f64 {
    let loss = 1.0 - target;
    target + (0.5 * estimate.margin).clamp(RESERVE * loss, RESERVE_MAX * loss)
}

#[cfg(test)]
mod tests;
