//! Queries: checked, normalised, given an effort, answered on one snapshot.

use std::sync::Arc;

use vstream_index::{Probe, SearchStats};
use vstream_vector::{Metric, Neighbor, TopK};

use crate::accept::{check_query, normalise, refused};
use crate::error::Error;
use crate::guard::Guard;
use crate::settings::{Settings, K_MAX};
use crate::tree::{Pinned, Tree, TreeScratch};

/// Leaves or rows beyond which a chosen effort asks for nothing more: there are not so many.
const CHOSEN_MAX: usize = 1 << 32;

/// How hard to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// As much as the recall target needs.
    Auto,
    /// As `Auto`, but the query is not offered to the recall guard: for those who measure recall
    /// themselves, from other queries than the guard's.
    Unaudited,
    /// Visit so many leaves and take so many exact distances.
    Chosen {
        /// Leaves visited, ≥ 1.
        probes: usize,
        /// Rows whose exact distance is taken, the best by their codes; in proportion to `probes`
        /// if it is not given, and never fewer than `k`.
        refine: Option<usize>,
    },
    /// Look at every row.
    Exact,
}

impl Effort {
    /// This many leaves, and exact distances in proportion.
    pub fn probes(probes: usize) -> Effort {
        Effort::Chosen { probes, refine: None }
    }
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
    tree: TreeScratch,
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
    tree: Arc<Tree>,
    guard: Arc<Guard>,
}

/// The rows of one moment, for queries from any thread: see [`Reader::read_snapshot`].
pub struct ReadSnapshot {
    reader: Reader,
    rows: Pinned,
}

impl ReadSnapshot {
    /// As [`Reader::search`], on the rows of this moment. Errors: as there.
    pub fn search(
        &self,
        query: &Query<'_>,
        scratch: &mut Scratch,
        out: &mut Vec<Neighbor>,
    ) -> Result<SearchStats, Error> {
        self.reader
            .ask(query, scratch, out, &|probe, scratch, top| self.rows.search(probe, scratch, top))
    }
}

/// Where a query that was prepared is asked.
type Asked<'a> = &'a dyn Fn(&Probe<'_>, &mut TreeScratch, &mut TopK) -> Result<SearchStats, Error>;

impl Reader {
    pub(crate) fn new(settings: &Settings, tree: Arc<Tree>, guard: Arc<Guard>) -> Reader {
        Reader { dimension: settings.dimension, metric: settings.metric, tree, guard }
    }

    /// The `k` nearest rows that live at one moment during the call, nearest first, ties by id.
    ///
    /// Fewer than `k` come back only if fewer live. Errors: `Invalid` query; nothing was done then.
    /// `Corrupt` or `Io` if rows are in segments that cannot be read; then there is no answer.
    pub fn search(
        &self,
        query: &Query<'_>,
        scratch: &mut Scratch,
        out: &mut Vec<Neighbor>,
    ) -> Result<SearchStats, Error> {
        self.ask(query, scratch, out, &|probe, scratch, top| self.tree.search(probe, scratch, top))
    }

    /// The rows of now: a query asked of them later, on any thread, sees no write that came after.
    ///
    /// Holds the memory of what the writer replaces, and the files of segments that are merged
    /// meanwhile, until it is dropped. Cost: an allocation or two.
    pub fn read_snapshot(&self) -> ReadSnapshot {
        ReadSnapshot { reader: self.clone(), rows: self.tree.pin() }
    }

    fn ask(
        &self,
        query: &Query<'_>,
        scratch: &mut Scratch,
        out: &mut Vec<Neighbor>,
        search: Asked<'_>,
    ) -> Result<SearchStats, Error> {
        check_query(query.vector, self.dimension, self.metric).map_err(refused)?;
        if !(1..=K_MAX).contains(&query.k) {
            return Err(Error::invalid(format!(
                "k is {}: choose a value from 1 to {K_MAX}",
                query.k
            )));
        }
        let Scratch { tree, top, normalised } = scratch;
        let vector = if self.metric == Metric::Cosine {
            normalise(query.vector, normalised)?;
            normalised.as_slice()
        } else {
            query.vector
        };
        let effort = match query.effort {
            Effort::Exact => vstream_index::Effort::Exact,
            Effort::Chosen { probes, refine } => {
                let refine = refine.map(|refine| refine.min(CHOSEN_MAX));
                self.guard.chosen(probes.clamp(1, CHOSEN_MAX), refine, query.k)
            }
            Effort::Auto => {
                self.guard.note(vector, query.k);
                self.guard.effort(&self.tree, query.k)
            }
            Effort::Unaudited => self.guard.effort(&self.tree, query.k),
        };
        top.reset(query.k);
        let stats = search(&Probe { vector, k: query.k, effort }, tree, top)?;
        top.drain_sorted(out);
        Ok(stats)
    }

    /// Every row within `radius` of the vector that lives at one moment, nearest first, ties by id.
    ///
    /// `radius` is a distance of the metric: squared under l2. Exact; passes over leaves that
    /// cannot hold such a row, looks at every row of the others. Errors: `Invalid` vector or a
    /// radius that is not a number; nothing was done then. `Corrupt` or `Io` as for a search.
    pub fn search_radius(
        &self,
        vector: &[f32],
        radius: f32,
        scratch: &mut Scratch,
        out: &mut Vec<Neighbor>,
    ) -> Result<SearchStats, Error> {
        check_query(vector, self.dimension, self.metric).map_err(refused)?;
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
        let stats = self.tree.search_radius(vector, radius, out)?;
        out.sort_unstable_by(Neighbor::order);
        Ok(stats)
    }
}
