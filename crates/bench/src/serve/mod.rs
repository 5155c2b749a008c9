//! What serving over HTTP costs beside the engine in the process, and what writes cost queries.
//!
//! The server is a process of its own on the first core, the client on the second. The engine in the
//! process gets the first core too, after the server has ended.

mod client;
mod replica;
mod scale_out;
mod service;

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{sched_setaffinity, CpuSet};
use serde::Serialize;
use vstream_engine::{Effort, Engine, Query, Scratch, With};
use vstream_vector::{Metric, SplitMix};

pub use self::service::{measure_service, ServiceReport, ServiceSettings};

use self::client::{request, Client};
pub use self::replica::{run_replica, ReplicaReport};
use crate::runbook::{Matrix, RunbookError};
use crate::storage::truth;
use crate::times::Percentiles;

/// Neighbours of a query.
const K: usize = 10;
/// Points of a request.
const BATCH: usize = 1_000;
/// Core of the server and of the engine; core of the client.
const CORES: [usize; 2] = [0, 1];
/// Connections that search as fast as they can.
const CONNECTIONS: usize = 4;
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
}

/// What was measured. Times are in microseconds.
#[derive(Debug, Serialize)]
pub struct ServeReport {
    rows: usize,
    dimension: usize,
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

/// A server that ends with this.
struct Server {
    child: Child,
    address: SocketAddr,
    metrics: SocketAddr,
    /// What it says later is not read, and must not fail.
    _out: BufReader<ChildStdout>,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(command: &Path, directory: &Path) -> Result<Server, RunbookError> {
        Server::with(command, directory, CORES[0], &[])
    }

