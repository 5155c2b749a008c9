//! What was committed is there after a crash, and the files that a crash leaves do not matter.

use std::sync::Arc;

use proptest::prelude::*;
use vstream_group::{Bound, GroupQuery, GroupSettings, GroupStore, With};
use vstream_store::{Access, FileStore, Files, Memory, Range, Store, Syncing};
use vstream_vector::{Element, Metric};

use crate::model::{neighbors, open, Model, ModelRow, Pair};

fn settings() -> GroupSettings {
    let settings = GroupSettings::new(64, Metric::L2, Element::F32);
    GroupSettings { coded_rows: 16, fanout: 2, ..settings }
}

const ALL: With = With::ALL;

/// Compares all rows of some groups.
fn check(store: &GroupStore, model: &Model, groups: &[String], context: &str) {
    let reader = store.reader();
    for group in groups {
        let rows = reader.scroll(group, None, None, usize::MAX, ALL).unwrap();
        let found: Vec<_> = rows
            .into_iter()
            .map(|r| (r.id, r.version, r.attributes().bytes().to_vec(), r.payload, r.vector))
            .collect();
        let wanted: Vec<_> = model
            .rows(group)
            .map(|(id, version, row)| {
                let ModelRow { vector, attributes, payload } = row.clone();
                (id, version, attributes, payload, vector)
            })
            .collect();
        assert_eq!(found, wanted, "{context}: {group}");
        let count = reader.count(group, None).unwrap();
        assert_eq!(count, wanted.len() as u64, "{context}: {group}");
    }
}

/// The files as a process that dies now leaves them.
fn copy(files: &Memory) -> Memory {
    let copy = Memory::new();
    for (name, bytes) in files.list().unwrap() {
        let content = files.open(&name, Access::Cached).unwrap().read(0, bytes as usize).unwrap();
        copy.create(&name).unwrap().append(&content).unwrap();
    }
    copy
}

#[derive(Clone, Debug)]
enum Step {
    Upsert(u8, u16),
    Delete(u8, u16),
    Update(u8, u16),
    UpsertIf(u8, u16),
    DeleteWhere(u8),
    Drop(u8),
    Commit,
    Flush,
    Compact,
    CompactAll,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        60 => (0..4u8, 0..60u16).prop_map(|(group, id)| Step::Upsert(group, id)),
        15 => (0..4u8, 0..60u16).prop_map(|(group, id)| Step::Delete(group, id)),
        20 => (0..4u8, 0..60u16).prop_map(|(group, id)| Step::Update(group, id)),
        10 => (0..4u8, 0..60u16).prop_map(|(group, id)| Step::UpsertIf(group, id)),
        1 => (0..4u8).prop_map(Step::DeleteWhere),
        1 => (0..4u8).prop_map(Step::Drop),
        5 => Just(Step::Commit),
        3 => Just(Step::Flush),
        2 => Just(Step::Compact),
        1 => Just(Step::CompactAll),
        2 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Any order of writes, flushes, merges and restarts gives the rows of the oracle, and exact
    /// answers.
    #[test]
    fn any_history_gives_the_rows_of_the_oracle(
        steps in proptest::collection::vec(step(), 1..600),
        seed in 0..1000u64,
        proven in any::<bool>(),
    ) {
        let bound = if proven { Bound::Proven } else { Bound::Deviations(7.0) };
        let mut pair = Pair::new(GroupSettings { bound, ..settings() }, seed);
        let groups: Vec<String> = (0..4).map(|group| format!("group-{group}")).collect();
        for step in steps {
            match step {
                Step::Upsert(group, id) => pair.upsert(&groups[usize::from(group)], u64::from(id)),
                Step::Delete(group, id) => pair.delete(&groups[usize::from(group)], u64::from(id)),
                Step::Update(group, id) => pair.update(&groups[usize::from(group)], u64::from(id)),
                Step::UpsertIf(group, id) => {
                    pair.upsert_if(&groups[usize::from(group)], u64::from(id));
                }
                Step::DeleteWhere(group) => pair.delete_where(&groups[usize::from(group)]),
                Step::Drop(group) => pair.drop_group(&groups[usize::from(group)]),
                Step::Commit => pair.store.commit().unwrap(),
                Step::Flush => pair.store.flush().unwrap(),
                Step::Compact => drop(pair.store.compact().unwrap()),
                Step::CompactAll => pair.store.compact_all().unwrap(),
                Step::Reopen => {
                    pair.store.commit().unwrap();
                    pair.reopen();
                }
            }
        }
        check(&pair.store, &pair.model, &groups, "at the end");
        let mut listed = pair.store.reader().groups(None, 100).unwrap();
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        let count = |group: &String| (group.clone(), pair.model.rows(group).count() as u64);
        let wanted: Vec<_> = groups.iter().map(count).filter(|(_, rows)| *rows > 0).collect();
        let listed: Vec<_> = listed.into_iter().map(|group| (group.name, group.rows)).collect();
        prop_assert_eq!(listed, wanted);
        let settings = pair.store.settings().clone();
        for group in &groups {
            let vector = pair.draw.vector();
            let query = GroupQuery::nearest(&vector, 7);
            let answer = pair.store.reader().search(group, &query).unwrap();
            let wanted = pair.model.search(group, &settings, &vector, 7, None);
            prop_assert_eq!(neighbors(&answer), wanted);
        }
    }
}

