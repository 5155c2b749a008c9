//! Stores that were committed with versions 2 of runs and logs and version 3 of manifests: still
//! read, still written the same.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use vstream_attribute::{
    AttributeKind, AttributesBuilder, Fields, FieldsBuffer, Filter, IdKind, PayloadChange, Schema,
    Test, Update, ValueRef,
};
use vstream_store::{Access, FileStore, Files, Memory, Syncing};
use vstream_vector::{Element, Metric};

use super::{created, GroupStore};
use crate::accept::RowRef;
use crate::log::Log;
use crate::manifest::log_name;
use crate::query::{GroupQuery, With};
use crate::run::StoredRow;
use crate::settings::{Bound, GroupSettings};

#[path = "../../../attribute/tests/golden/row.rs"]
mod row;

const DIMENSION: usize = 64;
/// Rows of the largest group, which has codes, and of the next one.
const ROWS: u64 = 40;
const FEW: u64 = 5;
/// When rows were deleted: the present time would change the bytes.
const DELETED_AT: u32 = 1_600_000_000;

fn settings(bound: Bound) -> GroupSettings {
    let attributes = [
        ("colour", AttributeKind::Keyword),
        ("tags", AttributeKind::Keywords),
        ("price", AttributeKind::I64),
        ("weight", AttributeKind::F64),
        ("sold", AttributeKind::Bool),
        ("sent", AttributeKind::Timestamp),
        ("subject", AttributeKind::Text),
    ];
    let mut schema = Schema::new(attributes).unwrap();
    schema.id = IdKind::String;
    GroupSettings {
        schema,
        bound,
        coded_rows: 32,
        deletes_remembered: Some(Duration::from_millis(2500)),
        seed: Some(7),
        ..GroupSettings::new(DIMENSION, Metric::L2, Element::F32)
    }
}

fn vector(id: u64) -> Vec<f32> {
    (0..DIMENSION as u64).map(|d| ((id * 31 + d * 17) % 97) as f32 / 16.0 - 3.0).collect()
}

/// The row of golden files, and a text in some.
fn fields(id: u64) -> FieldsBuffer {
    let mut out = row::row(id);
    if id.is_multiple_of(7) {
        out.push(6, &ValueRef::Text("a subject of several words"));
    }
    out
}

/// What the update of the log does to the fields of a row.
fn updated(schema: &Schema, id: u64) -> FieldsBuffer {
    let before = fields(id);
    let mut builder = AttributesBuilder::default();
    builder.set_all(before.fields().attributes);
    builder.unset(5);
    builder.set(schema, 2, &ValueRef::I64(-1)).unwrap();
    let attributes = builder.build();
    let mut out = FieldsBuffer::default();
    out.set(Fields { attributes, payload: Some(b"changed"), ..before.fields() });
    out
}

fn upsert(store: &mut GroupStore, group: &str, id: u64, version: u64) {
    let (vector, fields) = (vector(id), fields(id));
    let row = RowRef { id, version, vector: &vector, fields: fields.fields() };
    assert!(store.upsert(group, &row).unwrap());
}

fn delete(store: &mut GroupStore, group: &str, id: u64, version: u64) {
    let tombstone = StoredRow { id, version, content: None, deleted_at: DELETED_AT };
    assert!(store.put(group, tombstone).unwrap());
}

/// Two runs, of which the newer has tombstones and a dropped group, and a log with each kind of
/// record in two frames.
fn written(bound: Bound) -> Memory {
    let (files, settings) = (Memory::new(), settings(bound));
    let store = FileStore::new(Arc::new(files.clone()), Syncing::Full);
    // What an opening creates, but with an identity that is not drawn.
    let mut manifest = created(&settings);
    manifest.identity = 0x0123_4567_89ab_cdef;
    drop(Log::create(&store, &log_name(0), manifest.file_identity(0)).unwrap());
    manifest.publish(&store).unwrap();
    let mut store = GroupStore::open(store, settings).unwrap();
    (0..ROWS).for_each(|id| upsert(&mut store, "large", id, id + 1));
    (0..FEW).for_each(|id| upsert(&mut store, "naïve", id, 50 + id));
    (0..3).for_each(|id| upsert(&mut store, "dropped", id, 60));
    store.flush().unwrap();
    (0..ROWS).step_by(8).for_each(|id| delete(&mut store, "large", id, 100));
    store.drop_group("dropped").unwrap();
    upsert(&mut store, "naïve", 1, 101);
    store.flush().unwrap();
    upsert(&mut store, "large", ROWS, 110);
    delete(&mut store, "naïve", 2, 111);
    store.commit().unwrap();
    let mut builder = AttributesBuilder::default();
    builder.set(&store.settings().schema, 2, &ValueRef::I64(-1)).unwrap();
    let payload = PayloadChange::Set(b"changed");
    let change = Update { set: builder.build(), unset: &[5], payload };
    assert!(store.update("large", 3, 112, &change).unwrap().is_applied());
    upsert(&mut store, "gone", 1, 113);
    store.drop_group("gone").unwrap();
    store.commit().unwrap();
    files
}