    /// Starts a server of a folder on a core.
    ///
    /// * `more`: further arguments.
    fn with(
        command: &Path,
        directory: &Path,
        core: usize,
        more: &[&str],
    ) -> Result<Server, RunbookError> {
        let failed = |error| RunbookError::Io(format!("Cannot start the server: {error}."));
        let mut child = Command::new("taskset")
            .args(["-c", &core.to_string()])
            .arg(command)
            .args(["serve", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"])
            .arg(directory)
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut said = || -> Result<SocketAddr, RunbookError> {
            let mut line = String::new();
            out.read_line(&mut line).map_err(failed)?;
            let text = line.trim().trim_end_matches("/metrics");
            let address = text.rsplit('/').next().and_then(|address| address.parse().ok());
            address.ok_or_else(|| RunbookError::Io(format!("The server said '{text}'.")))
        };
        let (address, metrics) = (said()?, said()?);
        Ok(Server { child, address, metrics, _out: out })
    }

    /// Leaves that a query visits now.
    fn probes(&self) -> Result<usize, RunbookError> {
        let mut client = Client::connect(self.metrics)?;
        let body = client.call(&request("GET", "/metrics", ""))?;
        let text = String::from_utf8_lossy(body);
        let line = text.lines().find_map(|line| line.strip_prefix("vstream_probes{"));
        let probes = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
        probes.ok_or_else(|| RunbookError::Io("The server does not say its probes.".to_owned()))
    }
}

/// Measures. Errors: `Io`.
pub fn run(
    base: &Matrix,
    queries: &Matrix,
    settings: &ServeSettings<'_>,
) -> Result<ServeReport, RunbookError> {
    pin(CORES[1])?;
    let server = Server::start(settings.command, settings.directory)?;
    let upserts_per_s = fill(&server, base, settings.metric, &serde_json::json!({}))?;
    let bodies: Vec<Vec<u8>> = (0..queries.rows()).map(|at| question(queries.row(at))).collect();
    // Until the recall guard has decided.
    closed(&server, &bodies, settings.phase)?;
    let served_per_s = closed(&server, &bodies, settings.phase)?;
    let probes = server.probes()?;
    let served_recall = recall(&server, base, queries, &bodies)?;
    let half_load = open(&server, &bodies, served_per_s / 2.0, settings.phase, CONNECTIONS)?;
    let idle = open(&server, &bodies, 100.0, settings.phase * 2, 1)?;
    let mut beside = Vec::new();
    for &rate in &settings.rates {
        beside.push(streaming(&server, base, &bodies, rate, settings.phase * 2)?);
    }
    drop(server);
    let (in_process_per_s, in_process_with_rows_per_s) = in_process(queries, settings, probes)?;
    Ok(ServeReport {
        rows: base.rows(),
        dimension: base.dimension,
        upserts_per_s,
        served_per_s,
        served_recall,
        probes,
        in_process_per_s,
        in_process_with_rows_per_s,
        half_load,
        idle,
        beside,
    })
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

fn question(vector: &[f32]) -> Vec<u8> {
    let body = serde_json::json!({"query": vector, "limit": K}).to_string();
    request("POST", &path("/points/query"), &body)
}

/// A request that writes rows under ids from `first` on.
fn points(base: &Matrix, rows: impl Iterator<Item = usize>, first: usize) -> Vec<u8> {
    let points: Vec<_> = rows
        .enumerate()
        .map(|(at, row)| {
            let payload = serde_json::json!({"part": row % 10});
            serde_json::json!({"id": first + at, "vector": base.row(row), "payload": payload})
        })
        .collect();
    let body = serde_json::json!({"points": points}).to_string();
    request("PUT", &path("/points?wait=true"), &body)
}

/// Writes all rows; rows per second from request to durable answer, two requests at a time.
///
/// * `own`: settings of the collection that are ours, such as `{"memory": 1000000}`.
fn fill(
    server: &Server,
    base: &Matrix,
    metric: Metric,
    own: &serde_json::Value,
) -> Result<f64, RunbookError> {
    let distance = match metric {
        Metric::Cosine => "Cosine",
        Metric::L2 => "Euclid",
        Metric::InnerProduct => "Dot",
    };
    let vectors = serde_json::json!({"size": base.dimension, "distance": distance});
    let create = serde_json::json!({"vectors": vectors, "vstream": own}).to_string();
    Client::connect(server.address)?.call(&request("PUT", &path(""), &create))?;
    let firsts: Vec<usize> = (0..base.rows()).step_by(BATCH).collect();
    // Made before the clock starts: it is the server that is measured.
    let mut spent = Duration::ZERO;
    for some in firsts.chunks(40) {
        let requests: Vec<Vec<u8>> = some
            .iter()
            .map(|&first| points(base, first..(first + BATCH).min(base.rows()), first))
            .collect();
        let begun = Instant::now();
        let next = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let send = || -> Result<(), RunbookError> {
                let mut client = Client::connect(server.address)?;
                while let Some(one) = requests.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    client.call(one)?;
                }
                Ok(())
            };
            let threads = [scope.spawn(send), scope.spawn(send)];
            threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
        })?;
        spent += begun.elapsed();
    }
    Ok(base.rows() as f64 / spent.as_secs_f64())
}

/// Queries per second of connections that ask as fast as they are answered.
fn closed(server: &Server, bodies: &[Vec<u8>], time: Duration) -> Result<f64, RunbookError> {
    let (asked, begun) = (AtomicU64::new(0), Instant::now());
    std::thread::scope(|scope| {
        let ask = || -> Result<(), RunbookError> {
            let mut client = Client::connect(server.address)?;
            while begun.elapsed() < time {
                let at = asked.fetch_add(1, Ordering::Relaxed) as usize;
                client.call(&bodies[at % bodies.len()])?;
            }
            Ok(())
        };
        let threads: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    Ok(asked.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64())
}

/// Times of queries that come at a rate, from when each was due.
fn open(
    server: &Server,
    bodies: &[Vec<u8>],
    rate: f64,
    time: Duration,
    connections: usize,
) -> Result<Percentiles, RunbookError> {
    let (next, begun) = (AtomicU64::new(0), Instant::now());
    let mut times = std::thread::scope(|scope| {
        let ask = || -> Result<Vec<u64>, RunbookError> {
            let (mut client, mut times) = (Client::connect(server.address)?, Vec::new());
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let due = Duration::from_secs_f64(at as f64 / rate);
                if due > time {
                    return Ok(times);
                }
                if let Some(early) = due.checked_sub(begun.elapsed()) {
                    std::thread::sleep(early);
                }
                client.call(&bodies[at as usize % bodies.len()])?;
                times.push((begun.elapsed() - due).as_nanos() as u64);
            }
        };
        let threads: Vec<_> = (0..connections).map(|_| scope.spawn(ask)).collect();
        let mut all = Vec::new();
        for thread in threads {
            all.extend(thread.join().expect("no panic")?);
        }
        Ok::<_, RunbookError>(all)
    })?;
    Ok(Percentiles::of(&mut times))
}

/// Times of 100 queries per second while rows arrive: under new ids, in requests of a tenth of a second.
fn streaming(
    server: &Server,
    base: &Matrix,
    bodies: &[Vec<u8>],
    rate: u64,
    time: Duration,
) -> Result<(u64, f64, Percentiles), RunbookError> {
    let per_request = (rate / 10).max(1) as usize;
    let mut random = SplitMix(rate);
    let first = base.rows() * 2 + rate as usize * 1_000_000;
    let requests: Vec<Vec<u8>> = (0..time.as_millis() as usize / 100)
        .map(|at| {
            let rows = (0..per_request).map(|_| (random.next() % base.rows() as u64) as usize);
            points(base, rows.collect::<Vec<_>>().into_iter(), first + at * per_request)
        })
        .collect();
    let (is_over, written, begun) = (AtomicBool::new(false), AtomicU64::new(0), Instant::now());
    let times = std::thread::scope(|scope| {
        let write = scope.spawn(|| -> Result<(), RunbookError> {
            let mut client = Client::connect(server.address)?;
            for (at, one) in requests.iter().enumerate() {
                let due = Duration::from_millis(100 * at as u64);
                if let Some(early) = due.checked_sub(begun.elapsed()) {
                    std::thread::sleep(early);
                }
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                client.call(one)?;
                written.fetch_add(per_request as u64, Ordering::Relaxed);
            }
            Ok(())
        });
        let times = open(server, bodies, 100.0, time, 1);
        is_over.store(true, Ordering::Relaxed);
        write.join().expect("no panic").and(times)
    })?;
    let came = written.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64();
    Ok((rate, came, times))
}

/// Recall@10 of answers over the connection.
fn recall(
    server: &Server,
    base: &Matrix,
    queries: &Matrix,
    bodies: &[Vec<u8>],
) -> Result<f64, RunbookError> {
    let truth = truth(base, queries);
    let mut client = Client::connect(server.address)?;
    let mut found = 0;
    for (body, truth) in bodies.iter().zip(&truth) {
        let answer = client.json(body)?;
        let points = answer["result"]["points"].as_array().cloned().unwrap_or_default();
        let ids = points.iter().filter_map(|point| point["id"].as_u64());
        found += ids.filter(|id| truth[..K].contains(id)).count();
    }
    Ok(found as f64 / (bodies.len() * K) as f64)
}

/// Queries per second of the same collection in this process on the server's core: of ids and distances
/// alone, and with the rows' ids read as the server must.
fn in_process(
    queries: &Matrix,
    settings: &ServeSettings<'_>,
    probes: usize,
) -> Result<(f64, f64), RunbookError> {
    pin(CORES[0])?;
    let failed = |error: vstream_engine::Error| RunbookError::Io(error.to_string());
    let engine = Engine::open(&settings.directory.join(COLLECTION)).map_err(failed)?;
    let (reader, mut scratch, mut out) = (engine.reader(), Scratch::new(), Vec::new());
    engine.catch_up();
    let mut measure = |with_rows: bool| -> Result<f64, RunbookError> {
        let (begun, mut asked) = (Instant::now(), 0);
        while begun.elapsed() < settings.phase {
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
        let line = |what: &str, value: String| format!("| {what} | {value} |\n");
        let mut out = format!(
            "{} rows of {} dimensions; the server on one core, the client on another. Times in ms, \
             p50 / p99 / p99.9.\n\n| what | |\n|---|---|\n",
            self.rows, self.dimension
        );
        let per_s = |value: f64| format!("{value:.0}/s");
        let share = 100.0 * self.served_per_s / self.in_process_per_s;
        out += &line("points written, 1,000 in a request, each durable", per_s(self.upserts_per_s));
        out += &line(
            "queries, 4 connections",
            format!("{} at recall@10 {:.4}", per_s(self.served_per_s), self.served_recall),
        );
        let what = format!("queries in the process, one thread, the same {} probes", self.probes);
        out += &line(&what, per_s(self.in_process_per_s));
        out += &line("the same, with the ids of rows read", per_s(self.in_process_with_rows_per_s));
        out += &line("served share of the process's queries", format!("{share:.0} %"));
        let ms = |times: &Percentiles| {
            format!("{:.2} / {:.2} / {:.2}", times.p50 / 1e3, times.p99 / 1e3, times.p999 / 1e3)
        };
        out += &line("at half of that rate", ms(&self.half_load));
        out += &line("100 queries/s, nothing else", ms(&self.idle));
        for (rate, came, times) in &self.beside {
            let what = format!("beside {rate} rows/s ({came:.0} came)");
            let ratio = times.p99 / self.idle.p99;
            out += &line(&what, format!("{}; p99 {ratio:.2} x idle", ms(times)));
        }
        out
    }
}
