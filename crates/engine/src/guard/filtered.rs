//! What the guard knows about queries with a filter: where their search may stop.
//!
//! A search with a filter visits leaves in order of their cost, and stops where the next leaf costs
//! at least θ times the distance of the worst of the k best rows so far. Whoever knows how large θ had
//! to be for each true neighbour of some queries, knows θ for any recall: it is a quantile.
//!
//! 1. Readers offer queries with their filters, as they offer queries without one. Large filters are
//!    not kept.
//! 2. An audit goes through every code of the matches, and notes the θ that each true neighbour would
//!    have needed. It also searches as a reader would.
//! 3. Audits count for the class of k and the class of the share of rows that match: a filter that few
//!    rows pass needs another θ than one that many pass.
//!    Within a class each [shape](shape::SHAPES) of filter, which is a filter without its values, has a θ
//!    of its own once it has enough audits; until then it has the θ of all filters of the class, or a
//!    larger one if its first audits ask for that. Measured: one θ for all found 0.99 where .95 was asked
//!    for random keywords, and .92 for the newest rows of a drift.
//! 4. Until a class has enough audits, rows of the collection stand in for its queries, each without
//!    itself and without a filter: measured, such a query needs about as large a θ as any filter does,
//!    if it aims a little higher. These are the rows that the guard audits for queries without a
//!    filter: one audit of 112 neighbours tells what each smaller k needs. So the first filtered query
//!    finds a θ, and it costs nothing more.
//!
//! Audits of filtered queries take turns with the others, and share their budget.

mod shape;
mod step;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use vstream_attribute::{Filter, Test};

use self::shape::{ShapeSlots, SHAPES};
use super::classes::CLASSES;
use super::spread::{later, LATER_FAIR};
use super::window::{aim, interval, Moment, WINDOW_MIN};
use super::{Evidence, RecallEstimate};
use crate::tree::{Thetas, SHARE_CLASSES};

/// Most audits of a class. With as many shapes as have slots, each keeps some 32 of them.
const WINDOW: usize = 512;
/// Rows that stand in for the queries of a class of k.
const ROWS: usize = 200;
/// Part of the allowed loss that a θ from rows leaves unused: for 0.95 it aims at 0.965.
const ROWS_RESERVE: f64 = 0.3;
/// The same of a θ from few rows: half of the estimate's margin, and at most this part.
const ROWS_RESERVE_MAX: f64 = 0.7;
/// Audits of a class of k and of a share with which its θ is well known; the same of a shape in it.
const WINDOW_FAIR: usize = 48;
/// Most queries that wait for an audit, and that are kept to be asked again.
const RING: usize = 32;
/// Most conditions and values of a filter that is kept.
const KEPT_CONDITIONS_MAX: usize = 64;
const KEPT_VALUES_MAX: usize = 1024;

/// A query with its filter.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FilteredQuery {
    pub(super) vector: Vec<f32>,
    pub(super) k: usize,
    pub(super) filter: Filter,
    /// Class of the share of the rows that match.
    pub(super) share: usize,
    /// Slot of the shape of the filter.
    pub(super) shape: usize,
}

/// True if a filter is small enough to be kept.
pub(super) fn is_kept(filter: &Filter) -> bool {
    let (mut left, mut conditions, mut values) = (vec![filter], 0, 0);
    while let Some(one) = left.pop() {
        conditions += 1;
        match one {
            Filter::And(of) | Filter::Or(of) | Filter::AtLeast(_, of) => left.extend(of),
            Filter::Not(of) => left.push(of),
            Filter::Ids(ids) => values += ids.len(),
            Filter::Attribute(
                _,
                Test::KeywordIn(texts) | Test::AnyOf(texts) | Test::AllOf(texts),
            ) => values += texts.len(),
            Filter::Attribute(_, Test::I64In(numbers)) => values += numbers.len(),
            Filter::Attribute(_, Test::F64In(numbers)) => values += numbers.len(),
            Filter::Attribute(..) => {}
        }
        if conditions + left.len() > KEPT_CONDITIONS_MAX || values > KEPT_VALUES_MAX {
            return false;
        }
    }
    true
}

/// An audit of a filtered query, or of a row that stands in for one.
pub(super) struct FilteredAudit {
    /// `None` for a row.
    pub(super) query: Option<FilteredQuery>,
    pub(super) at: Moment,
    /// Queries of its class until then, and of these with a filter of its shape.
    pub(super) asked: usize,
    pub(super) asked_of_shape: usize,
    /// The θ that each true neighbour would have needed.
    pub(super) needed: Vec<f32>,
    /// The θ of the search that was made as a reader makes it, and the share of the true neighbours
    /// that it found.
    pub(super) made: Option<(f32, f64)>,
}

