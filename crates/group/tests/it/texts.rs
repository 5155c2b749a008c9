//! String ids whose hashes have one low half: they never replace, change or delete each other.

use std::collections::BTreeMap;

use vstream_attribute::{
    AttributesBuilder, Fields, HashedName, IdKind, RefusedKind, Schema, ValueRef,
};
use vstream_group::{
    Applied, Condition, Error, GroupSettings, GroupStore, RowId, RowRef, Update, With,
};
use vstream_store::Memory;
use vstream_vector::{Element, Metric, SplitMix};

use crate::model::{open, schema};

/// Ids, each the low half of the hashes of `TEXTS` texts.
const IDS: u64 = 60;
const TEXTS: u64 = 3;

/// What a living row should be.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    check: u64,
    version: u64,
    price: Option<i64>,
}

/// A store of string ids beside a map.
struct Pair {
    files: Memory,
    settings: GroupSettings,
    store: GroupStore,
    rows: BTreeMap<u64, Row>,
    version: u64,
    vector: Vec<f32>,
}

fn name(id: u64, check: u64) -> String {
    format!("letter {id} of {check}")
}

impl Pair {
    fn new() -> Pair {
        let schema = Schema { id: IdKind::String, ..schema() };
        let settings = GroupSettings::new(64, Metric::Cosine, Element::Bf16);
        let settings = GroupSettings { schema, seed: Some(1), ..settings };
        let files = Memory::new();
        let store = open(&files, &settings);
        let vector = (1..65).map(|n| n as f32).collect();
        Pair { files, settings, store, rows: BTreeMap::new(), version: 0, vector }
    }

    fn is_other(&self, id: u64, check: u64) -> bool {
        self.rows.get(&id).is_some_and(|row| row.check != check)
    }

    fn upsert(&mut self, id: u64, check: u64, checked: bool) {
        self.version += 1;
        let (name, version) = (name(id, check), self.version);
        let fields = Fields { name: &name, check, ..Fields::NONE };
        let row = RowRef { id, version, vector: &self.vector, fields };
        let done = match checked {
            true => self.store.upsert_if("box", &row, &Condition::default()).map(|_| ()),
            false => self.store.upsert("box", &row).map(|_| ()),
        };
        if self.is_other(id, check) {
            let Err(Error::Refused(refused)) = done else { panic!("accepted: {done:?}") };
            assert_eq!(refused.kind, RefusedKind::BadId);
            assert!(refused.to_string().contains(&name), "{refused}");
        } else {
            done.unwrap();
            self.rows.insert(id, Row { check, version, price: None });
        }
    }

    fn update(&mut self, id: u64, check: u64) {
        self.version += 1;
        let (version, price) = (self.version, self.version as i64);
        let mut builder = AttributesBuilder::default();
        builder.set(&self.settings.schema, 0, &ValueRef::I64(price)).unwrap();
        let update = Update { set: builder.build(), ..Update::default() };
        let row = HashedName { id, check };
        let applied = self.store.update("box", row, version, &update).unwrap();
        match self.rows.get_mut(&id).filter(|row| row.check == check) {
            Some(row) => {
                assert_eq!(applied, Applied::Replaced);
                *row = Row { check, version, price: Some(price) };
            }
            None => assert_eq!(applied, Applied::Missing),
        }
    }

    fn delete(&mut self, id: u64, check: u64) {
        self.version += 1;
        let deleted = self.store.delete("box", RowId { id, check }, self.version).unwrap();
        assert_eq!(deleted, !self.is_other(id, check));
        if deleted {
            self.rows.remove(&id);
        }
    }

    fn check(&self) {
        let found = self.store.reader().scroll("box", None, None, 1000, With::ALL).unwrap();
        let row = |row: &vstream_group::OwnedRow| {
            assert_eq!(row.name, name(row.id, row.check));
            let price = match row.attributes().get(0) {
                Some(ValueRef::I64(price)) => Some(price),
                _ => None,
            };
            (row.id, Row { check: row.check, version: row.version, price })
        };
        let found: BTreeMap<u64, Row> = found.iter().map(row).collect();
        assert_eq!(found, self.rows);
    }
}

#[test]
fn texts_with_one_id_leave_each_other_alone() {
    for seed in 0..6 {
        println!("seed {seed}");
        let (mut pair, mut draw) = (Pair::new(), SplitMix(seed));
        for step in 0..2_500 {
            let (id, check) = (draw.next() % IDS, 1 + draw.next() % TEXTS);
            match draw.next() % 10 {
                0..4 => pair.upsert(id, check, false),
                4 => pair.upsert(id, check, true),
                5..8 => pair.update(id, check),
                _ => pair.delete(id, check),
            }
            match draw.next() % 400 {
                0..4 => pair.store.flush().unwrap(),
                4 => pair.store.compact().map(drop).unwrap(),
                5 => pair.store.compact_all().unwrap(),
                6 => {
                    pair.store.drop_group("box").unwrap();
                    pair.rows.clear();
                }
                7 => {
                    pair.store.commit().unwrap();
                    pair.store = open(&pair.files, &pair.settings);
                }
                _ => {}
            }
            if step % 100 == 0 {
                pair.check();
            }
        }
        pair.check();
    }
}

/// A number stands for any text with its hash: deletes by a filter find rows by it.
#[test]
fn a_number_alone_is_not_compared() {
    let mut pair = Pair::new();
    pair.upsert(7, 2, false);
    pair.store.flush().unwrap();
    assert!(pair.store.delete("box", 7, 5).unwrap());
    pair.rows.clear();
    pair.check();
    // The id is free again, for any text.
    pair.version = 5;
    pair.upsert(7, 1, false);
    pair.check();
}
