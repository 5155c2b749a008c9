//! What serving over HTTP and gRPC costs beside the engine in the process, and what writes cost queries.
//!
//! The server is a process of its own on the first core, the client on the second. The engine in the
//! process gets the first core too, after the server has ended.

mod client;
mod replica;
mod scale_out;
mod server;
mod service;
mod traffic;
mod transport;

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::thread::{sched_setaffinity, CpuSet};
use serde::Serialize;
use vstream_engine::{Effort, Engine, Query, Scratch, With};
use vstream_vector::Metric;

pub use self::service::{measure_service, ServiceReport, ServiceSettings};

pub use self::replica::{run_replica, ReplicaReport};
use self::server::Server;
use self::traffic::{closed, fill, open, recall, streaming};
use self::transport::{Grpc, Http, Transport};
use crate::runbook::{Matrix, RunbookError};
use crate::times::Percentiles;

/// Neighbours of a query.
const K: usize = 10;
/// Points of a request.
const BATCH: usize = 1_000;
/// Core of the server and of the engine; core of the client.
const CORES: [usize; 2] = [0, 1];
/// Connections that search as fast as they can.
const CONNECTIONS: usize = 4;
/// Phases at most until the effort of searches stands.
const SETTLING: usize = 9;
const COLLECTION: &str = "bench";

/// What to measure.
pub struct ServeSettings<'a> {
    /// The command to start.
    pub command: &'a Path,
    /// Folder of the collections.
    pub directory: &'a Path,
    /// Metric: as Qdrant calls it below.
    pub metric: Metric,
    /// Time of each phase.
    pub phase: Duration,
    /// Rows per second that arrive while queries are timed.
    pub rates: Vec<u64>,
    /// Empty place in an object store to which the collection of replicas is pushed; `None`: it is not.
    pub store: Option<&'a str>,
    /// Measure the starts of replicas alone.
    pub starts_alone: bool,
}

/// What was measured. Times are in microseconds.
#[derive(Debug, Serialize)]
pub struct ServeReport {
    rows: usize,
    dimension: usize,
    transports: Vec<Served>,
}

/// What was measured over one way to a server of its own.
#[derive(Debug, Serialize)]
struct Served {
    transport: &'static str,
    upserts_per_s: f64,
    served_per_s: f64,
    served_recall: f64,
    /// Leaves that a query visited, at the server and in the process.
    probes: usize,
    in_process_per_s: f64,
    in_process_with_rows_per_s: f64,
    half_load: Percentiles,
    /// One connection, 100 queries per second, nothing else.
    idle: Percentiles,
    /// The same while so many rows per second arrive, and the rows that did.
    beside: Vec<(u64, f64, Percentiles)>,
}

/// Measures. Errors: `Io`.
pub fn run(
    base: &Matrix,
    queries: &Matrix,
    settings: &ServeSettings<'_>,
) -> Result<ServeReport, RunbookError> {
    let mut transports =
        vec![served::<Http>(base, queries, settings)?, served::<Grpc>(base, queries, settings)?];
    // An engine leaves a thread in this process that gives heap back, for which a client would wait.
    for served in &mut transports {
        let folder = settings.directory.join(served.transport);
        (served.in_process_per_s, served.in_process_with_rows_per_s) =
            in_process(queries, &folder, settings.phase, served.probes)?;
    }
    Ok(ServeReport { rows: base.rows(), dimension: base.dimension, transports })
}

/// Measures one way to a server, but for the engine in the process.
fn served<T: Transport>(
    base: &Matrix,
    queries: &Matrix,
    settings: &ServeSettings<'_>,
) -> Result<Served, RunbookError> {
    pin(CORES[1])?;
    let folder = settings.directory.join(T::NAME);
    let server = Server::start(settings.command, &folder)?;
    let upserts_per_s = fill::<T>(&server, base, settings.metric, &serde_json::json!({}))?;
    let questions: Vec<_> = (0..queries.rows()).map(|at| T::question(queries.row(at))).collect();
    let (served_per_s, probes) = settled::<T>(&server, &questions, settings.phase)?;
    let served_recall = recall::<T>(&server, base, queries, &questions)?;
    let half = served_per_s / 2.0;
    let half_load = open::<T>(&server, &questions, half, settings.phase, CONNECTIONS)?;
    let idle = open::<T>(&server, &questions, 100.0, settings.phase * 2, 1)?;
    let mut beside = Vec::new();
    for &rate in &settings.rates {
        beside.push(streaming::<T>(&server, base, &questions, rate, settings.phase * 2)?);
    }
    Ok(Served {
        transport: T::NAME,
        upserts_per_s,
        served_per_s,
        served_recall,
        probes,
        in_process_per_s: 0.0,
        in_process_with_rows_per_s: 0.0,
        half_load,
        idle,
        beside,
    })
}

