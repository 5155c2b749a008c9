//! Engines that keep their rows: what is committed is there again, damage is never an answer.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use vstream_engine::{
    verify, Durability, Effort, Element, Engine, ErrorKind, IndexKind, Journaling, Metric, Settings,
};
use vstream_vector::SplitMix;

use super::{ask, row};

const SYNC: Journaling =
    Journaling { durability: Durability::Sync, log_bytes_max: 64 << 20, background: true };

fn settings() -> Settings {
    Settings { recall_guard: false, ..Settings::new(3, Metric::L2, Element::F32) }
}

/// Id to version and vector.
type Rows = BTreeMap<u64, (u64, Vec<f32>)>;

fn rows(engine: &Engine) -> Rows {
    let mut rows = Rows::new();
    let walked = engine.pin().for_each_row(&mut |row| {
        let twice = rows.insert(row.id, (row.version, row.vector.to_vec()));
        assert!(twice.is_none(), "row {} is there twice", row.id);
    });
    walked.expect("rows that can be read");
    rows
}

/// What a crash leaves: a copy of the directory while the engine has it open. A checkpoint that ends
/// meanwhile removes files, which a crash, being at one moment, would not show: then it starts over.
fn crash(dir: &Path) -> TempDir {
    let names = || -> Vec<_> {
        let entries = fs::read_dir(dir).expect("a listing");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
        names.sort();
        names
    };
    loop {
        let copy = tempfile::tempdir().expect("a directory");
        let before = names();
        let copied = before.iter().all(|name| {
            let copied = fs::copy(dir.join(name), copy.path().join(name));
            assert!(copied.is_ok() || !dir.join(name).exists(), "{copied:?}");
            copied.is_ok()
        });
        if copied && names() == before {
            return copy;
        }
    }
}

/// Upserts, replacements and deletes; commits after every `batch` of them.
fn work(engine: &mut Engine, seed: u64, writes: usize, batch: usize) {
    let mut random = SplitMix(seed);
    for write in 0..writes {
        let id = random.below(200) as u64;
        let version = (seed << 32) + write as u64;
        if random.below(4) == 0 {
            engine.delete(id, u64::MAX).expect("a delete");
        } else {
            let vector = [random.below(256) as f32, id as f32, 7.0];
            let row = vstream_engine::Row { version, ..row(id, &vector) };
            engine.upsert(&row).expect("a good row");
        }
        if write % batch == batch - 1 {
            engine.commit().expect("a commit");
        }
    }
    engine.commit().expect("a commit");
}

#[test]
fn what_is_committed_is_there_again_for_every_metric_element_and_durability() {
    let combinations = [
        (Metric::L2, Element::F32, Durability::Sync),
        (Metric::L2, Element::U8, Durability::ASYNC),
        (Metric::Cosine, Element::U8, Durability::None),
        (Metric::InnerProduct, Element::F32, Durability::Sync),
    ];
    for (metric, element, durability) in combinations {
        let dir = tempfile::tempdir().expect("a directory");
        let settings = Settings { index: IndexKind::Flat, ..Settings::new(3, metric, element) };
        let journaling = Journaling { durability, ..SYNC };
        let mut engine = Engine::builder()
            .dir(dir.path())
            .journaling(journaling)
            .create(settings)
            .expect("an engine");
        let mut expected = Rows::new();
        for turn in 0..4 {
            assert_eq!(rows(&engine), expected, "{metric} {element} {durability:?}");
            work(&mut engine, turn + 1, 700, 13);
            expected = rows(&engine);
            engine.close().expect("closed");
            let verified = verify(dir.path()).expect("a collection");
            assert_eq!((verified.findings, verified.rows), (vec![], expected.len() as u64));
            engine = Engine::open(dir.path()).expect("it opens");
            assert_eq!(engine.stats().journal.expect("a journal").lsn, engine_lsn(dir.path()));
        }
        let query = &expected.values().next().expect("a row").1.clone();
        assert_eq!(ask(&engine.reader(), query, 5, Effort::Exact).len(), 5);
    }
}

