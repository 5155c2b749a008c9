//! Is the recall that the guard estimates the true one, and what does it cost?
//!
//! 1. Rows stream in single records, three inserts and a delete of a random live row per query, at
//!    a steady rate, so that the guard has the time that its share of a core gives it.
//! 2. The stream's queries steer themselves, so the guard audits some of them. Every few audits the
//!    stream stands still, and *other* queries, which the guard never sees, are asked with the same
//!    effort and compared with the exact answers of that moment: the true recall.
//! 3. The only other thread of the process is the guard's: the CPU that it took is that of the
//!    process less that of the stream's thread.
//!
//! Audits are counted by the changes of the estimate. One that leaves it as it was is not seen, so
//! there were at least as many.

mod report;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use vstream_engine::{Effort, Engine, Query, RecallEstimate, Row, Scratch, Settings};
use vstream_vector::{Element, Metric, Neighbor, SplitMix};

pub use report::{Moment, Report};

use crate::runbook::{Ground, LiveSet, Matrix, RunbookError, Step};
use crate::times::{process_cpu_seconds, thread_cpu_seconds};

const K: usize = 10;
const SHARDS: u64 = 128;
const INSERTS_PER_QUERY: usize = 3;
/// Audits that were seen between two looks at the truth.
const AUDITS_PER_MOMENT: usize = 40;
/// How often the estimate is looked at: more often than the guard audits.
const POLL: Duration = Duration::from_millis(2);

/// How the guard is watched.
#[derive(Clone, Copy, Debug)]
pub struct AuditSettings {
    /// Formula of the distance.
    pub metric: Metric,
    /// Recall@10 that the guard steers to.
    pub target: f64,
    /// Rows that are there before the stream begins.
    pub preloaded: usize,
    /// Records per second: queries, inserts and deletes together.
    pub rate: f64,
    /// The stream ends when so many audits were seen, or when all rows are in.
    pub audits: usize,
    /// Seed of the deletes.
    pub seed: u64,
}

/// Streams the rows after the first `preloaded` and looks at the guard meanwhile.
///
/// Every other query belongs to the stream, the rest to the truth; `each` sees every
/// comparison. Cost: the rest of the rows at `rate`, and some seconds for each look at the truth.
/// Errors: `BadRequest` for too few rows or queries, `Engine` if it refuses a row.
pub fn run(
    mut base: Matrix,
    mut queries: Matrix,
    settings: &AuditSettings,
    each: &mut dyn FnMut(&Moment),
) -> Result<Report, RunbookError> {
    let rows = base.rows();
    if base.dimension != queries.dimension
        || settings.preloaded == 0
        || settings.preloaded + INSERTS_PER_QUERY > rows
        || queries.rows() < 2
        || !(settings.rate.is_finite() && settings.rate > 0.0)
    {
        return Err(RunbookError::BadRequest(format!(
            "{} of {rows} rows of dimension {} and {} queries of dimension {} at {} records/s do \
             not make a stream. Lower --preload, or give the queries that belong to the data.",
            settings.preloaded,
            base.dimension,
            queries.rows(),
            queries.dimension,
            settings.rate,
        )));
    }
    if settings.metric == Metric::Cosine {
        base.normalise();
        queries.normalise();
    }
    let mut stream = Stream::begin(&base, &queries, settings)?;
    let mut report = Report::new(settings);
    let (started, thread, process) = (Instant::now(), thread_cpu_seconds(), process_cpu_seconds());
    let mut audits = Audits::default();
    let mut looked_at = 0;
    while stream.next_row + INSERTS_PER_QUERY <= rows && audits.seen < settings.audits {
        stream.wait(&mut audits);
        stream.cycle()?;
        if audits.seen - looked_at >= AUDITS_PER_MOMENT {
            looked_at = audits.seen;
            let moment = stream.compare(&audits)?;
            each(&moment);
            report.moments.push(moment);
        }
    }
    report.audits = audits.seen;
    report.records = stream.cycles * (INSERTS_PER_QUERY + 2);
    report.seconds = started.elapsed().as_secs_f64();
    let guard = (process_cpu_seconds() - process) - (thread_cpu_seconds() - thread);
    report.guard_share = guard / report.seconds;
    Ok(report)
}

/// Audits that were seen so far.
#[derive(Default)]
struct Audits {
    seen: usize,
    last: Option<RecallEstimate>,
}

