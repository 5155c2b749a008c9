//! Rows that end oldest first, as under a time to live: whole segments go, and nothing else changes.

use std::os::unix::fs::FileExt;

use vstream_engine::{
    inspect_collection, verify, DeleteOrder, Effort, Element, Engine, IndexKind, JournalStats,
    Metric, Settings,
};
use vstream_store::{FileStore, Store, Syncing};

use super::{journaling, put, rows, tiny, truth, vector_of, Model};
use crate::ask;

/// Rows that live at a time.
const LIFE: u64 = 12_000;
/// Rows between two flushes.
const FLUSH: u64 = 500;

fn settings(deletes: DeleteOrder) -> Settings {
    Settings { deletes, ..tiny(IndexKind::Cluster, Metric::L2, Element::F32) }
}

/// Lets `rows` rows come, each of which ends after [`LIFE`] others; compares answers now and then.
fn stream(engine: &mut Engine, model: &mut Model, rows: std::ops::Range<u64>) {
    for id in rows {
        let vector = vector_of(id);
        put(engine, id, 1, &vector);
        model.insert(id, (1, vector));
        if let Some(oldest) = id.checked_sub(LIFE) {
            assert!(engine.delete(oldest, 1).expect("a delete"), "row {oldest} lived");
            model.remove(&oldest);
        }
        if id % FLUSH == FLUSH - 1 {
            engine.checkpoint().expect("a checkpoint");
            let query = vector_of(id ^ 0x5eed);
            let found = ask(&engine.reader(), &query, 10, Effort::Exact);
            assert_eq!(found, truth(model, &query, 10), "after row {id}");
        }
    }
}

fn journal(engine: &Engine) -> JournalStats {
    engine.stats().journal.expect("an engine with a log")
}

#[test]
fn segments_whose_time_has_come_are_dropped_whole() {
    let run = |deletes: DeleteOrder| {
        let dir = tempfile::tempdir().expect("a directory");
        let made = Engine::builder()
            .dir(dir.path())
            .journaling(journaling(false))
            .create(settings(deletes));
        let (mut engine, mut model) = (made.expect("an engine"), Model::new());
        stream(&mut engine, &mut model, 0..4 * LIFE);
        assert_eq!(rows(&engine), model);
        let counts = journal(&engine);
        engine.close().expect("closed");
        assert!(verify(dir.path()).expect("whole").findings.is_empty());
        counts
    };
    let (by_age, by_size) = (run(DeleteOrder::OldestFirst), run(DeleteOrder::Any));
    let what = format!("{by_age:?}, by size {by_size:?}");
    assert!(by_age.segments_dropped >= 12, "{what}");
    assert!(by_size.segments_dropped <= 2, "{what}");
    assert!(by_age.compaction_bytes_written * 2 < by_size.compaction_bytes_written, "{what}");
}

/// The stream ends, every row ends: nothing is left, and nothing was read for it.
#[test]
fn what_is_dropped_is_not_read_and_leaves_no_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let made = Engine::builder()
        .dir(dir.path())
        .journaling(journaling(false))
        .create(settings(DeleteOrder::OldestFirst));
    let (mut engine, mut model) = (made.expect("an engine"), Model::new());
    stream(&mut engine, &mut model, 0..LIFE);
    engine.compact().expect("a compaction");
    let (segments, before) = (engine.stats().tree.segments, journal(&engine));
    assert!(segments > 4, "{segments} segments");
    let names = |prefix: &str| -> Vec<String> {
        let store = FileStore::open_dir(dir.path(), Syncing::Off).expect("a store");
        store.list(prefix).expect("names").into_iter().map(|entry| entry.name).collect()
    };
    assert_eq!(names("segment-").len() as u64, segments);
    for name in names("segment-") {
        // Whoever reads a row, or a leaf, is told by its checksum.
        let path = dir.path().join(name);
        let bytes = std::fs::metadata(&path).expect("a file").len();
        let file = std::fs::File::options().write(true).open(&path).expect("a file");
        file.write_all_at(&vec![0xa5; bytes as usize], 0).expect("damaged");
    }
    for id in 0..LIFE {
        assert!(engine.delete(id, 1).expect("a delete"));
    }
    engine.checkpoint().expect("a checkpoint");
    engine.compact().expect("a compaction");
    let (tree, after) = (engine.stats().tree, journal(&engine));
    assert_eq!((tree.segments, tree.segment_rows), (0, 0));
    assert!(names("segment-").is_empty() && names("marks-").is_empty());
    assert_eq!(after.segments_dropped, before.segments_dropped + segments);
    assert_eq!(after.compaction_bytes_written, before.compaction_bytes_written);
    assert_eq!((after.compactions, after.compaction_failure), (before.compactions, None));
    assert!(ask(&engine.reader(), &vector_of(1), 10, Effort::Exact).is_empty());
    put(&mut engine, 7, 2, &vector_of(7));
    engine.close().expect("closed");
    let engine = Engine::open(dir.path()).expect("it opens");
    assert_eq!(engine.settings().deletes, DeleteOrder::OldestFirst);
    assert_eq!(rows(&engine), Model::from([(7, (2, vector_of(7)))]));
}

/// The order of the rows, and the setting, are kept with the collection.
#[test]
fn a_restart_goes_on_where_it_was() {
    let dir = tempfile::tempdir().expect("a directory");
    let made = Engine::builder()
        .dir(dir.path())
        .journaling(journaling(false))
        .create(settings(DeleteOrder::OldestFirst));
    let (mut engine, mut model) = (made.expect("an engine"), Model::new());
    let mut dropped = 0;
    for quarter in 0..12 {
        stream(&mut engine, &mut model, quarter * LIFE / 4..(quarter + 1) * LIFE / 4);
        dropped += journal(&engine).segments_dropped;
        engine.close().expect("closed");
        let kept = inspect_collection(dir.path()).expect("readable").expect("a collection");
        assert_eq!(kept.deletes, DeleteOrder::OldestFirst);
        engine = Engine::builder()
            .dir(dir.path())
            .adjust(&mut |settings, journaling| {
                settings.recall_guard = false;
                journaling.background = false;
            })
            .open()
            .expect("it opens");
        assert_eq!(rows(&engine), model);
    }
    assert!(dropped >= 8, "{dropped} segments dropped");
}