fn engine_lsn(dir: &Path) -> u64 {
    let copy = crash(dir);
    Engine::open(copy.path()).expect("it opens").stats().journal.expect("a journal").lsn
}

#[test]
fn a_crash_loses_nothing_that_was_synced() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut engine =
        Engine::builder().dir(dir.path()).journaling(SYNC).create(settings()).expect("an engine");
    for turn in 0..5 {
        work(&mut engine, turn + 1, 300, 7);
        let copy = crash(dir.path());
        assert_eq!(rows(&Engine::open(copy.path()).expect("it opens")), rows(&engine));
    }
}

#[test]
fn what_was_not_committed_is_all_or_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut engine =
        Engine::builder().dir(dir.path()).journaling(SYNC).create(settings()).expect("an engine");
    work(&mut engine, 1, 50, 50);
    let before = rows(&engine);
    for id in 1000..1010 {
        engine.upsert(&row(id, &[1.0; 3])).expect("a good row");
    }
    assert_eq!(rows(&Engine::open(crash(dir.path()).path()).expect("it opens")), before);
    engine.commit().expect("a commit");
    let log = dir.path().join("log-0000000001");
    let whole = fs::read(&log).expect("a log");
    let mut seen = [0; 2];
    for cut in (whole.len() - 700..whole.len()).step_by(3) {
        let copy = crash(dir.path());
        fs::write(copy.path().join("log-0000000001"), &whole[..cut]).expect("a write");
        let found = rows(&Engine::open(copy.path()).expect("a torn tail is no damage"));
        let new = found.keys().filter(|&&id| id >= 1000).count();
        assert!(found == before || new == 0, "{new} of 10 rows");
        seen[usize::from(found == before)] += 1;
    }
    assert!(seen[1] > 50, "{seen:?}");
}

#[test]
fn a_torn_tail_is_cut_and_writing_goes_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut engine =
        Engine::builder().dir(dir.path()).journaling(SYNC).create(settings()).expect("an engine");
    work(&mut engine, 1, 100, 9);
    let expected = rows(&engine);
    let copy = crash(dir.path());
    let log = copy.path().join("log-0000000001");
    let mut bytes = fs::read(&log).expect("a log");
    let whole = bytes.len();
    bytes
        .extend_from_slice(b"VGRPxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
    fs::write(&log, &bytes).expect("a write");
    let verified = verify(copy.path()).expect("a collection");
    assert_eq!(verified.findings.len(), 1);
    assert!(!verified.findings[0].is_damage && verified.findings[0].what.contains("log-"));
    let mut again = Engine::open(copy.path()).expect("it opens");
    assert_eq!(rows(&again), expected);
    assert_eq!(fs::metadata(&log).expect("a log").len(), whole as u64);
    work(&mut again, 2, 100, 9);
    let expected = rows(&again);
    again.close().expect("closed");
    assert_eq!(rows(&Engine::open(copy.path()).expect("it opens")), expected);
    assert_eq!(verify(copy.path()).expect("a collection").findings, vec![]);
}

