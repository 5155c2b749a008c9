//! An engine of rows that do not fit, and what its answers are worth at one moment.

use std::path::Path;
use std::time::Instant;

use serde::Serialize;
use vstream_engine::{
    Ablation, Durability, Effort, Element, Engine, Journaling, Metric, Neighbor, Query,
    RemoteLevel, Residence, Row, Scratch, SegmentIndex, Settings, Stats, TreeStats,
};

use super::kept::Live;
use super::truth::Truth;
use super::{RowFile, K};
use crate::runbook::{Matrix, RunbookError};
use crate::times::thread_cpu_seconds;
use crate::Percentiles;

/// How the engine of a measurement is made. It reads segments past the page cache.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    /// Element type.
    pub element: Element,
    /// Index of the segments that merges write.
    pub segments: SegmentIndex,
    /// Bytes for rows in no segment and for blocks.
    pub memory: u64,
    /// Bytes for codes; `None` for all.
    pub code_memory: Option<u64>,
    /// Recall that the guard aims at.
    pub target: f64,
}

impl Made {
    /// A new collection in `dir`; what was there is removed. Errors: `Io`, those of the engine.
    pub fn create(&self, dir: &Path, dimension: usize) -> Result<Engine, RunbookError> {
        self.create_with(dir, dimension, None)
    }

    /// As [`Made::create`], with a remote level.
    pub fn create_with(
        &self,
        dir: &Path,
        dimension: usize,
        remote: Option<RemoteLevel>,
    ) -> Result<Engine, RunbookError> {
        if dir.exists() {
            std::fs::remove_dir_all(dir).map_err(RunbookError::io("remove", dir))?;
        }
        let settings = Settings {
            memory: Some(self.memory),
            code_memory: self.code_memory,
            segments: self.segments,
            recall_target: self.target,
            ablation: Ablation { page_cache: true, ..Ablation::default() },
            ..Settings::new(dimension, Metric::L2, self.element)
        };
        let journaling = Journaling { durability: Durability::ASYNC, ..Journaling::default() };
        let mut made = Engine::builder().dir(dir).journaling(journaling);
        if let Some(level) = remote {
            made = made.remote(level);
        }
        made.create(settings).map_err(RunbookError::engine(0))
    }
}

/// Inserts a row of the data under its own number.
pub(super) fn insert(engine: &mut Engine, row: u32, vector: &[f32]) -> Result<(), RunbookError> {
    let row = Row {
        id: u64::from(row),
        version: 1,
        code: 0,
        shard: 0,
        vector,
        fields: Default::default(),
    };
    engine.upsert(&row).map(|_| ()).map_err(RunbookError::engine(0))
}

/// Inserts rows in this order, 100 per commit; `committed` is told the nanoseconds that the engine took
/// for each commit with its rows, and how many rows are in.
pub(super) fn insert_all(
    engine: &mut Engine,
    data: &RowFile,
    rows: &[u32],
    committed: &mut dyn FnMut(u64, usize),
) -> Result<(), RunbookError> {
    const COMMITTED: usize = 100;
    let mut together = vec![0.0; COMMITTED * data.dimension()];
    for (at, batch) in rows.chunks(COMMITTED).enumerate() {
        for (&row, vector) in batch.iter().zip(together.chunks_exact_mut(data.dimension())) {
            data.read(row as usize, vector)?;
        }
        let begun = Instant::now();
        for (&row, vector) in batch.iter().zip(together.chunks_exact(data.dimension())) {
            insert(engine, row, vector)?;
        }
        engine.commit().map_err(RunbookError::engine(0))?;
        committed(begun.elapsed().as_nanos() as u64, at * COMMITTED + batch.len());
    }
    Ok(())
}

/// What lives at a moment, and the true answers.
pub struct Moment<'a> {
    /// The scored queries.
    pub queries: &'a Matrix,
    /// Of each.
    pub truth: &'a Truth,
    /// Rows that live.
    pub live: &'a Live,
}

