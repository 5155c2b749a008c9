//! Shared states of one engine: each has few files that the one before it has not.

use std::collections::BTreeMap;
use std::path::Path;

use vstream_engine::{verify, Element, Engine, Metric, Row, Settings};
use vstream_index::contract::clustered;
use vstream_vector::SplitMix;

use super::{create, parts};

const DIMENSION: usize = 64;
const ROWS: u64 = 6_400;
const SHARDS: u64 = 64;
/// Rows that change between two states: one in a hundred.
const CHANGED: u64 = 64;
const STATES: usize = 150;

fn with_parts_of(dir: &Path, image_part_bytes: u64) -> Engine {
    let settings = Settings::new(DIMENSION, Metric::L2, Element::F32);
    create(dir, Settings { image_part_bytes, recall_guard: false, ..settings })
}

fn put(engine: &mut Engine, id: u64, version: u64, vector: &[f32]) {
    let shard = (id % SHARDS) as u16;
    let row = Row { id, version, code: 0, shard, vector, fields: Default::default() };
    engine.upsert(&row).expect("a good row");
}

/// Key and length of the files of a state of the engine, which ends with this call; no two states have one
/// manifest.
fn keys(engine: &mut Engine) -> BTreeMap<String, u64> {
    let state = engine.share().expect("a state");
    let files = state.files().expect("files").into_iter().map(|file| (file.key, file.bytes));
    let lsn = engine.stats().journal.expect("a journal").lsn;
    files.chain([(format!("manifest of {lsn}"), state.manifest().len() as u64)]).collect()
}

/// Bytes of the files that the state before has not.
fn new_bytes(now: &BTreeMap<String, u64>, before: &BTreeMap<String, u64>) -> u64 {
    now.iter().filter(|(key, _)| !before.contains_key(*key)).map(|(_, bytes)| bytes).sum()
}

fn logs(state: &BTreeMap<String, u64>) -> usize {
    state.keys().filter(|key| key.contains(".log-")).count()
}

#[test]
fn no_state_after_the_first_has_many_new_bytes() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut engine = with_parts_of(dir.path(), 8 << 10);
    let mut random = SplitMix(6);
    let vectors = clustered(&mut random, ROWS as usize, DIMENSION, 80);
    let vector = |at: usize| &vectors[at * DIMENSION..][..DIMENSION];
    for id in 0..ROWS {
        put(&mut engine, id, 1, vector(id as usize));
    }
    engine.checkpoint().expect("an image");
    let before = engine.stats().journal.expect("a journal");
    let mut last = keys(&mut engine);
    let image = last.values().sum::<u64>();
    let (mut shares, mut most_logs) = (Vec::new(), 0);
    for turn in 0..STATES as u64 {
        for row in 0..CHANGED {
            let at = random.below(ROWS as usize);
            put(&mut engine, random.below(ROWS as usize) as u64, 2 + turn, vector(at));
            if row % 16 == 0 {
                engine.commit().expect("a commit");
            }
        }
        let now = keys(&mut engine);
        let (new, all) = (new_bytes(&now, &last), now.values().sum::<u64>());
        shares.push(new as f64 / all as f64);
        most_logs = most_logs.max(logs(&now));
        assert!(all < image * 9 / 4, "state {turn} has {all} bytes, the first {image}");
        last = now;
    }
    let after = engine.stats().journal.expect("a journal");
    let written = after.base_bytes_written - before.base_bytes_written;
    let logged = after.log_bytes_written - before.log_bytes_written;
    let most = shares.iter().copied().fold(0.0, f64::max);
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    println!(
        "new bytes: {most:.4} at most, {mean:.4} on average; {:.2} bytes of images per byte of log; \
         {most_logs} logs, {} parts",
        written as f64 / logged as f64,
        parts(&engine)
    );
    assert_eq!(parts(&engine), SHARDS);
    assert!(most < 0.03, "a state has {most} of new bytes");
    assert!(most_logs < 200, "{most_logs} logs");
    assert!(written as f64 / (logged as f64) < 1.1, "{written} bytes for {logged}");
    engine.detach().expect("closed");
    assert_eq!(verify(dir.path()).expect("a collection").findings, vec![]);
}

/// A stream of a few rows per state: logs are short, and would pile up.
#[test]
fn a_quiet_stream_keeps_few_logs() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut engine = with_parts_of(dir.path(), 8 << 10);
    for id in 0..ROWS {
        put(&mut engine, id, 1, &[id as f32; DIMENSION]);
    }
    engine.checkpoint().expect("an image");
    let (mut most, mut last) = (0, keys(&mut engine));
    for turn in 0..400 {
        put(&mut engine, turn % 7, 2 + turn, &[1.0; DIMENSION]);
        let now = keys(&mut engine);
        most = most.max(logs(&now));
        let (new, all) = (new_bytes(&now, &last), now.values().sum::<u64>());
        assert!(new * 40 < all, "state {turn}: {new} of {all} bytes are new");
        last = now;
    }
    assert!((100..260).contains(&most), "{most} logs");
}

/// Rows of one shard, as in most embedded engines.
#[test]
fn rows_of_one_shard_are_written_whole_when_the_log_is_as_long() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut engine = with_parts_of(dir.path(), 1 << 10);
    for version in 1..12 {
        for id in 0..1_000 {
            put(&mut engine, id * SHARDS, version, &[id as f32; DIMENSION]);
        }
        engine.commit().expect("a commit");
        engine.commit().expect("a commit, and the checkpoint that was due");
        assert!(parts(&engine) <= 1);
    }
    let stats = engine.stats().journal.expect("a journal");
    assert!((4..12).contains(&stats.checkpoints), "{stats:?}");
    assert!(stats.base_bytes_written < stats.log_bytes_written * 11 / 10, "{stats:?}");
}
