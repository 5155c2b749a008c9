//! Leaves follow the rows: merged when they thin out, and not over and over.

use vstream_index::contract::{ask, clustered};
use vstream_index::{
    Cluster, ClusterSettings, Effort, IndexSettings, IndexStats, Insert, RowKey, Scratch, VectorRef,
};
use vstream_vector::{Element, Metric, SplitMix};

const DIMENSION: usize = 24;
const ROWS: u64 = 30_000;

fn index() -> Cluster {
    let settings =
        IndexSettings { dimension: DIMENSION, metric: Metric::L2, element: Element::F32, seed: 3 };
    Cluster::new(settings, ClusterSettings::default())
}

fn insert(index: &mut Cluster, rows: &[f32], id: u64, version: u64) {
    let row = &rows[id as usize * DIMENSION..][..DIMENSION];
    index.upsert(RowKey { id, version, code: 0, shard: 0 }, VectorRef::F32(row));
}

fn jobs(stats: &IndexStats) -> u64 {
    stats.splits + stats.merges
}

#[test]
fn thin_leaves_are_merged_and_stay_so() {
    let mut random = SplitMix(11);
    let rows = clustered(&mut random, ROWS as usize, DIMENSION, 300);
    let mut grown = index();
    (0..ROWS).for_each(|id| insert(&mut grown, &rows, id, 1));
    let full = grown.stats();
    assert!(full.merges * 20 <= full.splits, "growth alone merges next to nothing: {full:?}");

    // Deletes four of five rows, anywhere.
    let mut order: Vec<u64> = (0..ROWS).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, random.below(last + 1));
    }
    let (gone, left) = order.split_at(ROWS as usize * 4 / 5);
    gone.iter().for_each(|&id| assert!(grown.delete(id, 1)));
    let thinned = grown.stats();
    let mut fresh = index();
    left.iter().for_each(|&id| insert(&mut fresh, &rows, id, 1));
    let (now, built) = (thinned.leaves, fresh.stats().leaves);
    assert!(now * 4 <= built * 5, "{now} leaves, {built} in a fresh index: {thinned:?}");
    let split = thinned.splits - full.splits;
    assert!(split * 4 <= thinned.merges, "few merged rows are split again: {thinned:?}");

    // Replaces every row once: the number of leaves holds, and few jobs are needed.
    for (&id, version) in left.iter().zip(2..) {
        insert(&mut grown, &rows, id, version);
    }
    let after = grown.stats();
    assert!(after.leaves * 4 <= built * 5, "{after:?}");
    assert!(jobs(&after) - jobs(&thinned) <= built / 2, "{thinned:?} then {after:?}");

    let (live, reader) = (grown.reader(), fresh.reader());
    let mut scratch = Scratch::new();
    let effort = Effort::Approximate { probes: 6, refine: 60 };
    let (mut found, mut could) = (0, 0);
    for query in clustered(&mut random, 300, DIMENSION, 300).chunks_exact(DIMENSION) {
        let truth = ask(&*live, &mut scratch, query, 10, Effort::Exact);
        let is_true = |id: u64| truth.iter().any(|row| row.id == id);
        let hits = |answer: Vec<vstream_vector::Neighbor>| {
            answer.iter().filter(|row| is_true(row.id)).count()
        };
        found += hits(ask(&*live, &mut scratch, query, 10, effort));
        could += hits(ask(&*reader, &mut scratch, query, 10, effort));
    }
    assert!(found + 60 >= could, "{found} of 3000 found, {could} in a fresh index");
}
