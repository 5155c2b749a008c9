//! Laws over traffic and seeds.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use vstream_serve::coordinator::{Coordinator, CoordinatorSettings, Dispatch};
use vstream_vector::SplitMix;

use super::laws::{Candidate, RATE_OF_PAPER};
use super::outcome::{mean_and_deviation, Figures, Outcome};
use super::service::Service;
use super::traffic::{uniform, Traffic};
use super::world::{run, Room, Transport};

/// Recall that queries ask for.
pub const TARGET: f64 = 0.95;
/// Seconds from one observation to the next.
const TICK_S: f64 = 0.1;
/// Threads that run cases.
const THREADS: usize = 2;

/// A law over one traffic in one room.
#[derive(Clone, Debug)]
pub struct Case {
    /// The table it belongs to.
    pub table: &'static str,
    /// The room.
    pub room: Room,
    /// At the paper's rates.
    pub traffic: Traffic,
    /// Times these rates: the rate of a replica over [`RATE_OF_PAPER`], but for the paper's own.
    pub factor: f64,
    /// The law.
    pub candidate: Candidate,
}

/// Figures of a case over its seeds.
#[derive(Clone, Debug)]
pub struct Row {
    /// The case.
    pub case: Case,
    /// Means over seeds.
    pub mean: Figures,
    /// Deviation of the 99th percentile over seeds.
    pub p99_deviation: f64,
    /// Replicas at their most, of all seeds.
    pub peak: usize,
}

/// A room with these times.
pub fn room(service: &Service, floor: &Service, start_s: f64, transport: Transport) -> Room {
    let cap = CoordinatorSettings::default().cap as usize;
    let (service, floor) = (service.clone(), floor.clone());
    Room { service, floor, start_s, transport, tick_s: TICK_S, target: TARGET, cap }
}

/// How many times the paper's rates a room gets.
pub fn factor(service: &Service) -> f64 {
    1.0 / (service.mean() * RATE_OF_PAPER)
}

/// One run of a case.
pub fn play(case: &Case, seed: u64) -> Outcome {
    let traffic = case.traffic.clone().times(case.factor);
    let dispatch = match (case.room.transport, case.candidate.is_capped) {
        (Transport::Continuous, _) => Dispatch::Continuous,
        (Transport::Batches { .. }, false) => Dispatch::Whole,
        (Transport::Batches { .. }, true) => Dispatch::CAPPED,
    };
    let recall = case.candidate.recall;
    let settings = CoordinatorSettings { dispatch, recall, ..CoordinatorSettings::default() };
    let chance = uniform(&mut SplitMix(seed.wrapping_mul(0x9e37_79b9)));
    let law = case.candidate.make(chance);
    let mut coordinator = Coordinator::new(law, settings).expect("settings of this file are right");
    // The same arrivals for all laws; service times as they come.
    let arrivals = traffic.arrivals(seed);
    run(&case.room, &arrivals, traffic.seconds(), &mut coordinator, !seed)
}

/// Runs a case with each seed.
fn row(case: &Case, seeds: u64) -> Row {
    let outcomes = (1..=seeds).map(|seed| {
        let outcome = play(case, seed);
        (outcome.figures(), outcome.peak())
    });
    let (figures, peaks): (Vec<Figures>, Vec<usize>) = outcomes.unzip();
    let of = |figure: fn(&Figures) -> f64| {
        mean_and_deviation(&figures.iter().map(figure).collect::<Vec<_>>())
    };
    let (p99_s, p99_deviation) = of(|figures| figures.p99_s);
    let mean = Figures {
        p50_s: of(|figures| figures.p50_s).0,
        p99_s,
        max_s: of(|figures| figures.max_s).0,
        replica_s: of(|figures| figures.replica_s).0,
        replicas: of(|figures| figures.replicas).0,
        at_floor: of(|figures| figures.at_floor).0,
    };
    let peak = peaks.into_iter().max().unwrap_or(0);
    Row { case: case.clone(), mean, p99_deviation, peak }
}

/// Runs all cases with each seed from 1 on; rows in the order of the cases.
pub fn rows(cases: &[Case], seeds: u64) -> Vec<Row> {
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(case) = cases.get(at) else { return };
                let row = row(case, seeds);
                rows.lock().expect("no thread panics").push((at, row));
            });
        }
    });
    let mut rows = rows.into_inner().expect("no thread panics");
    rows.sort_by_key(|&(at, _)| at);
    rows.into_iter().map(|(_, row)| row).collect()
}