impl FilteredAudit {
    /// Slot of the shape of its filter.
    fn shape(&self) -> usize {
        self.query.as_ref().map_or(0, |query| query.shape)
    }

    /// Share of the true neighbours that need no larger θ.
    fn by_needed(&self, theta: f32) -> f64 {
        if self.needed.is_empty() {
            return 1.0;
        }
        let found = self.needed.iter().filter(|&&needed| needed <= theta).count();
        found as f64 / self.needed.len() as f64
    }

    /// What the search that was made found beyond what the neighbours needed.
    fn surprise(&self) -> f64 {
        self.made.map_or(0.0, |(theta, found)| found - self.by_needed(theta))
    }

    /// Share of the true neighbours that a search with this θ finds.
    fn share(&self, theta: f32) -> f64 {
        (self.by_needed(theta) + self.surprise()).clamp(0.0, 1.0)
    }
}

/// The last audits of one class, oldest first.
#[derive(Default)]
struct FilteredWindow {
    audits: VecDeque<FilteredAudit>,
    /// True once the audits spoke for more than the first queries.
    is_spread: bool,
}

impl FilteredWindow {
    fn push(&mut self, audit: FilteredAudit) {
        if self.audits.len() == WINDOW {
            // A shape that is asked for often does not drive out the others.
            let counts = self.counts();
            let most = (0..SHAPES).max_by_key(|&shape| counts[shape]).unwrap_or(0);
            let oldest = self.audits.iter().position(|audit| audit.shape() == most);
            self.audits.remove(oldest.unwrap_or(0));
        }
        self.audits.push_back(audit);
        self.is_spread &= self.audits.len() > 1;
        if !self.is_spread && self.audits.len() >= WINDOW_FAIR {
            let later = later(self.audits.iter().map(|audit| audit.asked));
            self.is_spread = later >= LATER_FAIR;
            if self.is_spread {
                // The first queries do not outvote the later ones.
                let early = self.audits.len() - later;
                self.audits.drain(..early.saturating_sub(later));
            }
        }
    }

    /// True if a θ needs nothing beside these audits.
    fn is_fair(&self) -> bool {
        self.is_spread && self.audits.len() >= WINDOW_FAIR
    }

    /// Audits by shape.
    fn counts(&self) -> [usize; SHAPES] {
        let mut counts = [0; SHAPES];
        self.audits.iter().for_each(|audit| counts[audit.shape()] += 1);
        counts
    }

    /// For each shape, whether its θ needs nothing beside its own audits.
    fn are_fair(&self) -> [bool; SHAPES] {
        let counts = self.counts();
        let shapes = counts.iter().filter(|&&count| count > 0).count();
        // A full window has one audit fewer of a shape than its part of them while another is pushed.
        let enough = WINDOW_FAIR.min(WINDOW / (shapes + 1));
        std::array::from_fn(|shape| {
            let of_shape = || self.audits.iter().filter(|audit| audit.shape() == shape);
            self.is_fair()
                && counts[shape] >= enough
                && later(of_shape().map(|audit| audit.asked_of_shape)) >= LATER_FAIR
        })
    }

    /// Drops audits that say nothing about `now` any more; returns their queries.
    fn forget(&mut self, now: &Moment) -> Vec<FilteredQuery> {
        let mut queries = Vec::new();
        while self.audits.front().is_some_and(|oldest| now.has_outlived(&oldest.at)) {
            queries.extend(self.audits.pop_front().and_then(|audit| audit.query));
        }
        queries
    }

    /// * `theta`: by the slot of the shape.
    fn estimate(&self, theta: &[f32; SHAPES], evidence: Evidence) -> Option<RecallEstimate> {
        estimate(self.audits.iter().map(|audit| audit.share(theta[audit.shape()])), evidence)
    }

    /// θ by rows that stand in for queries; `None` without enough of them.
    fn careful_theta(&self, target: f64) -> Option<f32> {
        if self.audits.len() < WINDOW_MIN {
            return None;
        }
        let loss = 1.0 - target;
        let careful = target + ROWS_RESERVE * loss;
        let first = theta_for(self.audits.iter(), careful);
        let margin = self.estimate(&[first; SHAPES], Evidence::Rows)?.margin;
        let reserve = (0.5 * margin).clamp(ROWS_RESERVE * loss, ROWS_RESERVE_MAX * loss);
        Some(theta_for(self.audits.iter(), target + reserve))
    }
}

/// The recall of audits that found these shares of their neighbours.
fn estimate(shares: impl Iterator<Item = f64>, evidence: Evidence) -> Option<RecallEstimate> {
    let shares: Vec<f64> = shares.collect();
    if shares.is_empty() {
        return None;
    }
    let (recall, margin) = interval(&shares);
    Some(RecallEstimate { recall, margin, audits: shares.len(), evidence })
}

