//! Follows a runbook on the engine.
//!
//! 1. Inserts, deletes and replaces go to the engine one record at a time; thread CPU is counted.
//! 2. At a search step, up to 1,000 queries are posed, others each time: they are timed, and they
//!    feed the recall guard. A sample of further queries, the same at every step, is scored against
//!    the exact answer over what lives now; the guard never sees those.
//! 3. On demand two indexes are built from the live rows in two random orders, and all are asked
//!    with the same probes and the same refinement; how far those two differ is chance. The recall
//!    guard changes the refinement, so the engines of this comparison run without it. Under
//!    `Amount::Auto` the live side of the comparison is a twin without a guard that gets every
//!    write too: with the same seed it is the same index.
//! 4. Leaves that lost rows hold fewer, so the same probes look at fewer rows. The live index is
//!    asked once more with as many probes as make it look at as many rows as the fresh one.

use std::ops::Range;
use std::time::{Duration, Instant};

use vstream_engine::{Effort, Engine, Query, Row, Scratch, Settings};
use vstream_vector::{Element, Metric, Neighbor, SplitMix};

use super::report::{EqualEffort, Guessed, SearchReport, Summary, Writes};
use super::truth::{Ground, Score};
use super::{LiveSet, Matrix, Runbook, RunbookError, Step};
use crate::times::thread_cpu_seconds;

/// Neighbours asked for, as in the public benchmark.
const K: usize = 10;
/// Queries scored per step at most: exact answers cost more than everything else.
const SCORED_MAX: usize = 1000;
/// Queries posed per step at most.
const POSED_MAX: usize = 1000;
/// Fresh indexes that a live one is compared with: their own difference says what is chance.
const FRESH: u64 = 2;
const SHARDS: u64 = 128;
/// Pause between rounds of queries that only the guard needs.
const SETTLE_PAUSE: Duration = Duration::from_millis(100);

/// How hard the engine looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// The recall guard steers to the target.
    Auto,
    /// This many leaves, at least 1; no guard.
    Probes(usize),
}

/// How a runbook is run.
#[derive(Clone, Copy, Debug)]
pub struct RunSettings {
    /// Formula of the distance.
    pub metric: Metric,
    /// Recall@10 that `Amount::Auto` is steered to.
    pub recall_target: f64,
    /// Effort of each query.
    pub effort: Amount,
    /// Build a fresh index at each search step and compare at equal effort.
    pub fresh: bool,
    /// Under `Amount::Auto`, time in which queries go on before a step is scored: the guard takes
    /// 3 % of a core, and a runbook hurries through in seconds what takes hours in life.
    pub settle: Duration,
    /// Let the guard ask all queries it knows before a step is scored, however long that takes: a
    /// result then does not depend on how much time its thread had.
    pub catch_up: bool,
    /// Seed of the engine and of the order in which a fresh index gets its rows.
    pub seed: u64,
}

/// Runs `runbook` over `base`; `each` sees every search step as soon as it is done.
///
/// Rows and queries are normalised under cosine. Cost: the writes, and at each search step
/// O(live rows x scored queries x dimension) for the truth; for `fresh` a whole build of the index.
/// Errors: `OutsideData` and `TooManyLive` before anything is run; `BadRequest` for queries of
/// another dimension; `Engine` if it refuses a setting or a row.
pub fn run(
    runbook: &Runbook,
    mut base: Matrix,
    mut queries: Matrix,
    settings: &RunSettings,
    each: &mut dyn FnMut(&SearchReport),
) -> Result<Summary, RunbookError> {
    runbook.walk(base.rows())?;
    if base.dimension != queries.dimension {
        return Err(RunbookError::BadRequest(format!(
            "The rows have {} dimensions, the queries {}. Give --queries the file that belongs \
             to the data.",
            base.dimension, queries.dimension
        )));
    }
    if settings.metric == Metric::Cosine {
        base.normalise();
        queries.normalise();
    }
    // The rest is for the guard, which must not see what is scored.
    let scored = spread(queries.rows(), (queries.rows() * 4).div_ceil(5).min(SCORED_MAX));
    let is_scored = |row: &usize| scored.binary_search(row).is_ok();
    let mut others: Vec<usize> = (0..queries.rows()).filter(|row| !is_scored(row)).collect();
    if others.is_empty() {
        others.clone_from(&scored);
    }
    let ground = Ground { metric: settings.metric, base: &base };
    let mut following = Following {
        settings,
        engine: engine(settings, base.dimension, settings.effort == Amount::Auto)?,
        twin: None,
        live: LiveSet::new(base.rows()),
        version: 0,
        writes: Writes::default(),
        ground,
        queries: &queries,
        others,
        scored,
    };
    if settings.fresh && settings.effort == Amount::Auto {
        following.twin = Some(engine(settings, base.dimension, false)?);
    }
    let mut summary = Summary::new(settings, following.scored.len());
    for (step, number) in runbook.steps.iter().zip(1..) {
        if *step == Step::Search {
            let report = following.search(number)?;
            each(&report);
            summary.add(report);
        } else {
            following.write(number, step)?;
        }
    }
    Ok(summary)
}

