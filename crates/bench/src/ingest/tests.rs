//! All phases are measured, and what cannot be measured is refused.

use vstream_vector::SplitMix;

use super::*;

fn points(rows: usize, seed: u64) -> Matrix {
    let mut chance = SplitMix(seed);
    Matrix { dimension: 8, values: (0..rows * 8).map(|_| chance.normal()).collect() }
}

fn settings() -> IngestSettings {
    IngestSettings {
        metric: Metric::L2,
        target: 0.9,
        probes: 0,
        rounds: 2,
        phase: Duration::from_millis(20),
    }
}

#[test]
fn every_phase_is_measured_in_every_round() {
    let report = run(&points(6_000, 1), &points(50, 2), &settings()).expect("runs");
    assert_eq!((report.rows, report.preloaded, report.rounds.len()), (6_000, 3_000, 2));
    assert!(report.recall_before >= 0.9, "tuned to the target: {}", report.recall_before);
    for round in &report.rounds {
        let phases = [&round.idle, &round.computing, &round.other, &round.ingesting];
        assert!(phases.iter().all(|times| !times.is_empty()), "{}", report.table());
        assert_eq!(round.writes.inserts_ns.len(), 3_000);
        assert_eq!(round.other_writes.inserts_ns.len(), 3_000);
    }
    let found = report.to_json();
    assert_eq!(found["writes"][1]["inserts"]["count"], 6_000);
    assert_eq!(found["phases"].as_array().expect("phases").len(), 4);
    assert!(report.ratio() > 0.0 && found["p99-ratio"] == report.ratio());
    assert!(report.table().contains("| a thread writes into this collection |"));
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let says = |base: &Matrix, queries: &Matrix, settings: &IngestSettings| {
        run(base, queries, settings).expect_err("must be refused").to_string()
    };
    let queries = points(5, 2);
    assert!(says(&points(999, 1), &queries, &settings()).contains("1000 rows and one round"));
    let none = IngestSettings { rounds: 0, ..settings() };
    assert!(says(&points(1_000, 1), &queries, &none).contains("Raise --rows or --rounds"));
    let flat = Matrix { dimension: 4, values: vec![1.0; 8] };
    assert!(says(&points(1_000, 1), &flat, &settings()).contains("8 dimensions, the queries 4"));
}
