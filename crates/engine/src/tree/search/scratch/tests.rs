//! The bound that places share, and what a place keeps by it.

use vstream_index::stages::Candidate;

use super::{BestEstimates, TreeScratch};

fn found(estimates: &[f32]) -> Vec<Candidate> {
    estimates.iter().map(|&estimate| Candidate { estimate, leaf: 0, row: 0 }).collect()
}

/// A segment of many leaves is scanned in rounds, and shows after each its best rows so far.
#[test]
fn a_row_that_is_shown_in_two_rounds_counts_once() {
    let mut best = BestEstimates::default();
    best.reset(4, true);
    let mut places = [found(&[5.0]), found(&[1.0, 2.0])];
    places.iter().for_each(|found| best.add(found));
    assert_eq!(best.bound(), f32::INFINITY, "three of four");
    places[1] = found(&[1.0, 2.0, 3.0]);
    best.replace(places.iter().map(Vec::as_slice));
    assert_eq!(best.bound(), 5.0, "the worst of 1, 2, 3, 5");
    places[1] = found(&[0.5, 1.0, 2.0, 3.0]);
    best.replace(places.iter().map(Vec::as_slice));
    assert_eq!(best.bound(), 3.0, "the worst of 0.5, 1, 2, 3");
}

#[test]
fn a_place_keeps_what_no_other_row_pushes_out() {
    let mut scratch = TreeScratch::default();
    scratch.begin(2);
    for (keep, kept) in [(9, vec![3.0, 1.0, 2.0, 2.0]), (2, vec![1.0, 2.0, 2.0])] {
        scratch.best.reset(keep, true);
        scratch.best.add(&found(&[7.0]));
        scratch.segments[1].candidates = found(&[3.0, 1.0, 2.0, 2.0]);
        scratch.best.add(&scratch.segments[1].candidates);
        scratch.keep_useful(1);
        let estimates = scratch.segments[1].candidates.iter().map(|row| row.estimate);
        assert_eq!(estimates.collect::<Vec<_>>(), kept, "of {keep} wanted");
    }
}

/// What was found before is found once more, so the last of it must pass, and a place that brings worse rows does not
/// loosen the bound.
#[test]
fn a_bound_that_is_known_before_holds_from_the_first_place_on() {
    let mut best = BestEstimates::default();
    best.reset(3, true);
    best.reset_within(3);
    assert_eq!(best.bound(), f32::INFINITY, "nothing was found");
    best.add(&found(&[4.0, 1.0, 2.0, 9.0]));
    best.reset_within(3);
    assert!(best.bound() > 4.0 && best.bound() < 4.001);
    best.add(&found(&[5.0, 6.0, 7.0]));
    assert!(best.bound() < 4.001, "{}", best.bound());
    best.add(&found(&[4.0, 1.0, 2.0]));
    assert_eq!(best.bound(), 4.0);
    best.reset(3, true);
    assert_eq!(best.bound(), f32::INFINITY, "another scan");
}
