//! Writes that look at the row that is there, deletes that are remembered, pages of groups.

use std::time::Duration;

use vstream_attribute::{AttributesBuilder, Fields, Filter, Test, ValueRef};
use vstream_group::{
    Applied, Condition, Error, GroupSettings, IfVersion, PayloadChange, RowRef, Update, With,
    GROUPS_PAGE_MAX,
};
use vstream_vector::{Element, Metric};

use crate::model::{schema, Pair};

fn settings() -> GroupSettings {
    GroupSettings::new(128, Metric::Cosine, Element::Bf16)
}

#[test]
fn an_update_keeps_the_vector_and_what_it_does_not_name() {
    let mut pair = Pair::new(settings(), 21);
    (0..300).for_each(|id| pair.upsert("box", id));
    pair.store.flush().unwrap();
    for round in 0..3 {
        (0..300).step_by(3).for_each(|id| pair.update("box", id + round));
        let rows = pair.store.reader().scroll("box", None, None, 1000, With::ALL).unwrap();
        assert_eq!(rows.len(), 300);
        for (row, (id, version, model)) in rows.iter().zip(pair.model.rows("box")) {
            assert_eq!((row.id, row.version), (id, version), "round {round}");
            assert_eq!(row.vector, model.vector, "round {round}: {id}");
            assert_eq!(row.attributes().bytes(), model.attributes, "round {round}: {id}");
            assert_eq!(row.payload, model.payload, "round {round}: {id}");
        }
        match round {
            0 => pair.store.flush().unwrap(),
            1 => {
                pair.store.commit().unwrap();
                pair.reopen();
            }
            _ => pair.store.compact_all().unwrap(),
        }
    }
}

/// The log holds the changes of an update, not the row.
#[test]
fn an_update_writes_little() {
    let mut pair = Pair::new(GroupSettings::new(1536, Metric::L2, Element::F32), 22);
    (0..50).for_each(|id| pair.upsert("box", id));
    pair.store.flush().unwrap();
    let log = |pair: &Pair| -> u64 {
        let files = vstream_store::Files::list(&pair.files).unwrap();
        files.iter().filter(|(name, _)| name.starts_with("log-")).map(|(_, bytes)| bytes).sum()
    };
    let before = log(&pair);
    (0..50).for_each(|id| pair.update("box", id));
    pair.store.commit().unwrap();
    let each = (log(&pair) - before) / 50;
    assert!(each < 250, "{each} bytes per update of a row of 6,144 bytes");
}

#[test]
fn updates_and_conditions_are_checked_first() {
    let mut pair = Pair::new(settings(), 23);
    pair.upsert("box", 1);
    let schema = schema();
    let mut builder = AttributesBuilder::default();
    builder.set(&schema, 0, &ValueRef::I64(5)).unwrap();
    let set = builder.build();
    let large = vec![0; (1 << 20) + 1];
    let good = Update { set, ..Update::default() };
    let bad = [
        Update { unset: &[3], ..good },
        Update { unset: &[1, 1, 1, 1], ..good },
        Update { payload: PayloadChange::Set(&large), ..good },
    ];
    for update in bad {
        assert!(matches!(pair.store.update("box", 1, 9, &update), Err(Error::Refused(_))));
    }
    assert_eq!(pair.store.update("box", 1, 0, &good), Ok(Applied::Stale));
    assert_eq!(pair.store.update("box", 2, 9, &good), Ok(Applied::Missing));
    assert_eq!(pair.store.update("other", 1, 9, &good), Ok(Applied::Missing));
    let wrong = Filter::Attribute(0, Test::Bool(true));
    let vector = pair.draw.vector();
    let row = RowRef { id: 1, version: 9, vector: &vector, fields: Fields::NONE };
    let condition = Condition { filter: Some(&wrong), version: IfVersion::Any };
    assert!(pair.store.upsert_if("box", &row, &condition).is_err());
    assert!(pair.store.delete_where("box", &wrong, 9).is_err());
    let old = RowRef { version: 0, ..row };
    assert_eq!(pair.store.upsert_if("box", &old, &Condition::default()), Ok(Applied::Stale));
    let row = pair.store.reader().get("box", &[1], With::ALL).unwrap().remove(0).unwrap();
    assert_eq!(row.version, 1);
}

