//! Queries: checked, normalised, given an effort, answered on one snapshot.

use std::sync::Arc;

use vstream_index::{Probe, Search, SearchStats};
use vstream_vector::{Metric, Neighbor, TopK};

use crate::engine::{check_finite, normalise};
use crate::error::Error;
use crate::guard::Guard;
use crate::settings::{Settings, K_MAX};

/// How hard to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// As much as the recall target needs.
    Auto,
    /// As `Auto`, but the query is not offered to the recall guard: for those who measure recall
    /// themselves, from other queries than the guard's.
    Unaudited,
    /// Visit this many leaves, ≥ 1, and take exact distances in proportion.
    Probes(usize),
    /// Look at every row.
    Exact,
}

/// A question.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// `dimension` finite values, not all zero under cosine.
    pub vector: &'a [f32],
    /// Neighbours wanted, 1..=[`K_MAX`].
    pub k: usize,
    /// How hard to look.
    pub effort: Effort,
}

/// Reusable buffers of one querying thread.
#[derive(Default)]
pub struct Scratch {
    pub(crate) index: vstream_index::Scratch,
    pub(crate) top: TopK,
    normalised: Vec<f32>,
}

impl Scratch {
    /// Empty buffers that grow to what queries need and stay.
    pub fn new() -> Scratch {
        Scratch::default()
    }
}

/// Answers queries from any thread; never waits for the writer.
#[derive(Clone)]
pub struct Reader {
    dimension: usize,
    metric: Metric,
    search: Arc<dyn Search>,
    guard: Arc<Guard>,
}

impl Reader {
    pub(crate) fn new(settings: &Settings, search: Arc<dyn Search>, guard: Arc<Guard>) -> Reader {
        Reader { dimension: settings.dimension, metric: settings.metric, search, guard }
    }

    /// The `k` nearest rows that live at one moment during the call, nearest first, ties by id.
    ///
    /// Fewer than `k` come back only if fewer live (`Exact`), or if fewer were reached. Errors:
    /// `Invalid` query; nothing was done then.
    pub fn search(
        &self,
        query: &Query<'_>,
        scratch: &mut Scratch,
        out: &mut Vec<Neighbor>,
    ) -> Result<SearchStats, Error> {
        check_finite(query.vector, self.dimension)?;
        if !(1..=K_MAX).contains(&query.k) {
            return Err(Error::invalid(format!(
                "k is {}: choose a value from 1 to {K_MAX}",
                query.k
            )));
        }
        let Scratch { index, top, normalised } = scratch;
        let vector = if self.metric == Metric::Cosine {
            normalise(query.vector, normalised)?;
            normalised.as_slice()
        } else {
            query.vector
        };
        let effort = match query.effort {
            Effort::Exact => vstream_index::Effort::Exact,
            Effort::Probes(probes) => self.guard.chosen(probes.max(1), query.k),
            Effort::Auto => {
                self.guard.note(vector, query.k);
                self.guard.effort(self.search.leaves(), query.k)
            }
            Effort::Unaudited => self.guard.effort(self.search.leaves(), query.k),
        };
        top.reset(query.k);
        let stats = self.search.search(&Probe { vector, k: query.k, effort }, index, top);
        top.drain_sorted(out);
        Ok(stats)
    }

    /// Every row within `radius` of the vector that lives at one moment, nearest first, ties by id.
    ///
    /// `radius` is a distance of the metric: squared under l2. Exact; passes over leaves that
    /// cannot hold such a row, looks at every row of the others. Errors: `Invalid` vector or a
    /// radius that is not a number; nothing was done then.
    pub fn within(
        &self,
        vector: &[f32],
        radius: f32,
        scratch: &mut Scratch,
        out: &mut Vec<Neighbor>,
    ) -> Result<SearchStats, Error> {
        check_finite(vector, self.dimension)?;
        if radius.is_nan() {
            return Err(Error::invalid("the radius is not a number: give a distance"));
        }
        let vector = if self.metric == Metric::Cosine {
            normalise(vector, &mut scratch.normalised)?;
            scratch.normalised.as_slice()
        } else {
            vector
        };
        out.clear();
        let stats = self.search.within(vector, radius, out);
        out.sort_unstable_by(Neighbor::order);
        Ok(stats)
    }
}
