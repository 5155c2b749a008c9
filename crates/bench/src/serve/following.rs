//! How far a replica is behind its writer, and what it costs it.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::client::{request, Client};
use super::server::Server;
use super::transport::Transport;
use super::{path, ServeSettings, BATCH, CORES};
use crate::runbook::{Matrix, RunbookError};
use crate::times::Percentiles;

/// Longest wait for a replica.
const LONG: Duration = Duration::from_secs(300);
/// Rows per second while the distance is measured, in requests of so many rows.
const RATE: u64 = 20_000;
const ROWS: usize = 200;
/// Pairs of rounds with and without a replica.
const ROUNDS: usize = 4;
/// Rows per second of these rounds, which leave the writer time to spare.
const STEADY: u64 = 10_000;

/// How a replica follows, and what it costs.
#[derive(Debug, Serialize)]
pub(super) struct Following {
    /// Where the rows are, and how they come.
    rows_are: &'static str,
    transport: &'static str,
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

/// A writer, and where its replica has its copy.
pub(super) struct Followed<'a> {
    pub(super) base: &'a Matrix,
    pub(super) settings: &'a ServeSettings<'a>,
    pub(super) writer: &'a Server,
    pub(super) copy: &'a Path,
    pub(super) rows_are: &'static str,
    /// The id of the next row that is written.
    pub(super) next: &'a AtomicU64,
}

impl Followed<'_> {
    /// How far a replica is behind, and rounds with and without one. Errors: `Io`.
    pub(super) fn measure<T: Transport>(&self) -> Result<Following, RunbookError> {
        let replica = self.replica()?;
        self.caught_up(&replica)?;
        let (came, lag) = self.distance::<T>(&replica)?;
        drop(replica);
        let (mut alone, mut followed) = (Vec::new(), Vec::new());
        self.round::<T>()?;
        for _ in 0..ROUNDS {
            alone.push(self.round::<T>()?);
            let replica = self.replica()?;
            self.caught_up(&replica)?;
            followed.push(self.round::<T>()?);
        }
        let (rows_are, transport) = (self.rows_are, T::NAME);
        Ok(Following { rows_are, transport, came, lag, alone, followed })
    }

    fn replica(&self) -> Result<Server, RunbookError> {
        let writer = format!("http://{}", self.writer.address);
        Server::with(self.settings.command, self.copy, CORES[1], &["--follow", &writer])
    }

    /// Requests that write rows under new ids.
    fn requests<T: Transport>(&self, count: usize, rows: usize) -> Vec<T::Points> {
        let made = |at: usize| {
            let first = self.next.fetch_add(rows as u64, Ordering::Relaxed) as usize;
            let from = at * rows % (self.base.rows() - rows);
            T::points(self.base, from..from + rows, first)
        };
        (0..count).map(made).collect()
    }

    /// Writes at [`RATE`]; the rows per second that came, and how long after its answer each write was at
    /// the replica.
    fn distance<T: Transport>(&self, replica: &Server) -> Result<(f64, Percentiles), RunbookError> {
        let every = Duration::from_secs_f64(ROWS as f64 / RATE as f64);
        let count = (2 * self.settings.phase).as_nanos() / every.as_nanos();
        let requests = self.requests::<T>(count as usize, ROWS);
        let (acknowledged, is_over) = (Mutex::new(Vec::new()), AtomicBool::new(false));
        let (next, begun) = (AtomicU64::new(0), Instant::now());
        let seen = std::thread::scope(|scope| {
            let watch = scope.spawn(|| -> Result<Vec<(u64, Duration)>, RunbookError> {
                let (mut client, mut seen) = (Client::connect(replica.address)?, Vec::new());
                let one = look();
                while !is_over.load(Ordering::Relaxed) {
                    seen.push((client.sequence(&one)?, begun.elapsed()));
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(seen)
            });
            let write = || -> Result<(), RunbookError> {
                let mut connection = T::connect(self.writer.address)?;
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed) as usize;
                    let Some(one) = requests.get(at) else { return Ok(()) };
                    if let Some(early) = (every * at as u32).checked_sub(begun.elapsed()) {
                        std::thread::sleep(early);
                    }
                    let sequence = T::write(&mut connection, one)?;
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
    fn caught_up(&self, replica: &Server) -> Result<(), RunbookError> {
        let one = look();
        let wanted = Client::connect(self.writer.address)?.sequence(&one)?;
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
    fn round<T: Transport>(&self) -> Result<Round, RunbookError> {
        let every = Duration::from_secs_f64(BATCH as f64 / STEADY as f64);
        let count = self.settings.phase.as_nanos() / every.as_nanos();
        let requests = self.requests::<T>(count as usize, BATCH);
        let (before, next, begun) = (cpu_seconds(self.writer)?, AtomicU64::new(0), Instant::now());
        let mut times = std::thread::scope(|scope| {
            let write = || -> Result<Vec<u64>, RunbookError> {
                let (mut connection, mut times) = (T::connect(self.writer.address)?, Vec::new());
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed) as usize;
                    let Some(one) = requests.get(at) else { return Ok(times) };
                    let due = every * at as u32;
                    if let Some(early) = due.checked_sub(begun.elapsed()) {
                        std::thread::sleep(early);
                    }
                    T::write(&mut connection, one)?;
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
        let cpu_s_per_million = (cpu_seconds(self.writer)? - before) / rows * 1e6;
        let times = Percentiles::of(&mut times);
        Ok(Round { per_s, cpu_s_per_million, p50: times.p50, p99: times.p99 })
    }
}

/// A read whose answer says how far a server is.
fn look() -> Vec<u8> {
    request("POST", &path("/points"), "{\"ids\": [1], \"with_payload\": false}")
}

/// Seconds that the processors have spent on a server.
fn cpu_seconds(server: &Server) -> Result<f64, RunbookError> {
    let text = fs::read_to_string(format!("/proc/{}/stat", server.child.id()));
    let text = text.map_err(|error| RunbookError::Io(format!("{error}.")))?;
    // The name of the program may have blanks; the times of user and system are the 12th and 13th after it.
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut times = rest.split_whitespace().skip(11).filter_map(|word| word.parse::<f64>().ok());
    let ticks = times.next().unwrap_or_default() + times.next().unwrap_or_default();
    Ok(ticks / rustix::param::clock_ticks_per_second() as f64)
}

pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

impl Following {
    /// Its lines of the table.
    pub(super) fn lines(&self) -> String {
        let line = |what: &str, value: String| format!("| {what} | {value} |\n");
        let ms = |us: f64| us / 1e3;
        let mut out = line(
            &format!(
                "rows {}, over {}: behind the answer to a write, at {:.0} rows/s in requests of {ROWS}",
                self.rows_are, self.transport, self.came
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
            format!(
                "alone {:.1} ({}), followed {:.1} ({}): {:+.1} %",
                cpu.0,
                range(&self.alone),
                cpu.1,
                range(&self.followed),
                change(cpu)
            ),
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

/// The least and the most seconds of processor of rounds.
fn range(rounds: &[Round]) -> String {
    let all = || rounds.iter().map(|round| round.cpu_s_per_million);
    format!("{:.1} to {:.1}", all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max))
}
