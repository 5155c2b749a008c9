//! How hot a segment is: four scores from 0 to 1, larger is hotter.
//!
//! | score | is | of |
//! |---|---|---|
//! | access | queries that visited it | all queries |
//! | hits | rows of answers that were its | rows of answers that were in segments |
//! | contribution | the same rows, each by how near it was in its answer | the same of all |
//! | freshness | rows that are older or its own | all rows in segments |
//!
//! The first three are sums over queries in which one counts half as much as one that came
//! [`HALF_LIFE`] later. There is no clock: nothing grows cold while nobody asks. Nearness is a rank,
//! from 1 for the first row of an answer towards 0 for its last, so it is the same for every metric
//! and however long vectors are.
//!
//! Source: the four scores of VStream (PVLDB 18(6), 2025). There nearness and age are without a
//! bound, and what is far and old is hotter in the code that was published.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Queries after which what was counted counts half.
pub(crate) const HALF_LIFE: f64 = 1024.0;
/// Nearness is counted in whole parts of one.
const NEARNESS_ONE: f64 = 4096.0;
/// Weights of the scores in the order of their table. They add up to 1.
const WEIGHTS: [f64; 4] = [0.3125, 0.3125, 0.25, 0.125];

/// What was counted of a segment, or of all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sums {
    /// Queries that visited it.
    pub(crate) queries: f64,
    /// Rows of answers that were its.
    pub(crate) hits: f64,
    /// The same, each by how near it was.
    pub(crate) nearness: f64,
}

impl Sums {
    /// After `queries` more queries, of which it got `more`.
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
    /// * `of`: its sums, `all`: those of all segments together, but for `queries`, which counts
    ///   each query once.
    /// * `rows`: rows that are newer than its own, and all.
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

    /// From 0 to 1.
    pub(crate) fn heat(&self) -> f32 {
        let scores = [self.access, self.hits, self.contribution, self.freshness];
        WEIGHTS.iter().zip(scores).map(|(weight, score)| weight * score).sum::<f64>() as f32
    }
}

/// How near the row at `rank` of an answer of `rows` is: 1 for the first, above 0 for the last.
pub(crate) fn nearness(rank: usize, rows: usize) -> f64 {
    1.0 - rank as f64 / rows as f64
}

/// The heat of one segment: queries count, whoever cools takes the counts.
#[derive(Default)]
pub(crate) struct Heat {
    queries: AtomicU32,
    hits: AtomicU32,
    nearness: AtomicU64,
    /// Bits of an `f32`.
    heat: AtomicU32,
    kept: Mutex<Kept>,
}

/// What only the one who cools touches.
#[derive(Default)]
struct Kept {
    sums: Sums,
    /// Per part of the codes: visits of its leaves, cooled as sums are.
    visits: Vec<f64>,
}

impl Heat {
    /// A query visited leaves of it.
    pub(crate) fn note_query(&self) {
        self.queries.fetch_add(1, Ordering::Relaxed);
    }

    /// Some of its rows are in an answer; `nearness`: of all of them.
    pub(crate) fn note_hits(&self, hits: u32, nearness: f64) {
        self.hits.fetch_add(hits, Ordering::Relaxed);
        self.nearness.fetch_add((nearness * NEARNESS_ONE) as u64, Ordering::Relaxed);
    }

    /// As it was scored last.
    pub(crate) fn heat(&self) -> f32 {
        f32::from_bits(self.heat.load(Ordering::Relaxed))
    }

    /// Its heat is that of `scores` until the next call.
    pub(crate) fn score(&self, scores: &Scores) {
        self.heat.store(scores.heat().to_bits(), Ordering::Relaxed);
    }

    /// Takes what was counted during the last `queries` queries.
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

    /// Visits of leaves of a part, cooled; 0 before it was cooled for the first time.
    pub(crate) fn visits(&self, part: usize) -> f64 {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.visits.get(part).copied().unwrap_or(0.0)
    }

    /// Begins as warm as the segments were that it was merged from: `of` are they, each with its
    /// share of the rows, and `parts` is how many parts it has itself.
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
