//! What serving over HTTP and gRPC costs beside the engine in the process, and what writes cost queries.
//!
//! The server is a process of its own on the first core, the client on the second. The engine in a process
//! is on the first core too, in turns with the server.

mod client;
mod following;
mod replica;
mod scale_out;
mod server;
mod service;
mod traffic;
mod transport;
mod turns;

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use rustix::thread::{sched_setaffinity, CpuSet};
use serde::Serialize;
use vstream_vector::Metric;

pub use self::service::{measure_service, ServiceReport, ServiceSettings};

pub use self::replica::{run_replica, ReplicaReport};
use self::server::{Reached, Server};
use self::traffic::{closed, fill, open, recall, streaming};
use self::transport::{Grpc, Http, Transport};
pub use self::turns::answer_turns;
use self::turns::{in_turns, InTurns};
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
    /// Arguments of this program with which it calls [`answer_turns`] for a folder.
    pub engine: &'a dyn Fn(&Path) -> Vec<OsString>,
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
    /// Leaves that a query visited, and rows whose exact distance it took.
    probes: usize,
    refined_rows: usize,
    /// The server in turns with an engine in a process.
    in_turns: InTurns,
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
    let transports =
        vec![served::<Http>(base, queries, settings)?, served::<Grpc>(base, queries, settings)?];
    Ok(ServeReport { rows: base.rows(), dimension: base.dimension, transports })
}

/// Measures one way to a server.
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
    // An engine needs a folder of its own. A server that is killed has every write in it.
    drop(server);
    let copied = settings.directory.join("copy");
    copy(&folder, &copied)?;
    let server = Server::start(settings.command, &folder)?;
    let (served_per_s, effort) = settled::<T>(&server, &questions, settings.phase)?;
    let served_recall = recall::<T>(&server, base, queries, &questions)?;
    let engine = (settings.engine)(&copied);
    let in_turns = in_turns::<T>(&server, &questions, settings.phase, &engine)?;
    std::fs::remove_dir_all(&copied)
        .map_err(|error| RunbookError::Io(format!("Cannot remove the copy: {error}.")))?;
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
        probes: effort.probes,
        refined_rows: effort.refine,
        in_turns,
        half_load,
        idle,
        beside,
    })
}

/// Queries per second, and how far each went: asks until the recall guard has decided and visits as many leaves
/// as before, for [`SETTLING`] phases at most. Errors: `Io`, also where it has not decided then.
fn settled<T: Transport>(
    server: &Server,
    questions: &[T::Question],
    phase: Duration,
) -> Result<(f64, Reached), RunbookError> {
    closed::<T>(server, questions, phase)?;
    let mut before = server.effort()?;
    let mut turn = 0;
    loop {
        let per_s = closed::<T>(server, questions, phase)?;
        let after = server.effort()?;
        turn += 1;
        if let (Some(before), Some(after)) = (before, after) {
            if before.probes.abs_diff(after.probes) * 20 <= before.probes || turn == SETTLING {
                return Ok((per_s, before.midpoint(after)));
            }
        }
        if turn > SETTLING {
            let what = "The recall guard of the server does not decide.";
            return Err(RunbookError::Io(what.to_owned()));
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
    let (mut base, queries) = (Matrix::read(data, rows)?, read_queries(queries, metric)?);
    if metric == Metric::Cosine {
        // The truth is taken by squared distances, whose order is then the same.
        base.normalise();
    }
    if directory.exists() {
        std::fs::remove_dir_all(directory)
            .map_err(|error| RunbookError::Io(format!("Cannot remove the folder: {error}.")))?;
    }
    Ok((base, queries))
}

/// The first thousand queries. Errors: those of the file.
fn read_queries(file: &Path, metric: Metric) -> Result<Matrix, RunbookError> {
    let mut queries = Matrix::read(file, Some(1_000))?;
    if metric == Metric::Cosine {
        queries.normalise();
    }
    Ok(queries)
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

/// Copies the files of a folder of collections.
fn copy(from: &Path, to: &Path) -> Result<(), RunbookError> {
    let failed = |error| RunbookError::Io(format!("Cannot copy the collection: {error}."));
    std::fs::create_dir_all(to).map_err(failed)?;
    for entry in std::fs::read_dir(from).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let target = to.join(path.file_name().expect("an entry has a name"));
        if path.is_dir() {
            copy(&path, &target)?;
        } else {
            std::fs::copy(&path, &target).map_err(failed)?;
        }
    }
    Ok(())
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
        let InTurns { served_per_s, in_process_per_s, in_process_with_rows_per_s, .. } =
            self.in_turns;
        let share = 100.0 * served_per_s / in_process_per_s;
        let reached = |probes, rows| format!("{probes:.0}, {rows:.0}");
        let chosen = reached(self.probes as f64, self.refined_rows as f64);
        let turns = [
            ("queries, in turns with the next two", per_s(served_per_s)),
            ("an engine in a process, one thread, going as far", per_s(in_process_per_s)),
            ("the same, with the ids of rows read", per_s(in_process_with_rows_per_s)),
            ("leaves and rows of these", reached(self.in_turns.probes, self.in_turns.refined_rows)),
            ("served share of the process's queries", format!("{share:.0} %")),
        ];
        let mut lines = vec![
            ("points written, 1,000 in a request, each durable", per_s(self.upserts_per_s)),
            ("queries, 4 connections", per_s(self.served_per_s)),
            ("recall@10 of these", format!("{:.4}", self.served_recall)),
            ("leaves that each visits, and rows whose distance it takes", chosen),
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
        lines.extend(turns.map(|(what, value)| (what.to_owned(), value)));
        lines
    }
}
