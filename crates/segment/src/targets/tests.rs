//! A row goes to the nearest target, though centroids are looked at in bytes first.

use std::sync::Arc;

use super::*;
use crate::centroid::StoredCentroid;

const DIMENSION: usize = 128;
const SEED: u64 = 29;

fn normals(random: &mut SplitMix) -> Vec<f32> {
    (0..DIMENSION).map(|_| random.normal()).collect()
}

fn targets(random: &mut SplitMix, count: u64) -> Targets {
    let rotation = Rotation::new(DIMENSION, SEED);
    let target = |number| {
        let mut centroid = vec![0.0; rotation.padded()];
        rotation.apply(&normals(random), &mut centroid);
        let centroid = Arc::new(StoredCentroid::round(&centroid));
        Target { leaf: LeafCentroid { number, centroid }, reach: 10.0, rows: 300 }
    };
    Targets::new(DIMENSION, SEED, (0..count).map(target).collect())
}

#[test]
fn a_row_goes_to_the_nearest_target() {
    let mut random = SplitMix(SEED);
    let targets = targets(&mut random, 5_000);
    let mut near = NearTargets::default();
    let mut rotated = vec![0.0; targets.rotation.padded()];
    let mut centroid = rotated.clone();
    for _ in 0..50 {
        let row = normals(&mut random);
        targets.rotation.apply(&row, &mut rotated);
        let gap = |target: &Target| {
            target.leaf.write(&mut centroid);
            kernels::l2_squared(&rotated, &centroid)
        };
        let gaps: Vec<f32> = targets.all().iter().map(gap).collect();
        let least = gaps.iter().copied().fold(f32::INFINITY, f32::min);
        let (found, is_within) = targets.nearest_of_all(&row, &mut near);
        // Two targets may be as near but for the rounding of sums.
        assert!(gaps[found as usize] <= least * (1.0 + 1e-6), "seed {SEED}");
        assert_eq!(is_within, gaps[found as usize].sqrt() <= 10.0);
    }
}

#[test]
fn few_targets_are_all_near() {
    let mut random = SplitMix(SEED);
    let targets = targets(&mut random, 3);
    let mut near = NearTargets::default();
    targets.take_near(&vec![0.0; targets.rotation.padded()], 64, &mut near);
    assert_eq!(near.at, [0, 1, 2]);
    // Fewer than before: what was taken then is forgotten.
    targets.take_near(&vec![0.0; targets.rotation.padded()], 1, &mut near);
    assert_eq!((near.at.len(), near.centroids.len()), (1, targets.rotation.padded()));
}
