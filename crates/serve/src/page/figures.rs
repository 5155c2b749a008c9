//! What the page of a server shows, as JSON. Times are in milliseconds unless a name says otherwise;
//! what is not known is null.

use serde::Serialize;

/// What the page of a server shows.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figures {
    pub(super) kind: &'static str,
    pub(super) version: &'static str,
    pub(super) uptime_seconds: u64,
    /// Over all collections; only for those who may read all.
    pub(super) requests: Option<Requests>,
    /// The busiest first.
    pub(super) collections: Vec<Row>,
    /// Collections that are not in the list, which has a limit.
    pub(super) more: usize,
    /// The slowest searches of the last minutes, the slowest first.
    pub(super) slow: Vec<SlowRow>,
}

/// Answers to requests of all kinds, this page's own among them.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Requests {
    pub(super) all: u64,
    pub(super) per_second: f64,
    pub(super) refused: u64,
    pub(super) refused_per_second: f64,
    pub(super) failed: u64,
    pub(super) failed_per_second: f64,
}

/// A collection.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) dimension: usize,
    pub(super) metric: &'static str,
    pub(super) recall_target: f64,
    /// Since the server began.
    pub(super) searches: u64,
    /// Over the last seconds, as all rates and percentiles.
    pub(super) searches_per_second: f64,
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
    /// Null until the engine has answered for the first time; of a job always, which has figures of its own.
    pub(super) writes_per_second: Option<f64>,
    /// How long a write that came now took until searches saw it.
    pub(super) fresh: Option<f64>,
    /// Null until the engine has answered for the first time.
    pub(super) engine: Option<EngineRow>,
}

/// Counts of a collection's engine.
#[derive(Clone, Debug, Serialize)]
pub(super) struct EngineRow {
    pub(super) rows: u64,
    /// Rows written and deleted, ever.
    pub(super) writes: u64,
    pub(super) recall: Option<Recall>,
    /// Leaves that a search visits.
    pub(super) probes: usize,
    pub(super) leaves: u64,
    pub(super) splits: u64,
    pub(super) leaf_merges: u64,
    /// Rows in memory, and in segments.
    pub(super) memory_rows: u64,
    pub(super) segment_rows: u64,
    /// Rows that are deleted and take room until a merge.
    pub(super) dead: u64,
    pub(super) segments: u64,
    pub(super) graphs: u64,
    pub(super) merges: u64,
    pub(super) memory_bytes: u64,
    pub(super) segment_bytes: u64,
    pub(super) log_bytes: u64,
    /// Why the last checkpoint or merge failed, if one did.
    pub(super) failure: Option<String>,
}

/// What the audits found.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Recall {
    pub(super) estimate: f64,
    pub(super) margin: f64,
    pub(super) audits: usize,
}

/// A slow search.
#[derive(Clone, Debug, Serialize)]
pub(super) struct SlowRow {
    pub(super) collection: String,
    pub(super) took: f64,
    pub(super) seconds_ago: u64,
    pub(super) limit: usize,
    pub(super) filtered: bool,
    pub(super) exact: bool,
}
