//! What rows carry, beside a writer: keywords come and go, and a moment stays as it was.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use vstream_attribute::{
    AttributeKind, AttributesBuilder, Fields, FieldsBuffer, Filter, Schema, Test, ValueRef,
};
use vstream_index::contract::clustered;
use vstream_index::{
    Cluster, ClusterSettings, Effort, IndexRow, IndexSettings, Insert, Probe, RowKey, Scratch,
    VectorRef,
};
use vstream_vector::{Element, Metric, Neighbor, SplitMix, TopK};

const DIMENSION: usize = 64;
const IDS: u64 = 2_000;

fn settings() -> IndexSettings {
    IndexSettings { dimension: DIMENSION, metric: Metric::L2, element: Element::F32, seed: 5 }
}

fn schema() -> Schema {
    Schema::new([("event", AttributeKind::Keyword), ("at", AttributeKind::Timestamp)])
        .expect("a schema")
}

/// Every row has a keyword that no other row ever has: `id` and `version` as a text.
struct Events {
    schema: Schema,
    builder: AttributesBuilder,
}

impl Events {
    fn fields(&mut self, id: u64, version: u64) -> Fields<'_> {
        self.builder.clear();
        let event = format!("{id}/{version}");
        let mut set = |column, value: ValueRef<'_>| {
            self.builder.set(&self.schema, column, &value).expect("a value");
        };
        set(0, ValueRef::Keyword(&event));
        set(1, ValueRef::Timestamp(version as i64));
        Fields { attributes: self.builder.build(), ..Fields::NONE }
    }
}

fn is_event(event: &str) -> Filter {
    Filter::Attribute(0, Test::KeywordIn(vec![event.to_owned()]))
}

