//! An engine whose rows do not fit in the memory that it may use: ingest, search, recovery.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use vstream_engine::{
    Ablation, Durability, Effort, Element, Engine, Error, Journaling, Metric, Neighbor, Query,
    Reader, Row, Scratch, Settings, Stats,
};

use super::larger::K;
use super::Asking;
use crate::runbook::Matrix;
use crate::times::process_cpu_seconds;

/// Writes that are committed together.
const COMMITTED: usize = 100;
/// Between two queries beside the writer.
const BETWEEN: Duration = Duration::from_millis(2);
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
    let ablation = Ablation { page_cache: true, ..Ablation::default() };
    Settings { memory, ablation, ..settings }
}

/// How the collection is kept: logs are left to `async`.
pub fn journaling() -> Journaling {
    Journaling { durability: Durability::ASYNC, ..Journaling::default() }
}

/// Inserts all rows, in their order, into an empty engine. Errors: those of the engine.
pub fn ingest(engine: &mut Engine, matrix: &Matrix) -> Result<IngestRow, Error> {
    ingest_noting(engine, matrix, None, &AtomicBool::new(false))
}

/// As [`ingest`], with at most `rate` rows per second; `half` is set when half of the rows are in.
fn ingest_noting(
    engine: &mut Engine,
    matrix: &Matrix,
    rate: Option<f64>,
    half: &AtomicBool,
) -> Result<IngestRow, Error> {
    let begun = Instant::now();
    let mut times = Vec::with_capacity(matrix.rows().div_ceil(COMMITTED));
    let mut last = begun;
    for id in 0..matrix.rows() {
        half.store(2 * id >= matrix.rows(), Ordering::Relaxed);
        let vector = matrix.row(id);
        engine.upsert(&Row {
            id: id as u64,
            version: 1,
            code: 0,
            shard: 0,
            vector,
            fields: Default::default(),
        })?;
        if id % COMMITTED == COMMITTED - 1 || id + 1 == matrix.rows() {
            engine.commit()?;
            let now = Instant::now();
            times.push((now - last).as_secs_f64() * 1e3);
            let due = rate.map_or(0.0, |rate| (id + 1) as f64 / rate);
            let ahead = due - begun.elapsed().as_secs_f64();
            if ahead > 0.0 {
                std::thread::sleep(Duration::from_secs_f64(ahead));
            }
            last = Instant::now();
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

/// What queries found and cost, each.
#[derive(Clone, Copy, Debug)]
pub struct AskedRow {
    /// Mean share of the true ten.
    pub recall: f64,
    /// Milliseconds of one query at a time.
    pub p50_ms: f64,
    /// See `p50_ms`.
    pub p99_ms: f64,
    /// Milliseconds that all threads computed together, those that read among them.
    pub cpu_ms: f64,
    /// Reads of segments, after the cache.
    pub reads: f64,
    /// Bytes of them.
    pub bytes: f64,
}

/// Asks all queries, one at a time. The last ones are measured, as many as `truth` has; those before
/// fill the cache, and the engine decides by them how hard to look. Errors: those of the engine.
pub fn ask(
    engine: &Engine,
    queries: &Matrix,
    truth: &[Vec<u64>],
    asking: Asking,
) -> Result<AskedRow, Error> {
    let mut effort = asking.effort();
    let reader = engine.reader();
    let (mut scratch, mut out): (Scratch, Vec<Neighbor>) = Default::default();
    let (count, first) = (truth.len(), queries.rows() - truth.len());
    let mut times = Vec::with_capacity(count);
    let mut found = 0;
    let (mut before, mut cpu) = (engine.stats().tree, process_cpu_seconds());
    for at in 0..queries.rows() {
        if at == first {
            if asking == Asking::Auto {
                engine.catch_up();
                effort = Effort::Unaudited;
            }
            (before, cpu) = (engine.stats().tree, process_cpu_seconds());
        }
        let begun = Instant::now();
        let query = Query { vector: queries.row(at), k: K, effort, filter: None, radius: None };
        reader.search(&query, &mut scratch, &mut out)?;
        if at >= first {
            times.push(begun.elapsed().as_secs_f64() * 1e3);
            let truth = &truth[at - first];
            found += out.iter().filter(|row| truth.contains(&row.id)).count();
        }
    }
    let cpu = process_cpu_seconds() - cpu;
    times.sort_by(f64::total_cmp);
    let after = engine.stats().tree;
    let per_query = |from: u64, to: u64| (to - from) as f64 / count as f64;
    Ok(AskedRow {
        recall: found as f64 / (K * count) as f64,
        p50_ms: times[count / 2],
        p99_ms: times[count * 99 / 100],
        cpu_ms: cpu * 1e3 / count as f64,
        reads: per_query(before.reads, after.reads),
        bytes: per_query(before.read_bytes, after.read_bytes),
    })
}

/// Queries beside the writer: one thread asks, one query at a time, with a pause of 2 ms between
/// them, while at most `rate` rows per second come, from when half of the rows are in until the last
/// one is; its times, in milliseconds, sorted. Errors: those of the engine.
pub fn ingest_and_ask(
    engine: &mut Engine,
    matrix: &Matrix,
    queries: &Matrix,
    (asking, rate): (Asking, Option<f64>),
) -> Result<(IngestRow, Vec<f64>), Error> {
    let effort = asking.effort();
    let reader = engine.reader();
    let (done, begun) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let until_done = first_half(queries).cycle().take_while(|_| !done.load(Ordering::Relaxed));
        let asker = scope.spawn(|| ask_paused(&reader, queries, effort, until_done, &begun));
        let row = ingest_noting(engine, matrix, rate, &begun);
        done.store(true, Ordering::Relaxed);
        Ok((row?, asker.join().expect("a thread that asks")?))
    })
}

/// As [`ask`] with pauses, as beside the writer; times in milliseconds, sorted.
pub fn ask_idle(engine: &Engine, queries: &Matrix, asking: Asking) -> Result<Vec<f64>, Error> {
    ask_paused(
        &engine.reader(),
        queries,
        asking.effort(),
        first_half(queries),
        &AtomicBool::new(true),
    )
}

/// The guard learns from these queries, so those that recall is measured on are not among them.
fn first_half(queries: &Matrix) -> std::ops::Range<usize> {
    0..queries.rows() / 2
}

/// Asks queries in an order, each after a pause, and measures those that come after `begun`; times
/// in milliseconds, sorted.
fn ask_paused(
    reader: &Reader,
    queries: &Matrix,
    effort: Effort,
    order: impl Iterator<Item = usize>,
    begun: &AtomicBool,
) -> Result<Vec<f64>, Error> {
    let (mut scratch, mut out): (Scratch, Vec<Neighbor>) = Default::default();
    let mut times = Vec::new();
    for at in order {
        std::thread::sleep(BETWEEN);
        if begun.load(Ordering::Relaxed) {
            let now = Instant::now();
            let query = Query { vector: queries.row(at), k: K, effort, filter: None, radius: None };
            reader.search(&query, &mut scratch, &mut out)?;
            times.push(now.elapsed().as_secs_f64() * 1e3);
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
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
