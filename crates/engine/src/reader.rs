//! Queries: the reader checks and normalises a query, chooses its effort, and answers it on one
//! read snapshot.

use std::sync::Arc;

use vstream_attribute::{Filter, Schema};
use vstream_index::{Probe, SearchStats};
use vstream_vector::{Metric, Neighbor, TopK};

use crate::accept::{check_query, normalise, refused};
use crate::error::{Error, ErrorKind};
use crate::guard::{Guard, RecallEstimate};
use crate::settings::{Settings, K_MAX};
use crate::tree::{Pinned, Reachable, Thetas, Tree, TreeScratch};

/// Cap of a chosen number of leaves or rows. No engine has so many, so the cap changes no answer.
const CHOSEN_MAX: usize = 1 << 32;

/// Tries of an answer of segments that can be reached: one may leave the directory during a search.
const REACHABLE_TRIES: usize = 3;

/// How much a search scans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Scan as much as the recall target needs.
    Auto,
    /// Scan as under `Auto`, but do not offer the query to the recall guard: for callers who
    /// measure recall themselves, with queries other than the guard's.
    Unaudited,
    /// Visit so many leaves and take so many exact distances.
    Chosen {
        /// Leaves visited, ≥ 1. Beside large segments the few nearest of the newest rows are visited too.
        probes: usize,
        /// Rows whose exact distance is taken, those with the best codes, never fewer than `k`.
        /// `None`: in proportion to `probes`.
        refine: Option<usize>,
    },
    /// Look at every row, but for those in leaves that are proved to be farther.
    Exact,
}

impl Effort {
    /// Visits this many leaves, and takes exact distances in proportion.
    pub fn probes(probes: usize) -> Effort {
        Effort::Chosen { probes, refine: None }
    }
}

/// A query.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// `dimension` finite values, not all zero under cosine.
    pub vector: &'a [f32],
    /// Neighbours wanted, 1..=[`K_MAX`].
    pub k: usize,
    /// How much to scan.
    pub effort: Effort,
    /// Rows that may be in the answer; `None` for all.
    pub filter: Option<&'a Filter>,
    /// Most distance of a row in the answer, a distance of the metric: squared under l2. `None` for
    /// no limit.
    pub radius: Option<f32>,
}

impl<'a> Query<'a> {
    /// A query for the `k` nearest rows, at the effort that the recall target needs.
    pub fn new(vector: &'a [f32], k: usize) -> Query<'a> {
        Query { vector, k, effort: Effort::Auto, filter: None, radius: None }
    }
}

/// Reusable buffers of one querying thread.
#[derive(Default)]
pub struct Scratch {
    pub(crate) tree: TreeScratch,
    pub(crate) top: TopK,
    normalised: Vec<f32>,
}

impl Scratch {
    /// Returns empty buffers. They grow to the size that queries need and keep it.
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

/// The rows of one sequence number, for queries from any thread: see [`Reader::read_snapshot`].
pub struct ReadSnapshot {
    reader: Reader,
    rows: Pinned,
}

impl ReadSnapshot {
    /// The reader that made it, which sees later writes too.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    pub(crate) fn rows(&self) -> &Pinned {
        &self.rows
    }

    pub(crate) fn dimension(&self) -> usize {
        self.reader.dimension
    }

    /// Searches like [`Reader::search`], on the rows of this read snapshot. Errors: the same.
    pub fn search(
        &self,
        query: &Query<'_>,
        scratch: &mut Scratch,
        out: &mut Vec<Neighbor>,
    ) -> Result<SearchStats, Error> {
        self.reader.ask(query, scratch, out, &|probe, thetas, scratch, top| match probe.filter {
            None => self.rows.search(probe, scratch, top).map(|stats| (stats, None)),
            Some(_) => self.rows.search_filtered(probe, thetas, scratch, top),
        })
    }
}

/// Searches the tree or a read snapshot with a query that was checked and normalised. Returns also the
/// class of the share of the rows that match, where the guard has a use for it.
type Asked<'a> = &'a dyn Fn(
    &Probe<'_>,
    &Thetas,
    &mut TreeScratch,
    &mut TopK,
) -> Result<(SearchStats, Option<usize>), Error>;

impl Reader {
    pub(crate) fn new(settings: &Settings, tree: Arc<Tree>, guard: Arc<Guard>) -> Reader {
        Reader { dimension: settings.dimension, metric: settings.metric, tree, guard }
    }

    #[cfg(test)]
    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The latest estimate of the recall guard, if there is one.
    pub fn recall(&self) -> Option<RecallEstimate> {
        self.guard.estimate()
    }

    /// What rows carry beside their vectors, now.
    pub fn schema(&self) -> Arc<Schema> {
        self.tree.schema()
    }

