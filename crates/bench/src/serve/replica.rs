//! What replicas are good for: how soon one answers, how far it is behind, and what it costs its writer.
//!
//! The writer is on the first core, the replica and the client on the second.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use rustix::process::{kill_process, Pid, Signal};
use serde::Serialize;

use super::client::Client;
use super::following::{median, Followed, Following};
use super::server::Server;
use super::traffic::fill;
use super::transport::{Grpc, Http, Transport};
use super::{pin, ServeSettings, COLLECTION, CORES, K};
use crate::runbook::{Matrix, RunbookError};
use crate::storage::truth;

/// Bytes of memory of the collection, so that its rows lie in segments.
const MEMORY: u64 = 256 << 20;
/// Queries whose nearest rows are known. An answer is right if nine of its ten rows are among them.
const QUERIES: usize = 16;
const RIGHT: usize = 9;
/// Starts whose times are taken.
const STARTS: usize = 5;
/// Longest wait for a replica.
const LONG: Duration = Duration::from_secs(300);
/// What was measured.
#[derive(Debug, Serialize)]
pub struct ReplicaReport {
    rows: usize,
    dimension: usize,
    folder_mib: f64,
    /// Milliseconds from exec to the first right answer, over the writer's folder.
    read_only_ms: Vec<f64>,
    /// The same of a reader of an object store to which the collection was pushed; none without a store.
    pushed_ms: Vec<f64>,
    /// The same of a replica with an empty folder, which fetches all files first.
    copied_ms: f64,
    /// The same of a replica with its own folder.
    again_ms: Vec<f64>,
    /// How it follows, case by case; none if starts alone were measured.
    following: Vec<Following>,
}

/// Measures. Errors: `Io`.
pub fn run_replica(
    base: &Matrix,
    queries: &Matrix,
    settings: &ServeSettings<'_>,
) -> Result<ReplicaReport, RunbookError> {
    pin(CORES[1])?;
    let bench = Bench::new(base, queries, settings)?;
    let writer = bench.writer()?;
    fill::<Http>(&writer, base, settings.metric, &serde_json::json!({"memory": MEMORY}))?;
    stop(writer)?;
    let mut read_only_ms = Vec::new();
    for _ in 0..STARTS {
        let begun = Instant::now();
        let reader = bench.start(settings.directory, &["--read-only"])?;
        read_only_ms.push(bench.first_right(&reader, begun)?);
    }
    let mut pushed_ms = Vec::new();
    if let Some(store) = settings.store {
        bench.push(store)?;
        for _ in 0..STARTS {
            let begun = Instant::now();
            let reader = bench.start(Path::new(store), &[])?;
            pushed_ms.push(bench.first_right(&reader, begun)?);
        }
    }
    let writer = bench.writer()?;
    let begun = Instant::now();
    let copied_ms = bench.first_right(&bench.replica(&writer)?, begun)?;
    let mut again_ms = Vec::new();
    for _ in 0..STARTS {
        let begun = Instant::now();
        let replica = bench.replica(&writer)?;
        again_ms.push(bench.first_right(&replica, begun)?);
        stop(replica)?;
    }
    let mut following = Vec::new();
    if !settings.starts_alone {
        let segments = bench.followed(&writer, &bench.copy, "in segments");
        following.push(segments.measure::<Http>()?);
        following.push(segments.measure::<Grpc>()?);
        stop(writer)?;
        let (here, there) = (bench.empty("memory")?, bench.empty("memory-copy")?);
        let writer = Server::with(settings.command, &here, CORES[0], &[])?;
        fill::<Grpc>(&writer, base, settings.metric, &serde_json::json!({}))?;
        following.push(bench.followed(&writer, &there, "in memory").measure::<Grpc>()?);
    }
    let (rows, dimension, folder_mib) = (base.rows(), base.dimension, mib(settings.directory)?);
    Ok(ReplicaReport {
        rows,
        dimension,
        folder_mib,
        read_only_ms,
        pushed_ms,
        copied_ms,
        again_ms,
        following,
    })
}

struct Bench<'a> {
    base: &'a Matrix,
    settings: &'a ServeSettings<'a>,
    copy: PathBuf,
    bodies: Vec<Vec<u8>>,
    truth: Vec<Vec<u64>>,
    /// The id of the next row that is written.
    next: AtomicU64,
}

