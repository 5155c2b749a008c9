//! Codes that are read behind, and the filter of ids that waits for a write.

use std::path::Path;

use vstream_store::{FileStore, Syncing};
use vstream_vector::{Element, Metric, SplitMix};

use super::{round, Round};
use crate::recovery::recover;
use crate::version::Manifest;
use crate::{Effort, Engine, Journaling, Query, Row, Scratch, Settings};

const DIMENSION: usize = 64;
const ROWS: u64 = 20_000;

fn vector(random: &mut SplitMix) -> Vec<f32> {
    let mut at = SplitMix(random.below(300) as u64);
    (0..DIMENSION).map(|_| 1.5 * at.normal() + random.normal()).collect()
}

fn put(engine: &mut Engine, id: u64, version: u64, random: &mut SplitMix) {
    let vector = vector(random);
    let row = Row { id, version, code: id, shard: 0, vector: &vector, fields: Default::default() };
    engine.upsert(&row).expect("a good row");
}

/// A collection in segments, and nothing in its log.
fn collection(dir: &Path, metric: Metric, guard: bool) -> Engine {
    let memory = Some(4 << 20);
    let settings = Settings::new(DIMENSION, metric, Element::F32);
    let settings = Settings { memory, recall_guard: guard, ..settings };
    let journaling = Journaling { background: false, ..Journaling::default() };
    let mut engine =
        Engine::builder().dir(dir).journaling(journaling).create(settings).expect("an engine");
    let mut random = SplitMix(3);
    (0..ROWS).for_each(|id| put(&mut engine, id, 1, &mut random));
    engine.checkpoint().expect("segments");
    engine
}

/// Opens it for queries, without the thread that brings codes to memory.
fn opened_for_queries(dir: &Path) -> Engine {
    let store = FileStore::open_dir(dir, Syncing::Off).expect("a store");
    let manifest = Manifest::read(&store).expect("a manifest");
    let mut engine = Engine::borrowing(manifest.settings.clone()).expect("an engine");
    recover(&store, &manifest, &mut engine).expect("its rows");
    engine
}

fn answers(engine: &Engine, effort: Effort) -> Vec<Vec<u64>> {
    let (mut random, mut scratch, mut out) = (SplitMix(4), Scratch::new(), Vec::new());
    let mut ask = |_| {
        let vector = vector(&mut random);
        let query = Query { effort, ..Query::new(&vector, 10) };
        engine.reader().search(&query, &mut scratch, &mut out).expect("an answer");
        out.iter().map(|row| row.id).collect()
    };
    (0..30).map(&mut ask).collect()
}

#[test]
fn answers_are_the_same_before_and_after_codes_come_to_memory() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut whole = collection(dir.path(), Metric::L2, false);
    // A merge would change which leaves sixteen probes visit.
    whole.compact().expect("merged segments");
    let engine = opened_for_queries(dir.path());
    let away = engine.stats().tree.code_bytes_away;
    assert_eq!(away, whole.stats().tree.code_bytes + whole.stats().tree.code_bytes_away);
    assert!(away > ROWS * DIMENSION as u64 / 8, "{away} bytes of codes are in no memory");
    for effort in [Effort::Exact, Effort::probes(16)] {
        assert_eq!(answers(&engine, effort), answers(&whole, effort), "{effort:?}");
    }
    let before = answers(&engine, Effort::Auto);
    assert_eq!(engine.stats().tree.code_bytes, 0, "queries bring no codes to memory");
    assert_eq!(round(&std::sync::Arc::downgrade(&engine.tree)), Round::Done);
    assert_eq!(engine.stats().tree.code_bytes_away, 0);
    assert_eq!(answers(&engine, Effort::probes(16)), answers(&whole, Effort::probes(16)));
    assert_eq!(answers(&engine, Effort::Auto), before);
    let tree = std::sync::Arc::downgrade(&engine.tree);
    drop(engine);
    // A thread that looks after it may hold it for a moment.
    while tree.strong_count() > 0 {
        std::thread::yield_now();
    }
    assert_eq!(round(&tree), Round::Gone);
}

#[test]
fn the_first_write_makes_the_filter_of_ids() {
    let dir = tempfile::tempdir().expect("a directory");
    drop(collection(dir.path(), Metric::L2, false));
    let mut engine = opened_for_queries(dir.path());
    let filter_bytes = |engine: &Engine| engine.tree.lock().known.memory_bytes();
    assert_eq!(filter_bytes(&engine), 0);
    let mut random = SplitMix(5);
    put(&mut engine, 7, 2, &mut random);
    assert!(filter_bytes(&engine) > ROWS, "{} bytes", filter_bytes(&engine));
    put(&mut engine, ROWS, 2, &mut random);
    assert_eq!(engine.stats().index.live, ROWS + 1);
    let unknown = (0..ROWS).filter(|&id| !engine.tree.lock().known.may_have(id)).count();
    assert_eq!(unknown, 0, "ids that segments have");
}

/// By inner product a query without a decision goes through every code: they are there before the first.
#[test]
fn codes_come_first_where_queries_need_all_of_them() {
    for (metric, is_first) in [(Metric::InnerProduct, true), (Metric::L2, false)] {
        let dir = tempfile::tempdir().expect("a directory");
        drop(collection(dir.path(), metric, true));
        let engine = opened_for_queries(dir.path());
        assert!(engine.stats().tree.code_bytes_away > 0);
        assert_eq!(!engine.tree.view().bounds_itself(metric), is_first);
        engine.tree.hold_behind(engine.guard.pause());
        if is_first {
            assert_eq!(engine.stats().tree.code_bytes_away, 0);
        }
    }
}

/// Damaged codes do not keep those of other segments away.
#[test]
fn damaged_codes_are_passed_over() {
    let dir = tempfile::tempdir().expect("a directory");
    drop(collection(dir.path(), Metric::L2, false));
    let engine = opened_for_queries(dir.path());
    let segments = engine.tree.view().segments.clone();
    let path = dir.path().join(crate::layout::segment_name(segments[0].number));
    let mut bytes = std::fs::read(&path).expect("a segment");
    (0..bytes.len()).step_by(64).for_each(|at| bytes[at] ^= 1);
    std::fs::write(&path, bytes).expect("damage");
    assert_eq!(round(&std::sync::Arc::downgrade(&engine.tree)), Round::Done);
    let away = engine.stats().tree.code_bytes_away;
    assert_eq!(away, segments[0].code_bytes_away());
    assert!(away > 0 && engine.stats().tree.code_bytes > 0, "{away} bytes are away");
}
