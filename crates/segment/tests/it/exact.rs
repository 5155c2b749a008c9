//! An exact search leaves out leaves, and no row that belongs in its answer.

use vstream_attribute::Filter;
use vstream_index::{
    Cluster, ClusterSettings, Effort, IndexSettings, Insert, Probe, RowKey, VectorBuffer, VectorRef,
};
use vstream_segment::{write_pinned, SegmentScratch, SegmentSettings, Tombstones};
use vstream_vector::{Element, Metric, Neighbor, SplitMix, TopK};

use crate::{memory, open, resident};

const DIMENSION: usize = 96;
const ROWS: u64 = 20_000;
const CENTERS: u64 = 40;
const SEED: u64 = 23;
const METRICS: [Metric; 3] = [Metric::L2, Metric::Cosine, Metric::InnerProduct];

/// Rows around 40 centers, some wider spread than others, and those of two far from all. Of every
/// eighth there are 50 that are equal.
fn vector(id: u64) -> Vec<f32> {
    let of = id % CENTERS;
    let (mut random, mut center) =
        (SplitMix(if id.is_multiple_of(8) { id % 400 } else { id }), SplitMix(of));
    let spread = if of.is_multiple_of(20) { 2.0 } else { 0.1 + 0.02 * (of % 10) as f32 };
    (0..DIMENSION).map(|_| center.normal() + spread * random.normal()).collect()
}

/// What the filter of some queries lets through.
fn is_few(id: u64) -> bool {
    id % CENTERS < 9 && id.is_multiple_of(3)
}

fn unit(metric: Metric, mut vector: Vec<f32>) -> Vec<f32> {
    if metric == Metric::Cosine {
        let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        vector.iter_mut().for_each(|x| *x /= norm);
    }
    vector
}

fn distance(metric: Metric, a: &[f32], b: &[f32]) -> f64 {
    let pairs = || a.iter().zip(b).map(|(&a, &b)| (f64::from(a), f64::from(b)));
    match metric {
        Metric::L2 => pairs().map(|(a, b)| (a - b) * (a - b)).sum(),
        Metric::Cosine => 1.0 - pairs().map(|(a, b)| a * b).sum::<f64>(),
        Metric::InnerProduct => -pairs().map(|(a, b)| a * b).sum::<f64>(),
    }
}

/// Asks exactly for rows near rows, and holds each answer to all distances. Returns the share of the
/// rows that a search without a filter looked at.
fn looked_at(metric: Metric, element: Element) -> f64 {
    let store = memory();
    let of = IndexSettings { metric, element, dimension: DIMENSION, seed: SEED };
    let mut index = Cluster::new(of, ClusterSettings::default());
    for id in 0..ROWS {
        let key = RowKey { id, version: 1, code: 0, shard: 0 };
        let mut buffer = VectorBuffer::new(element);
        index.upsert(key, buffer.narrow(&unit(metric, vector(id))));
    }
    let kind = vstream_segment::SegmentKind::Cluster;
    let tier = vstream_store::codec::Tier::Hot;
    let settings = SegmentSettings { metric, element, ..super::settings(DIMENSION, kind, tier) };
    let settings = SegmentSettings { seed: SEED, first_leaf: 0, ..settings };
    write_pinned(&store, "rows", settings, &*index.reader().pin()).expect("a segment");
    let segment = open(&store, "rows", resident());
    let gone = Tombstones::none(ROWS as u32);
    (0..ROWS).step_by(7).for_each(|id| {
        let (row, _) = segment.find(id).expect("a whole file").expect("a row");
        assert!(gone.add(row, 1));
    });
    let vectors: Vec<Vec<f32>> = (0..ROWS).map(|id| unit(metric, vector(id))).collect();
    let (mut scratch, mut random) = (SegmentScratch::new(), SplitMix(SEED));
    let (mut rows, mut plain) = (0, 0);
    for case in 0..120 {
        let near = &vectors[random.below(ROWS as usize)];
        let query: Vec<f32> = near.iter().map(|x| x + 0.05 * random.normal()).collect();
        let query = unit(metric, query);
        let k = [1, 10, 100, 300][case % 4];
        let few: Vec<u64> = (0..ROWS).filter(|&id| is_few(id)).collect();
        let filter = (case % 3 == 2).then_some(Filter::Ids(few));
        let matches = |id: u64| filter.is_none() || is_few(id);
        let mut all: Vec<f64> = (0..ROWS)
            .filter(|&id| id % 7 != 0 && matches(id))
            .map(|id| distance(metric, &query, &vectors[id as usize]))
            .collect();
        all.sort_unstable_by(f64::total_cmp);
        let mut out = TopK::new(k);
        let probe = Probe { vector: &query, k, effort: Effort::Exact, filter: filter.as_ref() };
        let stats = segment.at(&gone, 1).search(&probe, &mut scratch, &mut out).expect("an answer");
        let mut found = Vec::new();
        out.drain_sorted(&mut found);
        assert_eq!(found.len(), k.min(all.len()), "{metric:?}, case {case}");
        if element == Element::F32 {
            let distance = |id: u64| -> f32 {
                vstream_index::distance(metric, &query, VectorRef::F32(&vectors[id as usize]))
            };
            let row = |id| Neighbor { distance: distance(id), id, version: 1 };
            let mut rows: Vec<Neighbor> =
                (0..ROWS).filter(|&id| id % 7 != 0 && matches(id)).map(row).collect();
            rows.sort_unstable_by(Neighbor::order);
            rows.truncate(k);
            assert_eq!(found, rows, "{metric:?}, case {case}");
        }
        for (row, &wanted) in found.iter().zip(&all) {
            assert!(row.id % 7 != 0 && matches(row.id), "{metric:?}, case {case}: {row:?}");
            // What rounding of halves does to a distance.
            let slack = if element == Element::F32 { 1e-4 } else { 2e-2 } * wanted.abs().max(1.0);
            let distance = f64::from(row.distance);
            assert!(
                (distance - wanted).abs() <= slack,
                "{metric:?}, case {case}: {row:?}, {wanted}"
            );
        }
        if filter.is_none() {
            (rows, plain) = (rows + stats.rows, plain + 1);
        }
    }
    rows as f64 / (plain * ROWS) as f64
}

#[test]
fn an_exact_search_looks_at_the_leaves_that_may_hold_its_answer() {
    for metric in METRICS {
        for element in [Element::F32, Element::F16] {
            let share = looked_at(metric, element);
            eprintln!("{metric:?}, {element:?}: {share:.3} of the rows");
            match metric {
                // No bound: every row that lives.
                Metric::InnerProduct => assert!((share - 6.0 / 7.0).abs() < 0.01, "{share}"),
                _ => assert!(share < 0.2, "{metric:?}, {element:?}: {share} of the rows"),
            }
        }
    }
}