#[test]
fn damage_in_the_middle_is_an_error_that_says_where() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut engine =
        Engine::builder().dir(dir.path()).journaling(SYNC).create(settings()).expect("an engine");
    work(&mut engine, 1, 60, 3);
    drop(engine);
    let log = dir.path().join("log-0000000001");
    let good = fs::read(&log).expect("a log");
    let mut located = 0;
    for at in (0..good.len()).step_by(5) {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        fs::write(&log, &bad).expect("a write");
        let error = Engine::open(dir.path()).map(|_| ()).expect_err("damage");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.file().is_some_and(|file| file.ends_with("log-0000000001")), "{error}");
        located += usize::from(error.offset().is_some_and(|offset| offset <= at as u64));
    }
    // But for damage to the header, which is none of the group's, and to the last group.
    assert!(located > good.len() / 5 / 2, "{located}");
    for cut in [0, 63, 64, 65, good.len() / 2, good.len() - 1] {
        fs::write(&log, &good[..cut]).expect("a write");
        assert!(Engine::open(dir.path()).is_err(), "closed at {} and now {cut}", good.len());
    }
    fs::remove_file(&log).expect("removed");
    let error = Engine::open(dir.path()).map(|_| ()).expect_err("a file is missing");
    assert!(error.file().is_some_and(|file| file.ends_with("log-0000000001")), "{error}");
    assert!(std::error::Error::source(&error).is_some(), "{error}");
    fs::write(&log, &good).expect("a write");
    Engine::open(dir.path()).expect("whole again");
}

/// Every bit of every file, of a collection with a base image and a log, and of a snapshot.
#[test]
fn verify_finds_any_flipped_bit() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut engine =
        Engine::builder().dir(dir.path()).journaling(SYNC).create(settings()).expect("an engine");
    let few = |engine: &mut Engine, ids: std::ops::Range<u64>| {
        for id in ids {
            engine.upsert(&row(id, &[id as f32; 3])).expect("a good row");
        }
        engine.delete(2, 1).expect("a delete");
        engine.commit().expect("a commit");
    };
    few(&mut engine, 0..4);
    engine.checkpoint().expect("a checkpoint");
    few(&mut engine, 1..5);
    let snapshot = tempfile::tempdir().expect("a directory");
    engine.snapshot(&snapshot.path().join("s")).expect("a snapshot");
    engine.close().expect("closed");
    let mut flipped = 0;
    for dir in [dir.path().to_owned(), snapshot.path().join("s")] {
        let verified = verify(&dir).expect("it can be read");
        assert_eq!((verified.findings, verified.rows), (vec![], 4));
        for entry in fs::read_dir(&dir).expect("a listing") {
            let path = entry.expect("an entry").path();
            let good = fs::read(&path).expect("bytes");
            let file = fs::File::options().write(true).open(&path).expect("a file");
            for bit in 0..good.len() * 8 {
                let flipped_byte = good[bit / 8] ^ (1 << (bit % 8));
                file.write_all_at(&[flipped_byte], bit as u64 / 8).expect("a write");
                // An unknown format number is refused by another error.
                let found = verify(&dir).map_or(true, |verified| !verified.findings.is_empty());
                assert!(found, "bit {bit} of {}", path.display());
                flipped += 1;
                file.write_all_at(&good[bit / 8..=bit / 8], bit as u64 / 8).expect("a write");
            }
        }
    }
    assert!(flipped > 11_000, "only {flipped} bits");
}

#[test]
fn a_checkpoint_replaces_the_logs() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut engine =
        Engine::builder().dir(dir.path()).journaling(SYNC).create(settings()).expect("an engine");
    for turn in 0..3 {
        work(&mut engine, turn + 1, 400, 10);
        engine.checkpoint().expect("a checkpoint");
        let stats = engine.stats().journal.expect("a journal");
        assert_eq!((stats.log_bytes, stats.checkpoints), (0, turn + 1));
        let logs = fs::read_dir(dir.path()).expect("a listing").filter(|entry| {
            entry.as_ref().expect("an entry").file_name().to_string_lossy().starts_with("log-")
        });
        assert_eq!(logs.count(), 1, "old logs are gone");
        let copy = crash(dir.path());
        assert_eq!(rows(&Engine::open(copy.path()).expect("it opens")), rows(&engine));
    }
    work(&mut engine, 9, 50, 10);
    let expected = rows(&engine);
    drop(engine);
    assert_eq!(rows(&Engine::open(dir.path()).expect("it opens")), expected);
}

