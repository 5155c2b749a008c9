//! Looks at a server while somebody looks at its page, and makes rates of counters.
//!
//! 1. A tick comes every [`TICK`], if anybody looks; else the task ends and forgets everything.
//! 2. Each collection's counters are read, and its engine is asked without waiting for it: the engine
//!    answers between two writes, so how long that takes is how long a write takes to be seen.
//! 3. Rates and percentiles are those of the last [`SPAN`], from the differences of counters.
//!
//! A viewer gets what its key may read.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::response::Response;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use vstream_engine::Stats;

use super::feed::Feed;
use super::figures::{EngineRow, Figures, Recall, Requests, Row, SlowRow};
use crate::access::{Access, Scope};
use crate::collection::Collection;
use crate::failure::Failure;
use crate::observe::{percentile, Answers, Counts, SlowSearch};
use crate::shared::Shared;

/// Time between two events.
const TICK: Duration = Duration::from_millis(250);
/// Rates are those of the last seconds.
const SPAN: Duration = Duration::from_secs(5);
/// Collections that a viewer sees.
const ROWS: usize = 100;
/// Collections whose engines are asked at every tick; more are asked less often in proportion.
const ASKED: usize = 32;

/// The page of a server.
pub(super) struct Watching {
    shared: Arc<Shared>,
    stop: watch::Receiver<bool>,
    began: Instant,
    feed: Feed<Figures>,
    is_sampling: Mutex<bool>,
}

impl Watching {
    pub(super) fn new(shared: Arc<Shared>, stop: watch::Receiver<bool>) -> Watching {
        let is_sampling = Mutex::new(false);
        Watching { shared, stop, began: Instant::now(), feed: Feed::new(), is_sampling }
    }

    /// Answers a viewer. Errors: `SERVICE_UNAVAILABLE` if too many look already.
    pub(super) async fn open(self: Arc<Watching>, access: Access) -> Result<Response, Failure> {
        let text = move |figures: &Figures| {
            serde_json::to_string(&seen(figures, &access)).unwrap_or_default()
        };
        let response = self.feed.open(self.stop.clone(), text)?;
        let mut is_sampling = self.is_sampling.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_sampling {
            *is_sampling = true;
            tokio::spawn(self.clone().sample());
        }
        drop(is_sampling);
        Ok(response)
    }

    async fn sample(self: Arc<Watching>) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut past = Past::default();
        loop {
            ticks.tick().await;
            {
                let mut is_sampling =
                    self.is_sampling.lock().unwrap_or_else(PoisonError::into_inner);
                if !self.feed.is_watched() {
                    *is_sampling = false;
                    return;
                }
            }
            self.feed.show(past.figures(&self.shared, self.began));
        }
    }
}

/// The part of figures that a key may read.
fn seen(all: &Figures, access: &Access) -> Figures {
    let may = |name: &str| access.may(Scope::Read, Some(name)).is_ok();
    let sees_all = access.may(Scope::Read, None).is_ok();
    let mut collections = all.collections.iter().filter(|row| may(&row.name));
    let shown: Vec<Row> = collections.by_ref().take(ROWS).cloned().collect();
    let more = collections.count();
    let mut slow = all.slow.clone();
    slow.retain(|one| may(&one.collection));
    Figures { requests: all.requests.filter(|_| sees_all), more, collections: shown, slow, ..*all }
}

/// The last seconds.
#[derive(Default)]
struct Past {
    answers: VecDeque<(Instant, Answers)>,
    collections: BTreeMap<String, Watched>,
    ticks: usize,
}

/// A collection, and its last seconds.
struct Watched {
    collection: Arc<Collection>,
    engine: Arc<Mutex<Asked>>,
    searches: VecDeque<(Instant, Counts)>,
    writes: VecDeque<(Instant, u64)>,
}

/// What an engine said, and since when it has been asked again.
#[derive(Default)]
struct Asked {
    since: Option<Instant>,
    answer: Option<(Instant, Stats)>,
    took: Option<Duration>,
}

impl Past {
    /// Looks at everything once.
    fn figures(&mut self, shared: &Shared, began: Instant) -> Figures {
        let now = Instant::now();
        let present = shared.catalog.all();
        let every = present.len().div_ceil(ASKED).max(1);
        self.ticks += 1;
        let mut rows = Vec::with_capacity(present.len());
        let mut watched = BTreeMap::new();
        for (at, collection) in present.into_iter().enumerate() {
            let name = collection.name.clone();
            let mut one = match self.collections.remove(&name) {
                Some(one) if Arc::ptr_eq(&one.collection, &collection) => one,
                _ => Watched::new(collection),
            };
            if (at + self.ticks).is_multiple_of(every) {
                one.ask();
            }
            rows.push(one.row(shared, now));
            watched.insert(name, one);
        }
        // Those that were dropped are forgotten.
        self.collections = watched;
        rows.sort_by(|a, b| {
            let busy =
                |row: &Row| row.searches_per_second + row.writes_per_second.unwrap_or_default();
            busy(b).total_cmp(&busy(a)).then_with(|| a.name.cmp(&b.name))
        });
        Figures {
            kind: "server",
            version: env!("CARGO_PKG_VERSION"),
            uptime_seconds: (now - began).as_secs(),
            requests: Some(self.requests(shared.measured.answers(), now)),
            collections: rows,
            // A key may read a few of them, so what is shown is chosen for each viewer.
            more: 0,
            slow: slow(shared, now),
        }
    }

