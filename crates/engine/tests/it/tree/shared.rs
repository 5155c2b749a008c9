//! States that are copied while the engine goes on, and put together elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use vstream_engine::{
    verify, Element, Engine, ErrorKind, IndexKind, Journaling, Metric, Row, Settings, SharedState,
};
use vstream_vector::SplitMix;

use super::{journaling, put, rows, tiny, vector_of, Model};

/// A directory as someone would assemble it from copies.
fn assemble(state: &SharedState, dir: &Path) {
    std::fs::create_dir(dir).expect("a directory");
    for file in state.files().expect("files") {
        let bytes = std::fs::read(&file.path).expect("a file that is pinned");
        assert_eq!(bytes.len() as u64, file.bytes);
        assert_eq!(xxhash_rust::xxh3::xxh3_64(&bytes), file.checksum);
        std::fs::write(dir.join(&file.name), bytes).expect("a copy");
    }
    std::fs::write(dir.join("COLLECTION"), state.manifest()).expect("a manifest");
}

fn work(engine: &mut Engine, random: &mut SplitMix, model: &mut Model, writes: u64) {
    for _ in 0..writes {
        let (id, version) = (random.below(3_000) as u64, 1 + random.below(1 << 20) as u64);
        if random.below(4) == 0 {
            engine.delete(id, u64::MAX).expect("a delete");
            model.remove(&id);
        } else if model.get(&id).is_none_or(|(before, _)| *before <= version) {
            let vector = vector_of(random.next());
            put(engine, id, version, &vector);
            model.insert(id, (version, vector));
        }
        if random.below(300) == 0 {
            engine.commit().expect("a commit");
        }
    }
}

fn shares(settings: Settings, background: bool) {
    let root = tempfile::tempdir().expect("a directory");
    let at = |name: &str| root.path().join(name);
    let mut engine = Engine::builder()
        .dir(&at("live"))
        .journaling(journaling(background))
        .create(settings)
        .expect("an engine");
    let (mut random, mut model) = (SplitMix(9), Model::new());
    let mut kept: Vec<(SharedState, Model, PathBuf)> = Vec::new();
    for turn in 0..8 {
        work(&mut engine, &mut random, &mut model, 900);
        // Uncommitted writes are part of it.
        let state = engine.share().expect("a state");
        assert_eq!(state.rows(), model.len() as u64);
        let copied = at(&format!("copy-{turn}"));
        if turn % 2 == 0 {
            assemble(&state, &copied);
            assert_eq!(verify_unmade(&copied), model.len() as u64);
        }
        kept.push((state, model.clone(), copied));
        if turn == 3 {
            engine.checkpoint().expect("a checkpoint");
            engine.compact().expect("a compaction");
        }
    }
    // Long after, files of old states are still there: one that was not copied yet is now.
    for (turn, (state, expected, copied)) in kept.iter().enumerate() {
        if turn % 2 == 1 {
            assemble(state, copied);
        }
        let opened = Engine::open(copied).expect("it opens");
        assert_eq!(rows(&opened), *expected, "turn {turn}");
        drop(opened);
        assert_eq!(verify(copied).expect("a collection").findings, vec![]);
    }
    // Twice in a row: nothing new. After a few writes: one new file, as long as they are.
    drop(kept);
    engine.checkpoint().expect("a checkpoint");
    engine.compact().expect("a compaction");
    let first = engine.share().expect("a state");
    let again = engine.share().expect("a state");
    assert_eq!(keys(&first), keys(&again));
    put(&mut engine, 1, u64::MAX, &vector_of(1));
    let second = engine.share().expect("a state");
    let (before, after) = (keys(&first), keys(&second));
    let new: Vec<_> = after.difference(&before).collect();
    assert!(new.len() == 1 && new[0].1 < 1_000, "{new:?}");
    drop((first, again, second));
    model.insert(1, (u64::MAX, vector_of(1)));
    engine.checkpoint().expect("a checkpoint");
    engine.detach().expect("closed");
    let live = verify(&at("live")).expect("a collection");
    assert_eq!((live.findings, live.rows), (vec![], model.len() as u64), "nothing is left over");
}

/// Key and length of every file of a state.
fn keys(state: &SharedState) -> BTreeSet<(String, u64)> {
    state.files().expect("files").into_iter().map(|file| (file.key, file.bytes)).collect()
}

fn verify_unmade(dir: &Path) -> u64 {
    let verified = verify(dir).expect("a collection");
    assert_eq!(verified.findings, vec![]);
    verified.rows
}

#[test]
fn a_state_of_an_engine_in_memory_is_shared() {
    let settings = tiny(IndexKind::Cluster, Metric::L2, Element::F32);
    shares(Settings { memory: None, ..settings.clone() }, true);
    shares(Settings { memory: None, ..settings }, false);
}

#[test]
fn a_state_with_segments_is_shared() {
    shares(tiny(IndexKind::Cluster, Metric::L2, Element::F32), true);
    shares(tiny(IndexKind::Flat, Metric::L2, Element::F32), false);
}