/// The log is cut at every length behind the last commit: what was committed is there, and of the
/// rest a beginning.
#[test]
fn a_torn_log_loses_only_what_was_not_committed() {
    let mut pair = Pair::new(settings(), 9);
    let groups = ["g".to_owned()];
    (0..20).for_each(|id| pair.upsert("g", id));
    pair.store.commit().unwrap();
    let committed = pair.model.clone();
    let log = pair.files.list().unwrap().into_iter().find(|(name, _)| name.starts_with("log-"));
    let (log, bytes) = log.unwrap();
    (20..25).for_each(|id| pair.upsert("g", id));
    pair.store.commit().unwrap();
    let all = pair.files.open(&log, Access::Cached).unwrap().bytes().unwrap();
    assert!(all > bytes);
    for cut in (bytes..all).step_by(41).chain([all]) {
        let files = copy(&pair.files);
        files.reopen(&log).unwrap().cut(cut).unwrap();
        let store = open(&files, pair.store.settings());
        let model = if cut == all { &pair.model } else { &committed };
        check(&store, model, &groups, &format!("cut at {cut} of {all}"));
        // The store goes on behind the cut.
        let mut after = Pair {
            files,
            store,
            model: model.clone(),
            draw: crate::model::Draw::new(pair.store.settings(), 3),
            version: 1000,
        };
        after.upsert("g", 99);
        after.store.commit().unwrap();
        after.reopen();
        check(&after.store, &after.model, &groups, "after the cut");
    }
}

/// A byte that was synced and changed is an error, not a torn end.
#[test]
fn a_damaged_log_is_an_error() {
    let mut pair = Pair::new(settings(), 10);
    let mut ends = Vec::new();
    let log = "log-0000000000";
    for round in 0..4 {
        (0..10).for_each(|id| pair.upsert("g", 10 * round + id));
        pair.store.commit().unwrap();
        ends.push(pair.files.open(log, Access::Cached).unwrap().bytes().unwrap());
    }
    // Every frame but the last is known to be synced.
    for at in (0..ends[2]).step_by(97) {
        let files = copy(&pair.files);
        let byte = files.open(log, Access::Cached).unwrap().read(at, 1).unwrap()[0];
        files.reopen(log).unwrap().overwrite(at, &[byte ^ 4]).unwrap();
        let store = FileStore::new(Arc::new(files), Syncing::Full);
        let opened = GroupStore::open(store, pair.store.settings().clone());
        let error = opened.err().unwrap_or_else(|| panic!("byte {at} was believed"));
        assert!(error.is_corrupt(), "byte {at}: {error}");
    }
}