struct Stream<'a> {
    engine: Engine,
    ground: Ground<'a>,
    queries: &'a Matrix,
    scratch: Scratch,
    /// Tags that live, in no order, and the same as the truth wants it.
    tags: Vec<usize>,
    live: LiveSet,
    chance: SplitMix,
    next_row: usize,
    cycles: usize,
    /// Time between two cycles, and when the next is due.
    pause: Duration,
    due: Instant,
}

impl<'a> Stream<'a> {
    fn begin(
        base: &'a Matrix,
        queries: &'a Matrix,
        settings: &AuditSettings,
    ) -> Result<Stream<'a>, RunbookError> {
        let mut chosen = Settings::new(base.dimension, settings.metric, Element::F32);
        chosen.recall_target = settings.target;
        let mut stream = Stream {
            engine: Engine::create(chosen).map_err(RunbookError::engine(0))?,
            ground: Ground { metric: settings.metric, base },
            queries,
            scratch: Scratch::new(),
            tags: Vec::with_capacity(base.rows()),
            live: LiveSet::new(base.rows()),
            chance: SplitMix(settings.seed),
            next_row: 0,
            cycles: 0,
            pause: Duration::from_secs_f64((INSERTS_PER_QUERY + 2) as f64 / settings.rate),
            due: Instant::now(),
        };
        for _ in 0..settings.preloaded {
            stream.insert()?;
        }
        stream.due = Instant::now();
        Ok(stream)
    }

    fn insert(&mut self) -> Result<(), RunbookError> {
        let (row, tag) = (self.next_row, self.next_row as u64);
        let vector = self.ground.base.row(row);
        let record = Row {
            id: tag,
            version: 1,
            code: 0,
            shard: (tag % SHARDS) as u16,
            vector,
            fields: Default::default(),
        };
        self.engine.upsert(&record).map_err(RunbookError::engine(0))?;
        self.live.apply(&Step::Insert(row..row + 1));
        self.tags.push(row);
        self.next_row += 1;
        Ok(())
    }

    /// Three inserts, a delete of a random live row, a query.
    fn cycle(&mut self) -> Result<(), RunbookError> {
        for _ in 0..INSERTS_PER_QUERY {
            self.insert()?;
        }
        let at = self.chance.below(self.tags.len());
        let tag = self.tags.swap_remove(at);
        self.engine.delete(tag as u64, 2).map_err(RunbookError::engine(0))?;
        self.live.apply(&Step::Delete(tag..tag + 1));
        // Every other row: neighbours in the file may be alike, and the first half easier.
        let row = 2 * (self.cycles % (self.queries.rows() / 2));
        self.ask(row, Effort::Auto)?;
        self.cycles += 1;
        Ok(())
    }

    fn ask(&mut self, row: usize, effort: Effort) -> Result<Vec<Neighbor>, RunbookError> {
        let query =
            Query { vector: self.queries.row(row), k: K, effort, filter: None, radius: None };
        let mut out = Vec::with_capacity(K);
        self.engine
            .reader()
            .search(&query, &mut self.scratch, &mut out)
            .map_err(RunbookError::engine(0))?;
        Ok(out)
    }

    /// Looks at the estimate until the next cycle is due.
    fn wait(&mut self, audits: &mut Audits) {
        loop {
            let estimate = self.engine.stats().recall;
            if estimate.is_some() && estimate != audits.last {
                audits.seen += 1;
                audits.last = estimate;
            }
            let now = Instant::now();
            if now >= self.due {
                // What could not be held is not made up for.
                self.due = now.max(self.due) + self.pause;
                return;
            }
            std::thread::sleep(POLL.min(self.due - now));
        }
    }

    /// The estimate beside the recall of the queries that the guard never sees.
    fn compare(&mut self, audits: &Audits) -> Result<Moment, RunbookError> {
        let others = (1..self.queries.rows()).step_by(2);
        let asked: Vec<&[f32]> = others.clone().map(|row| self.queries.row(row)).collect();
        let stats = self.engine.stats();
        let answers =
            others.map(|row| self.ask(row, Effort::Unaudited)).collect::<Result<Vec<_>, _>>()?;
        let truth = self.ground.nearest(&self.live, &asked, K);
        let score = |((query, truth), answer): ((&&[f32], &Vec<_>), &Vec<_>)| {
            self.ground.score(&self.live, query, truth, answer).recall
        };
        let recalls: Vec<f64> = asked.iter().zip(&truth).zip(&answers).map(score).collect();
        let estimate = stats.recall.expect("it has changed, so there is one");
        self.due = Instant::now();
        Ok(Moment::new(audits.seen, self.live.len(), stats.probes, estimate, &recalls))
    }
}
