//! The last audits: what they say of an effort, and which effort they call for.
//!
//! 1. Each audit keeps how far a search must go to find each true neighbour, so it can be asked what
//!    any effort would have found. An estimate speaks of the effort in force, whatever was in force
//!    when an audit was made.
//! 2. What a search really found then, less what the ranks say of that effort, corrects for what
//!    ranks do not know.
//! 3. An audit counts as long as at most half of the rows were written since. The queries of those
//!    that no longer count are asked again.

use std::collections::VecDeque;

use vstream_index::{CodeRanks, Reach, CODE_RANK_MAX};

use super::RecallEstimate;

/// Audits that a decision rests on.
const WINDOW: usize = 128;
/// Audits before a decision.
pub(super) const WINDOW_MIN: usize = 16;
/// Queries kept to be asked again.
const AGAIN_MAX: usize = 64;
/// Rows refined exactly per query at least.
const REFINE_MIN: usize = 40;
/// Shares of the allowed loss that may be left to the codes; the rest is for leaves not visited.
const CODE_LOSS_SHARES: [f64; 7] = [0.0, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8];
/// Cost of a leaf in that of an exact distance: some 250 codes in cache lines that follow one
/// another against one row anywhere in memory (measured: 0.4 to 0.9 us and 60 to 100 ns).
const LEAF_COST: usize = 7;
/// Share of the allowed loss that a decision leaves unused at least, and at most, since it is made
/// from a sample: between them half of the estimate's margin.
const RESERVE: f64 = 0.1;
const RESERVE_MAX: f64 = 0.5;
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

    /// As far as either.
    pub(super) fn or(self, other: Reached) -> Reached {
        Reached { probes: self.probes.max(other.probes), refine: self.refine.max(other.refine) }
    }

    /// For `k` neighbours a multiple of them is refined at least.
    pub(super) fn for_k(self, k: usize) -> Reached {
        Reached { refine: self.refine.max(4 * k + 40), ..self }
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
    /// True if so much was written since `then` that it says little of now.
    pub(super) fn has_outlived(&self, then: &Moment) -> bool {
        self.writes.saturating_sub(then.writes) > self.leaves.max(8) as u64 * WRITES_PER_LEAF
    }

    /// How much farther down the same neighbour's leaf stands in a tree that has grown since.
    pub(super) fn growth_since(&self, then: &Moment) -> f64 {
        (self.leaves as f64 / then.leaves.max(1) as f64).max(1.0).sqrt()
    }
}

/// One query that was answered through every code and as a reader would be.
pub(super) struct Audit {
    pub(super) query: Vec<f32>,
    pub(super) k: usize,
    pub(super) reach: Vec<Reach>,
    pub(super) at: Moment,
    /// The effort in force.
    pub(super) effort: Reached,
    /// Share of the true neighbours that a search with that effort found.
    pub(super) found: f64,
}

impl Audit {
    /// Share of the true neighbours that `effort` finds, by their ranks.
    fn share(&self, effort: Reached, now: &Moment) -> f64 {
        if self.reach.is_empty() {
            return 1.0;
        }
        let effort = effort.for_k(self.k);
        let growth = now.growth_since(&self.at);
        // Of the tree of then; the nearest leaf is always among them.
        let probes = ((effort.probes as f64 / growth) as usize).max(1);
        let found = self.reach.iter().filter(|hit| {
            hit.leaf.is_none_or(|rank| f64::from(rank) * growth < effort.probes as f64)
                && self.code_rank(hit, probes) < effort.refine as f64
        });
        found.count() as f64 / self.reach.len() as f64
    }

    /// Rank of a neighbour's estimate among the rows of the `probes` nearest leaves, its own among
    /// them. Known for three numbers of leaves; between them it grows with the logarithm.
    fn code_rank(&self, hit: &Reach, probes: usize) -> f64 {
        let (Some(leaf), Some(ranks)) = (hit.leaf, hit.code) else { return 0.0 };
        let CodeRanks { own, visited, all } = ranks;
        let near = (f64::from(leaf) + 1.0, f64::from(own));
        let here = self.effort.probes.min(self.at.leaves) as f64;
        let here = (here.max(near.0), f64::from(visited));
        let whole = ((self.at.leaves as f64).max(here.0), f64::from(all));
        let probes = probes as f64;
        let (from, to) = if probes < here.0 { (near, here) } else { (here, whole) };
        if to.0 <= from.0 {
            return from.1;
        }
        let part = (probes / from.0).ln() / (to.0 / from.0).ln();
        from.1 + (to.1 - from.1) * part.clamp(0.0, 1.0)
    }

    /// What `effort` finds, corrected by what the effort of the time really found.
    fn corrected(&self, effort: Reached, now: &Moment) -> f64 {
        self.share(effort, now) + self.found - self.share(self.effort, &self.at)
    }
}

/// The last audits that still count, oldest first.
#[derive(Default)]
pub(super) struct Window {
    audits: VecDeque<Audit>,
    /// Queries of audits that no longer count, with their k.
    again: VecDeque<(Vec<f32>, usize)>,
}

