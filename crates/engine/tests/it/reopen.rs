//! A directory is free the moment its engine is dropped, whatever ran until then.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use vstream_engine::{
    Durability, Effort, Element, Engine, Journaling, Metric, Query, Reader, Row, RowId, Scratch,
    Settings, With,
};
use vstream_vector::SplitMix;

const DIMENSION: usize = 64;
const IDS: usize = 2_000;
/// Writes between two openings.
const WRITES: usize = 1_200;

/// Memory that is full after some hundred rows, the guard on, and codes that move.
fn settings() -> Settings {
    Settings {
        memory: Some(256 << 10),
        code_memory: Some(16 << 10),
        recall_guard: true,
        ..Settings::new(DIMENSION, Metric::L2, Element::F32)
    }
}

fn create(dir: &Path, settings: Settings) -> Engine {
    let journaling =
        Journaling { durability: Durability::Sync, log_bytes_max: 64 << 10, background: true };
    Engine::builder().dir(dir).journaling(journaling).create(settings).expect("an engine")
}

fn vector(random: &mut SplitMix) -> Vec<f32> {
    (0..DIMENSION).map(|_| random.below(1_000) as f32 / 500.0 - 1.0).collect()
}

fn write(engine: &mut Engine, random: &mut SplitMix, writes: usize) {
    for write in 0..writes {
        let id = random.below(IDS) as u64;
        let vector = vector(random);
        let row = Row {
            id,
            version: u64::MAX >> 1,
            code: id,
            shard: (id % 128) as u16,
            vector: &vector,
            fields: Default::default(),
        };
        engine.upsert(&row).expect("a good row");
        if write % 100 == 99 {
            engine.commit().expect("on the disk");
        }
    }
}

/// Asks until it is told to stop, so that the guard has queries to audit and codes move.
fn ask(reader: &Reader, stop: &AtomicBool, asked: &AtomicU64) {
    let (mut random, mut scratch, mut out) = (SplitMix(2), Scratch::new(), Vec::new());
    while !stop.load(Ordering::Relaxed) {
        let vector = vector(&mut random);
        let query =
            Query { vector: &vector, k: 10, effort: Effort::Auto, filter: None, radius: None };
        reader.search(&query, &mut scratch, &mut out).expect("an answer");
        asked.fetch_add(1, Ordering::Relaxed);
    }
}

/// Merges, audits, moves of codes and copies of shared states are under way when the engine is
/// dropped; readers go on after it.
#[test]
fn a_directory_opens_again_at_once_whatever_ran() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut random = SplitMix(1);
    let asked = AtomicU64::new(0);
    let mut engine = create(dir.path(), settings());
    let (mut turn, mut compactions, mut checkpoints) = (0, 0, 0);
    while turn < 16 || ((compactions == 0 || checkpoints < 4) && turn < 64) {
        turn += 1;
        // On a busy machine an engine may end before its first merge or checkpoint does: later ones wait
        // for both.
        let patience = Duration::from_secs(if turn > 16 { 30 } else { 0 });
        let (reader, stop) = (engine.reader(), AtomicBool::new(false));
        engine = std::thread::scope(|scope| {
            scope.spawn(|| ask(&reader, &stop, &asked));
            write(&mut engine, &mut random, WRITES);
            let state = engine.share().expect("a state");
            let uploads = scope.spawn(move || {
                // Whoever uploads reads every byte; the state ends with the last one.
                state.files().expect("whole files").len()
            });
            write(&mut engine, &mut random, WRITES / 4);
            assert!(uploads.join().expect("no panic") > 0);
            let end = Instant::now() + patience;
            let has_both = |engine: &Engine| {
                let journal = engine.stats().journal.expect("a journal");
                journal.compactions + compactions > 0 && journal.checkpoints > 0
            };
            while !has_both(&engine) && Instant::now() < end {
                write(&mut engine, &mut random, 100);
            }
            let journal = engine.stats().journal.expect("a journal");
            compactions += journal.compactions;
            checkpoints += journal.checkpoints;
            drop(engine);
            let again = Engine::open(dir.path());
            stop.store(true, Ordering::Relaxed);
            again.unwrap_or_else(|error| panic!("turn {turn}: {error}"))
        });
    }
    assert!(compactions > 0 && checkpoints >= 4, "{compactions} and {checkpoints}");
    assert!(asked.load(Ordering::Relaxed) > 16);
}

