//! Metrics in the form of Prometheus.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use prometheus_client::encoding::{text, EncodeLabelSet};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{exponential_buckets, Histogram};
use prometheus_client::registry::Registry;
use vstream_engine::Stats;

use super::slow::{Slow, SlowSearch};
use super::times::{Counts, Times};
use crate::collection::Progress;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfPath {
    method: &'static str,
    path: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfAnswer {
    method: &'static str,
    path: String,
    status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfCollection {
    collection: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfTool {
    tool: &'static str,
    status: u16,
}

type Whole = Family<OfCollection, Gauge>;
type Share = Family<OfCollection, Gauge<f64, AtomicU64>>;
type Total = Family<OfCollection, Counter>;

/// Answers of a server so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answers {
    pub(crate) all: u64,
    /// Those with a status of 400 to 499.
    pub(crate) refused: u64,
    /// Those with a status of 500 or more.
    pub(crate) failed: u64,
}

/// The metrics of a server.
pub(crate) struct Measured {
    pub(crate) slow: Slow,
    /// Answers by the hundreds of their status.
    answers: [AtomicU64; 6],
    registry: Registry,
    requests: Family<OfAnswer, Counter>,
    seconds: Family<OfPath, Histogram>,
    search_seconds: Family<OfCollection, Times>,
    writes: Total,
    tools: Family<OfTool, Counter>,
    broken: Whole,
    rows: Whole,
    leaves: Whole,
    splits: Total,
    segments: Whole,
    log_bytes: Whole,
    memory_bytes: Whole,
    in_memory: Share,
    probes: Whole,
    refined: Whole,
    sequence: Whole,
    writer_sequence: Whole,
    behind: Share,
    following: Whole,
    losses: Family<OfCollection, Counter>,
    streams: Gauge,
    recall: Share,
}

impl Measured {
    pub(crate) fn new() -> Measured {
        let mut registry = Registry::with_prefix("vstream");
        let requests = Family::default();
        registry.register("requests", "Requests by path and status", requests.clone());
        let seconds: Family<OfPath, Histogram> = Family::new_with_constructor(|| {
            // 50 us to 27 s.
            Histogram::new(exponential_buckets(5e-5, 2.0, 20))
        });
        registry.register("request_seconds", "Time of a request", seconds.clone());
        let (search_seconds, tools) = (Family::default(), Family::default());
        let help = "Time of a search, without reading its request or waiting for a thread";
        registry.register("search_seconds", help, search_seconds.clone());
        let (writes, splits) = (Total::default(), Total::default());
        registry.register("writes", "Rows written and deleted, ever", writes.clone());
        registry.register("leaf_splits", "Splits of leaves since the start", splits.clone());
        registry.register("mcp_calls", "Calls of tools by status, in HTTP's terms", tools.clone());
        let mut whole = |name: &str, help: &str| {
            let gauge = Whole::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        let broken = whole("collection_broken", "1 for a collection that did not open");
        let rows = whole("rows", "Rows that live");
        let leaves = whole("leaves", "Leaves of rows in memory and of segments");
        let segments = whole("segments", "Segments on the disk");
        let log_bytes = whole("log_bytes", "Bytes of the logs that a restart reads");
        let memory_bytes = whole("memory_bytes", "Bytes of memory that the engine counts");
        let probes = whole("probes", "Leaves that a search visits");
        let refined = whole("refined_rows", "Rows whose exact distance a search takes");
        let sequence = whole("sequence", "Last write that searches see");
        let writer_sequence = whole("writer_sequence", "Last write that the writer spoke of");
        let following = whole("following", "1 while a replica hears its writer, else 0");
        let (in_memory, behind) = (Share::default(), Share::default());
        let help = "Mean time of a row in memory before it went to a segment, since the start";
        registry.register("memory_residence_seconds", help, in_memory.clone());
        let help = "Age of the newest moment of which a replica has every write";
        registry.register("behind_seconds", help, behind.clone());
        let (losses, streams) = (Family::<OfCollection, Counter>::default(), Gauge::default());
        registry.register("follow_losses", "Times that a replica lost its writer", losses.clone());
        registry.register("streams", "Replicas and watchers that read logs", streams.clone());
        let recall = Share::default();
        registry.register("recall_estimate", "Recall@k as the audits find it", recall.clone());
        Measured {
            slow: Slow::new(Instant::now()),
            answers: Default::default(),
            registry,
            requests,
            seconds,
            search_seconds,
            writes,
            tools,
            broken,
            rows,
            leaves,
            splits,
            segments,
            log_bytes,
            memory_bytes,
            in_memory,
            probes,
            refined,
            sequence,
            writer_sequence,
            behind,
            following,
            losses,
            streams,
            recall,
        }
    }

    /// Notes that a replica has lost its writer, or hears nothing of a collection.
    pub(crate) fn lost(&self, collection: &str) {
        let of = OfCollection { collection: collection.to_owned() };
        self.following.get_or_create(&of).set(0);
        self.losses.get_or_create(&of).inc();
    }

    /// Notes that a replica hears its writer.
    pub(crate) fn found(&self, collection: &str) {
        let of = OfCollection { collection: collection.to_owned() };
        self.following.get_or_create(&of).set(1);
    }

    /// Sets the number of streams.
    pub(crate) fn streams(&self, streams: usize) {
        self.streams.set(i64::try_from(streams).unwrap_or(i64::MAX));
    }

    /// Sets how far a collection is.
    pub(crate) fn progress(&self, name: &str, progress: &Progress) {
        let of = OfCollection { collection: name.to_owned() };
        let set = |gauge: &Whole, value: u64| {
            gauge.get_or_create(&of).set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        set(&self.sequence, progress.applied());
        if progress.is_replica() && progress.has_age() {
            set(&self.writer_sequence, progress.writer_sequence());
            // What has not reached its writer yet is behind without bound.
            let behind = progress.behind_ms().map_or(f64::INFINITY, |ms| ms as f64 / 1e3);
            self.behind.get_or_create(&of).set(behind);
        }
    }

    /// Counts an answer.
    ///
    /// * `path`: with the names of its parts, not with their values.
    pub(crate) fn request(&self, method: &'static str, path: &str, status: u16, took: Duration) {
        self.answers[usize::from(status / 100).min(5)].fetch_add(1, Ordering::Relaxed);
        let path = path.to_owned();
        let of = OfPath { method, path: path.clone() };
        self.requests.get_or_create(&OfAnswer { method, path, status }).inc();
        self.seconds.get_or_create(&of).observe(took.as_secs_f64());
    }

    /// Answers so far.
    pub(crate) fn answers(&self) -> Answers {
        let count = |hundreds: usize| self.answers[hundreds].load(Ordering::Relaxed);
        Answers { all: (0..6).map(count).sum(), refused: count(4), failed: count(5) }
    }

    /// Counts a search, and keeps it if it was slow.
    ///
    /// * `describe`: called for a slow one alone.
    pub(crate) fn searched(
        &self,
        collection: &str,
        ended: Instant,
        took: Duration,
        describe: impl FnOnce() -> SlowSearch,
    ) {
        let of = OfCollection { collection: collection.to_owned() };
        self.search_seconds.get_or_create(&of).observe(took);
        self.slow.note(ended, took, describe);
    }

    /// Searches of a collection by their time.
    pub(crate) fn searches(&self, collection: &str) -> Option<Counts> {
        let of = OfCollection { collection: collection.to_owned() };
        Some(self.search_seconds.get(&of)?.counts())
    }

    /// Counts a call of a tool, whose failure is an answer as HTTP sees it.
    pub(crate) fn tool(&self, tool: &'static str, status: u16) {
        self.tools.get_or_create(&OfTool { tool, status }).inc();
    }

    /// Notes which collections did not open.
    pub(crate) fn broken(&self, names: impl Iterator<Item = String>) {
        self.broken.clear();
        names.for_each(|collection| {
            self.broken.get_or_create(&OfCollection { collection }).set(1);
        });
    }

    /// Sets the figures of a collection.
    pub(crate) fn collection(&self, name: &str, stats: &Stats) {
        let of = OfCollection { collection: name.to_owned() };
        let set = |gauge: &Whole, value: u64| {
            gauge.get_or_create(&of).set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        set(&self.rows, stats.index.live);
        set(&self.leaves, stats.index.leaves);
        set(&self.segments, stats.tree.segments);
        set(&self.log_bytes, stats.journal.as_ref().map_or(0, |journal| journal.log_bytes));
        set(&self.memory_bytes, stats.index.memory_bytes);
        set(&self.probes, stats.probes as u64);
        set(&self.refined, stats.refine as u64);
        let set = |total: &Total, value: u64| {
            total.get_or_create(&of).inner().store(value, Ordering::Relaxed);
        };
        set(&self.splits, stats.index.splits);
        set(&self.writes, stats.journal.as_ref().map_or(0, |journal| journal.lsn));
        if stats.tree.in_memory.rows > 0 {
            let mean = stats.tree.in_memory.mean().as_secs_f64();
            self.in_memory.get_or_create(&of).set(mean);
        }
        if let Some(recall) = &stats.recall {
            self.recall.get_or_create(&of).set(recall.recall);
        }
    }

    /// Forgets a collection.
    pub(crate) fn forget(&self, name: &str) {
        let of = OfCollection { collection: name.to_owned() };
        let Measured { rows, leaves, segments, log_bytes, memory_bytes, probes, .. } = self;
        let Measured { refined, sequence, writer_sequence, following, .. } = self;
        let more = [refined, sequence, writer_sequence, following];
        for gauge in
            [rows, leaves, segments, log_bytes, memory_bytes, probes].into_iter().chain(more)
        {
            gauge.remove(&of);
        }
        self.search_seconds.remove(&of);
        self.writes.remove(&of);
        self.splits.remove(&of);
        self.in_memory.remove(&of);
        self.behind.remove(&of);
        self.losses.remove(&of);
        self.recall.remove(&of);
    }

    /// All of them as text.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = text::encode(&mut out, &self.registry);
        out
    }
}
