//! What does a writer at full rate cost the queries beside it?
//!
//! 1. Half of the rows are there. The fewest probes that reach the target are found on them.
//! 2. One thread queries, in phases: alone; beside a thread that only computes; beside a thread
//!    that writes the other half, at full rate, into another collection; beside a thread that
//!    writes it into the collection that is queried; and alone again, on all rows.
//! 3. This is repeated with a new collection, so that no single moment of the machine decides.
//!
//! The two phases alone together are *idle*: the collection has as many rows as before and as
//! after the writes. The two other threads are controls: what the second core, the cache and the
//! memory cost by being shared is in them; what writing costs the queries is not. The probes are
//! the same in all phases, and there is no recall guard.

mod report;
#[cfg(test)]
mod tests;

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use vstream_engine::{Effort, Engine, Query, Reader, Row, Scratch, Settings};
use vstream_vector::{Element, Metric, Neighbor};

pub use report::{Report, Round, Writes};

use crate::runbook::{Matrix, RunbookError};

const K: usize = 10;
const SHARDS: u64 = 128;
/// Queries that the recall of a number of probes is measured with.
const TUNED_WITH: usize = 300;
const PROBES_MAX: usize = 4096;

/// How the phases are run.
#[derive(Clone, Copy, Debug)]
pub struct IngestSettings {
    /// Formula of the distance.
    pub metric: Metric,
    /// Recall@10 that the probes are tuned to.
    pub target: f64,
    /// Leaves to visit; 0: tuned to the target.
    pub probes: usize,
    /// New collections, at least 1.
    pub rounds: usize,
    /// How long the phases without writes last.
    pub phase: Duration,
}

/// Runs all phases over `base`, of which the first half is there before.
///
/// Memory: two collections of all rows. Errors: `BadRequest` for few rows or another dimension,
/// `Engine` if it refuses a row.
pub fn run(
    base: &Matrix,
    queries: &Matrix,
    settings: &IngestSettings,
) -> Result<Report, RunbookError> {
    if base.dimension != queries.dimension {
        return Err(RunbookError::BadRequest(format!(
            "The rows have {} dimensions, the queries {}. Give --queries the file that belongs \
             to the data.",
            base.dimension, queries.dimension
        )));
    }
    if base.rows() < 1000 || settings.rounds == 0 {
        return Err(RunbookError::BadRequest(
            "The measurement needs 1000 rows and one round at least. Raise --rows or --rounds."
                .to_owned(),
        ));
    }
    let half = base.rows() / 2;
    let mut probes = settings.probes;
    let mut report = Report { rows: base.rows(), preloaded: half, ..Report::default() };
    for round in 0..settings.rounds {
        let mut engine = filled(base, half, settings.metric)?;
        if probes == 0 {
            probes = tuned(&engine.reader(), queries, settings.target)?;
        }
        report.probes = probes;
        if round == 0 {
            report.recall_before = recall(&engine.reader(), queries, probes)?;
        }
        let measured = measure_round(&mut engine, base, queries, probes, settings)?;
        report.rounds.push(measured);
        report.recall_after = recall(&engine.reader(), queries, probes)?;
    }
    Ok(report)
}

fn measure_round(
    engine: &mut Engine,
    base: &Matrix,
    queries: &Matrix,
    probes: usize,
    settings: &IngestSettings,
) -> Result<Round, RunbookError> {
    let mut other = filled(base, base.rows() / 2, settings.metric)?;
    let reader = engine.reader();
    let mut asker =
        Asker { reader, queries, probes, scratch: Scratch::new(), out: Vec::new(), next: 0 };
    let mut round = Round::default();
    asker.ask(&mut Vec::new(), &|| false, queries.rows())?;
    asker.alone(settings.phase, &mut round.idle)?;
    asker.beside_a_computing_thread(settings.phase, &mut round.computing)?;
    round.other_writes = asker.beside_a_writer(&mut other, base, &mut round.other)?;
    drop(other);
    round.writes = asker.beside_a_writer(engine, base, &mut round.ingesting)?;
    asker.alone(settings.phase, &mut round.idle)?;
    asker.beside_a_computing_thread(settings.phase, &mut round.computing)?;
    Ok(round)
}

/// The thread that queries.
struct Asker<'a> {
    reader: Reader,
    queries: &'a Matrix,
    probes: usize,
    scratch: Scratch,
    out: Vec<Neighbor>,
    /// Row of the next query.
    next: usize,
}