/// The writer goes on while base images are written; nothing is lost over many of them.
#[test]
fn checkpoints_in_the_background_bound_the_log() {
    let dir = tempfile::tempdir().expect("a directory");
    let journaling = Journaling { durability: Durability::ASYNC, log_bytes_max: 50_000, ..SYNC };
    let mut engine = Engine::builder()
        .dir(dir.path())
        .journaling(journaling)
        .create(settings())
        .expect("an engine");
    let mut seed = 0;
    let end = Instant::now() + Duration::from_secs(300);
    while engine.stats().journal.expect("a journal").checkpoints < 4 {
        seed += 1;
        work(&mut engine, seed, 300, 20);
        assert!(Instant::now() < end, "{:?}", engine.stats().journal);
    }
    let stats = engine.stats().journal.expect("a journal");
    assert_eq!(stats.checkpoint_failure, None);
    let expected = rows(&engine);
    engine.flush().expect("on the disk");
    let copy = crash(dir.path());
    assert_eq!(rows(&Engine::open(copy.path()).expect("it opens")), expected);
    drop(engine);
    assert_eq!(rows(&Engine::open(dir.path()).expect("it opens")), expected);
    assert_eq!(verify(dir.path()).expect("a collection").findings, vec![]);
}

/// Eight threads commit; each waits outside the lock, so one sync serves several.
#[test]
fn threads_share_a_group_commit() {
    let dir = tempfile::tempdir().expect("a directory");
    let engine =
        Engine::builder().dir(dir.path()).journaling(SYNC).create(settings()).expect("an engine");
    let engine = Mutex::new(engine);
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let engine = &engine;
            scope.spawn(move || {
                for step in 0..25 {
                    let commit = {
                        let mut engine = engine.lock().expect("no panic");
                        let id = thread * 1000 + step;
                        engine.upsert(&row(id, &[id as f32; 3])).expect("a good row");
                        engine.begin_commit().expect("a commit")
                    };
                    commit.wait().expect("on the disk");
                }
            });
        }
    });
    let copy = crash(dir.path());
    assert_eq!(rows(&Engine::open(copy.path()).expect("it opens")).len(), 200);
}

#[test]
fn a_directory_is_open_once_and_made_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let engine =
        Engine::builder().dir(dir.path()).journaling(SYNC).create(settings()).expect("an engine");
    let open = |kind: ErrorKind, text: &str| {
        for result in [
            Engine::open(dir.path()),
            Engine::builder().dir(dir.path()).journaling(SYNC).create(settings()),
        ] {
            let error = result.map(|_| ()).expect_err("refused");
            assert!(error.kind() == kind && error.message().contains(text), "{error}");
        }
    };
    open(ErrorKind::Unavailable, "open already");
    drop(engine);
    let again = Engine::builder()
        .dir(dir.path())
        .journaling(SYNC)
        .create(settings())
        .map(|_| ())
        .expect_err("there");
    assert!(again.message().contains("holds a collection"), "{again}");
    let nowhere = Engine::open(&dir.path().join("x")).map(|_| ()).expect_err("nothing there");
    assert_eq!(nowhere.kind(), ErrorKind::Invalid);
    let empty = tempfile::tempdir().expect("a directory");
    let none = Engine::open(empty.path()).map(|_| ()).expect_err("nothing there");
    assert_eq!(none.kind(), ErrorKind::Invalid);
    let engine = Engine::open(dir.path()).expect("it opens");
    let inside = engine.snapshot(dir.path()).map(|_| ()).expect_err("not the place");
    assert!(inside.message().contains("choose another directory"), "{inside}");
    drop(engine);
    let restored = Engine::restore(settings(), dir.path()).map(|_| ()).expect_err("no snapshot");
    assert!(restored.message().contains("holds a collection"), "{restored}");
}

