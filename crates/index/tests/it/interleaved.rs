//! Interleavings, made certain: the writer runs while a reader stands in the middle of a walk.

use vstream_index::{Cluster, ClusterSettings, IndexSettings, Insert, RowKey, VectorRef};
use vstream_vector::{Element, Metric};

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