impl Window {
    pub(super) fn len(&self) -> usize {
        self.audits.len()
    }

    /// True while more audits make a decision notably surer.
    pub(super) fn is_short(&self) -> bool {
        self.audits.len() < WINDOW / 2
    }

    pub(super) fn push(&mut self, audit: Audit) {
        if self.audits.len() == WINDOW {
            self.audits.pop_front();
        }
        self.audits.push_back(audit);
    }

    /// Drops what no longer says anything of `now`.
    pub(super) fn forget(&mut self, now: &Moment) {
        while self.audits.front().is_some_and(|oldest| now.has_outlived(&oldest.at)) {
            let audit = self.audits.pop_front().expect("a first audit");
            if self.again.len() == AGAIN_MAX {
                self.again.pop_front();
            }
            self.again.push_back((audit.query, audit.k));
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

    /// What the audits say of the recall of `effort`; `None` without audits.
    ///
    /// The interval is Student's for the mean over queries, with two queries added that lost two
    /// neighbours of ten more than the mean: so it is not empty when no audit lost any, and about
    /// as wide then as the rule of three says.
    pub(super) fn estimate(&self, effort: Reached, now: &Moment) -> Option<RecallEstimate> {
        const ADDED: f64 = 2.0 * 0.2 * 0.2;
        let n = self.audits.len() as f64;
        let mean = self.audits.iter().map(|audit| audit.corrected(effort, now)).sum::<f64>() / n;
        let off = |audit: &Audit| (audit.corrected(effort, now) - mean).powi(2);
        let variance = (self.audits.iter().map(off).sum::<f64>() + ADDED) / (n - 1.0).max(1.0);
        // Within 1 % of Student's quantile from 8 audits on.
        let quantile = 1.96 + 2.6 / (n - 1.0).max(1.0);
        let margin = quantile * (variance / n).sqrt();
        (!self.audits.is_empty()).then(|| RecallEstimate {
            recall: mean.clamp(0.0, 1.0),
            margin: margin.min(1.0),
            audits: self.audits.len(),
        })
    }

    /// True if `effort` does what `target` asks for, and not much more.
    pub(super) fn confirms(&self, effort: Reached, target: f64, now: &Moment) -> bool {
        let loss = 1.0 - target;
        let Some(estimate) = self.estimate(effort, now) else { return false };
        let aim = aim(target, &estimate);
        (aim - RESERVE * loss..=aim + 2.0 * RESERVE * loss).contains(&estimate.recall)
    }

    /// The least effort that meets `target` with a reserve, `effort` being in force; `None` without
    /// enough audits.
    pub(super) fn choose(&self, effort: Reached, target: f64, now: &Moment) -> Option<Reached> {
        if self.audits.len() < WINDOW_MIN {
            return None;
        }
        let aim = aim(target, &self.estimate(effort, now)?);
        CODE_LOSS_SHARES
            .iter()
            .map(|share| self.divided(aim, 1.0 - (1.0 - aim) * share, now))
            .min_by_key(|effort| effort.probes * LEAF_COST + effort.refine)
    }

    /// Probes and refinement that find `aim` of the neighbours if the codes keep `code_share` of
    /// those in visited leaves.
    fn divided(&self, aim: f64, code_share: f64, now: &Moment) -> Reached {
        let leaf_ranks = self.audits.iter().flat_map(|audit| {
            let growth = now.growth_since(&audit.at);
            audit.reach.iter().map(move |hit| f64::from(hit.leaf.unwrap_or(0)) * growth)
        });
        let probes = quantile(leaf_ranks, aim / code_share) as usize + 1;
        let code_ranks = self.audits.iter().flat_map(|audit| {
            let probes = ((probes as f64 / now.growth_since(&audit.at)) as usize).max(1);
            let visited = move |hit: &&Reach| hit.leaf.is_none_or(|rank| (rank as usize) < probes);
            audit.reach.iter().filter(visited).map(move |hit| audit.code_rank(hit, probes))
        });
        let refine = quantile(code_ranks, code_share) as usize + 1;
        Reached {
            probes: probes.clamp(1, now.leaves.max(1)),
            refine: refine.clamp(REFINE_MIN, CODE_RANK_MAX / 2),
        }
    }
}

/// What to aim at, so that `target` is met although the estimate may be too high.
fn aim(target: f64, estimate: &RecallEstimate) -> f64 {
    let loss = 1.0 - target;
    target + (0.5 * estimate.margin).clamp(RESERVE * loss, RESERVE_MAX * loss)
}

/// The rank that `share` of the ranks do not exceed; 0 if there are none.
fn quantile(ranks: impl Iterator<Item = f64>, share: f64) -> f64 {
    let mut ranks: Vec<f64> = ranks.collect();
    if ranks.is_empty() {
        return 0.0;
    }
    let at = ((ranks.len() as f64 * share).ceil() as usize).clamp(1, ranks.len()) - 1;
    *ranks.select_nth_unstable_by(at, f64::total_cmp).1
}

#[cfg(test)]
mod tests;