/// A crash during a flush or a merge leaves files that no manifest names; opening removes them.
#[test]
fn files_without_a_manifest_are_removed() {
    let mut pair = Pair::new(settings(), 11);
    (0..100).for_each(|id| pair.upsert("g", id));
    pair.store.flush().unwrap();
    (50..150).for_each(|id| pair.upsert("g", id));
    pair.store.flush().unwrap();
    let compaction = pair.store.begin_compaction().expect("two runs of similar size");
    assert!(pair.store.begin_compaction().is_none(), "one merge at a time");
    drop(compaction.run().unwrap());
    let store = FileStore::new(Arc::new(pair.files.clone()), Syncing::Full);
    assert_eq!(store.list("run-").unwrap().len(), 3);
    pair.reopen();
    assert_eq!(store.list("run-").unwrap().len(), 2);
    assert_eq!(store.list("log-").unwrap().len(), 1);
    check(&pair.store, &pair.model, &["g".to_owned()], "after the crash");
    assert!(pair.store.compact().unwrap());
    check(&pair.store, &pair.model, &["g".to_owned()], "merged");
    assert_eq!(store.list("run-").unwrap().len(), 1);
}

/// Writes go on while a merge runs, and the merge does not hide them.
#[test]
fn a_merge_runs_beside_writes() {
    let mut pair = Pair::new(settings(), 12);
    for round in 0..3 {
        (0..200).for_each(|id| pair.upsert("g", id + 50 * round));
        pair.store.flush().unwrap();
    }
    let compaction = pair.store.begin_compaction().unwrap();
    let reader = pair.store.reader();
    std::thread::scope(|scope| {
        let merged = scope.spawn(|| compaction.run());
        (0..100).for_each(|id| pair.upsert("g", id));
        pair.store.flush().unwrap();
        (0..50).for_each(|id| pair.delete("g", id));
        assert_eq!(reader.count("g", None).unwrap(), pair.model.rows("g").count() as u64);
        pair.store.finish_compaction(merged.join().unwrap().unwrap()).unwrap();
    });
    check(&pair.store, &pair.model, &["g".to_owned()], "merged beside writes");
    pair.store.commit().unwrap();
    pair.reopen();
    check(&pair.store, &pair.model, &["g".to_owned()], "opened again");
}

/// Readers on other threads see each row once, in one of its versions, while the writer replaces
/// rows, flushes and merges.
#[test]
fn readers_see_whole_moments() {
    let mut pair = Pair::new(GroupSettings { memory: 1 << 16, ..settings() }, 13);
    (0..100).for_each(|id| pair.upsert("g", id));
    let reader = pair.store.reader();
    let vector = pair.draw.vector();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut searches = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let query = GroupQuery::nearest(&vector, 1000);
                let answer = reader.search("g", &query).unwrap();
                let mut ids: Vec<u64> = answer.rows.iter().map(|hit| hit.row.id).collect();
                ids.sort_unstable();
                assert_eq!(ids, (0..100).collect::<Vec<_>>());
                searches += 1;
            }
            searches
        });
        for round in 0..60 {
            (0..100).for_each(|id| pair.upsert("g", (id * 37 + round) % 100));
            if round % 7 == 0 {
                pair.store.compact().unwrap();
            }
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(reading.join().unwrap() > 0);
    });
}

#[test]
fn a_directory_is_open_once_and_keeps_its_settings() {
    let folder = tempfile::tempdir().unwrap();
    let store = GroupStore::open_dir(folder.path(), settings()).unwrap();
    assert!(GroupStore::open_dir(folder.path(), settings()).is_err(), "opened twice");
    drop(store);
    let other = GroupSettings { dimension: 65, ..settings() };
    assert!(GroupStore::open_dir(folder.path(), other).is_err(), "another dimension");
    let mut wider = settings();
    wider.schema.add("price", vstream_attribute::AttributeKind::I64).unwrap();
    drop(GroupStore::open_dir(folder.path(), wider).unwrap());
    assert!(GroupStore::open_dir(folder.path(), settings()).is_err(), "an attribute is gone");
    let files = FileStore::open_dir(folder.path(), Syncing::Full).unwrap();
    assert!(files
        .open("GROUPS", Access::Cached)
        .unwrap()
        .read(Range { offset: 0, bytes: 8 })
        .is_ok());
}
