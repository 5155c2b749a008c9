//! A million operations against a map with brute force, in three mixes; every answer is checked.

use vstream_index::contract::{ask, clustered, fitted, Oracle};
use vstream_index::{
    Cluster, ClusterSettings, Effort, IndexSettings, Insert, RowKey, Scratch, VectorBuffer,
};
use vstream_vector::{Element, Metric, SplitMix};

const DIMENSION: usize = 8;

/// A mix of writes: `deletes` of 100 operations are deletes, over `ids` ids.
struct Mix {
    seed: u64,
    element: Element,
    operations: u64,
    deletes: u64,
    ids: usize,
}

fn run(mix: Mix, sizes: ClusterSettings) {
    let Mix { seed, element, operations, deletes, ids } = mix;
    println!("{element}, seed {seed}");
    let mut random = SplitMix(seed);
    let rows = fitted(element, clustered(&mut random, 4_096, DIMENSION, 30));
    let settings = IndexSettings { dimension: DIMENSION, metric: Metric::L2, element, seed };
    let mut index = Cluster::new(settings, sizes);
    let mut oracle = Oracle::new(Metric::L2);
    let mut narrowed = VectorBuffer::new(element);
    let reader = index.reader();
    let mut scratch = Scratch::new();
    for version in 1..=operations {
        let id = random.below(ids) as u64;
        if random.next() % 100 < deletes {
            assert_eq!(index.delete(id, version), oracle.delete(id, version));
        } else {
            narrowed.narrow(&rows[random.below(4_096) * DIMENSION..][..DIMENSION]);
            let key = RowKey { id, version, code: version, shard: (id % 7) as u16 };
            let applied = index.upsert(key, narrowed.vector());
            assert_eq!(applied, oracle.upsert(id, version, &narrowed));
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
    reader.for_each_row(&mut |row| ids.push(row.key.id));
    ids.sort_unstable();
    assert_eq!(ids, oracle.ids());
}

fn small_leaves() -> ClusterSettings {
    ClusterSettings {
        leaf_rows_max: 64,
        leaf_rows_min: 20,
        batch_rows: 7,
        node_leaves_max: 6,
        jobs_per_batch: 1,
        ..ClusterSettings::default()
    }
}

#[test]
fn growing_then_steady() {
    let mix = Mix { seed: 1, element: Element::F32, operations: 400_000, deletes: 30, ids: 20_000 };
    run(mix, ClusterSettings::default());
}

#[test]
fn few_ids_replaced_all_the_time() {
    let mix = Mix { seed: 2, element: Element::F32, operations: 300_000, deletes: 10, ids: 300 };
    run(mix, ClusterSettings::default());
}

#[test]
fn more_deletes_than_upserts_in_small_leaves() {
    let mix = Mix { seed: 3, element: Element::F32, operations: 300_000, deletes: 60, ids: 8_000 };
    run(mix, small_leaves());
}

#[test]
fn halves_in_small_leaves() {
    let mix = Mix { seed: 4, element: Element::F16, operations: 150_000, deletes: 40, ids: 8_000 };
    run(mix, ClusterSettings { second_look: true, ..small_leaves() });
}

#[test]
fn signed_bytes_growing_then_steady() {
    let mix = Mix { seed: 5, element: Element::I8, operations: 150_000, deletes: 30, ids: 8_000 };
    run(mix, ClusterSettings::default());
}
