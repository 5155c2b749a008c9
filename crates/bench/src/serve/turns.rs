//! The same queries of a server and of an engine in a process of its own, in turns on one core.
//!
//! The speed of a shared machine changes within seconds, so that two phases one after the other say more of
//! the machine than of the server. While one has its turn the other is stopped, and both go equally far.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;
use vstream_engine::{Effort, Engine, Query, Reader, Scratch, With};
use vstream_vector::Metric;

use super::server::{let_run, Reached, Server};
use super::traffic::closed;
use super::transport::Transport;
use super::{read_queries, COLLECTION, CORES, K};
use crate::runbook::{Matrix, RunbookError};

/// Turns of each.
const TURNS: usize = 8;

/// Queries per second of each, and how far they went: means over all turns.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct InTurns {
    pub(super) served_per_s: f64,
    /// Ids and distances alone, one thread.
    pub(super) in_process_per_s: f64,
    /// With the ids of rows read, as the server must.
    pub(super) in_process_with_rows_per_s: f64,
    pub(super) probes: f64,
    pub(super) refined_rows: f64,
}

/// Asks a server and an engine of a copy of its folder in turns, a fifth of a phase each. Errors: `Io`, also
/// where the recall guard has not decided.
///
/// * `engine`: arguments that start a process which calls [`answer_turns`] for the copy.
pub(super) fn in_turns<T: Transport>(
    server: &Server,
    questions: &[T::Question],
    phase: Duration,
    engine: &[OsString],
) -> Result<InTurns, RunbookError> {
    let (mut process, turn) = (Process::start(engine)?, phase / 5);
    let effort = || server.effort()?.ok_or_else(|| failed(&"the server's effort is not decided"));
    let warm_up = effort()?;
    for with_rows in [false, true] {
        process.ask(warm_up, with_rows, turn)?;
    }
    let mut mean = InTurns::default();
    for _ in 0..TURNS {
        let_run(&process.child, false)?;
        let before = effort()?;
        mean.served_per_s += closed::<T>(server, questions, turn)? / TURNS as f64;
        let reached = before.midpoint(effort()?);
        let_run(&process.child, true)?;
        server.runs(false)?;
        mean.in_process_per_s += process.ask(reached, false, turn)? / TURNS as f64;
        mean.in_process_with_rows_per_s += process.ask(reached, true, turn)? / TURNS as f64;
        server.runs(true)?;
        mean.probes += reached.probes as f64 / TURNS as f64;
        mean.refined_rows += reached.refine as f64 / TURNS as f64;
    }
    Ok(mean)
}

/// A process with an engine that asks itself when it is told to.
struct Process {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    fn start(engine: &[OsString]) -> Result<Process, RunbookError> {
        let program = std::env::current_exe().map_err(|error| failed(&error))?;
        let mut child = Command::new("taskset")
            .args(["-c", &CORES[0].to_string()])
            .arg(program)
            .args(engine)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed(&error))?;
        let orders = child.stdin.take().expect("it is piped");
        let answers = BufReader::new(child.stdout.take().expect("it is piped"));
        Ok(Process { child, orders, answers })
    }

    /// Queries per second at an effort.
    fn ask(&mut self, to: Reached, with_rows: bool, time: Duration) -> Result<f64, RunbookError> {
        let Reached { probes, refine } = to;
        let order = format!("{probes} {refine} {} {}\n", u8::from(with_rows), time.as_millis());
        self.orders.write_all(order.as_bytes()).map_err(|error| failed(&error))?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).map_err(|error| failed(&error))?;
        answer.trim().parse().map_err(|_| failed(&"it ended"))
    }
}

/// Opens the collection of a folder. For each line of leaves, rows, 1 for ids of rows, and milliseconds, asks
/// for so long and writes queries per second. Errors: `Io` and those of the file.
pub fn answer_turns(folder: &Path, queries: &Path, metric: Metric) -> Result<(), RunbookError> {
    let queries = read_queries(queries, metric)?;
    let engine = Engine::open(&folder.join(COLLECTION)).map_err(|error| failed(&error))?;
    engine.catch_up();
    let (reader, mut scratch) = (engine.reader(), Scratch::new());
    for line in std::io::stdin().lines() {
        let line = line.map_err(|error| failed(&error))?;
        let order: Vec<usize> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        let &[probes, refine, with_rows, millis] = order.as_slice() else {
            return Err(failed(&"an order has four numbers"));
        };
        let effort = Effort::Chosen { probes, refine: Some(refine) };
        let time = Duration::from_millis(millis as u64);
        println!("{}", per_s(&reader, &mut scratch, &queries, effort, with_rows == 1, time)?);
    }
    Ok(())
}

fn per_s(
    reader: &Reader,
    scratch: &mut Scratch,
    queries: &Matrix,
    effort: Effort,
    with_rows: bool,
    time: Duration,
) -> Result<f64, RunbookError> {
    let (begun, mut asked, mut out) = (Instant::now(), 0, Vec::new());
    while begun.elapsed() < time {
        let query = Query { effort, ..Query::new(queries.row(asked % queries.rows()), K) };
        let answered = match with_rows {
            true => reader.answer(&query, &With::default(), scratch).map(drop),
            false => reader.search(&query, scratch, &mut out).map(drop),
        };
        answered.map_err(|error| failed(&error))?;
        asked += 1;
    }
    Ok(asked as f64 / begun.elapsed().as_secs_f64())
}

fn failed(error: &dyn std::fmt::Display) -> RunbookError {
    RunbookError::Io(format!("The engine in a process: {error}."))
}
