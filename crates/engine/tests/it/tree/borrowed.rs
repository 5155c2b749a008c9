//! Engines that read files of another one: queries come first, and the rest is read behind. And what a close
//! leaves for who opens next.

use std::path::Path;
use std::time::{Duration, Instant};

use vstream_engine::{Element, Engine, IndexKind, Journaling, Metric, Settings};
use vstream_vector::SplitMix;

use super::adopted::{check, put, vector, DIMENSION};
use super::{journaling, Model};

const ROWS: u64 = 20_000;

fn settings(memory: Option<u64>) -> Settings {
    let settings = Settings::new(DIMENSION, Metric::L2, Element::F32);
    Settings { memory, recall_guard: false, ..settings }
}

fn create(dir: &Path, settings: Settings) -> Engine {
    let kept = Journaling { log_bytes_max: 64 << 20, ..journaling(true) };
    Engine::builder().dir(dir).journaling(kept).create(settings).expect("an engine")
}

/// Answers are right while codes are in the files, as they are when they have come to memory, and after
/// writes that make the filter of ids.
#[test]
fn a_borrowed_engine_answers_before_its_codes_are_in_memory() {
    for index in [IndexKind::Cluster, IndexKind::Flat] {
        let (dir, mut random) = (tempfile::tempdir().expect("a directory"), SplitMix(5));
        let of_index = Settings { index, ..settings(Some(4 << 20)) };
        let (mut engine, mut model) = (create(dir.path(), of_index), Model::new());
        (0..ROWS).for_each(|id| put(&mut engine, &mut model, id, 1, vector(&mut random)));
        for id in (0..ROWS).step_by(7) {
            put(&mut engine, &mut model, id, 2, vector(&mut random));
        }
        for id in (3..ROWS).step_by(50) {
            engine.delete(id, 3).expect("a delete");
            model.remove(&id);
        }
        engine.checkpoint().expect("segments");
        // Some are in the log alone.
        (0..500).for_each(|id| put(&mut engine, &mut model, id * 11, 4, vector(&mut random)));
        engine.commit().expect("a commit");
        let mut borrowed = Engine::open_read_only(dir.path()).expect("its rows");
        assert!(borrowed.stats().tree.segments > 1);
        let recall = check(&borrowed, &model);
        assert!(recall > 0.9 && recall <= check(&engine, &model) + 0.02, "{index:?}: {recall}");
        let begun = Instant::now();
        while borrowed.stats().tree.code_bytes_away > 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "codes stay in the files");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!((check(&borrowed, &model) - recall).abs() < 0.02);
        for id in (0..2 * ROWS).step_by(13) {
            put(&mut borrowed, &mut model, id, 5, vector(&mut random));
        }
        for id in (1..ROWS).step_by(17) {
            borrowed.delete(id, 6).expect("a delete");
            model.remove(&id);
        }
        check(&borrowed, &model);
    }
}

/// The first write of a borrowed engine whose log is empty finds the row that it replaces.
#[test]
fn the_first_write_of_a_borrowed_engine_finds_the_older_row() {
    let (dir, mut random) = (tempfile::tempdir().expect("a directory"), SplitMix(6));
    let (mut engine, mut model) = (create(dir.path(), settings(Some(4 << 20))), Model::new());
    (0..ROWS).for_each(|id| put(&mut engine, &mut model, id, 1, vector(&mut random)));
    engine.checkpoint().expect("segments");
    engine.close().expect("closed");
    let mut borrowed = Engine::open_read_only(dir.path()).expect("its rows");
    put(&mut borrowed, &mut model, 17, 2, vector(&mut random));
    put(&mut borrowed, &mut model, ROWS, 2, vector(&mut random));
    borrowed.delete(18, 2).expect("a delete");
    model.remove(&18);
    check(&borrowed, &model);
}

#[test]
fn a_close_shortens_a_long_log_where_memory_has_a_limit() {
    let cases =
        [(Some(16u64 << 20), 6_000u64, 0u64), (Some(16 << 20), 100, 100), (None, 6_000, 6_000)];
    for (memory, written, left) in cases {
        let (dir, mut random) = (tempfile::tempdir().expect("a directory"), SplitMix(7));
        let (mut engine, mut model) = (create(dir.path(), settings(memory)), Model::new());
        (0..written).for_each(|id| put(&mut engine, &mut model, id, 1, vector(&mut random)));
        engine.commit().expect("a commit");
        drop(engine);
        let engine = Engine::open(dir.path()).expect("opened");
        let log = engine.stats().journal.expect("a journal").log_bytes;
        assert!(log > written * 4 * DIMENSION as u64, "a drop leaves the log, {log} bytes");
        check(&engine, &model);
        engine.close().expect("closed");
        let engine = Engine::open(dir.path()).expect("opened");
        let log = engine.stats().journal.expect("a journal").log_bytes;
        assert_eq!(log > 0, left > 0, "{log} bytes after a close, {memory:?}");
        check(&engine, &model);
    }
}
