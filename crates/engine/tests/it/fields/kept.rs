//! Fields on their way to another engine: snapshots, hand-overs, and rows of another partition.

use vstream_engine::{
    Adoption, AttributeKind, AttributesBuilder, Awaiting, Element, Engine, Fields, IdKind,
    IndexKind, Metric, MovedRange, RefusedKind, Row, RowId, Schema, Settings, Syncing, ValueRef,
    With,
};
use vstream_vector::SplitMix;

use super::{draw, journaling, rows, settings, vector_of};

fn filled(dir: &std::path::Path, settings: Settings, count: u64) -> Engine {
    let builder = Engine::builder().dir(dir).journaling(journaling(false));
    let mut engine = builder.create(settings.clone()).expect("an engine");
    let mut random = SplitMix(41);
    for id in 0..count {
        let (vector, fields) = (vector_of(&mut random), draw(&mut random, &settings, id));
        let (code, shard, fields) = (id << 40, (id % 4) as u16, fields.fields());
        let row = Row { id, version: id + 1, code, shard, vector: &vector, fields };
        engine.upsert(&row).expect("a good row");
    }
    engine
}

#[test]
fn a_snapshot_has_the_fields() {
    let (dir, out) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("another"));
    let settings = settings(Metric::L2, Element::F32, IndexKind::Cluster, IdKind::String);
    let engine = filled(dir.path(), settings.clone(), 3_000);
    let snapshot = out.path().join("snapshot");
    let summary = engine.snapshot(&snapshot).expect("written");
    assert_eq!((summary.rows, &summary.schema), (3_000, &settings.schema));
    let restored = Engine::restore(settings, &snapshot).expect("restored");
    assert_eq!(rows(&restored), rows(&engine));
}

/// Rows that move keep their attributes by name, where the new owner has them in other columns.
#[test]
fn a_hand_over_keeps_names() {
    let (dir, out) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("another"));
    let theirs = settings(Metric::L2, Element::F32, IndexKind::Cluster, IdKind::U64);
    let engine = filled(dir.path(), theirs.clone(), 2_000);
    let moved = out.path().join("moved");
    let range = MovedRange { first: 0, last: 999 << 40, from: 1, to: 9 };
    engine.pin().write_moved(&moved, &[range], Syncing::Off).expect("sealed");
    let first = [("extra", AttributeKind::Bool), ("count", AttributeKind::I64)];
    let schema = Schema { open: true, ..Schema::new(first).expect("a schema") };
    let ours = Settings { schema: schema.into(), ..theirs.clone() };
    let mut owner = Engine::create(ours.clone()).expect("an engine");
    let mut adoption = Adoption::open(&ours, &moved).expect("sealed rows");
    while adoption.step(&mut owner, &Awaiting::default(), 100).expect("rows") > 0 {}
    let expected = rows(&engine);
    let (found, names) = (rows(&owner), owner.schema().clone());
    assert_eq!(found.len(), 250);
    for (id, row) in &found {
        let there = expected[id].fields.fields();
        let by_name = |schema: &Schema, fields: Fields<'_>| {
            let name = |column: u16| schema.attributes[usize::from(column)].name.clone();
            let mut values: Vec<_> = fields
                .attributes
                .iter()
                .map(|(column, value)| (name(column), value.to_value()))
                .collect();
            values.sort_by(|a, b| a.0.cmp(&b.0));
            values
        };
        let ours = row.fields.fields();
        assert_eq!(by_name(&names, ours), by_name(&theirs.schema, there), "row {id}");
        assert_eq!(ours.payload, there.payload, "row {id}");
    }
    // A schema that is not open takes no row with attributes that it lacks.
    let closed = Settings { schema: Schema::new(first).expect("a schema").into(), ..theirs };
    let mut owner = Engine::create(closed.clone()).expect("an engine");
    let mut adoption = Adoption::open(&closed, &moved).expect("sealed rows");
    let error = adoption.step(&mut owner, &Awaiting::default(), 100).expect_err("refused");
    assert_eq!(error.refused(), Some(RefusedKind::UnknownAttribute));
}

/// Two texts under one hash: the second is refused, and deletes and reads do not mistake one for the
/// other.
#[test]
fn two_ids_with_one_hash_are_not_mixed_up() {
    let settings = settings(Metric::L2, Element::F32, IndexKind::Cluster, IdKind::String);
    let dir = tempfile::tempdir().expect("a directory");
    let mut engine = filled(dir.path(), Settings { memory: Some(1 << 20), ..settings }, 400);
    let vector = vec![1.0; super::DIMENSION];
    for _ in 0..2 {
        let there = engine.reader().get(&[RowId::from(7)], &With::everything()).expect("a row");
        let fields = Fields { name: "another", check: 12, ..Fields::NONE };
        let row = Row { id: 7, version: 9_999, code: 0, shard: 0, vector: &vector, fields };
        let error = engine.upsert(&row).expect_err("another id");
        assert!(error.message().contains("two ids have one hash"), "{error}");
        assert_eq!(error.refused(), Some(RefusedKind::BadId));
        let other = RowId { id: 7, check: 12 };
        assert_eq!(engine.delete(other, u64::MAX), Ok(false));
        assert_eq!(engine.reader().get(&[other], &With::default()), Ok(vec![None]));
        let found = engine.reader().get(&[RowId::from(7)], &With::everything()).expect("a row");
        assert_eq!(found, there);
        // The same from a segment.
        engine.checkpoint().expect("a segment");
    }
}

/// Of 64 attributes one changes: the log grows by the change and 6 bytes, less than an id alone.
#[test]
fn an_update_logs_what_it_changes() {
    let dir = tempfile::tempdir().expect("a directory");
    let names: Vec<String> = (0..64).map(|at| format!("attribute-{at}")).collect();
    let kinds = names.iter().map(|name| (name.as_str(), AttributeKind::F64));
    let schema = Schema::new(kinds).expect("a schema");
    let settings = Settings::new(128, Metric::L2, Element::F32);
    let settings = Settings { schema: schema.clone().into(), recall_guard: false, ..settings };
    let builder = Engine::builder().dir(dir.path()).journaling(journaling(false));
    let mut engine = builder.create(settings).expect("an engine");
    let (mut all, vector) = (AttributesBuilder::default(), vec![1.0; 128]);
    (0..64).for_each(|column| all.set(&schema, column, &ValueRef::F64(1.0)).expect("a value"));
    let attributes = all.build();
    for id in 0..100 {
        let fields = Fields { attributes, ..Fields::NONE };
        let row = Row { id, version: 1, code: 0, shard: 0, vector: &vector, fields };
        engine.upsert(&row).expect("a good row");
    }
    engine.commit().expect("committed");
    let before = engine.stats().journal.expect("a journal").log_bytes_written;
    let mut one = AttributesBuilder::default();
    one.set(&schema, 40, &ValueRef::F64(2.0)).expect("a value");
    let set = one.build();
    for id in 0..100 {
        let update = vstream_engine::Update { set, ..Default::default() };
        engine.update(id, 2, &update).expect("a good update");
    }
    engine.commit().expect("committed");
    let written = engine.stats().journal.expect("a journal").log_bytes_written - before;
    // Per update: 6 bytes for kind, id and version, as far as they differ from the last record's, and
    // the change; 72 for the group.
    assert_eq!(written as usize, 100 * (6 + set.bytes().len()) + 72);
}
