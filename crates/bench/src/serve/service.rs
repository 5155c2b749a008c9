//! How long a query takes on a server of one core, and how long such a server takes to start: what the
//! simulation of a coordinator stands on.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use vstream_vector::Metric;

use super::client::{request, Client};
use super::scale_out::{scale_out, table, ScaleOut};
use super::server::Server;
use super::traffic::{fill, recall};
use super::transport::{Http, Transport};
use super::{path, pin, CORES, K};
use crate::runbook::{Matrix, RunbookError};

/// Queries before those that are timed: the recall guard decides meanwhile.
const WARM_UP: Duration = Duration::from_secs(5);
/// Rounds of queries. The tenth of them with the least means counts: where others compute beside, the
/// rest measures them.
const ROUNDS: usize = 100;
/// Exact searches of one request to the real replicas, so that the client is not what is measured.
const TOGETHER: usize = 16;
/// Quantiles of the times that are kept.
const QUANTILES: usize = 2_000;

/// What to measure.
pub struct ServiceSettings<'a> {
    /// The command to start.
    pub command: &'a Path,
    /// Folder for the collections.
    pub directory: &'a Path,
    /// Of the vectors.
    pub metric: Metric,
    /// Recall that queries ask for when nothing waits, and when much does.
    pub recalls: [f64; 2],
    /// Queries of a round.
    pub queries: usize,
    /// Starts that are timed.
    pub starts: usize,
    /// Whether a coordinator runs real replicas, too.
    pub is_real: bool,
}

/// What was measured; times are in seconds.
#[derive(Debug, Serialize)]
pub struct ServiceReport {
    rows: usize,
    dimension: usize,
    k: usize,
    target_recall_asked: f64,
    target_recall: f64,
    floor_recall_asked: f64,
    floor_recall: f64,
    /// Quantiles of the times of queries over one connection, at the target and at the floor.
    target_s: Vec<f64>,
    floor_s: Vec<f64>,
    /// From the order to start the process to the answer of its first query.
    starts_s: Vec<f64>,
    /// A coordinator with real replicas.
    scale_out: Vec<ScaleOut>,
}

impl ServiceReport {
    /// The table of the real replicas.
    pub fn table(&self) -> String {
        if self.scale_out.is_empty() {
            return String::new();
        }
        table(&self.scale_out)
    }
}

/// Measures. Errors: `Io`.
pub fn measure_service(
    base: &Matrix,
    queries: &Matrix,
    settings: &ServiceSettings<'_>,
) -> Result<ServiceReport, RunbookError> {
    pin(CORES[1])?;
    let bodies: Vec<Vec<u8>> =
        (0..queries.rows()).map(|at| Http::question(queries.row(at))).collect();
    let [target, floor] = settings.recalls;
    let (target_s, target_recall) = times(base, queries, &bodies, settings, target)?;
    let (floor_s, floor_recall) = times(base, queries, &bodies, settings, floor)?;
    let mut starts_s = Vec::new();
    for _ in 0..settings.starts {
        let begun = Instant::now();
        let server = Server::start(settings.command, &folder(settings, target))?;
        Client::connect(server.address)?.call(&bodies[0])?;
        starts_s.push(begun.elapsed().as_secs_f64());
    }
    let scale_out = if settings.is_real { real(queries, settings)? } else { Vec::new() };
    Ok(ServiceReport {
        rows: base.rows(),
        dimension: base.dimension,
        k: K,
        target_recall_asked: target,
        target_recall,
        floor_recall_asked: floor,
        floor_recall,
        target_s,
        floor_s,
        starts_s,
        scale_out,
    })
}

/// Runs a coordinator with real replicas, which get requests of some milliseconds.
fn real(queries: &Matrix, settings: &ServiceSettings<'_>) -> Result<Vec<ScaleOut>, RunbookError> {
    let heavy: Vec<Vec<u8>> =
        (0..queries.rows() / TOGETHER).map(|at| exact(queries, at * TOGETHER)).collect();
    let server = Server::start(settings.command, &folder(settings, settings.recalls[0]))?;
    let (mut client, begun, mut asked) = (Client::connect(server.address)?, Instant::now(), 0);
    while begun.elapsed() < WARM_UP {
        client.call(&heavy[asked % heavy.len()])?;
        asked += 1;
    }
    let rate = asked as f64 / begun.elapsed().as_secs_f64();
    drop(server);
    let copies = settings.directory.join("copies");
    let collection = folder(settings, settings.recalls[0]);
    scale_out(settings.command, &collection, &copies, &heavy, rate)
}

/// A request of some milliseconds: exact searches for queries from `first` on.
fn exact(queries: &Matrix, first: usize) -> Vec<u8> {
    let search = |at: usize| {
        let params = serde_json::json!({"exact": true});
        serde_json::json!({"query": queries.row(at), "limit": K, "params": params})
    };
    let searches: Vec<_> = (first..first + TOGETHER).map(search).collect();
    let body = serde_json::json!({"searches": searches}).to_string();
    request("POST", &path("/points/query/batch"), &body)
}

fn folder(settings: &ServiceSettings<'_>, recall: f64) -> std::path::PathBuf {
    settings.directory.join(format!("{recall}"))
}

/// Quantiles of times at a recall, and the recall that they gave.
fn times(
    base: &Matrix,
    queries: &Matrix,
    bodies: &[Vec<u8>],
    settings: &ServiceSettings<'_>,
    asked: f64,
) -> Result<(Vec<f64>, f64), RunbookError> {
    let server = Server::start(settings.command, &folder(settings, asked))?;
    fill::<Http>(&server, base, settings.metric, &serde_json::json!({"recall_target": asked}))?;
    let mut client = Client::connect(server.address)?;
    let begun = Instant::now();
    let mut ask = bodies.iter().cycle();
    while begun.elapsed() < WARM_UP {
        client.call(ask.next().expect("there are queries"))?;
    }
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let mut times = Vec::with_capacity(settings.queries);
        for body in ask.by_ref().take(settings.queries) {
            let begun = Instant::now();
            client.call(body)?;
            times.push(begun.elapsed().as_secs_f64());
        }
        rounds.push(times);
    }
    let total = |times: &Vec<f64>| times.iter().sum::<f64>();
    rounds.sort_by(|one, other| total(one).total_cmp(&total(other)));
    rounds.truncate(ROUNDS / 10);
    let mut times = rounds.concat();
    times.sort_by(f64::total_cmp);
    let last = times.len().saturating_sub(1);
    let quantiles = (0..=QUANTILES).map(|at| times[at * last / QUANTILES]).collect();
    Ok((quantiles, recall::<Http>(&server, base, queries, bodies)?))
}
