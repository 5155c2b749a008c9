//! Rows that are read by id, beside a writer that replaces, changes, deletes and moves them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use vstream_attribute::{AttributeKind, AttributesBuilder, Schema, Update, ValueRef};
use vstream_index::contract::clustered;
use vstream_index::{
    Cluster, ClusterSettings, IndexRow, IndexSettings, IndexSnapshot, Insert, LeastIds, RowKey,
    VectorRef,
};
use vstream_vector::{Element, Metric, SplitMix};

const DIMENSION: usize = 64;
const IDS: u64 = 2_000;

/// What the rows of a moment say: version and attribute by id.
type Shown = BTreeMap<u64, (u64, i64)>;

fn values(row: &IndexRow<'_>) -> (u64, i64) {
    match row.fields.attributes.get(0) {
        Some(ValueRef::I64(at)) => (row.key.version, at),
        other => panic!("row {} has {other:?}", row.key.id),
    }
}

/// Reads some ids, of rows that are there and of others, and compares with a walk at the same moment.
fn check(moment: &dyn IndexSnapshot, walked: &Shown, random: &mut SplitMix) {
    let mut ids: Vec<u64> = (0..40).map(|_| random.below(2 * IDS as usize) as u64).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut read = Shown::new();
    moment.read_ids(&ids, &mut |at, row| {
        assert_eq!(row.key.id, ids[at]);
        assert!(read.insert(row.key.id, values(&row)).is_none(), "a row twice");
    });
    let known = |id: &u64| walked.get(id).map(|row| (*id, *row));
    assert_eq!(read, ids.iter().filter_map(known).collect::<Shown>());
    let after = random.below(IDS as usize) as u64;
    let mut least = LeastIds::new(Some(after), 20);
    moment.least_ids(None, &mut least);
    let page: Vec<u64> = walked.range(after + 1..).map(|(&id, _)| id).take(20).collect();
    assert_eq!(least.finish().0, page);
}

/// A moment shows the same rows by walk, by id and in pages, when it is fresh and when it is old.
#[test]
fn ids_lead_to_the_rows_of_the_moment() {
    let settings =
        IndexSettings { dimension: DIMENSION, metric: Metric::L2, element: Element::F32, seed: 5 };
    let sizes = ClusterSettings {
        leaf_rows_max: 64,
        leaf_rows_min: 16,
        node_leaves_max: 8,
        ..ClusterSettings::default()
    };
    let mut index = Cluster::new(settings, sizes);
    let rows = clustered(&mut SplitMix(3), 4_096, DIMENSION, 30);
    let schema = Schema::new([("at", AttributeKind::I64)]).expect("a schema");
    let mut builder = AttributesBuilder::default();
    let (stop, checked) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let reader = index.reader();
        let (stop, checked) = (&stop, &checked);
        scope.spawn(move || {
            let mut random = SplitMix(9);
            let mut old: Option<(Box<dyn IndexSnapshot>, Shown)> = None;
            while !stop.load(Ordering::SeqCst) {
                let moment = reader.snapshot(None);
                // First by id, before the writer has gone on.
                let fresh: Vec<u64> = (0..IDS).step_by(97).collect();
                let mut read = Shown::new();
                moment.read_ids(&fresh, &mut |_, row| {
                    read.insert(row.key.id, values(&row));
                });
                let mut walked = Shown::new();
                moment.for_each_row(&mut |row| {
                    assert!(walked.insert(row.key.id, values(&row)).is_none(), "a row twice");
                });
                let known = |id: &u64| walked.get(id).map(|row| (*id, *row));
                assert_eq!(read, fresh.iter().filter_map(known).collect::<Shown>());
                (0..10).for_each(|_| check(&*moment, &walked, &mut random));
                if let Some((moment, walked)) = &old {
                    (0..10).for_each(|_| check(&**moment, walked, &mut random));
                }
                if checked.fetch_add(1, Ordering::SeqCst) % 4 == 0 {
                    old = Some((moment, walked));
                }
            }
        });
        let mut random = SplitMix(4);
        for version in 1..=120_000u64 {
            let id = random.below(IDS as usize) as u64;
            builder.clear();
            builder.set(&schema, 0, &ValueRef::I64(version as i64)).expect("a value");
            let set = builder.build();
            match random.below(8) {
                0 => {
                    index.delete(id, version);
                }
                1..=3 => {
                    let update = Update { set, ..Update::default() };
                    let is_there = index.version_of(id).is_some();
                    assert_eq!(index.change_fields(id, version, &update), is_there);
                }
                _ => {
                    let at = (version / 500 + random.next() % 512) as usize % 4_096;
                    let vector = VectorRef::F32(&rows[at * DIMENSION..][..DIMENSION]);
                    let key = RowKey { id, version, code: 0, shard: 0 };
                    let fields =
                        vstream_attribute::Fields { attributes: set, ..Default::default() };
                    index.upsert_over(IndexRow { key, vector, fields }, &mut |_| {});
                }
            }
        }
        stop.store(true, Ordering::SeqCst);
    });
    assert!(checked.load(Ordering::SeqCst) >= 50, "the reader hardly ran");
    let stats = index.stats();
    assert!(stats.splits > 100 && stats.rewrites > 100 && stats.merges > 100, "calm: {stats:?}");
}