fn engine(settings: &RunSettings, dimension: usize, guard: bool) -> Result<Engine, RunbookError> {
    let mut chosen = Settings::new(dimension, settings.metric, Element::F32);
    chosen.recall_target = settings.recall_target;
    chosen.recall_guard = guard;
    chosen.seed = settings.seed;
    Engine::create(chosen).map_err(RunbookError::engine(0))
}

/// At most `most` of the numbers below `n`, evenly spread.
fn spread(n: usize, most: usize) -> Vec<usize> {
    let taken = n.min(most);
    (0..taken).map(|i| i * n / taken).collect()
}

struct Following<'a> {
    settings: &'a RunSettings,
    engine: Engine,
    /// See step 3 of the file.
    twin: Option<Engine>,
    live: LiveSet,
    /// Version of the last write: each is newer than all before.
    version: u64,
    /// Since the last search.
    writes: Writes,
    ground: Ground<'a>,
    queries: &'a Matrix,
    /// Rows of `queries` that are scored, and the others, those first whose turn is next.
    scored: Vec<usize>,
    others: Vec<usize>,
}

impl Following<'_> {
    fn write(&mut self, number: usize, step: &Step) -> Result<(), RunbookError> {
        self.version += 1;
        let before = thread_cpu_seconds();
        write_to(&mut self.engine, step, self.ground.base, self.version)
            .map_err(RunbookError::engine(number))?;
        let seconds = thread_cpu_seconds() - before;
        if let Some(twin) = &mut self.twin {
            write_to(twin, step, self.ground.base, self.version)
                .map_err(RunbookError::engine(number))?;
        }
        self.live.apply(step);
        self.writes.add(step, seconds);
        Ok(())
    }

    fn search(&mut self, step: usize) -> Result<SearchReport, RunbookError> {
        let fail = RunbookError::engine(step);
        let (effort, scored_effort) = match self.settings.effort {
            Amount::Auto => (Effort::Auto, Effort::Unaudited),
            Amount::Probes(probes) => (Effort::probes(probes), Effort::probes(probes)),
        };
        let asked = self.others.len().min(POSED_MAX);
        let posed: Vec<&[f32]> =
            self.others[..asked].iter().map(|&row| self.queries.row(row)).collect();
        let before = thread_cpu_seconds();
        ask(&self.engine, &posed, effort).map_err(&fail)?;
        let query_seconds = thread_cpu_seconds() - before;
        self.others.rotate_left(asked);
        self.settle(asked).map_err(&fail)?;
        if self.settings.catch_up {
            self.engine.catch_up();
        }

        let scored: Vec<&[f32]> = self.scored.iter().map(|&row| self.queries.row(row)).collect();
        let truth = self.ground.nearest(&self.live, &scored, K);
        let stats = self.engine.stats();
        let (probes, refine) = match self.settings.effort {
            Amount::Auto => (stats.probes, Some(stats.refine)),
            Amount::Probes(probes) => (probes, None),
        };
        let (answers, _) = ask(&self.engine, &scored, scored_effort).map_err(&fail)?;
        let score = self.mean_score(&scored, &truth, &answers);
        let equal_effort = if self.settings.fresh && !self.live.is_empty() {
            Some(self.compare(&scored, &truth, probes, refine).map_err(&fail)?)
        } else {
            None
        };
        let live = self.live.len();
        Ok(SearchReport {
            step,
            live,
            recall: score.recall,
            dead_answers: score.dead,
            stale_answers: score.stale,
            probes,
            refine,
            leaves: stats.index.leaves,
            query_us: query_seconds * 1e6 / asked as f64,
            guard: stats.recall.map(Guessed::from),
            memory_bytes: stats.index.memory_bytes,
            memory_bytes_per_live: stats.index.memory_bytes as f64 / live.max(1) as f64,
            unreclaimed: stats.index.dead,
            writes: std::mem::take(&mut self.writes),
            equal_effort,
        })
    }

    /// Poses `asked` queries every now and then for as long as the settings say.
    fn settle(&mut self, asked: usize) -> Result<(), vstream_engine::Error> {
        let started = Instant::now();
        while self.settings.effort == Amount::Auto && started.elapsed() < self.settings.settle {
            let posed: Vec<&[f32]> =
                self.others[..asked].iter().map(|&row| self.queries.row(row)).collect();
            ask(&self.engine, &posed, Effort::Auto)?;
            self.others.rotate_left(asked);
            std::thread::sleep(SETTLE_PAUSE);
        }
        Ok(())
    }

    /// Recall of the live index and of fresh ones, without a guard and with the same effort.
    fn compare(
        &self,
        scored: &[&[f32]],
        truth: &[Vec<Neighbor>],
        probes: usize,
        refine: Option<usize>,
    ) -> Result<EqualEffort, vstream_engine::Error> {
        let live = self.twin.as_ref().unwrap_or(&self.engine);
        let recall = |engine: &Engine, probes: usize| -> Result<_, vstream_engine::Error> {
            let (answers, rows) = ask(engine, scored, Effort::Chosen { probes, refine })?;
            Ok((self.mean_score(scored, truth, &answers).recall, rows))
        };
        let (live_recall, live_rows) = recall(live, probes)?;
        let mut fresh_recalls = [0.0; FRESH as usize];
        let mut fresh_rows = 0.0;
        let mut footprint = (0, 0);
        for (order, fresh_recall) in (0..FRESH).zip(&mut fresh_recalls) {
            let fresh = self.fresh(live.settings(), order)?;
            let rows;
            (*fresh_recall, rows) = recall(&fresh, probes)?;
            fresh_rows += rows / FRESH as f64;
            let stats = fresh.stats().index;
            footprint = (stats.leaves, stats.memory_bytes);
        }
        let same_rows_probes = (probes as f64 * fresh_rows / live_rows.max(1.0)).round() as usize;
        let (same_rows_recall, _) = recall(live, same_rows_probes)?;
        Ok(EqualEffort {
            probes,
            live_recall,
            fresh_recall: fresh_recalls.iter().sum::<f64>() / FRESH as f64,
            fresh_spread: (fresh_recalls[0] - fresh_recalls[1]).abs(),
            live_rows,
            fresh_rows,
            same_rows_probes,
            same_rows_recall,
            fresh_leaves: footprint.0,
            fresh_memory_bytes: footprint.1,
        })
    }

    /// An index of the live rows without a guard; `order` says in which random order they come.
    fn fresh(&self, settings: &Settings, order: u64) -> Result<Engine, vstream_engine::Error> {
        let mut chosen = settings.clone();
        chosen.recall_guard = false;
        let mut fresh = Engine::create(chosen)?;
        let mut rows: Vec<(u64, usize)> = self.live.iter().collect();
        let mut chance = SplitMix(self.settings.seed ^ order);
        for last in (1..rows.len()).rev() {
            rows.swap(last, chance.below(last + 1));
        }
        for (tag, row) in rows {
            upsert(&mut fresh, tag, self.ground.base.row(row), 1)?;
        }
        Ok(fresh)
    }

    /// Mean recall, sums of the rest.
    fn mean_score(
        &self,
        queries: &[&[f32]],
        truth: &[Vec<Neighbor>],
        answers: &[Vec<Neighbor>],
    ) -> Score {
        let mut sum = Score::default();
        for ((query, truth), answer) in queries.iter().zip(truth).zip(answers) {
            let score = self.ground.score(&self.live, query, truth, answer);
            sum.recall += score.recall;
            sum.dead += score.dead;
            sum.stale += score.stale;
        }
        sum.recall /= queries.len() as f64;
        sum
    }
}

