//! What replicas are good for: how soon one answers, how far it is behind, and what it costs its writer.
//!
//! The writer is on the first core, the replica and the client on the second.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::{kill_process, Pid, Signal};
use serde::Serialize;

use super::client::{request, Client};
use super::server::Server;
use super::traffic::fill;
use super::transport::{Http, Transport};
use super::{path, pin, ServeSettings, BATCH, COLLECTION, CORES, K};
use crate::runbook::{Matrix, RunbookError};
use crate::storage::truth;
use crate::times::Percentiles;

/// Bytes of memory of the collection, so that its rows lie in segments.
const MEMORY: u64 = 256 << 20;
/// Queries whose nearest rows are known. An answer is right if nine of its ten rows are among them.
const QUERIES: usize = 16;
const RIGHT: usize = 9;
/// Starts whose times are taken.
const STARTS: usize = 5;
/// Longest wait for a replica.
const LONG: Duration = Duration::from_secs(300);
/// Rows per second while the distance is measured, in requests of so many rows.
const RATE: u64 = 20_000;
const ROWS: usize = 200;
/// Pairs of rounds with and without a replica.
const ROUNDS: usize = 4;
/// Rows per second of these rounds, which leave the writer time to spare.
const STEADY: u64 = 10_000;

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
    /// How it follows; `None` if starts alone were measured.
    following: Option<Following>,
}

/// How a replica follows, and what it costs.
#[derive(Debug, Serialize)]
struct Following {
    /// Rows per second that came while the distance was measured.
    came: f64,
    /// Microseconds from the answer to a write until the replica has it.
    lag: Percentiles,
    /// Rounds at a steady rate without a replica, and with one.
    alone: Vec<Round>,
    followed: Vec<Round>,
}

/// What a writer did at a steady rate.
#[derive(Debug, Serialize)]
struct Round {
    /// Rows per second that came.
    per_s: f64,
    /// Its seconds of processor per million rows.
    cpu_s_per_million: f64,
    /// Microseconds from when a request was due to its answer.
    p50: f64,
    p99: f64,
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
    let following = match settings.starts_alone {
        true => None,
        false => Some(bench.following(&writer)?),
    };
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
        let copy = settings.directory.with_extension("copy");
        if copy.exists() {
            fs::remove_dir_all(&copy).map_err(io)?;
        }
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

    /// How far a replica is behind, and rounds with and without one.
    fn following(&self, writer: &Server) -> Result<Following, RunbookError> {
        let replica = self.replica(writer)?;
        self.first_right(&replica, Instant::now())?;
        let (came, lag) = self.distance(writer, &replica)?;
        drop(replica);
        let (mut alone, mut followed) = (Vec::new(), Vec::new());
        self.round(writer)?;
        for _ in 0..ROUNDS {
            alone.push(self.round(writer)?);
            let replica = self.replica(writer)?;
            self.caught_up(writer, &replica)?;
            followed.push(self.round(writer)?);
        }
        Ok(Following { came, lag, alone, followed })
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

    /// Requests that write rows under new ids.
    fn requests(&self, count: usize, rows: usize) -> Vec<Vec<u8>> {
        let made = |at: usize| {
            let first = self.next.fetch_add(rows as u64, Ordering::Relaxed) as usize;
            let from = at * rows % (self.base.rows() - rows);
            Http::points(self.base, from..from + rows, first)
        };
        (0..count).map(made).collect()
    }

    /// Writes at [`RATE`]; the rows per second that came, and how long after its answer each write was at
    /// the replica.
    fn distance(
        &self,
        writer: &Server,
        replica: &Server,
    ) -> Result<(f64, Percentiles), RunbookError> {
        let every = Duration::from_secs_f64(ROWS as f64 / RATE as f64);
        let count = (2 * self.settings.phase).as_nanos() / every.as_nanos();
        let requests = self.requests(count as usize, ROWS);
        let (acknowledged, is_over) = (Mutex::new(Vec::new()), AtomicBool::new(false));
        let (next, begun) = (AtomicU64::new(0), Instant::now());
        let seen = std::thread::scope(|scope| {
            let watch = scope.spawn(|| -> Result<Vec<(u64, Duration)>, RunbookError> {
                let (mut client, mut seen) = (Client::connect(replica.address)?, Vec::new());
                let one =
                    request("POST", &path("/points"), "{\"ids\": [1], \"with_payload\": false}");
                while !is_over.load(Ordering::Relaxed) {
                    seen.push((client.sequence(&one)?, begun.elapsed()));
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(seen)
            });
            let write = || -> Result<(), RunbookError> {
                let mut client = Client::connect(writer.address)?;
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed) as usize;
                    let Some(one) = requests.get(at) else { return Ok(()) };
                    if let Some(early) = (every * at as u32).checked_sub(begun.elapsed()) {
                        std::thread::sleep(early);
                    }
                    let sequence = client.sequence(one)?;
                    let mut all = acknowledged.lock().expect("no panic");
                    all.push((sequence, begun.elapsed()));
                }
            };
            let threads = [scope.spawn(write), scope.spawn(write)];
            let done = threads.into_iter().try_for_each(|one| one.join().expect("no panic"));
            std::thread::sleep(Duration::from_secs(3));
            is_over.store(true, Ordering::Relaxed);
            let seen = watch.join().expect("no panic");
            done.and(seen)
        })?;
        let all = acknowledged.into_inner().expect("no panic");
        let last = all.iter().map(|(_, at)| *at).max().unwrap_or_default();
        let came = (all.len() * ROWS) as f64 / last.as_secs_f64();
        let mut lags = Vec::new();
        for (sequence, at) in all {
            let found = seen.partition_point(|(there, _)| *there < sequence);
            let there = seen.get(found);
            let (_, there) = there.ok_or_else(|| {
                RunbookError::Io("The replica did not catch up within 3 s.".to_owned())
            })?;
            lags.push(there.saturating_sub(at).as_nanos() as u64);
        }
        Ok((came, Percentiles::of(&mut lags)))
    }

