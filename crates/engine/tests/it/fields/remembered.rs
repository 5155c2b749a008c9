//! Deletes whose versions are remembered: an older upsert stays without effect, also after a restart.

use std::collections::HashMap;
use std::time::Duration;

use vstream_engine::{
    inspect_collection, verify, Applied, Element, Engine, Fields, Metric, Row, Settings,
};
use vstream_vector::SplitMix;

use super::journaling;

const DIMENSION: usize = 64;

fn settings(memory: Option<u64>) -> Settings {
    let settings = Settings::new(DIMENSION, Metric::L2, Element::F32);
    let deletes_remembered = Some(Duration::from_secs(3600));
    Settings { memory, deletes_remembered, recall_guard: false, ..settings }
}

fn put(engine: &mut Engine, id: u64, version: u64) -> Applied {
    let vector: Vec<f32> = (0..DIMENSION as u64).map(|at| (id * 7 + at * 3 % 11) as f32).collect();
    let row = Row { id, version, code: 0, shard: 0, vector: &vector, fields: Fields::NONE };
    engine.upsert(&row).expect("a good row")
}

/// The version of the row that is there, and the newest delete, by id.
#[derive(Default)]
struct Model(HashMap<u64, (Option<u64>, u64)>);

fn reopened(mut engine: Engine, dir: &std::path::Path) -> Engine {
    engine.detach().expect("closed");
    let opened = Engine::builder()
        .dir(dir)
        .adjust(&mut |settings, journaling| {
            settings.recall_guard = false;
            journaling.background = false;
        })
        .open();
    opened.expect("it opens")
}

fn run(memory: Option<u64>, seed: u64) {
    println!("seed {seed}");
    let dir = tempfile::tempdir().expect("a directory");
    let builder = Engine::builder().dir(dir.path()).journaling(journaling(false));
    let mut engine = builder.create(settings(memory)).expect("an engine");
    let (mut model, mut random) = (Model::default(), SplitMix(seed));
    for step in 0..12_000u64 {
        let (id, version) = (random.below(800) as u64, 1 + random.below(2_000) as u64);
        let row = model.0.entry(id).or_default();
        if random.below(3) == 0 {
            let died = engine.delete(id, version).expect("a delete");
            let dies = row.0.is_some_and(|there| there <= version);
            assert_eq!(died, dies, "seed {seed}, step {step}");
            if dies || row.0.is_none() {
                *row = (None, row.1.max(version));
            }
        } else {
            let expected = match row.0 {
                None if version < row.1 => Applied::Stale,
                None => Applied::Inserted,
                Some(there) if there > version => Applied::Stale,
                Some(_) => Applied::Replaced,
            };
            assert_eq!(put(&mut engine, id, version), expected, "seed {seed}, step {step}");
            if expected.is_applied() {
                // The version of the row itself counts from now on.
                *row = (Some(version), 0);
            }
        }
        match random.below(1_000) {
            0..10 => engine.commit().expect("a commit"),
            10..13 => engine.checkpoint().expect("a checkpoint"),
            13..16 => engine = reopened(engine, dir.path()),
            16 => engine.compact().expect("a compaction"),
            _ => {}
        }
    }
    let deletes = model.0.values().filter(|row| row.0.is_none() && row.1 > 0).count();
    assert_eq!(engine.stats().deletes_remembered, deletes, "seed {seed}");
    assert!(deletes > 100, "{deletes}");
    drop(engine);
    let verified = verify(dir.path()).expect("a collection");
    let living = model.0.values().filter(|row| row.0.is_some()).count();
    assert_eq!((verified.findings, verified.rows), (vec![], living as u64));
    let summary = inspect_collection(dir.path()).expect("readable").expect("a collection");
    assert_eq!(summary.deletes_remembered, Some(Duration::from_secs(3600)));
}

#[test]
fn an_older_upsert_than_a_delete_stays_dead() {
    run(None, 31);
    run(Some(256 << 10), 32);
}

#[test]
fn without_the_setting_an_upsert_after_a_delete_counts() {
    let plain = Settings { deletes_remembered: None, ..settings(None) };
    let mut engine = Engine::create(plain).expect("an engine");
    assert_eq!(put(&mut engine, 1, 9), Applied::Inserted);
    assert_eq!(engine.delete(1, 9), Ok(true));
    assert_eq!(put(&mut engine, 1, 3), Applied::Inserted);
    assert_eq!(engine.stats().deletes_remembered, 0);
}

/// A shared state has the file of remembered deletes, and whoever takes the rows over has them too.
#[test]
fn deletes_go_with_the_rows() {
    let (from, to) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("another"));
    let builder = Engine::builder().dir(from.path()).journaling(journaling(false));
    let mut engine = builder.create(settings(None)).expect("an engine");
    for id in 0..2_000 {
        put(&mut engine, id, 10);
    }
    for id in 0..500 {
        assert_eq!(engine.delete(id, 20), Ok(true));
    }
    engine.checkpoint().expect("an image, and the deletes beside it");
    assert_eq!(engine.delete(500, 20), Ok(true), "one in the log alone");
    let state = engine.share().expect("a state");
    let files = state.files().expect("files");
    assert!(files.iter().any(|file| file.name.starts_with("deletes-")), "{files:?}");
    std::fs::write(to.path().join("COLLECTION"), state.manifest()).expect("copied");
    for file in &files {
        std::fs::copy(&file.path, to.path().join(&file.name)).expect("copied");
    }
    drop(state);
    let there_too = |engine: &mut Engine| {
        assert_eq!(engine.stats().deletes_remembered, 501);
        for id in [0, 499, 500] {
            assert_eq!(put(engine, id, 19), Applied::Stale, "row {id}");
        }
    };
    let mut taken = Engine::create(settings(None)).expect("an engine");
    assert_eq!(taken.take_shared(to.path(), &|_| true), Ok(1_499));
    there_too(&mut taken);
    for id in [0, 499, 500] {
        assert_eq!(put(&mut taken, id, 20), Applied::Inserted, "row {id}");
    }
    // They are durable as the rows are, before any checkpoint.
    let durable = tempfile::tempdir().expect("a third");
    let builder = || Engine::builder().dir(durable.path()).journaling(journaling(false));
    let mut taken = builder().create(settings(None)).expect("an engine");
    assert_eq!(taken.take_shared(to.path(), &|_| true), Ok(1_499));
    taken.commit().expect("durable");
    there_too(&mut taken);
    drop(taken);
    let mut opened = builder().open().expect("opened");
    assert_eq!(opened.stats().index.live, 1_499);
    there_too(&mut opened);
}