/// The least θ with which a search finds `share` of the neighbours, by what they need.
fn theta_for<'a>(audits: impl Iterator<Item = &'a FilteredAudit>, share: f64) -> f32 {
    let mut needed: Vec<f32> = audits.flat_map(|audit| audit.needed.iter().copied()).collect();
    if needed.is_empty() {
        return 0.0;
    }
    let nth = ((needed.len() as f64 * share).ceil() as usize).clamp(1, needed.len()) - 1;
    *needed.select_nth_unstable_by(nth, f32::total_cmp).1
}

/// The θ with which some audits of queries meet the target, with a reserve for how few they are.
fn aimed_theta<'a>(
    audits: impl Iterator<Item = &'a FilteredAudit> + Clone,
    target: f64,
) -> Option<f32> {
    let first = theta_for(audits.clone(), target);
    let shares = audits.clone().map(|audit| audit.share(first));
    let estimate = estimate(shares, Evidence::Queries)?;
    let surprise =
        audits.clone().map(FilteredAudit::surprise).sum::<f64>() / estimate.audits as f64;
    Some(theta_for(audits, (aim(target, &estimate) - surprise).clamp(0.0, 1.0)))
}

/// Audits by class, used by the auditor alone.
#[derive(Default)]
pub(super) struct FilteredAudits {
    queries: [[FilteredWindow; CLASSES.len()]; SHARE_CLASSES],
    rows: [FilteredWindow; CLASSES.len()],
    /// Queries whose audits no longer count.
    again: VecDeque<FilteredQuery>,
}

impl FilteredAudits {
    /// Forgets what no longer counts.
    pub(super) fn forget(&mut self, now: &Moment) {
        self.rows.iter_mut().for_each(|window| drop(window.forget(now)));
        let forgotten = self.queries.iter_mut().flatten().flat_map(|window| window.forget(now));
        self.again.extend(forgotten);
        let spare = self.again.len().saturating_sub(RING);
        self.again.drain(..spare);
    }

    /// A query to be asked again.
    pub(super) fn ask_again(&mut self) -> Option<FilteredQuery> {
        self.again.pop_front()
    }

    /// True if a class of k has too few rows to stand in for its queries.
    pub(super) fn wants_rows(&self, class: usize) -> bool {
        self.rows[class].audits.len() < ROWS
    }

    pub(super) fn push_query(&mut self, share: usize, class: usize, audit: FilteredAudit) {
        self.queries[share][class].push(audit);
    }

    pub(super) fn push_row(&mut self, class: usize, audit: FilteredAudit) {
        self.rows[class].push(audit);
    }

    /// θ for a class, by the slot of the shape, and the recall that they are estimated to have; `None`
    /// without enough audits.
    fn conclude(
        &self,
        share: usize,
        class: usize,
        target: f64,
    ) -> Option<([f32; SHAPES], RecallEstimate)> {
        let (queries, rows) = (&self.queries[share][class], &self.rows[class]);
        if queries.audits.len() < WINDOW_MIN {
            let theta = [rows.careful_theta(target)?; SHAPES];
            return Some((theta, rows.estimate(&theta, Evidence::Rows)?));
        }
        let mut of_all = aimed_theta(queries.audits.iter(), target)?;
        if !queries.is_fair() {
            // A class has filters of many kinds, and the first audits may be of the easier ones.
            of_all = of_all.max(rows.careful_theta(target).unwrap_or(of_all));
        }
        let (counts, are_fair) = (queries.counts(), queries.are_fair());
        let theta = std::array::from_fn(|shape| {
            let own = || queries.audits.iter().filter(|audit| audit.shape() == shape);
            match counts[shape] {
                count if count < WINDOW_MIN => of_all,
                _ => {
                    let own = aimed_theta(own(), target).unwrap_or(of_all);
                    if are_fair[shape] {
                        own
                    } else {
                        own.max(of_all)
                    }
                }
            }
        });
        Some((theta, queries.estimate(&theta, Evidence::Queries)?))
    }
}

/// What readers need to know, without a lock.
pub(super) struct FilteredDecisions {
    /// Slots of the shapes of filters.
    shapes: ShapeSlots,
    /// Bits of θ by class of share, class of k and slot of shape; those of a NaN where nothing is
    /// decided.
    theta: [[[AtomicU32; SHAPES]; CLASSES.len()]; SHARE_CLASSES],
    /// The same: true for a shape whose queries have enough audits.
    is_known: [[[AtomicBool; SHAPES]; CLASSES.len()]; SHARE_CLASSES],
    /// Classes of k that were asked for.
    is_asked: [AtomicBool; CLASSES.len()],
    /// Filtered queries so far: in all; by class of share and class of k; and by slot of shape too.
    seen: AtomicUsize,
    seen_of: [[AtomicUsize; CLASSES.len()]; SHARE_CLASSES],
    seen_of_shape: [[[AtomicUsize; SHAPES]; CLASSES.len()]; SHARE_CLASSES],
    /// CPU time, in nanoseconds, of the guard's last filtered search in the way of a reader.
    query_ns: AtomicU64,
}