/// A log changes rows of many segments, some several times in one group: each is found where it is then.
#[test]
fn rows_of_segments_that_a_log_changes_again_are_found() {
    const ROWS: usize = 20_000;
    let dir = tempfile::tempdir().expect("a directory");
    let mut random = SplitMix(3);
    let settings = Settings { memory: Some(256 << 20), recall_guard: false, ..settings() };
    let journaling =
        Journaling { durability: Durability::Sync, log_bytes_max: 1 << 30, background: false };
    let builder = Engine::builder().dir(dir.path()).journaling(journaling);
    let mut engine = builder.create(settings).expect("an engine");
    let mut versions = vec![Some(1); ROWS];
    let mut upsert = |engine: &mut Engine, id: usize, version: u64| {
        let vector = vector(&mut random);
        let (id, fields) = (id as u64, Default::default());
        let row = Row { id, version, code: id, shard: 0, vector: &vector, fields };
        engine.upsert(&row).expect("a good row");
    };
    for id in 0..ROWS {
        upsert(&mut engine, id, 1);
        if id % 2_400 == 2_399 {
            engine.checkpoint().expect("a segment");
        }
    }
    engine.checkpoint().expect("a segment");
    let segments = engine.stats().tree.segments;
    let mut draw = SplitMix(4);
    // One commit, so one group, in which many ids come twice or more; then some small groups.
    for version in 2..600 {
        let id = 25 * draw.below(ROWS / 25);
        match draw.below(4) {
            0 => {
                assert_eq!(engine.delete(id as u64, version).unwrap(), versions[id].is_some());
                versions[id] = None;
            }
            _ => {
                upsert(&mut engine, id, version);
                versions[id] = Some(version);
            }
        }
        if version > 500 && version % 10 == 0 {
            engine.commit().expect("on the disk");
        }
    }
    engine.commit().expect("on the disk");
    assert!(segments >= 2 && engine.stats().tree.segments >= segments, "{segments} segments");
    drop(engine);
    let engine = Engine::open(dir.path()).expect("the same rows");
    let ids: Vec<RowId> = (0..ROWS as u64).map(RowId::from).collect();
    for (first, some) in ids.chunks(500).enumerate() {
        let found = engine.reader().get(some, &With::default()).expect("rows");
        let found: Vec<_> = found.iter().map(|row| row.as_ref().map(|row| row.version)).collect();
        assert_eq!(found, versions[500 * first..][..some.len()]);
    }
}

/// A process that another thread starts has copies of all open files for a moment, that of the
/// lock among them. They keep no directory locked after its engine.
#[test]
fn processes_that_start_meanwhile_do_not_keep_the_lock() {
    let dir = tempfile::tempdir().expect("a directory");
    let stop = AtomicBool::new(false);
    let started = AtomicU64::new(0);
    let settings = Settings { memory: None, code_memory: None, ..settings() };
    let settings = Settings { recall_guard: false, ..settings };
    drop(create(dir.path(), settings));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                Command::new("true").status().expect("a process");
                started.fetch_add(1, Ordering::Relaxed);
            }
        });
        let end = Instant::now() + Duration::from_secs(120);
        let mut opened = 0;
        let mut refused = None;
        while refused.is_none()
            && Instant::now() < end
            && (opened < 400 || started.load(Ordering::Relaxed) < 200)
        {
            refused = Engine::open(dir.path()).map(drop).err();
            opened += 1;
        }
        stop.store(true, Ordering::Relaxed);
        assert!(refused.is_none(), "after {opened}: {}", refused.expect("an error"));
        assert!(opened >= 400, "{opened}");
    });
}
