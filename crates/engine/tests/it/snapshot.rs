//! A snapshot holds every living row, restores to the same answers, and detects any change.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use vstream_engine::{
    inspect, Effort, Element, Engine, ErrorKind, IndexKind, Metric, Settings, Syncing,
};
use vstream_index::contract::{clustered, fitted};

use vstream_vector::SplitMix;

use super::{ask, engine, row};

fn filled(settings: Settings, rows: usize) -> (Engine, Vec<f32>) {
    let mut random = SplitMix(3);
    let dimension = settings.dimension;
    let vectors = fitted(settings.element, clustered(&mut random, rows, dimension, 20));
    let mut engine = engine(settings);
    for (id, vector) in vectors.chunks_exact(dimension).enumerate() {
        engine.upsert(&row(id as u64, vector)).expect("a good row");
    }
    for id in (0..rows as u64).step_by(3) {
        engine.delete(id, 1).expect("a delete");
    }
    (engine, vectors)
}

/// Living rows of each shard.
fn shards(engine: &Engine) -> BTreeMap<u16, u64> {
    let mut rows = BTreeMap::new();
    let counted = engine.pin().for_each_row(&mut |row| *rows.entry(row.shard).or_insert(0) += 1);
    counted.expect("rows in memory");
    rows
}

#[test]
fn a_restored_engine_gives_the_same_exact_answers() {
    let metrics = [Metric::L2, Metric::Cosine, Metric::InnerProduct];
    let combinations = Element::ALL.into_iter().flat_map(|e| metrics.map(|metric| (metric, e)));
    for (metric, element) in combinations {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("snapshot");
        let settings = Settings::new(12, metric, element);
        let (before, vectors) = filled(settings.clone(), 2_000);
        let summary = before.snapshot(&path).expect("a snapshot");
        assert_eq!(summary.rows, before.stats().index.live);
        assert_eq!(inspect(&path).expect("a manifest"), summary);
        // Directions have no whole numbers.
        let direction = metric == Metric::Cosine && element.is_integer();
        let number = if direction { 4 } else { element.bytes() as u64 };
        for file in &summary.files {
            assert_eq!(file.bytes, 56 + file.rows * (24 + 12 * number), "{metric} {element}");
        }
        for index in [IndexKind::Cluster, IndexKind::Flat] {
            let settings = Settings { index, ..settings.clone() };
            let after = Engine::restore(settings, &path).expect("a restore");
            assert_eq!(shards(&after), shards(&before));
            for query in vectors.chunks_exact(12).take(50) {
                assert_eq!(
                    ask(&after.reader(), query, 10, Effort::Exact),
                    ask(&before.reader(), query, 10, Effort::Exact),
                    "{metric} {element}"
                );
            }
        }
    }
}

#[test]
fn a_pinned_snapshot_holds_its_moment_while_the_engine_goes_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = Settings::new(6, Metric::L2, Element::F32);
    let (mut engine, vectors) = filled(settings.clone(), 3_000);
    let query = &vectors[..6];
    let before = ask(&engine.reader(), query, 50, Effort::Exact);
    let pinned = engine.pin();
    for id in 0..3_000u64 {
        if id % 2 == 0 {
            engine.delete(id, 9).expect("a delete");
        } else {
            engine.upsert(&row(id, &[id as f32; 6])).expect("a good row");
        }
    }
    let path = dir.path().join("pinned");
    let written = std::thread::spawn(move || pinned.write(&path, Syncing::Off).map(|_| path));
    let path = written.join().expect("no panic").expect("a snapshot");
    let restored = Engine::restore(settings, &path).expect("a restore");
    assert_eq!(ask(&restored.reader(), query, 50, Effort::Exact), before);
}

#[test]
fn shards_can_be_assembled_from_several_snapshots() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = Settings::new(4, Metric::L2, Element::F32);
    let (whole, _) = filled(settings.clone(), 900);
    let all = dir.path().join("all");
    whole.snapshot(&all).expect("a snapshot");
    let half = dir.path().join("half");
    fs::create_dir(&half).expect("a directory");
    let mut rows = 0;
    for file in inspect(&all).expect("a manifest").files.iter().filter(|file| file.shard < 64) {
        let name = format!("shard-{:03}.rows", file.shard);
        fs::copy(all.join(&name), half.join(&name)).expect("a copy");
        rows += file.rows;
    }
    let restored = Engine::restore(settings, &half).expect("loose files are taken");
    assert_eq!(restored.stats().index.live, rows);
    assert!(shards(&restored).keys().all(|&shard| shard < 64));
}

#[test]
fn an_empty_collection_can_be_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("empty");
    let settings = Settings::new(4, Metric::L2, Element::F32);
    engine(settings.clone()).snapshot(&path).expect("a snapshot");
    assert_eq!(Engine::restore(settings, &path).expect("a restore").stats().index.live, 0);
}

#[test]
fn a_snapshot_is_never_overwritten_and_needs_a_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = Settings::new(4, Metric::L2, Element::F32);
    let (engine, _) = filled(settings, 100);
    engine.snapshot(dir.path()).expect("a snapshot");
    let again = engine.snapshot(dir.path()).expect_err("it must be refused");
    assert_eq!(again.kind(), ErrorKind::Invalid);
    assert!(again.message().contains("already holds a snapshot"), "{again}");
    let file = dir.path().join("file");
    fs::write(&file, b"x").expect("a file");
    let below = engine.snapshot(&file.join("sub")).expect_err("it must fail");
    assert_eq!(below.kind(), ErrorKind::Io);
}

#[test]
fn other_settings_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let (engine, _) = filled(Settings::new(4, Metric::L2, Element::F32), 100);
    engine.snapshot(dir.path()).expect("a snapshot");
    let other = Settings::new(5, Metric::L2, Element::F32);
    let error = Engine::restore(other, dir.path()).map(|_| ()).expect_err("it must be refused");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.message().contains("4-dimensional"), "{error}");
}

/// Flips one bit of every byte of every file, cuts each file short, and removes it.
#[test]
fn every_changed_byte_is_detected() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("snapshot");
    let settings = Settings::new(3, Metric::L2, Element::F32);
    let (engine, _) = filled(settings.clone(), 12);
    engine.snapshot(&path).expect("a snapshot");
    let restore = || Engine::restore(settings.clone(), &path).map(|_| ());
    let mut changed = 0;
    for entry in fs::read_dir(&path).expect("a listing") {
        let file = entry.expect("an entry").path();
        let good = fs::read(&file).expect("bytes");
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            fs::write(&file, &bad).expect("a write");
            expect_damage(&file, restore());
            changed += 1;
        }
        for cut in [0, 1, good.len() / 2, good.len() - 1] {
            fs::write(&file, &good[..cut]).expect("a write");
            expect_damage(&file, restore());
        }
        let is_manifest = file.ends_with("MANIFEST");
        fs::remove_file(&file).expect("a removal");
        // Without a manifest the files stand alone, which a caller may ask for.
        assert_eq!(restore().is_ok(), is_manifest, "{} is missing", file.display());
        fs::write(&file, &good).expect("a write");
        restore().expect("whole again");
    }
    assert!(changed > 600, "only {changed} bytes");
}

fn expect_damage(file: &Path, result: Result<(), vstream_engine::Error>) {
    let error = result.expect_err("damage must be detected");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
    assert!(error.message().contains(name), "'{error}' does not name {name}");
}
