//! Routing finds the least estimates, and gives a row in a batch the leaf that it has alone.

use vstream_vector::{kernels, Element, Metric, SplitMix};

use super::{nearest_leaves, Near, RouteScratch};
use crate::cluster::{Cluster, ClusterSettings};
use crate::rows::{RowKey, VectorRef};
use crate::traits::{IndexSettings, Insert};

const DIMENSION: usize = 64;

#[test]
fn the_least_values_are_taken_in_order() {
    for seed in 0..200 {
        let mut random = SplitMix(seed);
        let n = random.below(700);
        let values: Vec<f32> = (0..n)
            .map(|_| match random.below(10) {
                0 => f32::INFINITY,
                1 => f32::NAN,
                // Equal ones too.
                2 => 1.0,
                _ => random.normal(),
            })
            .collect();
        // As many nodes as there are, of up to 96 leaves each.
        let mut near = Near::NONE;
        for (node, some) in values.chunks(1 + random.below(96)).enumerate() {
            near.take(node as u32, some);
            assert!(near.0.is_sorted_by(|a, b| a.0 <= b.0), "seed {seed}");
        }
        let mut sorted: Vec<f32> = values.iter().copied().filter(|x| x.is_finite()).collect();
        sorted.sort_by(f32::total_cmp);
        sorted.resize(sorted.len().max(near.0.len()), f32::INFINITY);
        let taken: Vec<f32> = near.0.iter().map(|near| near.0).collect();
        assert_eq!(taken, sorted[..taken.len()], "seed {seed}");
        let mut places: Vec<_> = near.0.iter().filter(|near| near.0.is_finite()).collect();
        places.sort_unstable_by_key(|near| (near.1, near.2));
        let found = places.len();
        places.dedup_by_key(|near| (near.1, near.2));
        assert_eq!(places.len(), found, "seed {seed}: taken twice");
    }
}

#[test]
fn a_batch_is_routed_as_its_rows_alone() {
    let settings =
        IndexSettings { dimension: DIMENSION, metric: Metric::L2, element: Element::F32, seed: 3 };
    let sizes = ClusterSettings {
        leaf_rows_max: 64,
        leaf_rows_min: 16,
        node_leaves_max: 12,
        ..Default::default()
    };
    let (mut index, mut random) = (Cluster::new(settings, sizes), SplitMix(3));
    let mut row = || -> Vec<f32> { (0..DIMENSION).map(|_| random.normal()).collect() };
    for id in 0..20_000 {
        let key = RowKey { id, version: 1, code: 0, shard: 0 };
        index.upsert(key, VectorRef::F32(&row()));
    }
    let padded = index.shared.rotation.padded();
    let rows: Vec<f32> = (0..301).flat_map(|_| row()).collect();
    let (mut scratch, mut together, mut alone) = (RouteScratch::default(), Vec::new(), Vec::new());
    let tree = &index.tree;
    assert!(tree.nodes.len() > 20 && padded == DIMENSION);
    nearest_leaves(tree, &rows, padded, &mut scratch, &mut together);
    for row in rows.chunks_exact(padded) {
        nearest_leaves(tree, row, padded, &mut scratch, &mut alone);
    }
    assert_eq!(together, alone);
    // Most rows get the nearest leaf of all, and no row one that is much farther.
    let mut nearest_of_all = 0;
    for (row, &leaf) in rows.chunks_exact(padded).zip(&together) {
        let distance = |leaf: &super::Leaf| kernels::l2_squared(row, &leaf.centroid);
        let least = tree.leaves().map(|leaf| distance(leaf)).fold(f32::INFINITY, f32::min);
        let found = distance(&index.state(leaf).leaf);
        assert!(found <= least * 1.5, "{found} where {least} is the least");
        nearest_of_all += usize::from(found == least);
    }
    assert!(nearest_of_all > 150, "{nearest_of_all} of 301 have the nearest leaf");
}
