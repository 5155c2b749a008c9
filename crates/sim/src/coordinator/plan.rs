//! Which cases there are.

use vstream_serve::coordinator::StreamRagSettings;

use super::laws::{candidates, capped, passive, stream_rag, Candidate, PASSIVE};
use super::measured::Measured;
use super::service::Service;
use super::study::{factor, room, Case};
use super::traffic::Traffic;
use super::world::{Room, Transport};

/// All traffic, each query when a replica is free.
pub const CONTINUOUS: &str = "continuous";
/// All traffic, in batches.
pub const BATCHES: &str = "batches";
/// Other start times.
pub const STARTS: &str = "starts";
/// The replicas of the prototype: 5 ms per query, log-normal.
pub const PROTOTYPE: &str = "prototype";
/// StreamRAG's own setting.
pub const PAPER: &str = "paper";
/// StreamRAG's α there.
pub const ALPHA: &str = "alpha";
/// StreamRAG's β there.
pub const BETA: &str = "beta";

/// Batches as Spark makes them: the next one when the last is done, and no more than ten per second,
/// since planning one takes Spark about that long.
const AS_SPARK: Transport = Transport::Batches { interval_s: 0.1 };
/// Start times beside the measured one.
const STARTS_S: [f64; 3] = [0.3, 1.0, 5.0];
/// Mean seconds of a query of the prototype.
const PROTOTYPE_S: f64 = 0.005;

/// StreamRAG's own setting, as far as its figures tell: 240 queries per second of a replica, which
/// starts within a second; a batch per second.
const PAPER_S: f64 = 1.0 / 240.0;
const PAPER_START_S: f64 = 1.0;
const PAPER_TRANSPORT: Transport = Transport::Batches { interval_s: 1.0 };
/// Its window: that α = 2.5 never scales implies 7 at most.
const PAPER_WINDOW: usize = 5;
const ALPHAS: [f64; 5] = [0.5, 1.0, 1.5, 2.0, 2.5];
const BETAS: [f64; 6] = [200.0, 400.0, 800.0, 1_600.0, 2_400.0, 3_200.0];

/// All cases, those of a table together.
pub fn cases(measured: &Measured) -> Vec<Case> {
    let Measured { service, floor, floor_recall, start_s, .. } = measured;
    let rates = factor(service);
    let all = candidates(rates, *floor_recall);
    let continuous = room(service, floor, *start_s, Transport::Continuous);
    let batches = room(service, floor, *start_s, AS_SPARK);
    let with_capped: Vec<Candidate> = all.iter().cloned().chain(capped(&all)).collect();
    let mut cases = Vec::new();
    for traffic in Traffic::all() {
        cases.extend(each(CONTINUOUS, &continuous, &traffic, rates, &all));
        cases.extend(each(BATCHES, &batches, &traffic, rates, &with_capped));
    }
    for start_s in STARTS_S {
        let slower = Room { start_s, ..continuous.clone() };
        for traffic in [Traffic::high(), Traffic::high_clumped()] {
            cases.extend(each(STARTS, &slower, &traffic, rates, &all));
        }
        let service = Service::LogNormal(PROTOTYPE_S);
        let theirs = room(&service, &service, start_s, Transport::Continuous);
        let laws = candidates(1.0, *floor_recall);
        let laws: Vec<Candidate> =
            laws.into_iter().filter(|law| law.recall.floor == law.recall.target).collect();
        cases.extend(each(PROTOTYPE, &theirs, &Traffic::high(), 1.0, &laws));
    }
    cases.extend(paper());
    cases
}

/// StreamRAG's own setting at its own rates, and its studies of α and β.
pub fn paper() -> Vec<Case> {
    let service = Service::LogNormal(PAPER_S);
    let room = room(&service, &service, PAPER_START_S, PAPER_TRANSPORT);
    // One burst, which begins with a batch: its queries are in the next.
    let traffic = Traffic::minutes("High, clumped", 1, 5_000.0, 1.0);
    let law = |name: String, alpha: f64, beta: f64| {
        let change = |settings: &mut StreamRagSettings| {
            *settings = StreamRagSettings { window: PAPER_WINDOW, alpha, beta, ..*settings };
        };
        Candidate::new(name, stream_rag(1.0, change))
    };
    let own = [Candidate::new(PASSIVE, passive(1.0)), law("StreamRAG".to_owned(), 0.5, 800.0)];
    let mut cases: Vec<Case> = each(PAPER, &room, &traffic, 1.0, &own).collect();
    let alphas = ALPHAS.map(|alpha| law(format!("{alpha}"), alpha, 800.0));
    cases.extend(each(ALPHA, &room, &traffic, 1.0, &alphas));
    let betas = BETAS.map(|beta| law(format!("{beta}"), 0.5, beta));
    cases.extend(each(BETA, &room, &traffic, 1.0, &betas));
    cases
}

fn each<'a>(
    table: &'static str,
    room: &'a Room,
    traffic: &'a Traffic,
    factor: f64,
    candidates: &'a [Candidate],
) -> impl Iterator<Item = Case> + 'a {
    candidates.iter().map(move |candidate| {
        let (room, traffic, candidate) = (room.clone(), traffic.clone(), candidate.clone());
        Case { table, room, traffic, factor, candidate }
    })
}