    /// Waits until a replica has what its writer has.
    fn caught_up(&self, writer: &Server, replica: &Server) -> Result<(), RunbookError> {
        let one = request("POST", &path("/points"), "{\"ids\": [1], \"with_payload\": false}");
        let wanted = Client::connect(writer.address)?.sequence(&one)?;
        let begun = Instant::now();
        while begun.elapsed() < LONG {
            let has = Client::connect(replica.address)?.sequence(&one);
            if has.is_ok_and(|has| has >= wanted) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(RunbookError::Io("The replica does not catch up.".to_owned()))
    }

    /// Writes at [`STEADY`], the same rows per round with and without a replica, so that merges take as much.
    fn round(&self, writer: &Server) -> Result<Round, RunbookError> {
        let every = Duration::from_secs_f64(BATCH as f64 / STEADY as f64);
        let count = self.settings.phase.as_nanos() / every.as_nanos();
        let requests = self.requests(count as usize, BATCH);
        let (before, next, begun) = (cpu_seconds(writer)?, AtomicU64::new(0), Instant::now());
        let mut times = std::thread::scope(|scope| {
            let write = || -> Result<Vec<u64>, RunbookError> {
                let (mut client, mut times) = (Client::connect(writer.address)?, Vec::new());
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed) as usize;
                    let Some(one) = requests.get(at) else { return Ok(times) };
                    let due = every * at as u32;
                    if let Some(early) = due.checked_sub(begun.elapsed()) {
                        std::thread::sleep(early);
                    }
                    client.call(one)?;
                    times.push((begun.elapsed() - due).as_nanos() as u64);
                }
            };
            let threads = [scope.spawn(write), scope.spawn(write)];
            let mut all = Vec::new();
            for thread in threads {
                all.extend(thread.join().expect("no panic")?);
            }
            Ok::<_, RunbookError>(all)
        })?;
        let rows = (requests.len() * BATCH) as f64;
        let per_s = rows / begun.elapsed().as_secs_f64();
        let cpu_s_per_million = (cpu_seconds(writer)? - before) / rows * 1e6;
        let times = Percentiles::of(&mut times);
        Ok(Round { per_s, cpu_s_per_million, p50: times.p50, p99: times.p99 })
    }
}

/// Ends a server as an operator does.
fn stop(mut server: Server) -> Result<(), RunbookError> {
    let pid = i32::try_from(server.child.id()).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        kill_process(pid, Signal::TERM).map_err(|error| io(error.into()))?;
    }
    server.child.wait().map(|_| ()).map_err(io)
}

/// Seconds that the processors have spent on a server.
fn cpu_seconds(server: &Server) -> Result<f64, RunbookError> {
    let text = fs::read_to_string(format!("/proc/{}/stat", server.child.id())).map_err(io)?;
    // The name of the program may have blanks; the times of user and system are the 12th and 13th after it.
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut times = rest.split_whitespace().skip(11).filter_map(|word| word.parse::<f64>().ok());
    let ticks = times.next().unwrap_or_default() + times.next().unwrap_or_default();
    Ok(ticks / rustix::param::clock_ticks_per_second() as f64)
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

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
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
        if let Some(following) = &self.following {
            out += &following.lines();
        }
        out
    }
}

impl Following {
    /// Its lines of the table.
    fn lines(&self) -> String {
        let line = |what: &str, value: String| format!("| {what} | {value} |\n");
        let ms = |us: f64| us / 1e3;
        let mut out = line(
            &format!(
                "behind the answer to a write, at {:.0} rows/s in requests of {ROWS}",
                self.came
            ),
            format!("p50 {:.0} ms, p99 {:.0} ms", ms(self.lag.p50), ms(self.lag.p99)),
        );
        let of = |value: fn(&Round) -> f64| {
            let median = |rounds: &[Round]| median(rounds.iter().map(value));
            (median(&self.alone), median(&self.followed))
        };
        let change = |(alone, followed): (f64, f64)| 100.0 * (followed / alone - 1.0);
        let (came, cpu) = (of(|round| round.per_s), of(|round| round.cpu_s_per_million));
        out += &line(
            &format!(
                "the writer's seconds of processor per million rows, {:.0} and {:.0} rows/s came",
                came.0, came.1
            ),
            format!("alone {:.1}, followed {:.1}: {:+.1} %", cpu.0, cpu.1, change(cpu)),
        );
        let (p50, p99) = (of(|round| round.p50), of(|round| round.p99));
        out += &line(
            &format!("time of a request of {BATCH} rows then, p50 and p99"),
            format!(
                "alone {:.0} and {:.0} ms, followed {:.0} and {:.0} ms",
                ms(p50.0),
                ms(p99.0),
                ms(p50.1),
                ms(p99.1)
            ),
        );
        out
    }
}
