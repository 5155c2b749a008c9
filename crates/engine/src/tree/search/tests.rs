//! The bound that places share.

use vstream_index::Coded;

use super::Best;

fn found(estimates: &[f32]) -> Vec<Coded> {
    estimates.iter().map(|&estimate| Coded { estimate, leaf: 0 }).collect()
}

/// A segment of many leaves is scanned in rounds, and says after each what is best so far.
#[test]
fn a_row_that_is_told_again_counts_once() {
    let mut best = Best::default();
    best.reset(4, true);
    let mut places = vec![found(&[5.0]), found(&[1.0, 2.0])];
    places.iter().for_each(|found| best.take(found));
    assert_eq!(best.bound(), f32::INFINITY, "three of four");
    places[1] = found(&[1.0, 2.0, 3.0]);
    best.retake(&places);
    assert_eq!(best.bound(), 5.0, "the worst of 1, 2, 3, 5");
    places[1] = found(&[0.5, 1.0, 2.0, 3.0]);
    best.retake(&places);
    assert_eq!(best.bound(), 3.0, "the worst of 0.5, 1, 2, 3");
}
