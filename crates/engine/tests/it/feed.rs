//! Followers: they have the rows of the writer, whatever ends in between, and notice another history.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use vstream_engine::{
    read_changes, AttributeKind, Change, Durability, Element, Engine, ErrorKind, Feed, FeedRead,
    Journaling, Metric, RowId, Settings,
};
use vstream_vector::SplitMix;

use super::row;

/// Bytes of old logs that are kept.
const KEPT: u64 = 1 << 30;
/// Bytes that are read at a time: some groups.
const BYTES: usize = 20_000;

fn settings(memory: Option<u64>) -> Settings {
    Settings {
        recall_guard: false,
        memory,
        deletes_remembered: Some(Duration::from_secs(3_600)),
        ..Settings::new(3, Metric::L2, Element::F32)
    }
}

fn create(dir: &Path, memory: Option<u64>) -> Engine {
    Engine::builder().dir(dir).create(settings(memory)).expect("an engine")
}

pub(crate) fn rows(engine: &Engine) -> BTreeMap<u64, (u64, Vec<f32>)> {
    let mut rows = BTreeMap::new();
    let walked = engine.pin().for_each_row(&mut |row| {
        rows.insert(row.id, (row.version, row.vector.to_vec()));
    });
    walked.expect("rows that can be read");
    rows
}

/// Upserts, replacements, and deletes of rows that are there and of others.
fn work(engine: &mut Engine, seed: u64, writes: usize) {
    let mut random = SplitMix(seed);
    for write in 0..writes {
        let id = random.below(300) as u64;
        let version = (seed << 32) + write as u64;
        if random.below(4) == 0 {
            engine.delete(id + random.below(2) as u64 * 1_000, version).expect("a delete");
        } else {
            let vector = [random.below(256) as f32, id as f32, 7.0];
            engine.upsert(&vstream_engine::Row { version, ..row(id, &vector) }).expect("a row");
        }
        if random.below(40) == 0 {
            engine.commit().expect("a commit");
        }
    }
    engine.commit().expect("a commit");
}

/// A copy of the files of an engine, as they are at this moment.
pub(crate) fn copy(engine: &mut Engine) -> TempDir {
    let copy = tempfile::tempdir().expect("a directory");
    let state = engine.share().expect("a state");
    for file in state.files().expect("files") {
        fs::copy(&file.path, copy.path().join(&file.name)).expect("a copy");
    }
    fs::write(copy.path().join("COLLECTION"), state.manifest()).expect("a manifest");
    copy
}

/// Applies what the feed has; returns false if that is gone.
pub(crate) fn catch_up(follower: &mut Engine, feed: &Feed) -> bool {
    let mut reader = feed.after(follower.sequence());
    while reader.sequence() < feed.sequence() {
        match reader.read(BYTES).expect("a log that can be read") {
            FeedRead::Gone => return false,
            FeedRead::Groups(groups) => {
                assert!(!groups.is_empty());
                for group in groups {
                    follower.apply_group(&group).expect("a group that follows");
                }
            }
        }
    }
    true
}

#[test]
fn a_follower_has_what_the_writer_has_on_its_disk() {
    for memory in [None, Some(1 << 20)] {
        let dir = tempfile::tempdir().expect("a directory");
        let mut writer = create(dir.path(), memory);
        work(&mut writer, 1, 500);
        let feed = writer.feed(KEPT).expect("a log");
        let copied = copy(&mut writer);
        let open = || {
            let adjust = &mut |_: &mut Settings, journaling: &mut Journaling| {
                journaling.durability = Durability::ASYNC;
            };
            Engine::builder().dir(copied.path()).adjust(adjust).open().expect("a copy")
        };
        let mut follower = open();
        assert_eq!(rows(&follower), rows(&writer));
        for round in 2..12 {
            work(&mut writer, round, 700);
            if round % 3 == 0 {
                writer.checkpoint().expect("a checkpoint");
            }
            assert!(catch_up(&mut follower, &feed), "round {round}");
            assert_eq!(follower.sequence(), writer.sequence());
            assert_eq!(rows(&follower), rows(&writer), "round {round}");
            if round % 4 == 0 {
                follower.checkpoint().expect("a checkpoint");
            }
            if round % 2 == 0 {
                // It goes on where it was, and may have ended within a group of the writer.
                follower.close().expect("an end");
                follower = open();
            }
        }
        // What is not on the disk yet is not given away.
        let before = feed.sequence();
        writer.upsert(&row(5_000, &[1.0, 2.0, 3.0])).expect("a row");
        assert_eq!((feed.sequence(), writer.sequence()), (before, before + 1));
        let mut reader = feed.after(before);
        assert_eq!(reader.read(BYTES).expect("a log"), FeedRead::Groups(Vec::new()));
        writer.commit().expect("a commit");
        assert!(catch_up(&mut follower, &feed));
        assert_eq!(rows(&follower), rows(&writer));
    }
}

