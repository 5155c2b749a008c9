//! An engine whose rows do not fit in the memory that it may use: ingest, search, recovery.

use std::path::Path;
use std::time::{Duration, Instant};

use vstream_engine::{
    Durability, Effort, Element, Engine, Error, Journaling, Metric, Neighbor, PlacesStats, Query,
    Row, Scratch, Settings, Stats,
};

use super::larger::{LargerRow, K};
use crate::runbook::Matrix;

/// Writes that are committed together.
const COMMITTED: usize = 100;
/// A write that takes longer is a stall.
const STALL_MS: f64 = 50.0;

/// What inserting the rows cost.
#[derive(Clone, Debug)]
pub struct IngestRow {
    /// Rows per second, from the first to the return of the last commit.
    pub rate: f64,
    /// Milliseconds of a commit with its writes: 99.9 of 100 were shorter.
    pub p999_ms: f64,
    /// The longest.
    pub max_ms: f64,
    /// Commits that took longer than 50 ms.
    pub stalls: usize,
    /// Counts when the last row was in.
    pub stats: Stats,
}

/// Settings of the collection.
pub fn settings(dimension: usize, element: Element, memory: Option<u64>) -> Settings {
    let settings = Settings::new(dimension, Metric::L2, element);
    Settings { memory, direct_io: true, recall_guard: false, ..settings }
}

/// How the collection is kept: logs are left to `async`.
pub fn journaling() -> Journaling {
    Journaling { durability: Durability::ASYNC, ..Journaling::default() }
}

/// Inserts all rows, in their order, into an empty engine. Errors: those of the engine.
pub fn ingest(engine: &mut Engine, matrix: &Matrix) -> Result<IngestRow, Error> {
    let begun = Instant::now();
    let mut times = Vec::with_capacity(matrix.rows().div_ceil(COMMITTED));
    let mut last = begun;
    for id in 0..matrix.rows() {
        let vector = matrix.row(id);
        engine.upsert(&Row { id: id as u64, version: 1, code: 0, shard: 0, vector })?;
        if id % COMMITTED == COMMITTED - 1 || id + 1 == matrix.rows() {
            engine.commit()?;
            let now = Instant::now();
            times.push((now - last).as_secs_f64() * 1e3);
            last = now;
        }
    }
    let rate = matrix.rows() as f64 / begun.elapsed().as_secs_f64();
    times.sort_by(f64::total_cmp);
    Ok(IngestRow {
        rate,
        p999_ms: times[times.len() * 999 / 1000],
        max_ms: times[times.len() - 1],
        stalls: times.iter().filter(|&&ms| ms > STALL_MS).count(),
        stats: engine.stats(),
    })
}

/// Bytes written to the disk per byte of the rows as they came (vector, id and version).
pub fn write_amplification(stats: &Stats, matrix: &Matrix) -> f64 {
    let journal = stats.journal.clone().unwrap_or_default();
    let rows = matrix.rows() * (matrix.dimension * size_of::<f32>() + 16);
    (journal.log_bytes_written + journal.base_bytes_written) as f64 / rows as f64
}

/// Waits until what is in memory is in segments and nothing is left to merge.
pub fn settle(engine: &mut Engine) -> Result<Duration, Error> {
    let begun = Instant::now();
    engine.checkpoint()?;
    engine.compact()?;
    Ok(begun.elapsed())
}

/// Asks all queries at an effort, one at a time: the first half fills the cache, the second half is
/// measured. Errors: those of the engine.
pub fn ask(
    engine: &Engine,
    queries: &Matrix,
    truth: &[Vec<u64>],
    effort: (usize, usize),
) -> Result<LargerRow, Error> {
    let (probes, refine) = effort;
    let effort = Effort::Chosen { probes, refine: Some(refine) };
    let reader = engine.reader();
    let (mut scratch, mut out): (Scratch, Vec<Neighbor>) = Default::default();
    let half = queries.rows() / 2;
    let mut times = Vec::with_capacity(half);
    let (mut found, mut before) = (0, PlacesStats::default());
    for (at, truth) in truth.iter().enumerate().take(2 * half) {
        if at == half {
            before = engine.stats().places;
        }
        let begun = Instant::now();
        let query = Query { vector: queries.row(at), k: K, effort };
        reader.search(&query, &mut scratch, &mut out)?;
        if at >= half {
            times.push(begun.elapsed().as_secs_f64() * 1e3);
            found += out.iter().filter(|row| truth.contains(&row.id)).count();
        }
    }
    times.sort_by(f64::total_cmp);
    let after = engine.stats().places;
    let per_query = |from: u64, to: u64| (to - from) as f64 / half as f64;
    Ok(LargerRow {
        probes,
        refine,
        recall: found as f64 / (K * half) as f64,
        p50_ms: times[half / 2],
        p99_ms: times[half * 99 / 100],
        reads: per_query(before.reads, after.reads),
        bytes: per_query(before.read_bytes, after.read_bytes),
        rounds: f64::NAN,
        hits: f64::NAN,
    })
}

/// Opens a copy of `dir`, as a crash would leave it; seconds, and bytes of log that were replayed.
pub fn open_copy(dir: &Path, copy: &Path) -> Result<(f64, u64), String> {
    copy_moment(dir, copy).map_err(|e| e.to_string())?;
    let begun = Instant::now();
    let engine = Engine::open(copy).map_err(|e| e.to_string())?;
    let seconds = begun.elapsed().as_secs_f64();
    let log = engine.stats().journal.map_or(0, |journal| journal.log_bytes);
    drop(engine);
    std::fs::remove_dir_all(copy).map_err(|e| e.to_string())?;
    Ok((seconds, log))
}

/// Copies the files of a directory, again and again until none came or went meanwhile: so that it
/// is one moment.
fn copy_moment(dir: &Path, copy: &Path) -> std::io::Result<()> {
    let names = || -> std::io::Result<Vec<_>> {
        let entries = std::fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.file_name()));
        let mut names = entries.collect::<Result<Vec<_>, _>>()?;
        names.sort();
        Ok(names)
    };
    loop {
        if copy.exists() {
            std::fs::remove_dir_all(copy)?;
        }
        std::fs::create_dir(copy)?;
        let before = names()?;
        let mut all = before.iter().map(|name| std::fs::copy(dir.join(name), copy.join(name)));
        if all.all(|copied| copied.is_ok()) && names()? == before {
            return Ok(());
        }
    }
}