/// An upsert that is older than a remembered delete stays dead through merges of all runs, and no
/// longer than asked for.
#[test]
fn deletes_are_remembered_for_their_time() {
    for remembered in [None, Some(Duration::from_secs(3600)), Some(Duration::from_secs(1))] {
        let settings = GroupSettings { deletes_remembered: remembered, ..settings() };
        let mut pair = Pair::new(settings, 24);
        (0..200).for_each(|id| pair.upsert("box", id));
        pair.store.flush().unwrap();
        let cut = pair.version;
        (0..100).for_each(|id| pair.delete("box", id));
        pair.store.commit().unwrap();
        // The time is that of the delete, not of the start.
        pair.reopen();
        if remembered == Some(Duration::from_secs(1)) {
            std::thread::sleep(Duration::from_millis(2100));
        }
        pair.store.compact_all().unwrap();
        let is_kept = remembered == Some(Duration::from_secs(3600));
        assert_eq!(pair.store.stats().tombstones, if is_kept { 100 } else { 0 }, "{remembered:?}");
        let vector = pair.draw.vector();
        for id in 0..50 {
            let row = RowRef { id, version: cut, vector: &vector, fields: Fields::NONE };
            let applied = pair.store.upsert_if("box", &row, &Condition::default()).unwrap();
            let wanted = if is_kept { Applied::Stale } else { Applied::Inserted };
            assert_eq!(applied, wanted, "{remembered:?}");
            // A plain upsert does not look, and its row stays hidden.
            pair.store.upsert("box", &row).unwrap();
        }
        let count = if is_kept { 100 } else { 150 };
        assert_eq!(pair.store.reader().count("box", None), Ok(count), "{remembered:?}");
        pair.store.compact_all().unwrap();
        assert_eq!(pair.store.reader().count("box", None), Ok(count), "{remembered:?}");
    }
    for time in [Duration::from_millis(999), Duration::from_secs(367 * 86_400)] {
        let bad = GroupSettings { deletes_remembered: Some(time), ..settings() };
        assert!(bad.validate().is_err());
    }
}

#[test]
fn groups_come_page_by_page() {
    let mut pair = Pair::new(settings(), 25);
    let name = |n: u64| format!("user-{n}");
    for n in 0..500 {
        (0..1 + n % 4).for_each(|id| pair.upsert(&name(n), id));
        if n == 250 {
            pair.store.flush().unwrap();
        }
    }
    for n in (0..500).step_by(7) {
        match n % 2 {
            0 => pair.drop_group(&name(n)),
            _ => (0..4).for_each(|id| pair.delete(&name(n), id)),
        }
    }
    for page in [1, 7, 499, GROUPS_PAGE_MAX] {
        let reader = pair.store.reader();
        let mut listed: Vec<(String, u64)> = Vec::new();
        loop {
            let after = listed.last().map(|(name, _)| name.clone());
            let found = reader.groups(after.as_deref(), page).unwrap();
            listed.extend(found.iter().map(|group| (group.name.clone(), group.rows)));
            if found.len() < page {
                break;
            }
        }
        listed.sort();
        let count = |name: &String| (name.clone(), pair.model.rows(name).count() as u64);
        let wanted: Vec<_> =
            pair.model.groups.keys().map(count).filter(|(_, rows)| *rows > 0).collect();
        assert_eq!(listed, wanted, "pages of {page}");
        pair.store.flush().unwrap();
    }
    assert!(pair.store.reader().groups(None, 0).is_err());
    assert!(pair.store.reader().groups(None, GROUPS_PAGE_MAX + 1).is_err());
    let stats = pair.store.stats();
    assert_eq!((stats.memtable_rows, stats.rows > 1000), (0, true));
}

/// Codes and leaves are made anew by every merge, from the rows that are left.
#[test]
fn a_group_that_shrinks_loses_its_codes() {
    let settings = GroupSettings { coded_rows: 128, clustered_rows: 1024, ..settings() };
    let mut pair = Pair::new(settings, 26);
    (0..1500).for_each(|id| pair.upsert("box", id));
    let coded = |pair: &mut Pair| {
        pair.store.compact_all().unwrap();
        let vector = pair.draw.vector();
        let query = vstream_group::GroupQuery::nearest(&vector, 100);
        pair.store.reader().search("box", &query).unwrap().stats.coded_rows
    };
    assert!(coded(&mut pair) > 128);
    (100..1500).for_each(|id| pair.delete("box", id));
    assert_eq!(coded(&mut pair), 0);
    assert_eq!(pair.store.reader().count("box", None), Ok(100));
}

/// A delete of a row that may be elsewhere: it hides the row if there is one, and is nothing else.
#[test]
fn a_delete_of_what_is_there_leaves_no_trace_elsewhere() {
    let mut pair = Pair::new(settings(), 31);
    (0..3_000).step_by(2).for_each(|id| pair.upsert("box", id));
    pair.store.flush().unwrap();
    (3_000..3_100).for_each(|id| pair.upsert("box", id));
    let version = pair.version + 1;
    for id in 0..3_200 {
        let is_there = (id < 3_000 && id % 2 == 0) || (3_000..3_100).contains(&id);
        let is_asked = id % 3 == 0;
        if is_asked {
            assert_eq!(pair.store.delete_existing("box", id, version), Ok(is_there), "{id}");
            assert_eq!(pair.store.delete_existing("box", id, version), Ok(false), "{id}, again");
        }
    }
    pair.store.flush().unwrap();
    let rows = pair.store.reader().scroll("box", None, None, 4_000, With::NOTHING).unwrap();
    assert!(rows.iter().all(|row| row.id % 3 != 0));
    assert_eq!((rows.len(), pair.store.stats().tombstones), (1_600 - 534, 534));
}