impl Default for FilteredDecisions {
    fn default() -> FilteredDecisions {
        let undecided = |_| AtomicU32::new(f32::NAN.to_bits());
        let of_class = |_| std::array::from_fn(undecided);
        FilteredDecisions {
            shapes: ShapeSlots::default(),
            theta: std::array::from_fn(|_| std::array::from_fn(of_class)),
            is_known: Default::default(),
            is_asked: Default::default(),
            seen: AtomicUsize::new(0),
            seen_of: Default::default(),
            seen_of_shape: Default::default(),
            query_ns: AtomicU64::new(0),
        }
    }
}

impl FilteredDecisions {
    /// Slot of the shape of a filter.
    pub(super) fn shape(&self, filter: &Filter) -> usize {
        self.shapes.of(filter)
    }

    /// Counts a query; returns how many there were before it, of any class.
    pub(super) fn note(&self, share: usize, class: usize, shape: usize) -> usize {
        self.seen_of[share][class].fetch_add(1, Ordering::Relaxed);
        self.seen_of_shape[share][class][shape].fetch_add(1, Ordering::Relaxed);
        self.is_asked[class].store(true, Ordering::Relaxed);
        self.seen.fetch_add(1, Ordering::Relaxed)
    }

    /// Filtered queries so far.
    pub(super) fn seen(&self) -> usize {
        self.seen.load(Ordering::Relaxed)
    }

    /// Filtered queries of a class so far.
    pub(super) fn seen_of(&self, share: usize, class: usize) -> usize {
        self.seen_of[share][class].load(Ordering::Relaxed)
    }

    /// Those of them with a filter of a shape.
    pub(super) fn seen_of_shape(&self, share: usize, class: usize, shape: usize) -> usize {
        self.seen_of_shape[share][class][shape].load(Ordering::Relaxed)
    }

    /// CPU time of a reader's filtered search, in seconds.
    pub(super) fn query_seconds(&self) -> f64 {
        self.query_ns.load(Ordering::Relaxed) as f64 * 1e-9
    }

    /// Notes the CPU time of a reader's filtered search.
    pub(super) fn note_seconds(&self, seconds: f64) {
        self.query_ns.store((seconds * 1e9) as u64, Ordering::Relaxed);
    }

    /// True if the queries of a class and shape have enough audits.
    pub(super) fn is_known(&self, share: usize, class: usize, shape: usize) -> bool {
        self.is_known[share][class][shape].load(Ordering::Relaxed)
    }

    /// The classes of k that were asked for with a filter.
    pub(super) fn asked(&self) -> impl Iterator<Item = usize> + '_ {
        (0..CLASSES.len()).filter(|&class| self.is_asked[class].load(Ordering::Relaxed))
    }

    /// θ for a share of matching rows and a shape; `None` if nothing is decided for any shape.
    pub(super) fn theta(&self, share: usize, class: usize, shape: usize) -> Option<f32> {
        let theta = f32::from_bits(self.theta[share][class][shape].load(Ordering::Relaxed));
        (!theta.is_nan()).then_some(theta)
    }

    /// θ of a shape by class of share; every leaf where nothing is decided.
    pub(super) fn thetas(&self, class: usize, shape: usize) -> Thetas {
        let theta = |share| self.theta(share, class, shape).unwrap_or(f32::INFINITY);
        Thetas(std::array::from_fn(theta))
    }

    /// Decides anew about a class of k; returns the estimates by class of share.
    pub(super) fn conclude(
        &self,
        audits: &FilteredAudits,
        class: usize,
        target: f64,
    ) -> [Option<RecallEstimate>; SHARE_CLASSES] {
        std::array::from_fn(|share| {
            let decided = audits.conclude(share, class, target);
            let thetas = decided.map_or([f32::NAN; SHAPES], |(thetas, _)| thetas);
            for (stored, theta) in self.theta[share][class].iter().zip(thetas) {
                stored.store(theta.to_bits(), Ordering::Relaxed);
            }
            let are_known = audits.queries[share][class].are_fair();
            for (stored, is_known) in self.is_known[share][class].iter().zip(are_known) {
                stored.store(is_known, Ordering::Relaxed);
            }
            decided.map(|(_, estimate)| estimate)
        })
    }
}

/// Keeps a query for the auditor; the oldest of too many goes.
pub(super) fn keep(ring: &mut VecDeque<FilteredQuery>, query: FilteredQuery) {
    if ring.len() == RING {
        ring.pop_front();
    }
    ring.push_back(query);
}

#[cfg(test)]
mod tests;