#[test]
fn shards_of_several_states_make_one_engine() {
    let root = tempfile::tempdir().expect("a directory");
    let at = |name: &str| root.path().join(name);
    let mut expected = Model::new();
    let (mut random, mut sources) = (SplitMix(3), Vec::new());
    for part in 0..3u64 {
        let settings = tiny(IndexKind::Cluster, Metric::Cosine, Element::F32);
        let dir = at(&format!("part-{part}"));
        let mut engine = Engine::builder()
            .dir(&dir)
            .journaling(journaling(false))
            .create(settings)
            .expect("an engine");
        for step in 0..2_000 {
            let id = random.below(1_000) as u64 * 3 + part;
            if random.below(5) == 0 {
                engine.delete(id, u64::MAX).expect("a delete");
            } else {
                put(&mut engine, id, step, &vector_of(id + step));
            }
            if step % 500 == 499 {
                engine.checkpoint().expect("a checkpoint");
            }
        }
        expected.extend(rows(&engine).into_iter().filter(|(id, _)| (30..90).contains(&(id % 128))));
        let state = engine.share().expect("a state");
        let target = at(&format!("copy-{part}"));
        assemble(&state, &target);
        sources.push(target);
    }
    let keep = |shard| (30..90).contains(&shard);
    let settings = tiny(IndexKind::Cluster, Metric::Cosine, Element::F32);
    let opened = Engine::builder().dir(&at("whole")).journaling(journaling(true)).create(settings);
    let mut opened = opened.expect("an engine");
    for source in &sources {
        opened.take_shared(source, &keep).expect("rows");
    }
    opened.commit().expect("a commit");
    assert_eq!(rows(&opened), expected);
    opened.detach().expect("closed");
    assert_eq!(rows(&Engine::open(&at("whole")).expect("it opens")), expected);
}

/// Every byte of every file of a directory.
fn bytes_of(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries =
        std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry"));
    let name = |entry: &std::fs::DirEntry| entry.file_name().into_string().expect("a name");
    entries.map(|entry| (name(&entry), std::fs::read(entry.path()).expect("bytes"))).collect()
}

#[test]
fn a_state_is_taken_from_twice_and_stays_as_it_is() {
    let root = tempfile::tempdir().expect("a directory");
    let at = |name: &str| root.path().join(name);
    for memory in [None, Some(64 << 10)] {
        let settings = Settings { memory, ..tiny(IndexKind::Cluster, Metric::L2, Element::F32) };
        let name = |part: &str| at(&format!("{part}-{memory:?}"));
        let live = Engine::builder()
            .dir(&name("live"))
            .scratch()
            .journaling(journaling(false))
            .create(settings.clone());
        let (mut live, mut random, mut model) = (live.expect("made"), SplitMix(4), Model::new());
        work(&mut live, &mut random, &mut model, 4_000);
        assemble(&live.share().expect("a state"), &name("copy"));
        std::fs::File::create(name("copy").join("LOCK")).expect("a file");
        let before = bytes_of(&name("copy"));
        let mut parts = Model::new();
        for (part, shards) in [("low", 0..=50u16), ("high", 51..=127)] {
            let engine = Engine::builder()
                .dir(&name(part))
                .scratch()
                .journaling(journaling(true))
                .create(settings.clone());
            let mut engine = engine.expect("an engine");
            let taken = engine.take_shared(&name("copy"), &|shard| shards.contains(&shard));
            let found = rows(&engine);
            assert_eq!(taken.expect("rows"), found.len() as u64);
            assert!(found.keys().all(|&id| shards.contains(&((id % 128) as u16))));
            parts.extend(found);
        }
        assert_eq!(parts, model);
        assert!(bytes_of(&name("copy")) == before, "taking changes nothing");
        let other = Settings::new(5, Metric::L2, Element::F32);
        let mut other = Engine::builder()
            .dir(&name("other"))
            .scratch()
            .journaling(journaling(true))
            .create(other)
            .expect("it");
        let error = other.take_shared(&name("copy"), &|_| true).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        // The copy itself goes on as an engine with other settings.
        let opened = Engine::builder()
            .dir(&name("copy"))
            .scratch()
            .adjust(&mut |settings, _| settings.memory = None)
            .open();
        assert_eq!(rows(&opened.expect("it opens")), model);
    }
}