/// Codes of keywords are freed and used again all the time. A filter that a reader compiles after its
/// pin finds the row that had the keyword then, and no other.
#[test]
fn a_moment_keeps_its_keywords_while_the_writer_churns_unique_ones() {
    let sizes = ClusterSettings {
        leaf_rows_max: 64,
        leaf_rows_min: 16,
        node_leaves_max: 8,
        ..ClusterSettings::default()
    };
    let mut index = Cluster::new(settings(), sizes);
    let rows = clustered(&mut SplitMix(3), 4_096, DIMENSION, 30);
    let row = |at: u64| VectorRef::F32(&rows[at as usize % 4_096 * DIMENSION..][..DIMENSION]);
    let mut events = Events { schema: schema(), builder: AttributesBuilder::default() };
    let key = |id, version| RowKey { id, version, code: 0, shard: 0 };
    for id in 0..IDS {
        let row = IndexRow { key: key(id, 0), vector: row(id), fields: events.fields(id, 0) };
        index.upsert_over(row, &mut |_| {});
    }
    let (stop, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let reader = index.reader();
        let (stop, asked) = (&stop, &asked);
        scope.spawn(move || {
            let (mut scratch, mut random) = (Scratch::new(), SplitMix(9));
            while !stop.load(Ordering::SeqCst) {
                let moment = reader.snapshot(None);
                let mut shown: Vec<(u64, String)> = Vec::new();
                moment.for_each_row(&mut |row| {
                    let event = match row.fields.attributes.get(0) {
                        Some(ValueRef::Keyword(event)) => event.to_owned(),
                        other => panic!("row {} has {other:?}", row.key.id),
                    };
                    assert_eq!(event, format!("{}/{}", row.key.id, row.key.version));
                    shown.push((row.key.id, event));
                });
                assert_eq!(shown.len() as u64, IDS);
                for _ in 0..40 {
                    let (id, event) = &shown[random.below(shown.len())];
                    let filter = is_event(event);
                    let mut found = Vec::new();
                    let Ok(()) =
                        moment.for_each_match(Some(&filter), &mut |key| found.push(key.id));
                    assert_eq!(found, [*id], "rows with {event}");
                    let effort = Effort::Approximate { probes: 4, refine: 40 };
                    let vector = &[0.0; DIMENSION];
                    let probe = Probe { vector, k: 3, effort, filter: Some(&filter) };
                    let mut top = TopK::new(3);
                    moment.search(&probe, &mut scratch, &mut top);
                    assert_eq!(top.rows().iter().map(|row| row.id).collect::<Vec<_>>(), [*id]);
                    asked.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        let mut random = SplitMix(4);
        for version in 1..=60_000u64 {
            let id = version % IDS;
            if version % 3 == 0 {
                assert!(index.replace_fields(id, version, events.fields(id, version)));
            } else {
                let vector = row(random.next() % 4_096);
                let fields = events.fields(id, version);
                let row = IndexRow { key: key(id, version), vector, fields };
                index.upsert_over(row, &mut |_| {});
            }
        }
        stop.store(true, Ordering::SeqCst);
    });
    assert!(asked.load(Ordering::SeqCst) >= 200, "the reader hardly ran");
    let stats = index.stats();
    assert!(stats.splits + stats.rewrites + stats.merges > 500, "too calm: {stats:?}");
}

/// A query for a keyword that few rows have visits their leaves and no others.
#[test]
fn rare_keywords_lead_to_their_leaves() {
    let mut index = Cluster::new(settings(), ClusterSettings::default());
    let rows = clustered(&mut SplitMix(3), 20_000, DIMENSION, 300);
    let schema = Schema::new([("user", AttributeKind::Keyword)]).expect("a schema");
    let mut builder = AttributesBuilder::default();
    for (id, vector) in rows.chunks_exact(DIMENSION).enumerate() {
        builder.clear();
        let user = format!("user {}", id % 2_500);
        builder.set(&schema, 0, &ValueRef::Keyword(&user)).expect("a keyword");
        let fields = Fields { attributes: builder.build(), ..Fields::NONE };
        let key = RowKey { id: id as u64, version: 1, code: 0, shard: 0 };
        let row = IndexRow { key, vector: VectorRef::F32(vector), fields };
        index.upsert_over(row, &mut |_| {});
    }
    let leaves = index.stats().leaves;
    assert!(leaves > 60, "{leaves} leaves");
    let (reader, mut scratch, mut visited) = (index.reader(), Scratch::new(), 0);
    for user in 0..50u64 {
        let filter = is_event(&format!("user {user}"));
        let probe = Probe {
            vector: &rows[..DIMENSION],
            k: 20,
            effort: Effort::Exact,
            filter: Some(&filter),
        };
        let mut top = TopK::new(20);
        let stats = reader.search(&probe, &mut scratch, &mut top);
        let mut ids: Vec<u64> = top.rows().iter().map(|row: &Neighbor| row.id).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..8).map(|i| user + 2_500 * i).collect::<Vec<_>>());
        assert!(stats.exact == 8, "{stats:?}");
        visited += stats.leaves;
    }
    // A leaf that a row has left stays listed until it is rewritten.
    assert!(visited <= 50 * 10, "{visited} leaves of {leaves} for 50 users of 8 rows");
}

/// A row whose fields are replaced keeps its code, whatever happens to its leaf meanwhile.
#[test]
fn updates_of_fields_keep_vectors_and_codes() {
    for second_look in [false, true] {
        let sizes = ClusterSettings {
            leaf_rows_max: 64,
            leaf_rows_min: 16,
            second_look,
            ..ClusterSettings::default()
        };
        let mut index = Cluster::new(settings(), sizes);
        let rows = clustered(&mut SplitMix(8), 3_000, DIMENSION, 20);
        let row = |id: u64| &rows[id as usize * DIMENSION..][..DIMENSION];
        let mut events = Events { schema: schema(), builder: AttributesBuilder::default() };
        for id in 0..3_000 {
            index.upsert(RowKey { id, version: 0, code: 7, shard: 1 }, VectorRef::F32(row(id)));
        }
        let (reader, mut scratch) = (index.reader(), Scratch::new());
        let mut random = SplitMix(12);
        let mut held = FieldsBuffer::default();
        for version in 1..=30_000 {
            // Half of the updates hit few rows, some of them in the tail still.
            let id = random.below(if version % 2 == 0 { 20 } else { 3_000 }) as u64;
            assert!(index.replace_fields(id, version, events.fields(id, version)));
            assert!(index.fields_of(id, &mut held));
            assert_eq!(held.fields(), events.fields(id, version));
            assert!(!index.replace_fields(id, version - 1, Fields::NONE), "an older version");
            if version % 100 == 0 {
                let effort = Effort::Approximate { probes: 8, refine: 80 };
                let probe = Probe { vector: row(id), k: 1, effort, filter: None };
                let mut top = TopK::new(1);
                reader.search(&probe, &mut scratch, &mut top);
                assert_eq!(top.rows(), [Neighbor { distance: 0.0, id, version }]);
            }
        }
        assert!(!index.replace_fields(9_999, u64::MAX, Fields::NONE), "an unknown id");
        assert_eq!(index.stats().live, 3_000);
    }
}