    fn requests(&mut self, answers: Answers, now: Instant) -> Requests {
        let (then, before) = remember(&mut self.answers, now, answers);
        let per_second = |of: fn(&Answers) -> u64| rate(of(&answers) - of(&before), now - then);
        Requests {
            all: answers.all,
            per_second: per_second(|answers| answers.all),
            refused: answers.refused,
            refused_per_second: per_second(|answers| answers.refused),
            failed: answers.failed,
            failed_per_second: per_second(|answers| answers.failed),
        }
    }
}

impl Watched {
    fn new(collection: Arc<Collection>) -> Watched {
        let engine = Arc::default();
        Watched { collection, engine, searches: VecDeque::new(), writes: VecDeque::new() }
    }

    /// Asks the engine for its counts, unless it owes an answer.
    fn ask(&self) {
        // A job has figures of its own.
        if self.collection.is_of_job() {
            return;
        }
        let began = Instant::now();
        let mut asked = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.since.is_some() {
            return;
        }
        asked.since = Some(began);
        drop(asked);
        let (collection, engine) = (self.collection.clone(), self.engine.clone());
        tokio::spawn(async move {
            let stats = collection.stats().await;
            let now = Instant::now();
            let mut asked = engine.lock().unwrap_or_else(PoisonError::into_inner);
            asked.since = None;
            // One that is being closed gives none.
            if let Ok(stats) = stats {
                asked.took = Some(now - began);
                asked.answer = Some((now, stats));
            }
        });
    }

    fn row(&mut self, shared: &Shared, now: Instant) -> Row {
        let counts = shared.measured.searches(&self.collection.name).unwrap_or([0; _]);
        let (then, before) = remember(&mut self.searches, now, counts);
        let mut recent = counts;
        recent.iter_mut().zip(before).for_each(|(now, before)| *now = now.saturating_sub(before));
        let percentile = |share| percentile(&recent, share).map(millis);
        let asked = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        let engine = asked.answer.as_ref().map(|(at, stats)| (*at, engine(stats)));
        // An engine that owes an answer is at least as late as it has been asked.
        let owed = asked.since.map(|since| now.saturating_duration_since(since));
        let fresh = asked.took.max(owed.filter(|owed| *owed > TICK)).map(millis);
        drop(asked);
        // What a replica lacks is seen when it has come. One that has not reached its writer cannot say.
        let behind = self.collection.progress.behind_ms();
        let fresh = fresh.and_then(|fresh| Some(fresh.max(behind? as f64)));
        let writes_per_second = engine.as_ref().map(|(at, engine)| {
            let (then, before) = remember(&mut self.writes, *at, engine.writes);
            rate(engine.writes.saturating_sub(before), *at - then)
        });
        let settings = &self.collection.settings;
        Row {
            name: self.collection.name.clone(),
            dimension: settings.dimension,
            metric: settings.metric.name(),
            recall_target: settings.recall_target,
            searches: counts.iter().sum(),
            searches_per_second: rate(recent.iter().sum(), now - then),
            p50: percentile(0.5),
            p99: percentile(0.99),
            writes_per_second,
            fresh,
            engine: engine.map(|(_, engine)| engine),
        }
    }
}

fn engine(stats: &Stats) -> EngineRow {
    let (index, tree) = (&stats.index, &stats.tree);
    let journal = stats.journal.clone().unwrap_or_default();
    EngineRow {
        rows: index.live,
        writes: journal.lsn,
        recall: stats.recall.as_ref().map(|found| Recall {
            estimate: found.recall,
            margin: found.margin,
            audits: found.audits,
        }),
        probes: stats.probes,
        leaves: index.leaves,
        splits: index.splits,
        leaf_merges: index.merges,
        memory_rows: index.live.saturating_sub(tree.segment_rows),
        segment_rows: tree.segment_rows,
        dead: index.dead,
        segments: tree.segments,
        graphs: tree.graphs,
        merges: journal.compactions,
        memory_bytes: index.memory_bytes,
        segment_bytes: tree.segment_bytes,
        log_bytes: journal.log_bytes,
        failure: journal.checkpoint_failure.or(journal.compaction_failure),
    }
}

fn slow(shared: &Shared, now: Instant) -> Vec<SlowRow> {
    let slowest = shared.measured.slow.slowest(now);
    let row = |one: SlowSearch| SlowRow {
        took: millis(one.took),
        seconds_ago: now.saturating_duration_since(one.ended).as_secs(),
        collection: one.collection,
        limit: one.limit,
        filtered: one.is_filtered,
        exact: one.is_exact,
    };
    slowest.into_iter().map(row).collect()
}

/// Remembers a counter, and returns its value [`SPAN`] ago, or as long ago as it is known.
fn remember<T: Copy>(past: &mut VecDeque<(Instant, T)>, now: Instant, value: T) -> (Instant, T) {
    while past.len() > 1 && now.saturating_duration_since(past[1].0) >= SPAN {
        past.pop_front();
    }
    // The same moment comes again if an engine was not asked since.
    if past.back().is_none_or(|(last, _)| *last < now) {
        past.push_back((now, value));
    }
    past[0]
}

fn rate(count: u64, time: Duration) -> f64 {
    if time.is_zero() {
        return 0.0;
    }
    count as f64 / time.as_secs_f64()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
