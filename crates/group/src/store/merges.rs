//! Merges that keep codes: which rows keep them, and that answers stay exact.

use std::collections::BTreeMap;
use std::sync::Arc;

use vstream_attribute::Fields;
use vstream_store::{FileStore, Memory, Syncing};
use vstream_vector::{kernels, Element, Metric, SplitMix};

use super::GroupStore;
use crate::accept::RowRef;
use crate::query::GroupQuery;
use crate::settings::{Bound, GroupSettings};

/// Groups: one with clusters, one with codes alone, one without.
const GROUPS: [(&str, usize); 3] = [("large", 3000), ("middle", 700), ("small", 60)];

type Rows = BTreeMap<(&'static str, u64), (u64, Vec<f32>)>;

/// A store and what it holds.
struct Filled {
    store: GroupStore,
    rows: Rows,
    random: SplitMix,
    version: u64,
}

fn filled(seed: u64, settings: GroupSettings) -> Filled {
    let files = FileStore::new(Arc::new(Memory::new()), Syncing::Full);
    let store = GroupStore::open(files, settings).unwrap();
    Filled { store, rows: Rows::new(), random: SplitMix(seed), version: 0 }
}

impl Filled {
    /// A vector near one of eight topics; the numbers of an f32, so that nothing is rounded.
    fn vector(&mut self) -> Vec<f32> {
        let topic = self.random.below(8);
        let dimension = self.store.settings().dimension;
        let spread = |at: usize| (8.0 / (at + 8) as f32).sqrt();
        let mut coordinate = |at: usize| {
            let centre = if (at + topic).is_multiple_of(8) { 3.0 } else { 0.0 };
            spread(at) * (centre + self.random.normal())
        };
        (0..dimension).map(&mut coordinate).collect()
    }

    fn upsert(&mut self, group: &'static str, id: u64) {
        let vector = self.vector();
        self.version += 1;
        let row = RowRef { id, version: self.version, vector: &vector, fields: Fields::NONE };
        assert!(self.store.upsert(group, &row).unwrap());
        self.rows.insert((group, id), (self.version, vector));
    }

    fn delete(&mut self, group: &'static str, id: u64) {
        self.version += 1;
        self.store.delete(group, id, self.version).unwrap();
        self.rows.remove(&(group, id));
    }

    /// Merges the newest `runs` runs; rows that it holds and rows whose codes it kept.
    fn merge(&mut self, runs: usize) -> (u64, u64) {
        let merged = self.store.compaction_of(0..runs).run().unwrap();
        let summary = merged.summary;
        self.store.finish_compaction(merged).unwrap();
        (summary.rows, summary.kept)
    }

    /// Compares answers with a scan of all rows.
    fn check(&mut self, what: &str) {
        let metric = self.store.settings().metric;
        let reader = self.store.reader();
        for (group, _) in GROUPS {
            for _ in 0..12 {
                let query = self.vector();
                let distance = |vector: &[f32]| match metric {
                    Metric::L2 => kernels::l2_squared(&query, vector),
                    Metric::InnerProduct | Metric::Cosine => {
                        -kernels::inner_product(&query, vector)
                    }
                };
                let of_group = self.rows.iter().filter(|((of, _), _)| *of == group);
                let mut wanted: Vec<(f32, u64, u64)> = of_group
                    .map(|((_, id), (version, vector))| (distance(vector), *id, *version))
                    .collect();
                wanted.sort_by(|a, b| a.0.total_cmp(&b.0));
                wanted.truncate(10);
                let answer = reader.search(group, &GroupQuery::nearest(&query, 10)).unwrap();
                let found: Vec<(u64, u64)> =
                    answer.rows.iter().map(|hit| (hit.row.id, hit.row.version)).collect();
                let wanted: Vec<(u64, u64)> =
                    wanted.iter().map(|(_, id, version)| (*id, *version)).collect();
                assert_eq!(found, wanted, "{what}: {group}");
            }
        }
    }
}

fn settings(metric: Metric, dimension: usize, bound: Bound) -> GroupSettings {
    GroupSettings {
        bound,
        clustered_rows: 1024,
        seed: Some(5),
        ..GroupSettings::new(dimension, metric, Element::F32)
    }
}

fn kinds() -> [GroupSettings; 3] {
    [
        settings(Metric::L2, 64, Bound::Proven),
        settings(Metric::InnerProduct, 100, Bound::Proven),
        settings(Metric::L2, 192, Bound::Deviations(7.0)),
    ]
}

/// Rows come in four runs, then a few change, again and again.
#[test]
fn merges_keep_codes_and_answers_stay_exact() {
    for (at, settings) in kinds().into_iter().enumerate() {
        let proven = settings.bound == Bound::Proven;
        let mut filled = filled(40 + at as u64, settings);
        for run in 0..4 {
            for (group, size) in GROUPS {
                (0..size as u64).filter(|id| id % 4 == run).for_each(|id| filled.upsert(group, id));
            }
            filled.store.flush().unwrap();
        }
        // The large group gets clusters; the codes of the middle one are those of its four runs.
        let (rows, kept) = filled.merge(4);
        assert_eq!((rows, kept), (3760, 700), "{at}");
        filled.check("four runs");
        for round in 0..4 {
            for (group, size) in GROUPS {
                for _ in 0..size / 20 {
                    let id = filled.random.below(size) as u64;
                    match filled.random.below(4) {
                        0 => filled.delete(group, id),
                        _ => filled.upsert(group, id),
                    }
                }
            }
            filled.store.flush().unwrap();
            let (rows, kept) = filled.merge(2);
            // A leaf of signs is kept whole or not at all.
            assert!(!proven || kept * 100 >= rows * 80, "{at}, {round}: {kept} of {rows}");
            assert!(kept < rows, "{at}, {round}: {kept} of {rows}");
            filled.check("a few rows changed");
        }
        filled.store.compact_all().unwrap();
        assert_eq!(filled.store.stats().rows, filled.rows.len() as u64);
        filled.check("one run");
    }
}

/// Groups that are in one input alone are copied, codes and all; a group that was dropped is not.
#[test]
fn groups_of_one_run_are_copied() {
    for (at, settings) in kinds().into_iter().enumerate() {
        let mut filled = filled(50 + at as u64, settings);
        for (group, size) in GROUPS {
            (0..size as u64).for_each(|id| filled.upsert(group, id));
            filled.store.flush().unwrap();
        }
        // In the order of ids, the large group is not as a merge leaves it.
        assert_eq!(filled.merge(3), (3760, 700), "{at}");
        filled.check("runs of one group each");
        filled.upsert("small", 1000);
        filled.store.flush().unwrap();
        // Now it is.
        assert_eq!(filled.merge(2), (3761, 3700), "{at}");
        filled.check("clusters that were copied");
        filled.store.drop_group("middle").unwrap();
        filled.rows.retain(|(group, _), _| *group != "middle");
        filled.delete("small", 3);
        filled.upsert("middle", 5);
        filled.store.flush().unwrap();
        filled.store.compact_all().unwrap();
        filled.check("a group that was dropped");
        let stats = filled.store.stats();
        assert_eq!((stats.runs, stats.rows, stats.tombstones), (1, 3061, 0), "{at}");
    }
}

/// An upsert that is older than the delete of its id changes nothing, wherever it waits while runs are merged, until a
/// merge of all rows has forgotten the delete.
#[test]
fn a_late_upsert_stays_hidden_until_a_merge_of_all_rows() {
    let mut filled = filled(3, settings(Metric::L2, 16, Bound::Proven));
    let store = &mut filled.store;
    let vector = [1.0; 16];
    let upsert = |store: &mut GroupStore, version: u64| {
        let row = RowRef { id: 1, version, vector: &vector, fields: Fields::NONE };
        store.upsert("small", &row).unwrap()
    };
    let versions = |store: &GroupStore| -> Vec<u64> {
        let answer = store.reader().search("small", &GroupQuery::nearest(&vector, 10)).unwrap();
        answer.rows.iter().map(|hit| hit.row.version).collect()
    };
    let merge = |store: &mut GroupStore, range: std::ops::Range<usize>| {
        let merged = store.compaction_of(range).run().unwrap();
        store.finish_compaction(merged).unwrap();
    };
    upsert(store, 5);
    store.flush().unwrap();
    store.delete("small", 1, 10).unwrap();
    store.flush().unwrap();
    assert!(upsert(store, 7), "nobody looks whether a run hides it");
    merge(store, 0..2);
    assert_eq!((versions(store), store.stats().tombstones), (vec![], 1), "it is in memory");
    store.flush().unwrap();
    merge(store, 1..2);
    assert_eq!((versions(store), store.stats().tombstones), (vec![], 1), "it is in a newer run");
    // A merge of all rows forgets the delete, and the rows that it hid with it.
    let begun = store.compaction_of(0..2);
    assert!(!upsert(store, 8), "it comes while the delete is being forgotten");
    let merged = begun.run().unwrap();
    store.finish_compaction(merged).unwrap();
    assert_eq!((versions(store), store.stats().tombstones), (vec![], 0));
    assert!(upsert(store, 9));
    assert_eq!(versions(store), [9]);
}

/// The merges that a store chooses forget deletes, also while rows come in between.
#[test]
fn a_chosen_merge_that_reaches_the_oldest_run_forgets_deletes() {
    let mut filled = filled(4, settings(Metric::L2, 16, Bound::Proven));
    let fanout = filled.store.settings().fanout as u64;
    for turn in 0..fanout {
        for id in 0..20 {
            filled.upsert("small", 20 * turn + id);
        }
        if turn > 0 {
            filled.delete("small", 20 * (turn - 1));
        }
        filled.store.flush().unwrap();
    }
    filled.upsert("small", 9_999);
    assert!(filled.store.stats().tombstones > 0);
    assert!(filled.store.compact().unwrap());
    let stats = filled.store.stats();
    assert_eq!((stats.runs, stats.tombstones, stats.memtable_rows), (1, 0, 0));
    filled.check("after the merge");
}