#[test]
fn a_folder_that_another_engine_writes_is_read_and_followed_in_memory() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut writer = create(dir.path(), Some(1 << 20));
    work(&mut writer, 1, 3_000);
    writer.checkpoint().expect("a checkpoint");
    work(&mut writer, 2, 500);
    let feed = writer.feed(KEPT).expect("a log");
    let mut reader = Engine::open_read_only(dir.path()).expect("its rows");
    assert_eq!((reader.collection(), reader.sequence()), (writer.collection(), writer.sequence()));
    assert_eq!(rows(&reader), rows(&writer));
    assert_eq!(reader.feed(KEPT).err().expect("no log").kind(), ErrorKind::Invalid);
    work(&mut writer, 3, 2_000);
    writer.compact().expect("merges");
    assert!(catch_up(&mut reader, &feed));
    assert_eq!((rows(&reader), reader.sequence()), (rows(&writer), writer.sequence()));
}

#[test]
fn who_lags_behind_the_oldest_log_is_told_so() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut writer = create(dir.path(), None);
    work(&mut writer, 1, 200);
    let feed = writer.feed(0).expect("a log");
    let copied = copy(&mut writer);
    let mut follower = Engine::open(copied.path()).expect("a copy");
    for round in 2..5 {
        work(&mut writer, round, 200);
        writer.checkpoint().expect("a checkpoint");
    }
    work(&mut writer, 5, 200);
    assert!(!catch_up(&mut follower, &feed));
    let ahead = feed.after(writer.sequence() + 1).read(BYTES).expect("a log");
    assert_eq!(ahead, FeedRead::Gone, "the writer has never written that");
    let logs = |dir: &Path| {
        let names = fs::read_dir(dir).unwrap().map(|one| one.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with("log-")).count()
    };
    assert!(logs(dir.path()) <= 2, "old logs go");
}

#[test]
fn changed_bytes_and_other_histories_are_noticed() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut writer = create(dir.path(), None);
    work(&mut writer, 1, 300);
    let feed = writer.feed(KEPT).expect("a log");
    let copies = [copy(&mut writer), copy(&mut writer)];
    let [mut same, mut other] =
        copies.each_ref().map(|copied| Engine::open(copied.path()).expect("a copy"));
    let before = writer.sequence();
    work(&mut writer, 2, 50);
    let FeedRead::Groups(groups) = feed.after(before).read(1).expect("a log") else {
        panic!("the log goes back so far")
    };
    let group = &groups[0];
    for at in 0..group.len() {
        let mut changed = group.clone();
        changed[at] ^= 1 << (at % 8);
        let error = same.apply_group(&changed).expect_err("a changed byte");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {at}");
    }
    assert_eq!(same.sequence(), before, "nothing was changed");
    same.apply_group(group).expect("the group as it was");
    same.apply_group(group).expect("a group that is here already");
    // The other one was written to, as a backup that somebody used.
    let id = rows(&other).keys().copied().next().expect("a row");
    other.delete(id, u64::MAX).expect("a delete");
    other.commit().expect("a commit");
    let mut reader = feed.after(other.sequence());
    let FeedRead::Groups(groups) = reader.read(BYTES).expect("a log") else {
        panic!("it is there")
    };
    let mut applied = groups.iter().map(|group| other.apply_group(group));
    let error = applied.find_map(Result::err).expect("another history");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    // A group is missing between.
    let last = feed.sequence();
    work(&mut writer, 3, 100);
    let FeedRead::Groups(groups) = feed.after(last).read(1).expect("a log") else { panic!() };
    assert!(same.sequence() < last, "the group before was not the last one");
    let error = same.apply_group(&groups[0]).expect_err("a gap");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn attributes_travel_with_the_schema_and_changes_can_be_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut writer = create(dir.path(), None);
    let feed = writer.feed(KEPT).expect("a log");
    let copied = copy(&mut writer);
    let mut follower = Engine::open(copied.path()).expect("a copy");
    writer.add_attribute("price", AttributeKind::I64).expect("an attribute");
    writer.upsert(&row(5, &[1.0, 2.0, 3.0])).expect("a row");
    writer.delete(RowId::from(5), 9).expect("a delete");
    writer.commit().expect("a commit");
    let mut schema = Vec::new();
    feed.schema().encode(&mut schema);
    follower.add_attributes_of(&schema).expect("a schema");
    assert!(catch_up(&mut follower, &feed));
    assert_eq!(follower.schema().attributes, writer.schema().attributes);
    let error = follower.add_attributes_of(&schema[1..]).expect_err("no schema");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let FeedRead::Groups(groups) = feed.after(0).read(BYTES).expect("a log") else {
        panic!("the log goes back to its beginning")
    };
    let mut seen = Vec::new();
    for group in &groups {
        read_changes(writer.settings(), group, &mut |sequence, change| {
            seen.push(match change {
                Change::Upsert(row) => format!("{sequence} upsert {} {:?}", row.id, row.vector),
                Change::Delete { id, version } => format!("{sequence} delete {id} {version}"),
                other => format!("{sequence} {other:?}"),
            });
        })
        .expect("changes");
    }
    assert_eq!(seen, ["1 upsert 5 [1.0, 2.0, 3.0]", "2 delete 5 9"]);
}