const STORES: [(&str, Bound); 2] =
    [("proven-v3", Bound::Proven), ("deviations-v3", Bound::Deviations(7.0))];

fn folder(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "fixtures", name].iter().collect()
}

fn content(files: &Memory, name: &str) -> Vec<u8> {
    let file = files.open(name, Access::Cached).unwrap();
    file.read(0, file.bytes().unwrap() as usize).unwrap().to_vec()
}

/// `UPDATE_FIXTURES=1 cargo test -p vstream-group golden` writes them after a change of version,
/// into folders of the new name.
#[test]
fn golden_stores_are_written_the_same() {
    for (name, bound) in STORES {
        let (files, folder) = (written(bound), folder(name));
        let listed = files.list().unwrap();
        assert_eq!(listed.len(), 4, "{listed:?}");
        for (file, _) in listed {
            let (bytes, path) = (content(&files, &file), folder.join(&file));
            if std::env::var_os("UPDATE_FIXTURES").is_some() {
                std::fs::create_dir_all(&folder).unwrap();
                std::fs::write(&path, &bytes).unwrap();
            } else {
                let golden = std::fs::read(&path).unwrap();
                assert!(bytes == golden, "{name}: {file} is written with other bytes than it was");
            }
        }
    }
}

/// A store over a copy of the files in a folder.
fn opened(name: &str, bound: Bound) -> GroupStore {
    let files = Memory::new();
    for entry in std::fs::read_dir(folder(name)).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap();
        files.create(file).unwrap().append(&std::fs::read(&path).unwrap()).unwrap();
    }
    let store = FileStore::new(Arc::new(files), Syncing::Full);
    // The seed is that of the manifest.
    GroupStore::open(store, GroupSettings { seed: None, ..settings(bound) }).unwrap()
}

/// Ids and versions that the writes of [`written`] left, by group.
fn rows_left() -> [(&'static str, Vec<(u64, u64)>); 4] {
    let large = (0..=ROWS).filter(|id| *id == ROWS || !id.is_multiple_of(8));
    let version = |id| match id {
        3 => 112,
        ROWS => 110,
        _ => id + 1,
    };
    let few = [(0, 50), (1, 101), (3, 53), (4, 54)];
    [
        ("large", large.map(|id| (id, version(id))).collect()),
        ("naïve", few.to_vec()),
        ("dropped", Vec::new()),
        ("gone", Vec::new()),
    ]
}

fn check(store: &GroupStore, what: &str) {
    let reader = store.reader();
    for (group, rows) in rows_left() {
        let found = reader.scroll(group, None, None, 100, With::ALL).unwrap();
        let keys: Vec<(u64, u64)> = found.iter().map(|row| (row.id, row.version)).collect();
        assert_eq!(keys, rows, "{what}: {group}");
        for row in &found {
            let wanted = match (group, row.id) {
                ("large", 3) => updated(&store.settings().schema, 3),
                _ => fields(row.id),
            };
            let wanted = wanted.fields();
            assert_eq!(row.vector, vector(row.id), "{what}: {group} {}", row.id);
            assert_eq!((row.name.as_str(), row.check), (wanted.name, wanted.check), "{what}");
            assert_eq!(row.attributes(), wanted.attributes, "{what}: {group} {}", row.id);
            assert_eq!(row.payload.as_deref(), wanted.payload, "{what}: {group} {}", row.id);
        }
        for (id, version) in rows {
            let vector = vector(id);
            let answer = reader.search(group, &GroupQuery::nearest(&vector, 1)).unwrap();
            let hit = &answer.rows[0];
            assert_eq!((hit.row.id, hit.row.version, hit.distance), (id, version, Some(0.0)));
        }
    }
    let red = Filter::Attribute(0, Test::KeywordIn(vec!["red".into()]));
    // Ids of remainder 1 of 3 that were not deleted.
    let wanted = (0..=ROWS).filter(|id| id % 3 == 1 && (*id == ROWS || id % 8 != 0)).count();
    assert_eq!(reader.count("large", Some(&red)).unwrap(), wanted as u64, "{what}");
}

#[test]
fn golden_stores_are_read() {
    for (name, bound) in STORES {
        let mut store = opened(name, bound);
        assert_eq!(store.settings(), &settings(bound), "{name}");
        let stats = store.stats();
        assert_eq!((stats.runs, stats.rows, stats.tombstones), (2, ROWS + FEW + 3 + 1, 5));
        check(&store, name);
        // The times of the deletes are read too, those in the log as well.
        store.flush().unwrap();
        for (forget_before, tombstones) in [(DELETED_AT, 6), (DELETED_AT + 1, 0)] {
            let mut merge = store.compaction_of(0..store.manifest.runs.len());
            merge.forget_before = forget_before;
            let merged = merge.run().unwrap();
            store.finish_compaction(merged).unwrap();
            let stats = store.stats();
            assert_eq!((stats.runs, stats.tombstones), (1, tombstones), "{name}");
            check(&store, name);
        }
    }
}