/// What the scored queries found and cost, per query.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Asked {
    /// Share of the true ten; a row as near as the tenth is as good.
    pub recall: f64,
    /// Microseconds.
    pub latency: Percentiles,
    /// Milliseconds of this thread's CPU.
    pub cpu_ms: f64,
    /// Leaves visited.
    pub leaves: f64,
    /// Rows whose code was read.
    pub rows: f64,
    /// Exact distances.
    pub exact: f64,
    /// Reads of segments, after the cache, with those of merges that are under way. `None` if a merge
    /// ended meanwhile, which takes the counts of its sources along.
    pub reads: Option<f64>,
    /// Bytes of them.
    pub read_bytes: Option<f64>,
}

/// Asks all scored queries, one at a time, which the guard does not learn from. Errors: `BadRequest` if
/// an answer holds a row that does not live; those of the engine.
pub fn ask(engine: &Engine, at: &Moment<'_>, effort: Effort) -> Result<Asked, RunbookError> {
    let reader = engine.reader();
    let (mut scratch, mut out): (Scratch, Vec<Neighbor>) = Default::default();
    let count = at.queries.rows();
    let mut times = Vec::with_capacity(count);
    let (mut found, mut wanted, mut work) = (0, 0, [0; 3]);
    let (before, cpu) = (engine.stats(), thread_cpu_seconds());
    for (number, truth) in at.truth.iter().enumerate() {
        let vector = at.queries.row(number);
        let query = Query { effort, ..Query::new(vector, K) };
        let begun = Instant::now();
        let stats =
            reader.search(&query, &mut scratch, &mut out).map_err(RunbookError::engine(0))?;
        times.push(begun.elapsed().as_nanos() as u64);
        if let Some(dead) = out.iter().find(|row| !at.live.has(row.id)) {
            let id = dead.id;
            return Err(RunbookError::BadRequest(format!(
                "Query {number} found {id}, which is gone."
            )));
        }
        found += recall_of(&out, truth);
        wanted += truth.len();
        let parts = [stats.leaves, stats.rows, stats.exact];
        work.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
    }
    let cpu = thread_cpu_seconds() - cpu;
    let after = engine.stats();
    let each = |sum: f64| sum / count.max(1) as f64;
    Ok(Asked {
        recall: found as f64 / wanted.max(1) as f64,
        latency: Percentiles::of(&mut times),
        cpu_ms: each(cpu * 1e3),
        leaves: each(work[0] as f64),
        rows: each(work[1] as f64),
        exact: each(work[2] as f64),
        reads: grown(&before, &after, |tree| tree.reads).map(each),
        read_bytes: grown(&before, &after, |tree| tree.read_bytes).map(each),
    })
}

/// By how much a count of segments grew, if the segments are the same.
fn grown(before: &Stats, after: &Stats, count: fn(&TreeStats) -> u64) -> Option<f64> {
    let merges = |stats: &Stats| {
        stats.journal.as_ref().map(|journal| (journal.compactions, journal.segments_dropped))
    };
    let is_same = merges(before) == merges(after);
    let sum = count(&after.tree).checked_sub(count(&before.tree));
    sum.filter(|_| is_same).map(|sum| sum as f64)
}

/// How many rows of an answer are among the true ten or as near as the last of these.
pub fn recall_of(answer: &[Neighbor], truth: &[(u32, f32)]) -> usize {
    let last = truth.last().map_or(f32::NEG_INFINITY, |row| row.1);
    // Ours and the engine's distances differ by rounding alone.
    let limit = last + 1e-6 * (1.0 + last.abs());
    answer.iter().filter(|row| row.distance <= limit).count().min(truth.len())
}

/// Mean milliseconds of a row on a level before it went to the next one; `None` if none has.
pub(super) fn residence_ms(of: &Residence) -> Option<f64> {
    (of.rows > 0).then(|| of.mean().as_secs_f64() * 1e3)
}
