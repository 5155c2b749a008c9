//! Interleavings, made certain: the writer runs while a reader stands in the middle of a walk.

use vstream_index::stages::{PlaceState, RotatedQueries, Wanted};
use vstream_index::{Cluster, ClusterSettings, IndexSettings, Insert, RowKey, Scratch, VectorRef};
use vstream_vector::{Element, Metric, SplitMix};

fn key(id: u64, version: u64) -> RowKey {
    RowKey { id, version, code: 0, shard: 0 }
}

/// A delete that ran maintenance while rows were in the tail published those rows as placed; a
/// reader of that root then saw them twice when they were placed: in the tail and in their leaf.
#[test]
fn a_row_of_the_tail_is_seen_once_when_it_is_placed_after_maintenance() {
    let settings =
        IndexSettings { dimension: 2, metric: Metric::L2, element: Element::F32, seed: 1 };
    let sizes = ClusterSettings {
        leaf_rows_max: 64,
        leaf_rows_min: 16,
        batch_rows: 8,
        ..ClusterSettings::default()
    };
    let mut index = Cluster::new(settings, sizes);
    let mut version = 0;
    let mut upsert = |index: &mut Cluster, id: u64| {
        version += 1;
        index.upsert(key(id, version), VectorRef::F32(&[id as f32, 1.0]));
    };
    (0..600).for_each(|id| upsert(&mut index, id));
    (1000..1004).for_each(|id| upsert(&mut index, id));
    let merges = |index: &Cluster| index.stats().merges + index.stats().rewrites;
    let before = merges(&index);
    for id in 100..200 {
        index.delete(id, u64::MAX);
    }
    assert!(merges(&index) > before, "the deletes must run maintenance");
    let reader = index.reader();
    let mut seen = Vec::new();
    reader.for_each_row(&mut |vstream_index::IndexRow { key, .. }| {
        if seen.is_empty() {
            (2000..2008).for_each(|id| upsert(&mut index, id));
        }
        seen.push(key.id);
    });
    seen.sort_unstable();
    let wanted: Vec<u64> = (0..100).chain(200..600).chain(1000..1004).collect();
    assert_eq!(seen, wanted);
}

/// A scan that met one row of after its moment among the best doubled what it kept until it kept every row.
#[test]
fn a_scan_that_meets_some_hidden_rows_is_not_made_again() {
    const DIMENSION: usize = 64;
    let settings =
        IndexSettings { dimension: DIMENSION, metric: Metric::L2, element: Element::F32, seed: 3 };
    let mut random = SplitMix(3);
    let mut normal = || -> Vec<f32> { (0..DIMENSION).map(|_| random.normal()).collect() };
    let mut index = Cluster::new(settings, ClusterSettings::default());
    let rows: Vec<Vec<f32>> = (0..8_000).map(|_| normal()).collect();
    for (id, row) in (0..).zip(&rows) {
        index.upsert(key(id, 1), VectorRef::F32(row));
    }
    let query = normal();
    let (reader, keep) = (index.reader(), 400);
    let snapshot = reader.snapshot(None);
    // Forty that hide among the best, and as many as it takes until they are in leaves.
    for id in 10_000..10_040 {
        let near: Vec<f32> = query.iter().zip(normal()).map(|(x, y)| x + 0.01 * y).collect();
        index.upsert(key(id, 1), VectorRef::F32(&near));
    }
    (20_000..20_200).for_each(|id| {
        index.upsert(key(id, 1), VectorRef::F32(&normal()));
    });

    let (mut state, mut queries) = (PlaceState::<Scratch>::default(), RotatedQueries::default());
    let rotated = queries.rotate(snapshot.rotation(), &query);
    let rotated = queries.get(rotated);
    let mut costs = Vec::new();
    snapshot.estimate_leaves(rotated, usize::MAX, &mut state.stage, &mut costs);
    snapshot.rank_leaves(rotated, f32::INFINITY, &mut state.stage, &mut costs);
    snapshot.keep_leaves(0..usize::MAX, f32::INFINITY, &mut state.stage);
    let wanted = Wanted { keep, below: f32::INFINITY, deviations: 0.0 };
    let (mut scanned, mut found) = (0, Vec::new());
    while snapshot.next_codes(&mut state.stage).is_some() {
        let Ok(seen) = snapshot.scan_codes(rotated, &[], wanted, &mut state.stage, &mut found);
        scanned += seen.rows;
    }
    assert!((keep..keep + keep / 8).contains(&found.len()), "{} of {keep}: some hid", found.len());
    assert!(scanned < 10_000, "{scanned} codes of 8,240 rows");
}
