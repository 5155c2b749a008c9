//! States that are copied while the engine goes on, and put together elsewhere.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use vstream_engine::{verify, Element, Engine, IndexKind, Metric, Settings, SharedState};
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
    let mut engine =
        Engine::create_in(&at("live"), settings, journaling(background)).expect("an engine");
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
    let keys = |state: &SharedState| -> BTreeSet<(String, u64)> {
        state.files().expect("files").into_iter().map(|file| (file.key, file.bytes)).collect()
    };
    drop(kept);
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
        let mut engine = Engine::create_in(&dir, settings, journaling(false)).expect("an engine");
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
        let copy = at(&format!("copy-{part}"));
        state.copy_to(&copy).expect("a copy");
        sources.push(copy);
    }
    let sources: Vec<&Path> = sources.iter().map(PathBuf::as_path).collect();
    let keep = |shard| (30..90).contains(&shard);
    let opened = Engine::open_shared(&at("whole"), journaling(true), &sources, &keep);
    let mut opened = opened.expect("it opens");
    assert_eq!(rows(&opened), expected);
    assert!(opened.shard_rows().expect("rows").keys().all(|&shard| keep(shard)));
    opened.detach().expect("closed");
    assert_eq!(rows(&Engine::open(&at("whole")).expect("it opens")), expected);
    let none = Engine::open_shared(&at("none"), journaling(true), &[], &keep);
    assert!(none.map(|_| ()).expect_err("no source").message().contains("no shared state"));
}