impl<'a> Bench<'a> {
    fn new(
        base: &'a Matrix,
        queries: &Matrix,
        settings: &'a ServeSettings<'a>,
    ) -> Result<Bench<'a>, RunbookError> {
        let copy = empty(settings.directory, "copy")?;
        let mut some = Matrix { dimension: queries.dimension, values: Vec::new() };
        let count = QUERIES.min(queries.rows());
        (0..count).for_each(|at| some.values.extend_from_slice(queries.row(at)));
        let bodies = (0..count).map(|at| Http::question(queries.row(at))).collect();
        let truth = truth(base, &some).into_iter().map(|rows| rows[..K].to_vec()).collect();
        let next = AtomicU64::new(2 * base.rows() as u64);
        Ok(Bench { base, settings, copy, bodies, truth, next })
    }

    fn writer(&self) -> Result<Server, RunbookError> {
        Server::with(self.settings.command, self.settings.directory, CORES[0], &[])
    }

    fn start(&self, directory: &Path, more: &[&str]) -> Result<Server, RunbookError> {
        Server::with(self.settings.command, directory, CORES[1], more)
    }

    fn replica(&self, writer: &Server) -> Result<Server, RunbookError> {
        self.start(&self.copy, &["--follow", &format!("http://{}", writer.address)])
    }

    /// Pushes the collection to a store, where nothing is yet.
    fn push(&self, store: &str) -> Result<(), RunbookError> {
        let mut command = std::process::Command::new(self.settings.command);
        command.args(["snapshot", "push"]).arg(self.settings.directory.join(COLLECTION));
        let done = command.arg(format!("{store}/{COLLECTION}")).output().map_err(io)?;
        match done.status.success() {
            true => Ok(()),
            false => Err(RunbookError::Io(String::from_utf8_lossy(&done.stderr).into_owned())),
        }
    }

    /// An empty folder beside that of the collection.
    fn empty(&self, name: &str) -> Result<PathBuf, RunbookError> {
        empty(self.settings.directory, name)
    }

    fn followed<'b>(
        &'b self,
        writer: &'b Server,
        copy: &'b Path,
        rows_are: &'static str,
    ) -> Followed<'b> {
        let Bench { base, settings, next, .. } = self;
        Followed { base, settings, writer, copy, rows_are, next }
    }

    /// Milliseconds until every query was answered rightly once, the first of them as soon as it can be.
    fn first_right(&self, server: &Server, begun: Instant) -> Result<f64, RunbookError> {
        let mut first = None;
        for (body, truth) in self.bodies.iter().zip(&self.truth) {
            loop {
                let answer = Client::connect(server.address)?.json(body);
                let points = answer.map(|answer| answer["result"]["points"].clone());
                let points = points.unwrap_or_default().as_array().cloned().unwrap_or_default();
                let ids = points.iter().filter_map(|point| point["id"].as_u64());
                if ids.filter(|id| truth.contains(id)).count() >= RIGHT {
                    break;
                }
                if first.is_some() {
                    // A guard that has not decided yet may miss a row of a later query.
                    break;
                }
                if begun.elapsed() > LONG {
                    return Err(RunbookError::Io("The replica gives no right answer.".to_owned()));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            first.get_or_insert(begun.elapsed());
        }
        Ok(first.unwrap_or_default().as_secs_f64() * 1e3)
    }
}

fn empty(directory: &Path, name: &str) -> Result<PathBuf, RunbookError> {
    let folder = directory.with_extension(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(io)?;
    }
    Ok(folder)
}

/// Ends a server as an operator does.
fn stop(mut server: Server) -> Result<(), RunbookError> {
    let pid = i32::try_from(server.child.id()).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        kill_process(pid, Signal::TERM).map_err(|error| io(error.into()))?;
    }
    server.child.wait().map(|_| ()).map_err(io)
}

fn mib(folder: &Path) -> Result<f64, RunbookError> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        let found = entry.metadata().map_err(io)?;
        bytes += match found.is_dir() {
            true => (mib(&entry.path())? * f64::from(1 << 20)) as u64,
            false => found.len(),
        };
    }
    Ok(bytes as f64 / f64::from(1 << 20))
}

fn io(error: std::io::Error) -> RunbookError {
    RunbookError::Io(format!("{error}."))
}

impl ReplicaReport {
    /// The table that people read.
    pub fn table(&self) -> String {
        let line = |what: &str, value: String| format!("| {what} | {value} |\n");
        let mut out = format!(
            "{} rows of {} dimensions in segments, {MEMORY} bytes of memory; the writer on one core, replica \
             and client on another. An answer is right with nine of the ten nearest rows.\n\n\
             | what | |\n|---|---|\n",
            self.rows, self.dimension
        );
        let starts = |times: &[f64]| {
            let worst = times.iter().copied().fold(0.0, f64::max);
            format!("{:.0} ms, worst of {} {worst:.0}", median(times.iter().copied()), times.len())
        };
        let what = "exec to the first right answer, the writer's folder, read only";
        out += &line(what, starts(&self.read_only_ms));
        if !self.pushed_ms.is_empty() {
            let what = "the same, pushed to an object store and read where it is";
            out += &line(what, starts(&self.pushed_ms));
        }
        out += &line("the same, a replica with its own folder", starts(&self.again_ms));
        out += &line(
            "the same, an empty folder: all files are fetched",
            format!("{:.0} ms", self.copied_ms),
        );
        self.following.iter().for_each(|following| out += &following.lines());
        out
    }
}
