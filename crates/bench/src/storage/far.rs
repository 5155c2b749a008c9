//! Search of a segment that is in an object store, and its way back.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use vstream_engine::Error;
use vstream_index::{Effort, Probe};
use vstream_segment::{Codes, OpenOptions, Segment, SegmentScratch, Tombstones};
use vstream_store::remote::{push, Contents, Location, Restore, RestoreSettings};
use vstream_store::{Access, Cache, Disk, FileStore, Store, Syncing, SystemClock};
use vstream_vector::TopK;

use crate::runbook::Matrix;

const K: usize = 10;

/// What it took to bring a segment there and back.
#[derive(Clone, Copy, Debug, Default)]
pub struct FarRow {
    /// Bytes of the segment.
    pub bytes: u64,
    /// Seconds to push it.
    pub push_s: f64,
    /// Seconds from nothing to the answer of the first query: list, open, search.
    pub first_s: f64,
    /// Bytes that were read for it.
    pub first_bytes: u64,
    /// Milliseconds of a further query, most of whose blocks are elsewhere.
    pub p50_ms: f64,
    /// See `p50_ms`.
    pub p99_ms: f64,
    /// Ranges read elsewhere per query.
    pub reads: f64,
    /// Bytes of them.
    pub read_bytes: f64,
    /// Seconds to restore the whole file, checked and synced.
    pub restore_s: f64,
    /// Queries whose answer was another one afterwards.
    pub changed: usize,
}

/// How the queries are asked.
#[derive(Clone, Copy, Debug)]
pub struct FarEffort {
    /// Leaves visited.
    pub probes: usize,
    /// Exact distances.
    pub refine: usize,
    /// Bytes of the block cache.
    pub cache_bytes: usize,
}

/// Pushes the segment `name` of `from` to `place`, searches it there, and restores it to `to`,
/// which must be empty.
///
/// Errors: those of the stores and of the segment.
pub fn far(
    from: &dyn Store,
    name: &str,
    place: &Location,
    to: &Path,
    queries: &Matrix,
    effort: FarEffort,
) -> Result<FarRow, Error> {
    let begun = Instant::now();
    push(from, &[name.to_owned()], &*place.open()?)?;
    let push_s = begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let remote = place.open()?;
    let contents = Contents::read(&*remote, None)?;
    let settings = RestoreSettings { bytes_per_second: None, clock: Arc::new(SystemClock::new()) };
    let disk = Disk::create(to)
        .map_err(|e| vstream_store::Error::io(to.display().to_string(), "create", &e))?;
    let restore = Restore::begin(Arc::new(disk), remote, &contents, settings)?;
    let store = FileStore::new(Arc::new(restore.clone()), Syncing::Full);
    let cache = Arc::new(Cache::new(effort.cache_bytes));
    let options = OpenOptions { cache: Some(cache), codes: Codes::OnDemand };
    let segment = Segment::open(store.open(name, Access::Direct)?, options.clone())?;
    let mut searcher = Searcher::new(&segment, queries, effort);
    let first = searcher.ask(0)?;
    let first_s = begun.elapsed().as_secs_f64();
    let after_first = restore.progress();
    let mut answers = vec![first];
    let mut times = Vec::new();
    for query in 1..queries.rows() {
        let begun = Instant::now();
        answers.push(searcher.ask(query)?);
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let after = restore.progress();
    let per_query = |count: u64| count as f64 / times.len().max(1) as f64;
    let begun = Instant::now();
    restore.fetch()?.wait()?;
    let restore_s = begun.elapsed().as_secs_f64();
    let plain = FileStore::open_dir(to, Syncing::Full)?;
    let segment = Segment::open(plain.open(name, Access::Direct)?, options)?;
    let mut searcher = Searcher::new(&segment, queries, effort);
    let mut changed = 0;
    for (query, answer) in answers.iter().enumerate() {
        changed += usize::from(searcher.ask(query)? != *answer);
    }
    Ok(FarRow {
        bytes: segment.bytes(),
        push_s,
        first_s,
        first_bytes: after_first.remote_bytes,
        p50_ms: times.get(times.len() / 2).copied().unwrap_or(0.0),
        p99_ms: times.get(times.len() * 99 / 100).copied().unwrap_or(0.0),
        reads: per_query(after.remote_reads - after_first.remote_reads),
        read_bytes: per_query(after.remote_bytes - after_first.remote_bytes),
        restore_s,
        changed,
    })
}

struct Searcher<'a> {
    segment: &'a Segment,
    deletes: Tombstones,
    queries: &'a Matrix,
    effort: Effort,
    scratch: SegmentScratch,
}

impl<'a> Searcher<'a> {
    fn new(segment: &'a Segment, queries: &'a Matrix, effort: FarEffort) -> Searcher<'a> {
        let FarEffort { probes, refine, .. } = effort;
        let deletes = Tombstones::none(segment.rows() as u32);
        let effort = Effort::Approximate { probes, refine };
        Searcher { segment, deletes, queries, effort, scratch: SegmentScratch::new() }
    }

    fn ask(&mut self, query: usize) -> Result<Vec<u64>, Error> {
        let mut top = TopK::new(K);
        let probe =
            Probe { vector: self.queries.row(query), k: K, effort: self.effort, filter: None };
        self.segment.at(&self.deletes, 0).search(&probe, &mut self.scratch, &mut top)?;
        Ok(top.rows().iter().map(|row| row.id).collect())
    }
}
