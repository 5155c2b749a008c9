use vstream_attribute::Range;
use vstream_vector::SplitMix;

use super::*;
use crate::tree::share_class;

const NOW: Moment = Moment { leaves: 1_000, rows: 256_000, writes: 1_000_000 };

/// Needs of ten neighbours, log-normal around `centre`.
fn needs(random: &mut SplitMix, centre: f32) -> Vec<f32> {
    (0..10).map(|_| centre * (0.2 * random.normal()).exp()).collect()
}

fn audit(needed: Vec<f32>, made: Option<(f32, f64)>) -> FilteredAudit {
    audit_of(0, needed, made)
}

/// An audit of a filter of a shape.
fn audit_of(shape: usize, needed: Vec<f32>, made: Option<(f32, f64)>) -> FilteredAudit {
    let filter = Filter::Attribute(0, Test::Exists);
    let query = Some(FilteredQuery { vector: vec![0.0; 64], k: 10, filter, share: 0, shape });
    FilteredAudit { query, at: NOW, asked: 10_000, asked_of_shape: 10_000, needed, made }
}

/// Of new queries with needs from the same distribution, the share that a θ finds.
fn found(random: &mut SplitMix, centre: f32, theta: f32) -> f64 {
    let all: Vec<f32> = (0..2_000).flat_map(|_| needs(random, centre)).collect();
    all.iter().filter(|&&needed| needed <= theta).count() as f64 / all.len() as f64
}

#[test]
fn shares_have_classes() {
    let classes = [1.0, 0.2, 0.19, 0.04, 0.01, 0.008, 0.001, 0.0].map(share_class);
    assert_eq!(classes, [0, 0, 1, 1, 2, 2, 3, 3]);
}

#[test]
fn rows_stand_in_until_there_are_queries() {
    let (decisions, mut audits) = (FilteredDecisions::default(), FilteredAudits::default());
    let mut random = SplitMix(11);
    assert_eq!(decisions.conclude(&audits, 2, 0.95), [None; SHARE_CLASSES]);
    assert_eq!(decisions.theta(1, 2, 0), None);
    for _ in 0..ROWS {
        assert!(audits.wants_rows(2));
        audits.push_row(2, FilteredAudit { query: None, ..audit(needs(&mut random, 1.0), None) });
    }
    assert!(!audits.wants_rows(2) && audits.wants_rows(3));
    let estimates = decisions.conclude(&audits, 2, 0.95);
    assert!(estimates.iter().flatten().all(|one| one.evidence == Evidence::Rows));
    let by_rows = decisions.theta(1, 2, 0).expect("decided");
    let recall = found(&mut random, 1.0, by_rows);
    assert!((0.955..0.975).contains(&recall), "seed 11: {recall}");
    // Queries of one class need more; the other classes keep what rows say.
    for _ in 0..200 {
        audits.push_query(1, 2, audit(needs(&mut random, 2.5), None));
    }
    let estimates = decisions.conclude(&audits, 2, 0.95);
    let estimate = estimates[1].expect("an estimate");
    assert_eq!((estimate.evidence, estimate.audits), (Evidence::Queries, 200));
    let recall = found(&mut random, 2.5, decisions.theta(1, 2, 0).expect("decided"));
    assert!((0.945..0.98).contains(&recall), "seed 11: {recall}");
    assert!((estimate.recall - recall).abs() < 0.02, "seed 11: {estimate:?}, {recall}");
    assert_eq!(decisions.theta(2, 2, 0), Some(by_rows));
    assert_eq!(decisions.theta(1, 3, 0), None);
}

/// Where searches find less than the needs say, θ grows until the target is met.
#[test]
fn what_searches_miss_is_made_up_for() {
    let (decisions, mut audits) = (FilteredDecisions::default(), FilteredAudits::default());
    let mut random = SplitMix(12);
    let mut theta = 1.0;
    for _ in 0..400 {
        let needed = needs(&mut random, 1.0);
        let by_needed = needed.iter().filter(|&&needed| needed <= theta).count() as f64 / 10.0;
        audits.push_query(0, 2, audit(needed, Some((theta, (by_needed - 0.02).max(0.0)))));
        decisions.conclude(&audits, 2, 0.95);
        theta = decisions.theta(0, 2, 0).unwrap_or(theta);
    }
    let recall = found(&mut random, 1.0, theta) - 0.02;
    assert!((0.945..0.985).contains(&recall), "seed 12: {recall} at {theta}");
}

