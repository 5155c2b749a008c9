//! SPFresh's experiment: a share of the rows is replaced in each epoch, while queries run.
//!
//! 1. The first rows are inserted and merged. From then on nothing is built anew and nothing is asked
//!    for: checkpoints, merges and efforts are the engine's own.
//! 2. In an epoch one thread deletes and inserts, at most `rate` pairs per second, and another asks one
//!    query after the other, at least `asked` of them.
//! 3. After it the guard makes the audits that are due, and other queries are scored against brute force
//!    over the rows that live now.
//! 4. At chosen epochs a second process builds the same rows anew, and both are asked with the same
//!    effort.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{json, Value};
use vstream_engine::{Effort, Engine, Neighbor, Query, Reader, Scratch, Stats};

use super::kept::Live;
use super::scoring::{insert, insert_all, Made};
use super::{ask, process, Kept, Moment, RowFile, K};
use crate::runbook::{Matrix, RunbookError};
use crate::times::process_cpu_seconds;
use crate::Percentiles;

/// Epochs at either end whose latencies are compared.
pub const COMPARED: usize = 10;
/// Pairs of a delete and an insert that are committed together.
const COMMITTED: usize = 50;

/// Asks a fresh build of the rows after so many epochs, with these probes and exact distances.
pub type AskFresh<'a> = &'a dyn Fn(usize, (usize, usize)) -> Result<Value, RunbookError>;

/// How epochs are run.
pub struct UpdatesSettings<'a> {
    /// The engine.
    pub made: Made,
    /// Folder of the collection.
    pub dir: &'a Path,
    /// Rows replaced per second, at most.
    pub rate: f64,
    /// Queries beside the writes of an epoch, at least.
    pub asked: usize,
    /// A fresh build stands beside every so many epochs; 0: none.
    pub fresh_every: usize,
    /// Builds it.
    pub ask_fresh: AskFresh<'a>,
}

/// Queries of both kinds.
struct Queries {
    beside: Matrix,
    scored: Matrix,
}

impl Queries {
    fn of(kept: &Kept, queries: &Matrix) -> Queries {
        let first = kept.about.queries - kept.about.scored;
        let of = |range: std::ops::Range<usize>| {
            queries.picked(&range.map(|at| at as u32).collect::<Vec<_>>())
        };
        Queries { beside: of(0..first), scored: of(first..kept.about.queries) }
    }
}

/// The scored ones of the queries of a plan.
pub fn scored(kept: &Kept, queries: &Matrix) -> Matrix {
    Queries::of(kept, queries).scored
}

/// The unscored ones.
pub(super) fn beside(kept: &Kept, queries: &Matrix) -> Matrix {
    Queries::of(kept, queries).beside
}

/// Follows a plan; `seen` is shown each epoch's figures as they come, the first of them those before
/// any epoch. Returns all of them and a summary. Errors: those of the engine, of reading and of the
/// fresh builds; `BadRequest` if an answer holds a dead row.
pub fn run(
    (kept, data, queries): (&Kept, &RowFile, &Matrix),
    settings: &UpdatesSettings<'_>,
    seen: &mut dyn FnMut(&Value),
) -> Result<Value, RunbookError> {
    let queries = Queries::of(kept, queries);
    process::forget_peak()?;
    let bytes_before = process::peak_bytes()?;
    let mut engine = settings.made.create(settings.dir, data.dimension())?;
    let begun = Instant::now();
    let rows = kept.first(0, kept.about.rows)?;
    insert_all(&mut engine, data, &rows, &mut |_, _| ())?;
    drop(rows);
    engine.checkpoint().map_err(RunbookError::engine(0))?;
    engine.compact().map_err(RunbookError::engine(0))?;
    let build_s = begun.elapsed().as_secs_f64();
    let mut run = Run { kept, data, settings, queries, live: kept.live(0)?, next: 0 };
    let loaded_peak = process::peak_bytes()?;
    warm(&run, &engine)?;
    let mut every = vec![run.scored(&engine, 0, json!({}))?];
    seen(&every[0]);
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for epoch in 1..=kept.about.epochs {
        process::forget_peak()?;
        let (found, times) = run.epoch(&mut engine, epoch)?;
        if epoch <= COMPARED {
            first.extend_from_slice(&times);
        }
        if epoch + COMPARED > kept.about.epochs {
            last.extend_from_slice(&times);
        }
        every.push(run.scored(&engine, epoch, found)?);
        seen(&every[epoch]);
    }
    engine.close().map_err(RunbookError::engine(kept.about.epochs))?;
    std::fs::remove_dir_all(settings.dir).map_err(RunbookError::io("remove", settings.dir))?;
    Ok(json!({
        "plan": kept.about,
        "element": settings.made.element.to_string(),
        "memory-bytes": settings.made.memory,
        "code-memory-bytes": settings.made.code_memory,
        "segment-index": settings.made.segments.name(),
        "target": settings.made.target,
        "rate": settings.rate,
        "build-s": build_s,
        "build-peak-bytes": loaded_peak,
        "peak-bytes-before": bytes_before,
        "first-epochs": Percentiles::of(&mut first),
        "last-epochs": Percentiles::of(&mut last),
        "epochs": every,
    }))
}

