//! Writes with fields, through the log and back.

use std::sync::Arc;
use std::time::Duration;

use vstream_attribute::{
    AttributeKind, AttributesBuilder, Fields, Schema, ValueRef, PAYLOAD_BYTES_MAX,
};
use vstream_store::{FileStore, Memory, Syncing};
use vstream_vector::{Element, Metric};

use super::*;
use crate::durability::{Durability, Journaling};
use crate::row::{PayloadChange, RowId};
use crate::settings::Settings;
use crate::Engine;

/// The largest dimension, so that records are as long as they can be.
const DIMENSION: usize = 4096;

/// Notes every change as text.
#[derive(Default)]
struct Recorder {
    changes: Vec<String>,
    versions: std::collections::HashMap<u64, u64>,
    remembered: Vec<RememberedDelete>,
}

fn shown(fields: &Fields<'_>) -> String {
    let payload = fields.payload.map(|payload| (payload.len(), payload.first().copied()));
    format!("{:?} {:?}", fields.attributes.iter().collect::<Vec<_>>(), payload)
}

impl Replay for Recorder {
    fn apply(&mut self, change: &Change<'_>) -> Result<(), Error> {
        self.changes.push(match change {
            Change::Upsert(row) => {
                self.versions.insert(row.id, row.version);
                format!("upsert {} {} {}", row.id, row.version, shown(&row.fields))
            }
            Change::Update { id, version, update } => {
                self.versions.insert(*id, *version);
                let set = Fields { attributes: update.set, ..Fields::NONE };
                let payload = match update.payload {
                    PayloadChange::Keep => "keep",
                    PayloadChange::Set(_) => "set",
                    PayloadChange::Remove => "remove",
                };
                format!("update {id} {version} {} {:?} {payload}", shown(&set), update.unset)
            }
            Change::Delete { id, version } => {
                self.versions.remove(id);
                format!("delete {id} {version}")
            }
            Change::Remember { id, version } => format!("remember {id} {version}"),
        });
        Ok(())
    }

    fn segments(&mut self, files: &SegmentFiles<'_>) -> Result<(u64, u128), Error> {
        assert!(files.entries.is_empty(), "there are no segments");
        Ok((0, 0))
    }

    fn remembered(&mut self, deletes: Vec<RememberedDelete>) {
        self.remembered = deletes;
    }

    fn version_of(&self, id: u64) -> Option<u64> {
        self.versions.get(&id).copied()
    }

    /// All of its rows are of one shard.
    fn shard_of(&self, id: u64) -> Option<u16> {
        self.versions.contains_key(&id).then_some(0)
    }
}

fn engine(store: &FileStore) -> Engine {
    let attributes = [("price", AttributeKind::F64), ("tags", AttributeKind::Keywords)];
    let schema = Arc::new(Schema::new(attributes).expect("a schema"));
    let deletes_remembered = Some(Duration::from_secs(3600));
    let settings = Settings::new(DIMENSION, Metric::L2, Element::F32);
    let settings = Settings { schema, deletes_remembered, recall_guard: false, ..settings };
    let journaling =
        Journaling { durability: Durability::Sync, background: false, ..Journaling::default() };
    let made = Engine::builder().store(store.clone()).journaling(journaling).create(settings);
    made.expect("an engine")
}

fn replayed(store: &FileStore) -> Recorder {
    let manifest = Manifest::read(store).expect("a manifest");
    let mut recorder = Recorder::default();
    recover(store, &manifest, &mut recorder).expect("recovered");
    recorder
}

#[test]
fn a_log_has_every_change_and_no_more() {
    let store = FileStore::new(Arc::new(Memory::new()), Syncing::Off);
    let mut engine = engine(&store);
    let (vector, mut builder) = (vec![0.5; DIMENSION], AttributesBuilder::default());
    let schema = engine.schema().clone();
    builder.set(&schema, 0, &ValueRef::F64(9.5)).expect("a value");
    builder.set(&schema, 1, &ValueRef::Keywords(vec!["a", "b"])).expect("a value");
    let attributes = builder.build();
    let payload = vec![7; PAYLOAD_BYTES_MAX];
    let row = |id, version, fields| Row { id, version, code: 0, shard: 0, vector: &vector, fields };
    let full = Fields { attributes, payload: Some(&payload), ..Fields::NONE };
    // Payloads of the largest size, of which two do not fit one group.
    for id in 1..=3 {
        engine.upsert(&row(id, 10, full)).expect("a good row");
    }
    engine.upsert(&row(4, 10, Fields::NONE)).expect("a good row");
    let update = Update { set: attributes, unset: &[], payload: PayloadChange::Remove };
    engine.update(2, 11, &update).expect("a good update");
    engine.update(2, 9, &update).expect("a late update");
    engine.update(99, 11, &update).expect("an update of no row");
    engine.delete(3, 12).expect("a delete");
    engine.delete(50, 13).expect("a delete of no row");
    engine.delete(50, 13).expect("the same again");
    engine.delete(RowId::from(4), 2).expect("a late delete");
    engine.commit().expect("committed");
    let recorder = replayed(&store);
    let values = shown(&full);
    let only = shown(&Fields { payload: None, ..full });
    let expected = [
        format!("upsert 1 10 {values}"),
        format!("upsert 2 10 {values}"),
        format!("upsert 3 10 {values}"),
        format!("upsert 4 10 {}", shown(&Fields::NONE)),
        format!("update 2 11 {only} [] remove"),
        "delete 3 12".to_owned(),
        "remember 50 13".to_owned(),
    ];
    assert_eq!(recorder.changes, expected);
    assert!(recorder.remembered.is_empty());
    engine.checkpoint().expect("an image");
    let recorder = replayed(&store);
    let remembered = recorder.remembered.iter().map(|delete| (delete.id, delete.version));
    assert_eq!(remembered.collect::<Vec<_>>(), [(3, 12), (50, 13)]);
}
