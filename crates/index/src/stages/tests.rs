use vstream_quantize::Form;
use vstream_vector::SplitMix;

use super::{sort_candidates, BestCandidates, Candidate, LeafCost};

#[test]
fn the_least_estimates_are_kept_over_several_scans() {
    let mut random = SplitMix(3);
    let all: Vec<Candidate> =
        (0..2_000).map(|row| Candidate { estimate: random.unit(), leaf: row % 7, row }).collect();
    let mut candidates = Vec::new();
    let mut is_cut = false;
    for part in all.chunks(600) {
        let mut best = BestCandidates::new(50, f32::INFINITY, &mut candidates);
        for block in part.chunks(32) {
            let threshold = best.threshold();
            block.iter().filter(|row| row.estimate < threshold).for_each(|row| best.push(*row));
            best.lower();
        }
        is_cut |= best.finish();
        sort_candidates(&mut candidates);
    }
    let mut truth = all;
    sort_candidates(&mut truth);
    assert!(is_cut);
    assert_eq!(candidates, truth[..50]);
}

#[test]
fn a_bound_of_other_places_holds_from_the_first_block() {
    let mut candidates = Vec::new();
    let best = BestCandidates::new(4, 0.25, &mut candidates);
    assert_eq!(best.threshold(), 0.25);
    assert!(!best.finish(), "nothing was dropped");
}

#[test]
fn reach_lowers_the_cost_of_a_leaf_by_inner_product_alone() {
    let l2 = LeafCost::new(Form::L2, 64, 2.0);
    assert_eq!(l2.of_leaf(5.0, || panic!("not asked for")), 5.0);
    let product = LeafCost::new(Form::InnerProduct, 64, 2.0);
    assert!((product.of_leaf(5.0, || 3.0) - (5.0 - 2.0 * 3.33 / 8.0 * 3.0)).abs() < 1e-5);
    assert!(product.of_leaf(5.0, || f32::INFINITY).is_finite(), "an overflowed reach is cut");
}