    /// Writes to `out` the `k` nearest rows that live at one moment during the call, nearest first,
    /// ties by id.
    ///
    /// Returns fewer than `k` rows only if fewer live, match the filter and are within the radius. Errors: `Invalid` for an invalid query; the
    /// search then did nothing. `Corrupt` or `Io` if a segment cannot be read; there is no answer
    /// then.
    pub fn search(
        &self,
        query: &Query<'_>,
        scratch: &mut Scratch,
        out: &mut Vec<Neighbor>,
    ) -> Result<SearchStats, Error> {
        self.ask(query, scratch, out, &|probe, thetas, scratch, top| match probe.filter {
            None => self.tree.search(probe, scratch, top).map(|stats| (stats, None)),
            Some(_) => self.tree.search_filtered(probe, thetas, scratch, top),
        })
    }

    /// As [`Reader::search`], and if a far store gives no answer ([`crate::RemoteLevel`]), the answer of
    /// the segments that can be reached. Returns also how many living rows were left out: the answer is
    /// partial unless this is 0.
    ///
    /// Errors: as [`Reader::search`]; `Unavailable` only if segments leave the directory meanwhile, again
    /// and again.
    pub fn search_reachable(
        &self,
        query: &Query<'_>,
        scratch: &mut Scratch,
        out: &mut Vec<Neighbor>,
    ) -> Result<(SearchStats, u64), Error> {
        let mut done = self.search(query, scratch, out).map(|stats| (stats, 0));
        for _ in 0..REACHABLE_TRIES {
            if !done.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unavailable) {
                break;
            }
            let (snapshot, left_out) = self.reachable();
            done = snapshot.search(query, scratch, out).map(|stats| (stats, left_out));
        }
        done
    }

    /// The present rows without the segments that are in a far store alone, for queries that must not wait
    /// for it, and how many living rows that leaves out.
    pub fn reachable(&self) -> (ReadSnapshot, u64) {
        let Reachable { rows, left_out } = self.tree.pin().reachable();
        (ReadSnapshot { reader: self.clone(), rows }, left_out)
    }

    /// Pins the present rows. A query on this read snapshot, on any thread, sees no later write.
    ///
    /// Until it is dropped, the read snapshot holds the memory that the writer replaces, and the
    /// files of segments that are merged meanwhile. Cost: an allocation or two.
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
        query.filter.map_or(Ok(()), |filter| filter.check(&self.tree.schema()))?;
        check_radius(query.radius)?;
        let Scratch { tree, top, normalised } = scratch;
        let vector = if self.metric == Metric::Cosine {
            normalise(query.vector, normalised)?;
            normalised.as_slice()
        } else {
            query.vector
        };
        let effort = match query.effort {
            Effort::Exact => vstream_index::Effort::Exact,
            // How far it goes is up to θ.
            _ if query.filter.is_some() => vstream_index::Effort::Thorough { depth: 0 },
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
        let probe = Probe { vector, k: query.k, effort, filter: query.filter };
        let thetas = query.filter.map_or(Thetas::NONE, |filter| self.guard.thetas(query.k, filter));
        let (stats, share) = search(&probe, &thetas, tree, top)?;
        if let (Effort::Auto, Some(filter), Some(share)) = (query.effort, query.filter, share) {
            self.guard.note_filtered((vector, query.k), filter, share);
        }
        top.drain_sorted(out);
        if let Some(radius) = query.radius {
            out.truncate(out.partition_point(|row| row.distance <= radius));
        }
        Ok(stats)
    }

    /// Writes to `out` every row that matches within `radius` of the vector that lives at one moment during the
    /// call, nearest first, ties by id.
    ///
    /// `radius` is a distance of the metric: squared under l2. Exact: passes over leaves that
    /// cannot hold such a row, and scans every row of the other leaves. Errors: `Invalid` for an
    /// invalid vector, a radius that is not a number or an invalid filter; the search then did nothing. `Corrupt` or
    /// `Io` if a segment cannot be read.
    pub fn search_radius(
        &self,
        vector: &[f32],
        radius: f32,
        filter: Option<&Filter>,
        scratch: &mut Scratch,
        out: &mut Vec<Neighbor>,
    ) -> Result<SearchStats, Error> {
        check_query(vector, self.dimension, self.metric).map_err(refused)?;
        check_radius(Some(radius))?;
        filter.map_or(Ok(()), |filter| filter.check(&self.tree.schema()))?;
        let vector = if self.metric == Metric::Cosine {
            normalise(vector, &mut scratch.normalised)?;
            scratch.normalised.as_slice()
        } else {
            vector
        };
        out.clear();
        let stats = self.tree.search_radius(vector, radius, filter, out)?;
        out.sort_unstable_by(Neighbor::order);
        Ok(stats)
    }
}

fn check_radius(radius: Option<f32>) -> Result<(), Error> {
    if radius.is_some_and(f32::is_nan) {
        return Err(Error::invalid("the radius is not a number: give a distance"));
    }
    Ok(())
}