#[test]
fn each_shape_has_a_theta_of_its_own() {
    let (decisions, mut audits) = (FilteredDecisions::default(), FilteredAudits::default());
    let mut random = SplitMix(13);
    let centres = [0.7, 1.0, 2.5];
    let theta =
        |decisions: &FilteredDecisions, shape| decisions.theta(1, 2, shape).expect("decided");
    // The first few audits of a shape only raise its θ.
    for (shape, audits_of_it) in [(0, 200), (1, 30), (2, 30)] {
        for _ in 0..audits_of_it {
            audits.push_query(1, 2, audit_of(shape, needs(&mut random, centres[shape]), None));
        }
    }
    decisions.conclude(&audits, 2, 0.95);
    assert!(decisions.is_known(1, 2, 0) && !decisions.is_known(1, 2, 1));
    let pooled = theta(&decisions, 9);
    assert!(theta(&decisions, 0) < pooled, "many audits lower it");
    assert_eq!(theta(&decisions, 1), pooled, "few do not");
    assert!(theta(&decisions, 2) > pooled, "few raise it");
    for _ in 0..500 {
        for (shape, centre) in centres.into_iter().enumerate().skip(1) {
            audits.push_query(1, 2, audit_of(shape, needs(&mut random, centre), None));
        }
    }
    let estimates = decisions.conclude(&audits, 2, 0.95);
    let estimate = estimates[1].expect("an estimate");
    for (shape, centre) in centres.into_iter().enumerate() {
        assert!(decisions.is_known(1, 2, shape), "shape {shape} keeps its audits");
        let recall = found(&mut random, centre, theta(&decisions, shape));
        assert!((0.94..0.975).contains(&recall), "seed 13, shape {shape}: {recall}");
        assert!((estimate.recall - recall).abs() < 0.025, "seed 13: {estimate:?}, {recall}");
    }
}

#[test]
fn every_slot_can_have_enough_audits() {
    let (decisions, mut audits) = (FilteredDecisions::default(), FilteredAudits::default());
    let mut random = SplitMix(14);
    for turn in 0..20_000 {
        // One shape is asked for as often as all others together.
        let shape = if turn % 2 == 0 { 0 } else { random.below(SHAPES) };
        audits.push_query(1, 2, audit_of(shape, needs(&mut random, 1.0), None));
    }
    decisions.conclude(&audits, 2, 0.95);
    assert!((0..SHAPES).all(|shape| decisions.is_known(1, 2, shape)));
}

#[test]
fn the_first_queries_of_a_shape_do_not_lower_its_theta() {
    let (decisions, mut audits) = (FilteredDecisions::default(), FilteredAudits::default());
    let mut random = SplitMix(15);
    for at in 0..100 {
        audits.push_query(1, 2, audit_of(0, needs(&mut random, 1.0), None));
        let first = FilteredAudit { asked_of_shape: at, ..audit_of(1, vec![0.1; 10], None) };
        audits.push_query(1, 2, first);
    }
    decisions.conclude(&audits, 2, 0.95);
    assert!(!decisions.is_known(1, 2, 1));
    assert_eq!(decisions.theta(1, 2, 1), decisions.theta(1, 2, 9));
}

#[test]
fn audits_that_no_longer_count_are_made_again() {
    let mut audits = FilteredAudits::default();
    for _ in 0..100 {
        audits.push_query(3, 0, audit(vec![1.0], None));
        audits.push_row(0, FilteredAudit { query: None, ..audit(vec![1.0], None) });
    }
    audits.forget(&NOW);
    assert!(audits.ask_again().is_none());
    let later = Moment { writes: NOW.writes + 1_000 * 128 * 2, ..NOW };
    audits.forget(&later);
    let again = std::iter::from_fn(|| audits.ask_again()).count();
    assert_eq!(again, RING, "as many as are kept");
    assert!(audits.conclude(3, 0, 0.95).is_none() && audits.wants_rows(0));
}

#[test]
fn large_filters_are_not_kept() {
    let range = Range { from: std::ops::Bound::Included(1), to: std::ops::Bound::Unbounded };
    let cheap = || Filter::Attribute(0, Test::I64Range(range));
    assert!(is_kept(&Filter::And(vec![cheap(); 60])));
    assert!(!is_kept(&Filter::And(vec![cheap(); 70])));
    assert!(is_kept(&Filter::Ids((0..1024).collect())));
    assert!(!is_kept(&Filter::Ids((0..1025).collect())));
    assert!(!is_kept(&Filter::Attribute(0, Test::I64In((0..5_000).collect()))));
}