/// Answers of `queries`, in their order, and the mean number of rows that each looked at.
fn ask(
    engine: &Engine,
    queries: &[&[f32]],
    effort: Effort,
) -> Result<(Vec<Vec<Neighbor>>, f64), vstream_engine::Error> {
    let reader = engine.reader();
    let mut scratch = Scratch::new();
    let mut rows = 0;
    let answer = |vector: &&[f32]| -> Result<_, vstream_engine::Error> {
        let mut out = Vec::with_capacity(K);
        let stats = reader.search(
            &Query { vector, k: K, effort, filter: None, radius: None },
            &mut scratch,
            &mut out,
        )?;
        rows += stats.rows;
        Ok::<_, vstream_engine::Error>(out)
    };
    let answers = queries.iter().map(answer).collect::<Result<Vec<_>, _>>()?;
    Ok((answers, rows as f64 / queries.len() as f64))
}

fn write_to(
    engine: &mut Engine,
    step: &Step,
    base: &Matrix,
    version: u64,
) -> Result<(), vstream_engine::Error> {
    let mut put = |tags: &Range<usize>, rows: &Range<usize>| {
        let mut pairs = tags.clone().zip(rows.clone());
        pairs.try_for_each(|(tag, row)| upsert(engine, tag as u64, base.row(row), version))
    };
    match step {
        Step::Insert(rows) => put(rows, rows),
        Step::Replace { tags, rows } => put(tags, rows),
        Step::Delete(tags) => {
            tags.clone().try_for_each(|tag| engine.delete(tag as u64, version).map(|_| ()))
        }
        Step::Search => Ok(()),
    }
}

fn upsert(
    engine: &mut Engine,
    tag: u64,
    vector: &[f32],
    version: u64,
) -> Result<(), vstream_engine::Error> {
    let row = Row {
        id: tag,
        version,
        code: 0,
        shard: (tag % SHARDS) as u16,
        vector,
        fields: Default::default(),
    };
    engine.upsert(&row).map(|_| ())
}