#[test]
fn a_row_is_taken_where_its_last_write_put_it() {
    let root = tempfile::tempdir().expect("a directory");
    for memory in [None, Some(64 << 10)] {
        let settings = Settings { memory, ..tiny(IndexKind::Cluster, Metric::L2, Element::F32) };
        let at = |part: &str| root.path().join(format!("{part}-{memory:?}"));
        let live = Engine::builder()
            .dir(&at("live"))
            .scratch()
            .journaling(journaling(false))
            .create(settings.clone());
        let (mut live, mut random, mut model) = (live.expect("it"), SplitMix(11), BTreeMap::new());
        for version in 1..6_000u64 {
            let id = random.below(600) as u64;
            if random.below(6) == 0 {
                live.delete(id, version).expect("a delete");
                model.remove(&id);
            } else {
                let (shard, vector) = (random.below(128) as u16, vector_of(version));
                let row = Row {
                    id,
                    version,
                    code: id,
                    shard,
                    vector: &vector,
                    fields: Default::default(),
                };
                live.upsert(&row).expect("an upsert");
                model.insert(id, (shard, (version, vector)));
            }
            if version % 1_700 == 0 {
                live.checkpoint().expect("a checkpoint");
            }
        }
        assemble(&live.share().expect("a state"), &at("copy"));
        for (part, shards) in [("low", 0..=50u16), ("high", 51..=127)] {
            let engine = Engine::builder()
                .dir(&at(part))
                .scratch()
                .journaling(journaling(true))
                .create(settings.clone());
            let mut engine = engine.expect("an engine");
            let keep = |shard: u16| shards.contains(&shard);
            let taken = engine.take_shared(&at("copy"), &keep).expect("rows");
            let wanted = model.iter().filter(|(_, (shard, _))| keep(*shard));
            let expected: Model = wanted.map(|(&id, (_, row))| (id, row.clone())).collect();
            assert_eq!(rows(&engine), expected);
            assert_eq!(taken, expected.len() as u64);
        }
    }
}

#[test]
fn short_logs_do_not_pile_up() {
    let root = tempfile::tempdir().expect("a directory");
    let settings = tiny(IndexKind::Flat, Metric::L2, Element::F32);
    for (memory, background) in [(None, true), (None, false), (Some(64 << 20), true)] {
        let settings = Settings { memory, ..settings.clone() };
        let dir = root.path().join(format!("{memory:?}-{background}"));
        let mut engine = Engine::builder()
            .dir(&dir)
            .scratch()
            .journaling(journaling(background))
            .create(settings)
            .expect("it");
        let (mut files, mut model) = (0, Model::new());
        for id in 0..400 {
            let vector = vector_of(id);
            put(&mut engine, id, 1, &vector);
            model.insert(id, (1, vector));
            let state = engine.share().expect("a state");
            files = files.max(state.files().expect("files").len());
        }
        // The rows of 128 shards are an image of 129 files. Logs follow while it is written.
        assert!((100..600).contains(&files), "{files} files of {memory:?}, {background}");
        drop(engine);
        assert_eq!(
            rows(
                &Engine::builder()
                    .dir(&dir)
                    .scratch()
                    .adjust(&mut |_, _| {})
                    .open()
                    .expect("it opens")
            ),
            model
        );
    }
}

/// Four hundred states of 20,000 rows, one per cent of which are written again between two of them: so
/// many that it does not matter whether the last part of an image just fits.
/// Returns what was new on average, and the largest state, as parts of the rows.
fn churn(memory: Option<u64>, path: &Path) -> (f64, f64) {
    const STATES: u64 = 400;
    const ROWS: usize = 20_000;
    const DIMENSION: usize = 64;
    let settings = Settings {
        memory,
        recall_guard: false,
        index: IndexKind::Flat,
        ..Settings::new(DIMENSION, Metric::L2, Element::F32)
    };
    let journaling = Journaling { log_bytes_max: 1 << 20, ..journaling(false) };
    let mut engine = Engine::builder()
        .dir(path)
        .scratch()
        .journaling(journaling)
        .create(settings)
        .expect("an engine");
    let mut random = SplitMix(6);
    let mut write = |engine: &mut Engine, id: usize, version: u64| {
        let vector: Vec<f32> = (0..DIMENSION).map(|_| random.normal()).collect();
        let (shard, id) = ((id % 128) as u16, id as u64);
        engine
            .upsert(&Row {
                id,
                version,
                code: id,
                shard,
                vector: &vector,
                fields: Default::default(),
            })
            .expect("a row");
        random.below(ROWS)
    };
    let mut next = 0;
    for id in 0..ROWS {
        next = write(&mut engine, id, 1);
    }
    let mut known = keys(&engine.share().expect("a state"));
    let (mut new, mut largest) = (0, 0);
    for version in 2..=STATES + 1 {
        for _ in 0..ROWS / 100 {
            next = write(&mut engine, next, version);
        }
        let files = keys(&engine.share().expect("a state"));
        new += files.difference(&known).map(|(_, bytes)| bytes).sum::<u64>();
        largest = largest.max(files.iter().map(|(_, bytes)| bytes).sum::<u64>());
        known = files;
    }
    let rows = (ROWS * DIMENSION * size_of::<f32>()) as f64;
    (new as f64 / STATES as f64 / rows, largest as f64 / rows)
}

#[test]
fn what_is_new_follows_the_change_and_the_size_follows_the_rows() {
    let root = tempfile::tempdir().expect("a directory");
    let (part, largest) = churn(None, &root.path().join("image"));
    // A record is a little longer than a row, and each is written once more in an image.
    assert!((0.015..0.025).contains(&part), "{part} of the rows are new");
    assert!(largest < 2.4, "{largest} times the rows");
    let (part, largest) = churn(Some(2 << 20), &root.path().join("segments"));
    assert!((0.02..0.05).contains(&part), "{part} of the rows are new");
    assert!(largest < 2.4, "{largest} times the rows");
}
