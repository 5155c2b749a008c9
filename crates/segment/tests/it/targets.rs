//! Rows that are written as runs of leaves that another segment defines.

use std::collections::{BTreeMap, BTreeSet};

use vstream_attribute::Filter;
use vstream_index::{
    Cluster, ClusterSettings, Effort, IndexRow, IndexSettings, Insert, Probe, RowKey, VectorRef,
};
use vstream_segment::{
    divide, suit, write_into, write_pinned, LeafRows, NearTargets, Segment, SegmentKind,
    SegmentScratch, SegmentSettings, SegmentWriter, Target, Targets, Tombstones, LEAF_ROWS_MAX,
};
use vstream_store::codec::{Policy, Tier};
use vstream_store::Store;
use vstream_vector::{Element, Metric, SplitMix, TopK};

use crate::memory;

const DIMENSION: usize = 64;
const SEED: u64 = 11;

fn vector(id: u64, moved: f32) -> Vec<f32> {
    let mut random = SplitMix(id);
    let mut at = SplitMix(id % 300);
    (0..DIMENSION).map(|_| at.normal() + moved + 0.5 * random.normal()).collect()
}

fn index(ids: std::ops::Range<u64>, moved: f32) -> Box<dyn Insert> {
    let settings = IndexSettings {
        metric: Metric::L2,
        element: Element::F32,
        dimension: DIMENSION,
        seed: SEED,
    };
    let mut index = Cluster::new(settings, ClusterSettings::default());
    for id in ids {
        let key = RowKey { id, version: 1, code: 0, shard: 0 };
        index.upsert(key, VectorRef::F32(&vector(id, moved)));
    }
    Box::new(index)
}

fn settings(file: u64) -> SegmentSettings {
    SegmentSettings {
        dimension: DIMENSION,
        metric: Metric::L2,
        element: Element::F32,
        kind: SegmentKind::Cluster,
        seed: SEED,
        identity: file,
        first_leaf: file << 26,
        policy: Policy::Best(Tier::Hot),
    }
}

fn open(store: &dyn Store, name: &str) -> Segment {
    crate::open(store, name, crate::resident())
}

/// The leaves that a segment defines.
fn targets_of(segment: &Segment) -> Targets {
    let target = |leaf| Target {
        leaf: segment.leaf_definition(leaf),
        reach: segment.leaf_reach(leaf),
        rows: u64::from(segment.leaf_rows(leaf)),
    };
    Targets::new(DIMENSION, SEED, (0..segment.leaves()).map(target).collect())
}

fn ids(segment: &Segment) -> Vec<u64> {
    let mut ids = Vec::new();
    segment.for_each_id(&mut |id, _, _| ids.push(id)).expect("ids");
    ids.sort_unstable();
    ids
}

#[test]
fn runs_have_numbers_and_centroids_of_their_leaves_and_answer_as_any_segment() {
    let store = memory();
    write_pinned(&store, "base", settings(1), &*index(0..8_000, 0.0).reader().pin()).expect("base");
    let base = open(&store, "base");
    let targets = targets_of(&base);
    assert!(suit(targets.all(), 4_000) && !suit(targets.all(), 10), "{} leaves", base.leaves());
    let more = index(8_000..12_000, 0.0);
    write_into(&store, "runs", settings(2), &*more.reader().pin(), &targets).expect("runs");
    let runs = open(&store, "runs");
    runs.verify().expect("a sound segment");
    assert_eq!(ids(&runs), (8_000..12_000).collect::<Vec<u64>>());
    let defined: BTreeMap<u64, usize> =
        (0..base.leaves()).map(|leaf| (base.leaf_number(leaf), leaf)).collect();
    let mut kept = 0;
    for leaf in 0..runs.leaves() {
        if let Some(&of) = defined.get(&runs.leaf_number(leaf)) {
            assert_eq!(runs.leaf_definition(leaf), base.leaf_definition(of));
            kept += runs.leaf_rows(leaf);
        } else {
            assert_eq!(runs.leaf_number(leaf) >> 26, 2, "a number of its own file");
        }
    }
    assert!(kept > 3_600, "{kept} rows of 4,000 are in leaves of the base");
    let (mut scratch, mut out) = (SegmentScratch::new(), TopK::new(10));
    let gone = Tombstones::none(runs.rows() as u32);
    let (mut found, mut wanted) = (0, 0);
    for id in (8_000..12_000).step_by(80) {
        let query = vector(id, 0.02);
        let mut ask = |effort| {
            let probe = Probe { vector: &query, k: 10, effort, filter: None };
            out.reset(10);
            runs.at(&gone, 1).search(&probe, &mut scratch, &mut out).expect("answers");
            out.rows().iter().map(|row| row.id).collect::<BTreeSet<u64>>()
        };
        let truth = ask(Effort::Exact);
        let probes = runs.leaves() / 2;
        found += ask(Effort::Approximate { probes, refine: 200 }).intersection(&truth).count();
        wanted += truth.len();
    }
    assert!(found * 100 >= wanted * 97, "{found} of {wanted}");
}

