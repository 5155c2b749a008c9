//! The heat of a segment: four scores from 0 to 1; larger is hotter. Each score is a part of a
//! whole.
//!
//! | score | part | whole |
//! |---|---|---|
//! | access | queries that visited the segment | all queries |
//! | hits | rows of answers from the segment | rows of answers from all segments |
//! | contribution | the same rows, each weighted by its nearness | the same for all segments |
//! | freshness | rows of the segment and older ones | all rows in segments |
//!
//! The first three are sums over queries. A query counts half as much as one that came
//! [`HALF_LIFE`] queries later. There is no clock: no segment cools while nobody asks. Nearness is
//! a rank, from 1 for the first row of an answer towards 0 for its last. So it is the same for
//! every metric and for every length of vectors.
//!
//! Source: the four scores of VStream (PVLDB 18(6), 2025). There nearness and age have no bound,
//! and the published code gives more heat to far and old rows.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Queries after which a count weighs half.
pub(crate) const HALF_LIFE: f64 = 1024.0;
/// Nearness is counted as an integer, in units of one part of this number.
const NEARNESS_ONE: f64 = 4096.0;
/// Weights of the scores, in the order of the table. They add up to 1.
const WEIGHTS: [f64; 4] = [0.3125, 0.3125, 0.25, 0.125];

/// Cooled counts of one segment or of all segments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sums {
    /// Queries that visited the segment.
    pub(crate) queries: f64,
    /// Rows of answers from the segment.
    pub(crate) hits: f64,
    /// The same rows, each weighted by its nearness.
    pub(crate) nearness: f64,
}

impl Sums {
    /// The sums after `queries` more queries, with `more` counted during them.
    pub(crate) fn cooled(self, queries: u64, more: Sums) -> Sums {
        let kept = 0.5f64.powf(queries as f64 / HALF_LIFE);
        Sums {
            queries: self.queries * kept + more.queries,
            hits: self.hits * kept + more.hits,
            nearness: self.nearness * kept + more.nearness,
        }
    }
}

/// The scores of a segment, each from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Scores {
    pub(crate) access: f64,
    pub(crate) hits: f64,
    pub(crate) contribution: f64,
    pub(crate) freshness: f64,
}

impl Scores {
    /// * `of`: sums of the segment.
    /// * `all`: sums of all segments together, except `queries`, which counts each query once.
    /// * `rows`: rows newer than the segment's, and all rows.
    pub(crate) fn new(of: &Sums, all: &Sums, rows: (u64, u64)) -> Scores {
        let share = |part: f64, whole: f64| match part / whole {
            share if share.is_finite() => share.clamp(0.0, 1.0),
            _ => 0.0,
        };
        Scores {
            access: share(of.queries, all.queries),
            hits: share(of.hits, all.hits),
            contribution: share(of.nearness, all.nearness),
            freshness: share(rows.1.saturating_sub(rows.0) as f64, rows.1 as f64),
        }
    }

    /// The weighted sum of the scores, 0 to 1.
    pub(crate) fn heat(&self) -> f32 {
        let scores = [self.access, self.hits, self.contribution, self.freshness];
        WEIGHTS.iter().zip(scores).map(|(weight, score)| weight * score).sum::<f64>() as f32
    }
}

/// Nearness of the row at `rank` in an answer of `rows` rows: 1 for the first, above 0 for the
/// last.
pub(crate) fn nearness(rank: usize, rows: usize) -> f64 {
    1.0 - rank as f64 / rows as f64
}

/// The heat of one segment. Queries add to the counters; the thread that cools takes them.
#[derive(Default)]
pub(crate) struct Heat {
    queries: AtomicU32,
    hits: AtomicU32,
    nearness: AtomicU64,
    /// Bits of an `f32`.
    heat: AtomicU32,
    kept: Mutex<Kept>,
}

/// State that only the thread that cools touches.
#[derive(Default)]
struct Kept {
    sums: Sums,
    /// Visits of leaves by part of the codes, cooled as the sums are.
    visits: Vec<f64>,
}

impl Heat {
    /// Counts a query that visited leaves of the segment.
    pub(crate) fn note_query(&self) {
        self.queries.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts `hits` rows of the segment in an answer; `nearness` is the sum over those rows.
    pub(crate) fn note_hits(&self, hits: u32, nearness: f64) {
        self.hits.fetch_add(hits, Ordering::Relaxed);
        self.nearness.fetch_add((nearness * NEARNESS_ONE) as u64, Ordering::Relaxed);
    }

    /// The heat at the last scoring.
    pub(crate) fn heat(&self) -> f32 {
        f32::from_bits(self.heat.load(Ordering::Relaxed))
    }

    /// Sets the heat from `scores`, until the next call.
    pub(crate) fn score(&self, scores: &Scores) {
        self.heat.store(scores.heat().to_bits(), Ordering::Relaxed);
    }

    /// Takes the counts of the last `queries` queries; returns the cooled sums.
    pub(crate) fn cool(&self, queries: u64) -> Sums {
        let taken = Sums {
            queries: f64::from(self.queries.swap(0, Ordering::Relaxed)),
            hits: f64::from(self.hits.swap(0, Ordering::Relaxed)),
            nearness: self.nearness.swap(0, Ordering::Relaxed) as f64 / NEARNESS_ONE,
        };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.sums = kept.sums.cooled(queries, taken);
        kept.sums
    }

    /// Takes the visits of each part during the last `queries` queries.
    pub(crate) fn cool_visits(&self, queries: u64, visits: impl Iterator<Item = u32>) {
        let fraction = 0.5f64.powf(queries as f64 / HALF_LIFE);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        for (part, visits) in visits.enumerate() {
            if part == kept.visits.len() {
                kept.visits.push(0.0);
            }
            kept.visits[part] = kept.visits[part] * fraction + f64::from(visits);
        }
    }

    /// Visits of leaves of a part, cooled; 0 before the first cooling.
    pub(crate) fn visits(&self, part: usize) -> f64 {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.visits.get(part).copied().unwrap_or(0.0)
    }

    /// Takes over the heat of the segments that it was merged from.
    ///
    /// * `of`: the heat of each source, and its share of the rows.
    /// * `parts`: parts of the codes of the new segment.
    pub(crate) fn inherit(&self, of: &[(&Heat, f64)], parts: usize) {
        let mut sums = Sums::default();
        let mut visits = 0.0;
        for (heat, _) in of {
            let kept = heat.kept.lock().unwrap_or_else(PoisonError::into_inner);
            sums = sums.cooled(0, kept.sums);
            visits += kept.visits.iter().sum::<f64>();
        }
        let warmest = of.iter().map(|(heat, share)| f64::from(heat.heat()) * share).sum::<f64>();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.sums = sums;
        kept.visits = vec![visits / parts.max(1) as f64; parts];
        self.heat.store((warmest as f32).to_bits(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