impl Asker<'_> {
    fn alone(&mut self, phase: Duration, times_ns: &mut Vec<u64>) -> Result<(), RunbookError> {
        let started = Instant::now();
        self.ask(times_ns, &|| started.elapsed() >= phase, usize::MAX)
    }

    fn beside_a_computing_thread(
        &mut self,
        phase: Duration,
        times_ns: &mut Vec<u64>,
    ) -> Result<(), RunbookError> {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    black_box((0..1000u64).fold(1, |sum, x| black_box(sum) ^ x));
                }
            });
            let asked = self.alone(phase, times_ns);
            stop.store(true, Ordering::Relaxed);
            asked
        })
    }

    /// Queries for as long as `engine` takes the second half of the rows.
    fn beside_a_writer(
        &mut self,
        engine: &mut Engine,
        base: &Matrix,
        times_ns: &mut Vec<u64>,
    ) -> Result<Writes, RunbookError> {
        let (ready, is_done) = (Barrier::new(2), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                ready.wait();
                let written = write_rest(engine, base);
                is_done.store(true, Ordering::Relaxed);
                written
            });
            ready.wait();
            let asked = self.ask(times_ns, &|| is_done.load(Ordering::Relaxed), usize::MAX);
            let written = writer.join().expect("the writer returns its errors");
            asked.and(written)
        })
    }

    /// Queries one after the other until `is_over` or `most` are asked, which it looks at first.
    fn ask(
        &mut self,
        times_ns: &mut Vec<u64>,
        is_over: &dyn Fn() -> bool,
        most: usize,
    ) -> Result<(), RunbookError> {
        let effort = Effort::probes(self.probes);
        for _ in 0..most {
            if is_over() {
                break;
            }
            let query = Query {
                vector: self.queries.row(self.next),
                k: K,
                effort,
                filter: None,
                radius: None,
            };
            self.next = (self.next + 1) % self.queries.rows();
            let started = Instant::now();
            self.reader
                .search(&query, &mut self.scratch, &mut self.out)
                .map_err(RunbookError::engine(0))?;
            times_ns.push(started.elapsed().as_nanos() as u64);
        }
        Ok(())
    }
}

/// A collection with the first `rows` rows.
fn filled(base: &Matrix, rows: usize, metric: Metric) -> Result<Engine, RunbookError> {
    let mut settings = Settings::new(base.dimension, metric, Element::F32);
    settings.recall_guard = false;
    let mut engine = Engine::create(settings).map_err(RunbookError::engine(0))?;
    for row in 0..rows {
        upsert(&mut engine, base, row)?;
    }
    Ok(engine)
}

/// Inserts the second half of the rows, one by one and each timed, as fast as they go in.
fn write_rest(engine: &mut Engine, base: &Matrix) -> Result<Writes, RunbookError> {
    let half = base.rows() / 2;
    let mut inserts_ns = Vec::with_capacity(base.rows() - half);
    let started = Instant::now();
    for row in half..base.rows() {
        let before = Instant::now();
        upsert(engine, base, row)?;
        inserts_ns.push(before.elapsed().as_nanos() as u64);
    }
    Ok(Writes { inserts_ns, seconds: started.elapsed().as_secs_f64() })
}

fn upsert(engine: &mut Engine, base: &Matrix, row: usize) -> Result<(), RunbookError> {
    let (id, vector) = (row as u64, base.row(row));
    let row = Row {
        id,
        version: 1,
        code: 0,
        shard: (id % SHARDS) as u16,
        vector,
        fields: Default::default(),
    };
    engine.upsert(&row).map(|_| ()).map_err(RunbookError::engine(0))
}

/// The fewest probes, within an eighth, that reach `target` on the first queries.
fn tuned(reader: &Reader, queries: &Matrix, target: f64) -> Result<usize, RunbookError> {
    let mut probes = 1;
    while probes < PROBES_MAX && recall(reader, queries, probes)? < target {
        probes += probes.div_ceil(8);
    }
    Ok(probes)
}

/// Recall@10 of the first queries, by the distances of the exact answer.
fn recall(reader: &Reader, queries: &Matrix, probes: usize) -> Result<f64, RunbookError> {
    let mut scratch = Scratch::new();
    let (mut truth, mut answer) = (Vec::new(), Vec::new());
    let (mut found, mut wanted) = (0, 0);
    for row in 0..queries.rows().min(TUNED_WITH) {
        let ask = |effort, out: &mut Vec<Neighbor>, scratch: &mut Scratch| {
            let query =
                Query { vector: queries.row(row), k: K, effort, filter: None, radius: None };
            reader.search(&query, scratch, out).map_err(RunbookError::engine(0))
        };
        ask(Effort::Exact, &mut truth, &mut scratch)?;
        ask(Effort::probes(probes), &mut answer, &mut scratch)?;
        let last = truth.last().map_or(f32::INFINITY, |row| row.distance);
        // Both take distances by the same kernel; a row at the distance of the last is as good.
        let limit = last + 1e-6 * (1.0 + last.abs());
        found += answer.iter().filter(|row| row.distance <= limit).count();
        wanted += truth.len();
    }
    Ok(found as f64 / wanted.max(1) as f64)
}
