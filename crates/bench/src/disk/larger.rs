//! Rows that do not fit: ingest, queries beside it, and queries before and after merges.
//!
//! 1. Nine tenths of the rows come at full rate, 100 per commit.
//! 2. The last tenth comes at a set rate, while one thread asks a query every 2 ms.
//! 3. Queries are scored at once, while merges go on; then everything is flushed and merged, and they
//!    are scored again.
//!
//! A process measures one case, so that the peak of its memory is that of the case, merges included.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{json, Value};
use vstream_engine::{Effort, Engine, Neighbor, Query, Reader, Scratch};

use super::scoring::{insert_all, residence_ms, Made};
use super::updates::{beside, scored, written_bytes};
use super::{ask, process, Kept, Moment, RowFile, K};
use crate::runbook::{Matrix, RunbookError};
use crate::Percentiles;

/// Between two queries beside the writer, and idle.
const BETWEEN: Duration = Duration::from_millis(2);

/// One case.
pub struct LargerSettings<'a> {
    /// The engine.
    pub made: Made,
    /// Folder of the collection.
    pub dir: &'a Path,
    /// Rows per second of the last tenth, at most.
    pub rate: f64,
}

/// Runs one case over the first rows of a plan. Errors: those of the engine and of reading;
/// `BadRequest` if an answer holds a row that is not there.
pub fn run(
    (kept, data, queries): (&Kept, &RowFile, &Matrix),
    settings: &LargerSettings<'_>,
) -> Result<Value, RunbookError> {
    let refused = RunbookError::engine(0);
    let (beside, scored) = (beside(kept, queries), scored(kept, queries));
    process::forget_peak()?;
    let bytes_before = process::peak_bytes()?;
    let mut engine = settings.made.create(settings.dir, data.dimension())?;
    let slow = kept.about.rows / 10;
    let fast = kept.about.rows - slow;
    let mut commits = Vec::new();
    let begun = Instant::now();
    const TOGETHER: usize = 10_000;
    for from in (0..fast).step_by(TOGETHER) {
        let rows = kept.first(from, TOGETHER.min(fast - from))?;
        insert_all(&mut engine, data, &rows, &mut |ns, _| commits.push(ns))?;
    }
    let fast_s = begun.elapsed().as_secs_f64();
    let before = engine.stats().tree.in_memory;
    let (slow_s, mut times) = at_rate(
        &mut engine,
        data,
        (&kept.first(fast, slow)?, settings.rate),
        &beside,
        &mut commits,
    )?;
    let ingest_peak = process::peak_bytes()?;
    let tree = engine.stats().tree;

    let truth = kept.truth(0)?;
    let live = kept.live(0)?;
    let moment = Moment { queries: &scored, truth: &truth, live: &live };
    let at_once = phase(&engine, &moment, &beside)?;
    let merging = Instant::now();
    engine.checkpoint().map_err(&refused)?;
    engine.compact().map_err(&refused)?;
    let merge_s = merging.elapsed().as_secs_f64();
    engine.place_codes().map_err(&refused)?;
    let merged = phase(&engine, &moment, &beside)?;
    let stats = engine.stats();
    let row_bytes = data.dimension() * settings.made.element.bytes();
    let found = json!({
        "plan": kept.about,
        "element": settings.made.element.to_string(),
        "segment-index": settings.made.segments.name(),
        "memory-bytes": settings.made.memory,
        "code-memory-bytes": settings.made.code_memory,
        "target": settings.made.target,
        "rate": settings.rate,
        "rows-per-s": fast as f64 / fast_s,
        "rows-per-s-beside-queries": slow as f64 / slow_s,
        "commits": Percentiles::of(&mut commits),
        "waited-us": tree.waited_us,
        "in-memory-ms": residence_ms(&tree.in_memory.since(&before)),
        "queries-beside": Percentiles::of(&mut times),
        "at-once": at_once,
        "merge-s": merge_s,
        "merged": merged,
        "written-per-byte": written_bytes(&stats) as f64 / (kept.about.rows * row_bytes) as f64,
        "disk-bytes": stats.tree.segment_bytes,
        "peak-bytes-before": bytes_before,
        "ingest-peak-bytes": ingest_peak,
        "peak-bytes": process::peak_bytes()?,
    });
    engine.close().map_err(&refused)?;
    std::fs::remove_dir_all(settings.dir).map_err(RunbookError::io("remove", settings.dir))?;
    Ok(found)
}

/// Inserts at a rate beside queries; seconds that it took, and nanoseconds of the queries.
fn at_rate(
    engine: &mut Engine,
    data: &RowFile,
    (rows, rate): (&[u32], f64),
    queries: &Matrix,
    commits: &mut Vec<u64>,
) -> Result<(f64, Vec<u64>), RunbookError> {
    let reader = engine.reader();
    let (done, begun) = (AtomicBool::new(false), Instant::now());
    std::thread::scope(|scope| {
        let asker = scope.spawn(|| paced(&reader, queries, usize::MAX, &done));
        let written = insert_all(engine, data, rows, &mut |ns, rows| {
            commits.push(ns);
            let due = Duration::from_secs_f64(rows as f64 / rate);
            std::thread::sleep(due.saturating_sub(begun.elapsed()));
        });
        let seconds = begun.elapsed().as_secs_f64();
        done.store(true, Ordering::Relaxed);
        let times = asker.join().expect("a thread that returns its errors");
        written.and(times).map(|times| (seconds, times))
    })
}

/// Idle latencies and scored queries, after the audits that are due.
fn phase(engine: &Engine, at: &Moment<'_>, idle: &Matrix) -> Result<Value, RunbookError> {
    let mut times = paced(&engine.reader(), idle, idle.rows(), &AtomicBool::new(false))?;
    engine.catch_up();
    let asked = ask(engine, at, Effort::Unaudited)?;
    let stats = engine.stats();
    Ok(json!({
        "idle": Percentiles::of(&mut times),
        "asked": asked,
        "guard": stats.recall.map(|estimate| estimate.recall),
        "probes": stats.probes,
        "refine": stats.refine,
        "segments": stats.tree.segments,
        "graphs": stats.tree.graphs,
        "leaves": stats.index.leaves,
        "engine-bytes": stats.index.memory_bytes,
        "code-bytes": stats.tree.code_bytes,
        "code-bytes-away": stats.tree.code_bytes_away,
        "id-bytes": stats.tree.id_bytes,
        "directory-bytes": stats.tree.directory_bytes,
        "cache-bytes": stats.tree.cache_bytes,
    }))
}

/// Asks with automatic effort, each query after a pause, until `done` or `most` were asked.
fn paced(
    reader: &Reader,
    queries: &Matrix,
    most: usize,
    done: &AtomicBool,
) -> Result<Vec<u64>, RunbookError> {
    let (mut scratch, mut out): (Scratch, Vec<Neighbor>) = Default::default();
    let mut times = Vec::new();
    while times.len() < most && !done.load(Ordering::Relaxed) {
        std::thread::sleep(BETWEEN);
        let vector = queries.row(times.len() % queries.rows());
        let query = Query { effort: Effort::Auto, ..Query::new(vector, K) };
        let begun = Instant::now();
        reader.search(&query, &mut scratch, &mut out).map_err(RunbookError::engine(0))?;
        times.push(begun.elapsed().as_nanos() as u64);
    }
    Ok(times)
}