#[test]
fn a_detached_engine_goes_on_in_memory() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut engine =
        Engine::builder().dir(dir.path()).journaling(SYNC).create(settings()).expect("an engine");
    work(&mut engine, 1, 50, 10);
    let kept = rows(&engine);
    engine.detach().expect("closed");
    let other = Engine::open(dir.path()).expect("the directory is free");
    work(&mut engine, 2, 50, 10);
    assert_eq!(rows(&other), kept);
    assert_eq!(engine.stats().journal, None);
}

#[test]
fn what_a_crash_left_is_swept_and_what_is_not_ours_stays() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut engine =
        Engine::builder().dir(dir.path()).journaling(SYNC).create(settings()).expect("an engine");
    work(&mut engine, 1, 20, 5);
    let expected = rows(&engine);
    drop(engine);
    let ours = ["base-0000000009.shard-001.rows", "log-0000000009", "COLLECTION.partial"];
    let others = ["log-of-the-day", "notes.partial", "base-9.rows", "shard-001.rows"];
    for name in ours.iter().chain(&others) {
        fs::write(dir.path().join(name), b"x").expect("a file");
    }
    assert_eq!(rows(&Engine::open(dir.path()).expect("it opens")), expected);
    assert!(ours.iter().all(|name| !dir.path().join(name).exists()));
    assert!(others.iter().all(|name| dir.path().join(name).exists()));
}

/// Its manifest alone is lost: the rows may be saved yet, so nothing is swept away.
#[test]
fn a_collection_whose_manifest_is_gone_is_not_overwritten() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut engine =
        Engine::builder().dir(dir.path()).journaling(SYNC).create(settings()).expect("an engine");
    work(&mut engine, 1, 200, 5);
    let expected = rows(&engine);
    engine.close().expect("closed");
    let (manifest, away) = (dir.path().join("COLLECTION"), dir.path().join("elsewhere"));
    fs::rename(&manifest, &away).expect("moved");
    let error = Engine::builder()
        .dir(dir.path())
        .journaling(SYNC)
        .create(settings())
        .map(|_| ())
        .expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.message().contains("whose COLLECTION is gone"), "{error}");
    fs::rename(&away, &manifest).expect("moved");
    assert_eq!(rows(&Engine::open(dir.path()).expect("it opens")), expected);

    // What a crash leaves of a collection that was never made is no reason to refuse.
    let begun = tempfile::tempdir().expect("a directory");
    let log = fs::read(dir.path().join("log-0000000001")).expect("the first log");
    fs::write(begun.path().join("log-0000000001"), &log[..32]).expect("a file");
    Engine::builder().dir(begun.path()).journaling(SYNC).create(settings()).expect("an engine");
}

#[test]
fn settings_are_kept_and_only_some_may_change() {
    let dir = tempfile::tempdir().expect("a directory");
    let made = Settings { recall_target: 0.8, seed: 5, ..settings() };
    let interval = Duration::from_millis(20);
    let journaling = Journaling { durability: Durability::Async { interval }, ..SYNC };
    drop(
        Engine::builder()
            .dir(dir.path())
            .journaling(journaling)
            .create(made.clone())
            .expect("an engine"),
    );
    let opened = Engine::builder()
        .dir(dir.path())
        .adjust(&mut |settings, found| {
            assert_eq!((settings.recall_target, settings.seed), (0.8, 5));
            assert_eq!(*found, journaling);
            settings.recall_target = 0.9;
        })
        .open();
    assert_eq!(opened.expect("it opens").settings().recall_target, 0.9);
    let other =
        Engine::builder().dir(dir.path()).adjust(&mut |settings, _| settings.dimension = 4).open();
    assert_eq!(other.map(|_| ()).expect_err("refused").kind(), ErrorKind::Invalid);
    let bad =
        Journaling { durability: Durability::Async { interval: Duration::from_secs(100) }, ..SYNC };
    let place = dir.path().join("bad");
    let error = Engine::builder()
        .dir(&place)
        .journaling(bad)
        .create(made)
        .map(|_| ())
        .expect_err("refused");
    assert!(error.message().contains("1 ms to 60 s"), "{error}");
}