#[test]
fn rows_beyond_the_reach_of_all_leaves_get_leaves_of_their_own() {
    let store = memory();
    write_pinned(&store, "base", settings(1), &*index(0..4_000, 0.0).reader().pin()).expect("base");
    let targets = targets_of(&open(&store, "base"));
    let away = index(4_000..8_000, 6.0);
    write_into(&store, "away", settings(2), &*away.reader().pin(), &targets).expect("away");
    let away = open(&store, "away");
    away.verify().expect("a sound segment");
    assert_eq!(ids(&away), (4_000..8_000).collect::<Vec<u64>>());
    let own = (0..away.leaves()).filter(|&leaf| away.leaf_number(leaf) >> 26 == 2);
    let rows: u32 = own.clone().map(|leaf| away.leaf_rows(leaf)).sum();
    assert!(rows > 3_900, "{rows} rows in {} leaves of their own", own.count());
    assert!((0..away.leaves()).all(|leaf| away.leaf_rows(leaf) as usize <= LEAF_ROWS_MAX));
}

#[test]
fn equal_rows_are_divided_too() {
    let mut rows = LeafRows::new(Element::F32, DIMENSION);
    for id in 0..2_000 {
        let key = RowKey { id, version: 1, code: 0, shard: 0 };
        rows.push(IndexRow::plain(key, VectorRef::F32(&[1.0; DIMENSION])));
    }
    let parts = divide(&rows, (0..2_000).collect(), 3);
    assert!(parts.iter().all(|part| (1..=LEAF_ROWS_MAX).contains(&part.len())));
    let mut all: Vec<u32> = parts.into_iter().flatten().collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..2_000));
}

#[test]
fn every_row_of_a_leaf_is_within_its_reach() {
    let (store, mut random) = (memory(), SplitMix(5));
    let mut writer = SegmentWriter::create(&store, "base", settings(1)).expect("a file");
    let centre = |leaf: u64| vector(leaf, 0.0);
    for leaf in 0..200 {
        // Equal rows are all as far from the rounded centroid as their leaf reaches.
        let mut rows = LeafRows::new(Element::F32, DIMENSION);
        for id in 64 * leaf..64 * leaf + 64 {
            let key = RowKey { id, version: 1, code: 0, shard: 0 };
            rows.push(IndexRow::plain(key, VectorRef::F32(&centre(leaf))));
        }
        writer.leaf(&rows).expect("a leaf");
    }
    writer.finish().expect("a file");
    let (targets, mut near) = (targets_of(&open(&store, "base")), NearTargets::default());
    for leaf in 0..200 {
        assert_eq!(targets.nearest_of_all(&centre(leaf), &mut near), (leaf as u32, true));
        let beyond: Vec<f32> = centre(leaf).iter().map(|x| x + 0.1 * random.normal()).collect();
        assert_eq!(targets.nearest_of_all(&beyond, &mut near), (leaf as u32, false));
    }
}

#[test]
fn codes_without_a_gap_in_memory_answer_as_those_of_the_file() {
    let store = memory();
    write_pinned(&store, "base", settings(1), &*index(0..8_000, 0.0).reader().pin()).expect("base");
    let targets = targets_of(&open(&store, "base"));
    let more = index(8_000..8_700, 0.0);
    write_into(&store, "runs", settings(2), &*more.reader().pin(), &targets).expect("runs");
    let (held, away) = (open(&store, "runs"), crate::open(&store, "runs", crate::on_demand()));
    let rows = held.rows();
    assert!(
        (4..24).contains(&(rows / held.leaves() as u64)),
        "few rows per run: {}",
        held.leaves()
    );
    // A code takes 12 bytes. Blocks of the file have 32 lanes, whatever their rows.
    let (packed, stored) = (held.memory().codes, held.leaves() as u64 * 32 * 12);
    assert!(packed < rows * 14 && packed * 4 < stored * 3, "{packed} of {stored} bytes");
    assert_eq!((away.memory().codes, away.code_bytes().1), (0, packed));
    let gone = Tombstones::none(rows as u32);
    (0..rows as u32).step_by(5).for_each(|row| assert!(gone.add(row, 1)));
    let (mut scratch, mut random) = (SegmentScratch::new(), SplitMix(7));
    for case in 0..300 {
        let query = vector(8_000 + case, 0.02);
        let few: Vec<u64> = (8_000..8_700).filter(|_| random.below(9) == 0).collect();
        let filter = (case % 2 == 1).then_some(Filter::Ids(few));
        let (probes, refine) = (1 + random.below(60), 1 + random.below(40));
        let effort = Effort::Approximate { probes, refine };
        let probe = Probe { vector: &query, k: 10, effort, filter: filter.as_ref() };
        let mut ask = |segment: &Segment| {
            let mut out = TopK::new(10);
            out.reset(10);
            let stats = segment.at(&gone, 1).search(&probe, &mut scratch, &mut out);
            (stats.expect("an answer"), out.rows().to_vec())
        };
        let (one, other) = (ask(&held), ask(&away));
        assert_eq!(one.1, other.1, "case {case}: the same rows");
        assert_eq!((one.0.leaves, one.0.exact), (other.0.leaves, other.0.exact), "case {case}");
    }
}
