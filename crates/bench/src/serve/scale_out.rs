//! A coordinator with real replicas: one core each, and a rate that one of them does not hold.
//!
//! Each replica is a server on a copy of the collection, pinned to a core of its own. A query goes to a
//! replica when it is free. The rate is half of what one replica answers, then one and a half times as
//! much, then half again. The same with one replica that stays alone.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use serde::Serialize;
use vstream_serve::coordinator::{
    CommandLine, Coordinator, CoordinatorError, CoordinatorSettings, Fixed, Law, Lean,
    LeanSettings, Processes, Replica, ReplicaId, ReplicaState, Replicas, Steering,
    SteeringSettings,
};
use vstream_vector::SplitMix;

use super::client::Client;
use crate::runbook::RunbookError;
use crate::times::Percentiles;

/// Seconds of each phase, and its rate in rates of one replica.
const PHASES: [(f64, f64); 3] = [(8.0, 0.5), (10.0, 1.5), (12.0, 0.5)];
/// Seconds from one observation to the next.
const TICK_S: f64 = 0.1;
/// Time to become ready, and to end.
const PATIENCE: Duration = Duration::from_secs(30);
/// Copies the collection `$1` to `$2` and serves it on a core by its number `$3` with the command `$0`.
/// The client has the second core, which it shares with the second replica where there are only two.
const SCRIPT: &str = "mkdir -p \"$2\" && cp -r \"$1\"/. \"$2\" && \
                      exec taskset -c $((($3 + ($(nproc --all) > 2 && $3 > 0)) % $(nproc --all))) \"$0\" serve \"$2\" --listen 127.0.0.1:0";

/// One run.
#[derive(Debug, Serialize)]
pub struct ScaleOut {
    law: &'static str,
    /// Queries per second of one replica.
    rate_of_one: f64,
    /// Queries, and how many got no answer.
    queries: usize,
    failed: usize,
    /// Times from arrival to answer in each phase, in microseconds.
    phases: Vec<Percentiles>,
    /// When there were how many replicas that took queries: seconds since the first phase began.
    course: Vec<(f64, u32)>,
    /// Start time in seconds, as it was measured at last.
    start_s: f64,
}

/// What a worker says: the replica, the query's number, and when it was sent and answered.
struct Answer {
    replica: ReplicaId,
    query: usize,
    sent: Instant,
    is_right: bool,
}

/// Runs our law and one replica alone. Errors: `Io`.
///
/// * `collection`: a folder of collections that nobody serves.
/// * `bodies`: requests.
/// * `rate_of_one`: queries per second of one replica.
pub(super) fn scale_out(
    command: &Path,
    collection: &Path,
    copies: &Path,
    bodies: &[Vec<u8>],
    rate_of_one: f64,
) -> Result<Vec<ScaleOut>, RunbookError> {
    let lean = Lean::new(LeanSettings::default()).map_err(failed)?;
    let fixed = Fixed::new(1).map_err(failed)?;
    let laws: [Box<dyn Law>; 2] = [Box::new(lean), Box::new(fixed)];
    let runs = laws.into_iter().map(|law| {
        let arguments = ["-c", SCRIPT].map(str::to_owned).into_iter();
        let paths = [command, collection].map(|path| path.display().to_string());
        let copy = copies.join(law.name()).join("{replica}").display().to_string();
        let arguments = arguments.chain(paths).chain([copy, "{replica}".to_owned()]).collect();
        let command = CommandLine { program: "/bin/sh".into(), arguments, ready: None };
        let replicas = Processes::new(command, 2, PATIENCE).map_err(failed)?;
        let name = law.name();
        let bounds = CoordinatorSettings { cap: 2, ..CoordinatorSettings::default() };
        let coordinator = Coordinator::new(law, bounds).map_err(failed)?;
        let first = SteeringSettings { service_s: 1.0 / rate_of_one, start_s: 1.0, at_a_time: 1 };
        let steering = Steering::new(coordinator, replicas, first).map_err(failed)?;
        Run::new(steering, bodies).play(name, rate_of_one)
    });
    runs.collect()
}

