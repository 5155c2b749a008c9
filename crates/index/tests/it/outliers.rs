//! Rare rows that are 10,000 times as long as the others: none of the others may become harder to
//! find, and they are found themselves.

use vstream_index::contract::{ask, clustered};
use vstream_index::{
    Cluster, ClusterSettings, Effort, IndexSettings, Insert, RowKey, Scratch, VectorRef,
};
use vstream_vector::{Element, Metric, SplitMix};

const DIMENSION: usize = 64;
const ROWS: usize = 120_000;
/// One row in so many is an outlier.
const EVERY: usize = 600;
const LONGER: f32 = 1e4;

/// Leaves so small that there are more than a query ranks.
fn index(metric: Metric) -> Cluster {
    let settings = IndexSettings { dimension: DIMENSION, metric, element: Element::F32, seed: 3 };
    let sizes = ClusterSettings { leaf_rows_max: 64, leaf_rows_min: 16, ..Default::default() };
    Cluster::new(settings, sizes)
}

fn filled(metric: Metric, vectors: &[f32]) -> Cluster {
    let mut index = index(metric);
    for (id, vector) in vectors.chunks_exact(DIMENSION).enumerate() {
        let key = RowKey { id: id as u64, version: 1, code: 0, shard: 0 };
        index.upsert(key, VectorRef::F32(vector));
    }
    index
}

/// How many of `ids` are the first answer to their own vector.
fn found(index: &Cluster, vectors: &[f32], ids: impl Iterator<Item = usize>) -> usize {
    let (reader, mut scratch) = (index.reader(), Scratch::new());
    let effort = Effort::Approximate { probes: 16, refine: 100 };
    ids.filter(|&id| {
        let query = &vectors[id * DIMENSION..][..DIMENSION];
        let answer = ask(&*reader, &mut scratch, query, 1, effort);
        answer.first().is_some_and(|row| row.id == id as u64)
    })
    .count()
}

#[test]
fn outliers_hide_no_other_row() {
    let ordinary = clustered(&mut SplitMix(21), ROWS, DIMENSION, 400);
    let mut vectors = ordinary.clone();
    for row in vectors.chunks_exact_mut(DIMENSION).step_by(EVERY) {
        row.iter_mut().for_each(|x| *x *= LONGER);
    }
    let (without, with) = (filled(Metric::L2, &ordinary), filled(Metric::L2, &vectors));
    assert!(with.stats().leaves > 1_500, "{:?}", with.stats());
    let sample = || (0..ROWS).filter(|id| id % EVERY != 0).step_by(31);
    let before = found(&without, &ordinary, sample());
    let after = found(&with, &vectors, sample());
    let sampled = sample().count();
    assert!(before * 100 >= sampled * 99, "{before} of {sampled} without outliers");
    assert!(after * 200 >= before * 199, "{after} beside outliers, {before} without");
    let outliers = found(&with, &vectors, (0..ROWS).step_by(EVERY));
    assert!(outliers * 100 >= ROWS / EVERY * 95, "{outliers} of {}", ROWS / EVERY);
}
