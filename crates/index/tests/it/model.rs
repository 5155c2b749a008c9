//! A million operations against a map with brute force, in three mixes; every answer is checked.

use vstream_index::contract::{ask, clustered, Oracle};
use vstream_index::{
    Cluster, ClusterSettings, Effort, IndexSettings, Insert, RowKey, Scratch, VectorRef,
};
use vstream_vector::{Element, Metric, SplitMix};

const DIMENSION: usize = 8;

/// One mix: of 100 operations so many deletes, over so many ids.
fn run(seed: u64, operations: u64, deletes: u64, ids: usize, sizes: ClusterSettings) {
    println!("seed {seed}");
    let mut random = SplitMix(seed);
    let rows = clustered(&mut random, 4_096, DIMENSION, 30);
    let settings =
        IndexSettings { dimension: DIMENSION, metric: Metric::L2, element: Element::F32, seed };
    let mut index = Cluster::new(settings, sizes);
    let mut oracle = Oracle::new(Metric::L2);
    let reader = index.reader();
    let mut scratch = Scratch::new();
    for version in 1..=operations {
        let id = random.below(ids) as u64;
        if random.next() % 100 < deletes {
            assert_eq!(index.delete(id, version), oracle.delete(id, version));
        } else {
            let row = &rows[random.below(4_096) * DIMENSION..][..DIMENSION];
            let key = RowKey { id, version, code: version, shard: (id % 7) as u16 };
            let applied = index.upsert(key, VectorRef::F32(row));
            assert_eq!(applied, oracle.upsert(id, version, row));
        }
        if version % 1_009 == 0 {
            let query = &rows[random.below(4_096) * DIMENSION..][..DIMENSION];
            let exact = ask(&*reader, &mut scratch, query, 10, Effort::Exact);
            assert_eq!(exact, oracle.search(query, 10), "at operation {version}");
            let effort = Effort::Approximate { probes: 4, refine: 40 };
            let answer = ask(&*reader, &mut scratch, query, 10, effort);
            oracle.check_sound(query, 10, &answer);
        }
    }
    let mut ids = Vec::new();
    reader.for_each_row(&mut |key, _| ids.push(key.id));
    ids.sort_unstable();
    assert_eq!(ids, oracle.ids());
}

#[test]
fn growing_then_steady() {
    run(1, 400_000, 30, 20_000, ClusterSettings::default());
}

#[test]
fn few_ids_replaced_all_the_time() {
    run(2, 300_000, 10, 300, ClusterSettings::default());
}

#[test]
fn more_deletes_than_upserts_in_small_leaves() {
    let sizes = ClusterSettings {
        leaf_rows_max: 64,
        leaf_rows_min: 20,
        batch_rows: 7,
        node_leaves_max: 6,
        jobs_per_batch: 1,
        ..ClusterSettings::default()
    };
    run(3, 300_000, 60, 8_000, sizes);
}
