//! The estimate is compared with a truth that is right, and the stream ends as it was asked to.

use vstream_vector::SplitMix;

use super::*;

/// Points around 40 centres, the same for every seed.
fn points(rows: usize, seed: u64) -> Matrix {
    const DIMENSION: usize = 16;
    let mut chance = SplitMix(7);
    let centres: Vec<f32> = (0..40 * DIMENSION).map(|_| chance.normal()).collect();
    let mut chance = SplitMix(seed);
    let mut values = Vec::with_capacity(rows * DIMENSION);
    for _ in 0..rows {
        let at = chance.below(40) * DIMENSION;
        values.extend(centres[at..at + DIMENSION].iter().map(|x| x + 0.5 * chance.normal()));
    }
    Matrix { dimension: DIMENSION, values }
}

fn settings() -> AuditSettings {
    AuditSettings {
        metric: Metric::Cosine,
        target: 0.9,
        preloaded: 4_000,
        rate: 4_000.0,
        audits: 60,
        seed: 5,
    }
}

#[test]
fn estimates_stand_beside_the_truth() {
    let mut seen = Vec::new();
    let report = run(points(30_000, 1), points(600, 2), &settings(), &mut |moment| {
        seen.push(*moment);
    })
    .expect("runs");
    assert_eq!(seen, report.moments);
    assert!(report.audits >= 60 && !seen.is_empty(), "{}", report.table());
    for moment in &seen {
        assert!(moment.live > 4_000 && moment.probes > 0 && moment.window > 0);
        assert!((0.6..=1.0).contains(&moment.truth), "{}", report.table());
        assert!(moment.difference().abs() < 0.2, "{}", report.table());
    }
    let found = report.to_json();
    assert_eq!(found["moments"].as_array().expect("moments").len(), seen.len());
    assert!(report.table().contains("of one core"));
    assert!(report.guard_share > 0.0, "the guard works in a thread of its own");
}

#[test]
fn the_stream_ends_with_its_rows() {
    let all = AuditSettings { audits: usize::MAX, rate: 50_000.0, ..settings() };
    let report = run(points(4_300, 1), points(600, 2), &all, &mut |_| {}).expect("runs");
    assert_eq!(report.records, 5 * 100);
}

#[test]
fn a_moment_knows_whether_the_truth_is_inside() {
    let estimate = RecallEstimate {
        recall: 0.95,
        margin: 0.02,
        audits: 128,
        evidence: vstream_engine::Evidence::Queries,
    };
    let moment = Moment::new(200, 10, 5, estimate, &[1.0, 0.9, 0.9, 1.0]);
    assert!((moment.truth - 0.95).abs() < 1e-12 && moment.is_inside());
    assert!((moment.truth_margin - 1.96 * (0.01f64 / 3.0 / 4.0).sqrt()).abs() < 1e-12);
    let off = Moment::new(200, 10, 5, estimate, &[0.9, 0.9]);
    assert!(!off.is_inside() && (off.difference() - 0.05).abs() < 1e-12);
}

#[test]
fn what_makes_no_stream_is_refused() {
    let says = |settings: &AuditSettings| {
        let error = run(points(4_300, 1), points(10, 2), settings, &mut |_| {});
        error.expect_err("must be refused").to_string()
    };
    let full = AuditSettings { preloaded: 4_300, ..settings() };
    assert!(says(&full).contains("4300 of 4300 rows"), "{}", says(&full));
    assert!(says(&AuditSettings { rate: 0.0, ..settings() }).contains("at 0 records/s"));
    assert!(says(&AuditSettings { preloaded: 0, ..settings() }).contains("Lower --preload"));
}