/// Asks until the guard has chosen an effort for these rows.
fn warm(run: &Run<'_>, engine: &Engine) -> Result<(), RunbookError> {
    let (done, mut times) = (AtomicBool::new(true), Vec::new());
    let asked = run.queries.beside.rows();
    ask_beside(&engine.reader(), &run.queries.beside, (0, asked), &done, &mut times)
}

/// What the writes of an epoch took.
#[derive(Default)]
struct Writes {
    /// Of the engine in all.
    busy: Duration,
    /// Nanoseconds of each insert, and of each commit of some of them.
    inserts: Vec<u64>,
    commits: Vec<u64>,
}

struct Run<'a> {
    kept: &'a Kept,
    data: &'a RowFile,
    settings: &'a UpdatesSettings<'a>,
    queries: Queries,
    live: Live,
    /// Query with which the next epoch begins.
    next: usize,
}

impl Run<'_> {
    /// Replaces the rows of an epoch beside queries; figures, and nanoseconds of the queries.
    fn epoch(
        &mut self,
        engine: &mut Engine,
        epoch: usize,
    ) -> Result<(Value, Vec<u64>), RunbookError> {
        let change = self.kept.epoch(epoch - 1)?;
        let (before, cpu, disk) = (engine.stats(), process_cpu_seconds(), process::disk_bytes()?);
        let reader = engine.reader();
        let (done, begun) = (AtomicBool::new(false), Instant::now());
        let (mut times, mut writes) = (Vec::new(), Writes::default());
        let wanted = (self.next, self.settings.asked);
        std::thread::scope(|scope| {
            let asker = scope
                .spawn(|| ask_beside(&reader, &self.queries.beside, wanted, &done, &mut times));
            let written = self.replace(engine, &change, &mut writes);
            done.store(true, Ordering::Relaxed);
            asker.join().expect("a thread that returns its errors").and(written)
        })?;
        self.next = (self.next + times.len()) % self.queries.beside.rows();
        self.live.follow(&change);
        let after = engine.stats();
        let after_disk = process::disk_bytes()?;
        let rows = self.kept.about.change as f64;
        let found = json!({
            "queries": Percentiles::of(&mut times),
            "seconds": begun.elapsed().as_secs_f64(),
            "rows-per-s": rows / writes.busy.as_secs_f64().max(1e-9),
            "inserts": Percentiles::of(&mut writes.inserts),
            "commits": Percentiles::of(&mut writes.commits),
            "splits": after.index.splits - before.index.splits,
            "joins": after.index.merges - before.index.merges,
            "moved": after.index.moved - before.index.moved,
            "cpu-s": process_cpu_seconds() - cpu,
            "written-bytes": written_bytes(&after) - written_bytes(&before),
            "disk-read-bytes": after_disk.0 - disk.0,
            "disk-written-bytes": after_disk.1 - disk.1,
            "waited-us": after.tree.waited_us - before.tree.waited_us,
        });
        Ok((found, times))
    }

    /// Deletes and inserts.
    fn replace(
        &self,
        engine: &mut Engine,
        (ended, came): &(Vec<u32>, Vec<u32>),
        writes: &mut Writes,
    ) -> Result<(), RunbookError> {
        let refused = RunbookError::engine(0);
        let dimension = self.data.dimension();
        let mut together = vec![0.0; COMMITTED * dimension];
        let (begun, mut written) = (Instant::now(), 0);
        for (ended, came) in ended.chunks(COMMITTED).zip(came.chunks(COMMITTED)) {
            for (&row, vector) in came.iter().zip(together.chunks_exact_mut(dimension)) {
                self.data.read(row as usize, vector)?;
            }
            let now = Instant::now();
            for (pair, vector) in ended.iter().zip(came).zip(together.chunks_exact(dimension)) {
                engine.delete(u64::from(*pair.0), 2).map_err(&refused)?;
                let inserting = Instant::now();
                insert(engine, *pair.1, vector)?;
                writes.inserts.push(inserting.elapsed().as_nanos() as u64);
            }
            let committing = Instant::now();
            engine.commit().map_err(&refused)?;
            writes.commits.push(committing.elapsed().as_nanos() as u64);
            writes.busy += now.elapsed();
            written += came.len();
            let due = Duration::from_secs_f64(written as f64 / self.settings.rate);
            std::thread::sleep(due.saturating_sub(begun.elapsed()));
        }
        Ok(())
    }

    /// Adds to the figures of an epoch what other queries find after it.
    fn scored(&self, engine: &Engine, epoch: usize, found: Value) -> Result<Value, RunbookError> {
        let peak = process::peak_bytes()?;
        engine.catch_up();
        let truth = self.kept.truth(epoch)?;
        let moment = Moment { queries: &self.queries.scored, truth: &truth, live: &self.live };
        let asked = ask(engine, &moment, Effort::Unaudited)?;
        let stats = engine.stats();
        let every = self.settings.fresh_every;
        let mut pair = Value::Null;
        if every > 0
            && epoch > 0
            && (epoch.is_multiple_of(every) || epoch == self.kept.about.epochs)
        {
            let effort = (stats.probes, stats.refine);
            let chosen = Effort::Chosen { probes: effort.0, refine: Some(effort.1) };
            pair = json!({
                "live": ask(engine, &moment, chosen)?,
                "fresh": (self.settings.ask_fresh)(epoch, effort)?,
            });
        }
        let mut all = json!({
            "epoch": epoch,
            "asked": asked,
            "guard": stats.recall.map(|estimate| estimate.recall),
            "probes": stats.probes,
            "refine": stats.refine,
            "peak-bytes": peak.max(process::peak_bytes()?),
            "engine-bytes": stats.index.memory_bytes,
            "code-bytes": stats.tree.code_bytes,
            "id-bytes": stats.tree.id_bytes,
            "directory-bytes": stats.tree.directory_bytes,
            "cache-bytes": stats.tree.cache_bytes,
            "memtable-bytes": stats.tree.memtable_bytes,
            "segments": stats.tree.segments,
            "segment-dead": stats.tree.segment_dead,
            "segment-bytes": stats.tree.segment_bytes,
            "leaves": stats.index.leaves,
            "live": stats.index.live,
            "equal-effort": pair,
        });
        if let (Some(all), Value::Object(found)) = (all.as_object_mut(), found) {
            all.extend(found);
        }
        Ok(all)
    }
}

/// Log, segments and delete bitmaps, since the engine was opened.
pub(super) fn written_bytes(stats: &Stats) -> u64 {
    stats
        .journal
        .as_ref()
        .map_or(0, |journal| journal.log_bytes_written + journal.base_bytes_written)
}

/// Asks with automatic effort, from query `first` on, until `done`, and at least `least` queries.
fn ask_beside(
    reader: &Reader,
    queries: &Matrix,
    (first, least): (usize, usize),
    done: &AtomicBool,
    times: &mut Vec<u64>,
) -> Result<(), RunbookError> {
    let (mut scratch, mut out): (Scratch, Vec<Neighbor>) = Default::default();
    while times.len() < least || !done.load(Ordering::Relaxed) {
        let vector = queries.row((first + times.len()) % queries.rows());
        let query = Query { effort: Effort::Auto, ..Query::new(vector, K) };
        let begun = Instant::now();
        reader.search(&query, &mut scratch, &mut out).map_err(RunbookError::engine(0))?;
        times.push(begun.elapsed().as_nanos() as u64);
    }
    Ok(())
}