/// Queries per second, and the leaves that each visited: asks until the recall guard visits as many as
/// before, for [`SETTLING`] phases at most.
fn settled<T: Transport>(
    server: &Server,
    questions: &[T::Question],
    phase: Duration,
) -> Result<(f64, usize), RunbookError> {
    closed::<T>(server, questions, phase)?;
    let mut before = server.probes()?;
    let mut turn = 0;
    loop {
        let per_s = closed::<T>(server, questions, phase)?;
        let after = server.probes()?;
        turn += 1;
        if before.abs_diff(after) * 20 <= before || turn == SETTLING {
            return Ok((per_s, before.midpoint(after)));
        }
        before = after;
    }
}

/// Reads rows and queries, and removes what an earlier run left in the folder of the collections. Errors:
/// `Io` and those of the files.
pub fn prepare(
    (data, rows): (&Path, Option<usize>),
    queries: &Path,
    metric: Metric,
    directory: &Path,
) -> Result<(Matrix, Matrix), RunbookError> {
    let mut base = Matrix::read(data, rows)?;
    let mut queries = Matrix::read(queries, Some(1_000))?;
    if metric == Metric::Cosine {
        // The truth is taken by squared distances, whose order is then the same.
        base.normalise();
        queries.normalise();
    }
    if directory.exists() {
        std::fs::remove_dir_all(directory)
            .map_err(|error| RunbookError::Io(format!("Cannot remove the folder: {error}.")))?;
    }
    Ok((base, queries))
}

fn pin(core: usize) -> Result<(), RunbookError> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set)
        .map_err(|error| RunbookError::Io(format!("Cannot use core {core} alone: {error}.")))
}

fn path(rest: &str) -> String {
    format!("/collections/{COLLECTION}{rest}")
}

/// Queries per second of the same collection in this process on the server's core: of ids and distances
/// alone, and with the rows' ids read as the server must.
fn in_process(
    queries: &Matrix,
    folder: &Path,
    phase: Duration,
    probes: usize,
) -> Result<(f64, f64), RunbookError> {
    pin(CORES[0])?;
    let failed = |error: vstream_engine::Error| RunbookError::Io(error.to_string());
    let engine = Engine::open(&folder.join(COLLECTION)).map_err(failed)?;
    let (reader, mut scratch, mut out) = (engine.reader(), Scratch::new(), Vec::new());
    engine.catch_up();
    let mut measure = |with_rows: bool| -> Result<f64, RunbookError> {
        let (begun, mut asked) = (Instant::now(), 0);
        while begun.elapsed() < phase {
            let effort = Effort::probes(probes);
            let query = Query { effort, ..Query::new(queries.row(asked % queries.rows()), K) };
            if with_rows {
                reader.answer(&query, &With::default(), &mut scratch).map_err(failed)?;
            } else {
                reader.search(&query, &mut scratch, &mut out).map_err(failed)?;
            }
            asked += 1;
        }
        Ok(asked as f64 / begun.elapsed().as_secs_f64())
    };
    measure(false)?;
    Ok((measure(false)?, measure(true)?))
}

impl ServeReport {
    /// The table that people read.
    pub fn table(&self) -> String {
        let mut out = format!(
            "{} rows of {} dimensions; the server on one core, the client on another. Times in ms, \
             p50 / p99 / p99.9.\n\n|",
            self.rows, self.dimension
        );
        let columns: Vec<Vec<(String, String)>> =
            self.transports.iter().map(Served::lines).collect();
        self.transports.iter().for_each(|served| out += &format!(" | over {}", served.transport));
        out += &format!(" |\n|{}\n", "---|".repeat(1 + columns.len()));
        let what = columns.first().map_or(&[][..], Vec::as_slice);
        for (at, (what, _)) in what.iter().enumerate() {
            out += &format!("| {what}");
            columns.iter().for_each(|column| out += &format!(" | {}", column[at].1));
            out += " |\n";
        }
        out
    }
}

impl Served {
    /// What was measured, and its value.
    fn lines(&self) -> Vec<(String, String)> {
        let per_s = |value: f64| format!("{value:.0}/s");
        let ms = |times: &Percentiles| {
            format!("{:.2} / {:.2} / {:.2}", times.p50 / 1e3, times.p99 / 1e3, times.p999 / 1e3)
        };
        let share = 100.0 * self.served_per_s / self.in_process_per_s;
        let mut lines = vec![
            ("points written, 1,000 in a request, each durable", per_s(self.upserts_per_s)),
            ("queries, 4 connections", per_s(self.served_per_s)),
            ("recall@10 of these", format!("{:.4}", self.served_recall)),
            ("leaves that a query visits", self.probes.to_string()),
            ("queries in the process, one thread, as many leaves", per_s(self.in_process_per_s)),
            ("the same, with the ids of rows read", per_s(self.in_process_with_rows_per_s)),
            ("served share of the process's queries", format!("{share:.0} %")),
            ("at half of the served rate", ms(&self.half_load)),
            ("100 queries/s, nothing else", ms(&self.idle)),
        ]
        .into_iter()
        .map(|(what, value)| (what.to_owned(), value))
        .collect::<Vec<_>>();
        for (rate, came, times) in &self.beside {
            let ratio = times.p99 / self.idle.p99;
            let value = format!("{}; p99 {ratio:.2} x idle ({came:.0} came)", ms(times));
            lines.push((format!("beside {rate} rows/s"), value));
        }
        lines
    }
}