fn failed(error: CoordinatorError) -> RunbookError {
    RunbookError::Io(format!("The coordinator: {error}."))
}

struct Run<'a> {
    steering: Steering<Processes>,
    bodies: &'a [Vec<u8>],
    /// To the worker of each replica: the number of a query.
    workers: BTreeMap<ReplicaId, Sender<usize>>,
    begun: Instant,
    /// When each query is due, in seconds since the run began.
    dues: Vec<f64>,
    /// Nanoseconds from then to each answer.
    times: Vec<Option<u64>>,
    waiting: VecDeque<usize>,
    answered: usize,
    failed: usize,
    course: Vec<(f64, u32)>,
}

impl<'a> Run<'a> {
    fn new(steering: Steering<Processes>, bodies: &'a [Vec<u8>]) -> Run<'a> {
        Run {
            steering,
            bodies,
            workers: BTreeMap::new(),
            begun: Instant::now(),
            dues: Vec::new(),
            times: Vec::new(),
            waiting: VecDeque::new(),
            answered: 0,
            failed: 0,
            course: Vec::new(),
        }
    }

    fn play(mut self, law: &'static str, rate_of_one: f64) -> Result<ScaleOut, RunbookError> {
        self.tick()?;
        while self.steering.pick().map(|(id, _)| self.steering.done(id, None)).is_none() {
            if self.begun.elapsed() > PATIENCE {
                return Err(RunbookError::Io("No replica became ready.".to_owned()));
            }
            std::thread::sleep(Duration::from_millis(10));
            self.tick()?;
        }
        let ready_s = self.begun.elapsed().as_secs_f64();
        self.dues = dues(rate_of_one, ready_s);
        self.times = vec![None; self.dues.len()];
        std::thread::scope(|scope| {
            let (answers, heard) = channel();
            self.course.clear();
            let done = self.dispatch(scope, &answers, &heard);
            // Workers end when nobody can send to them.
            self.workers.clear();
            done
        })?;
        let phase = |from: f64, seconds: f64| {
            let within = self
                .dues
                .iter()
                .zip(&self.times)
                .filter(|(due, _)| (from..from + seconds).contains(*due));
            Percentiles::of(&mut within.filter_map(|(_, time)| *time).collect::<Vec<u64>>())
        };
        let mut from = ready_s;
        let phases = PHASES.map(|(seconds, _)| {
            from += seconds;
            phase(from - seconds, seconds)
        });
        let course = self.course.iter().map(|&(at, count)| (at - ready_s, count)).collect();
        Ok(ScaleOut {
            law,
            rate_of_one,
            queries: self.dues.len(),
            failed: self.failed,
            phases: phases.to_vec(),
            course,
            start_s: self.steering.measured().1,
        })
    }

    /// Sends each query when it is due and a replica is free, until all are answered.
    fn dispatch<'scope>(
        &mut self,
        scope: &'scope std::thread::Scope<'scope, 'a>,
        answers: &Sender<Answer>,
        heard: &Receiver<Answer>,
    ) -> Result<(), RunbookError> {
        let (mut next, mut tick_s) = (0, self.begun.elapsed().as_secs_f64());
        while self.answered < self.dues.len() {
            let now_s = self.begun.elapsed().as_secs_f64();
            while self.dues.get(next).is_some_and(|&due| due <= now_s) {
                self.waiting.push_back(next);
                self.steering.arrived(1);
                next += 1;
            }
            if now_s >= tick_s {
                self.tick()?;
                tick_s += TICK_S;
            }
            while !self.waiting.is_empty() {
                let Some((replica, address)) = self.steering.pick() else { break };
                let query = self.waiting.pop_front().expect("one waits");
                let bodies = self.bodies;
                let worker = self.workers.entry(replica).or_insert_with(|| {
                    let (sender, queries) = channel();
                    let answers = answers.clone();
                    scope.spawn(move || work(replica, address, bodies, &queries, &answers));
                    sender
                });
                worker.send(query).map_err(|_| RunbookError::Io("A worker ended.".to_owned()))?;
            }
            let until = self.dues.get(next).map_or(tick_s, |&due| due.min(tick_s));
            let wait =
                Duration::from_secs_f64((until - self.begun.elapsed().as_secs_f64()).max(0.0));
            match heard.recv_timeout(wait) {
                Ok(answer) => self.hear(&answer),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
        Ok(())
    }

    fn hear(&mut self, answer: &Answer) {
        let Answer { replica, query, sent, is_right } = *answer;
        self.steering.done(replica, is_right.then(|| sent.elapsed().as_secs_f64()));
        self.answered += 1;
        self.failed += usize::from(!is_right);
        if is_right {
            let time_s = self.begun.elapsed().as_secs_f64() - self.dues[query];
            self.times[query] = Some((time_s * 1e9) as u64);
        }
    }

    fn tick(&mut self) -> Result<(), RunbookError> {
        let time_s = self.begun.elapsed().as_secs_f64();
        self.steering.tick(time_s, self.waiting.len() as u64).map_err(failed)?;
        let list = self.steering.replicas().list();
        let takes = |replica: &&Replica| replica.state == ReplicaState::Ready;
        let count = list.iter().filter(takes).count() as u32;
        if self.course.last().is_none_or(|&(_, last)| last != count) {
            self.course.push((time_s, count));
        }
        self.workers.retain(|id, _| list.iter().any(|replica| replica.id == *id));
        Ok(())
    }
}

/// When queries are due, in seconds: at random, from `begin_s` on.
fn dues(rate_of_one: f64, begin_s: f64) -> Vec<f64> {
    let (mut random, mut dues, mut begin_s) = (SplitMix(1), Vec::new(), begin_s);
    for (seconds, share) in PHASES {
        let mut at = 0.0;
        loop {
            at += -f64::from(1.0 - random.unit()).ln() / (rate_of_one * share);
            if at >= seconds {
                break;
            }
            dues.push(begin_s + at);
        }
        begin_s += seconds;
    }
    dues
}

/// Asks one replica, one query at a time, until nobody sends more.
fn work(
    replica: ReplicaId,
    address: SocketAddr,
    bodies: &[Vec<u8>],
    queries: &Receiver<usize>,
    answers: &Sender<Answer>,
) {
    let mut client = Client::connect(address).ok();
    for query in queries {
        let sent = Instant::now();
        let is_right = client
            .as_mut()
            .is_some_and(|client| client.call(&bodies[query % bodies.len()]).is_ok());
        // Nobody hears it when the run has failed.
        let _ = answers.send(Answer { replica, query, sent, is_right });
    }
}

impl ScaleOut {
    /// Its line of a table.
    pub fn line(&self) -> String {
        let phase =
            |times: &Percentiles| format!("{:.1} / {:.1}", times.p50 / 1e3, times.p99 / 1e3);
        let phases: Vec<String> = self.phases.iter().map(phase).collect();
        let course = self.course.iter().map(|(at, count)| format!("{count} at {at:.1} s"));
        let course: Vec<String> = course.collect();
        format!(
            "| {} | {} | {} of {} | {} |\n",
            self.law,
            phases.join(" | "),
            self.failed,
            self.queries,
            course.join(", ")
        )
    }
}

/// The table of some runs.
pub(super) fn table(runs: &[ScaleOut]) -> String {
    let rate = runs.first().map_or(0.0, |run| run.rate_of_one);
    let [quiet, burst, after] = PHASES.map(|(seconds, share)| format!("{share} x for {seconds} s"));
    let mut out = format!(
        "Real replicas of one core each; one answers {rate:.0} queries/s. p50 / p99 in ms by phase.\n\n\
         | law | {quiet} | {burst} | {after} | failed | replicas that take queries |\n\
         |---|---|---|---|---|---|\n"
    );
    runs.iter().for_each(|run| out += &run.line());
    out
}
