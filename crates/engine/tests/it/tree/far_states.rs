//! Shared states of engines some of whose segments are in a far store: a state names them, and whoever
//! opens a copy of it reads them there. None is deleted that a retained state names.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use vstream_engine::{Engine, ErrorKind, Journaling, Settings, SharedState};
use vstream_vector::SplitMix;

use super::remote::{check, fill, put, settings, stats, Far, BATCH, ROWS};
use super::{journaling, rows, Model};

const SHARDS: u64 = 128;

fn create(dir: &Path, far: &Far, local_bytes: u64, kept: Journaling) -> Engine {
    let level = far.level(local_bytes).with_pointers();
    let builder = Engine::builder().dir(dir).scratch().journaling(kept).remote(level);
    builder.create(settings()).expect("an engine")
}

fn open(dir: &Path, far: &Far, local_bytes: u64) -> Engine {
    let opened = Engine::builder()
        .dir(dir)
        .scratch()
        .remote(far.level(local_bytes).with_pointers())
        .adjust(&mut |settings, _| settings.recall_guard = false)
        .open();
    opened.expect("it opens, wherever the segments are")
}

/// A copy of a state as a checkpoint holds it; returns also its bytes.
fn copy_of(state: &SharedState, dir: PathBuf) -> (PathBuf, u64) {
    std::fs::create_dir(&dir).expect("a directory");
    let mut bytes = 0;
    for file in state.files().expect("files") {
        assert_eq!(std::fs::copy(&file.path, dir.join(&file.name)).expect("a copy"), file.bytes);
        bytes += file.bytes;
    }
    std::fs::write(dir.join("COLLECTION"), state.manifest()).expect("a manifest");
    (dir, bytes)
}

pub(super) fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("a directory");
    for file in std::fs::read_dir(from).expect("a list") {
        let file = file.expect("a file");
        std::fs::copy(file.path(), to.join(file.file_name())).expect("a copy");
    }
}

fn of_shards(model: &Model, keep: impl Fn(u64) -> bool) -> Model {
    let kept = model.iter().filter(|(id, _)| keep(*id % SHARDS));
    kept.map(|(id, row)| (*id, row.clone())).collect()
}

#[test]
fn a_state_names_what_is_away_and_is_opened_and_divided_elsewhere() {
    let (root, far, mut model) = (tempfile::tempdir().unwrap(), Far::default(), Model::new());
    let at = |name: &str| root.path().join(name);
    let mut engine = create(&at("first"), &far, 200_000, journaling(false));
    fill(&mut engine, &mut model, 1);
    engine.place_segments().expect("placed");
    let placed = stats(&engine);
    assert!(placed.remote_segments > 0 && placed.local_bytes <= 200_000, "{placed:?}");
    let state = engine.share().expect("a state");
    far.objects.fail(1000);
    let (copied, bytes) = copy_of(&state, at("copy"));
    far.objects.fail(0);
    far.wait();
    assert!(state.has_pointers());
    assert!(bytes * 4 < placed.remote_bytes, "{bytes} of {placed:?}");
    state.release_copied();
    let rest = copied.clone();
    for (at_most, name) in [(200_000, "same"), (u64::MAX, "near")] {
        copy_tree(&rest, &at(name));
        let opened = open(&at(name), &far, at_most);
        assert_eq!(stats(&opened).remote_segments, placed.remote_segments);
        check(&opened, &model, at_most);
        opened.place_segments().expect("placed");
        assert!(stats(&opened).local_bytes <= at_most);
        assert_eq!(rows(&opened), model);
    }
    // Two engines with half of the shards each, and a third one that joins them again.
    let halves: Vec<Engine> = (0..2)
        .map(|half| {
            let mut engine = create(&at(&format!("half-{half}")), &far, 100_000, journaling(false));
            let keep = |shard: u16| u64::from(shard) % 2 == half;
            let taken = engine.take_shared(&rest, &keep).expect("taken");
            let expected = of_shards(&model, |shard| shard % 2 == half);
            assert_eq!((taken, rows(&engine)), (expected.len() as u64, expected.clone()));
            assert!(stats(&engine).remote_segments > 0, "read where they are");
            check(&engine, &expected, half);
            engine
        })
        .collect();
    let mut joined = create(&at("joined"), &far, 100_000, journaling(false));
    let mut states = Vec::new();
    for (half, mut engine) in halves.into_iter().enumerate() {
        states.push(engine.share().expect("a state"));
        let (copied, _) = copy_of(states.last().unwrap(), at(&format!("half-copy-{half}")));
        joined.take_shared(&copied, &|_| true).expect("taken");
        // The engine merges everything, and nobody looks at the state that it had.
        states.pop();
        engine.compact().expect("merged");
        engine.inherit_remote();
        engine.place_segments().expect("settled");
    }
    assert_eq!(rows(&joined), model);
    check(&joined, &model, 9);
    drop(state);
    engine.compact().expect("merged");
    engine.place_segments().expect("settled");
    check(&engine, &model, 10);
}

#[test]
fn a_state_needs_its_far_store_unless_it_is_whole_or_its_own() {
    let (root, far, mut model) = (tempfile::tempdir().unwrap(), Far::default(), Model::new());
    let at = |name: &str| root.path().join(name);
    let mut engine = create(&at("first"), &far, 0, journaling(false));
    fill(&mut engine, &mut model, 2);
    engine.place_segments().expect("placed");
    let state = engine.share().expect("a state");
    let (copied, _) = copy_of(&state, at("copy"));
    let refused = Engine::open(&copied).map(|_| ()).expect_err("no address");
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    let mut none = Engine::create(Settings { memory: None, ..settings() }).expect("an engine");
    assert_eq!(none.take_shared(&copied, &|_| true).unwrap_err().kind(), ErrorKind::Invalid);
    // A whole copy, such as a savepoint, needs nothing else.
    let whole = at("whole");
    std::fs::create_dir(&whole).expect("a directory");
    for file in state.whole_files().expect("files") {
        match file.path.as_str() {
            "" => state.bring(&file.name, &whole).expect("brought"),
            path => drop(std::fs::copy(path, whole.join(&file.name)).expect("a copy")),
        }
        assert_eq!(whole.join(&file.name).metadata().expect("it is there").len(), file.bytes);
    }
    std::fs::write(whole.join("COLLECTION"), state.manifest()).expect("a manifest");
    // One that goes on with the copies of another engine makes them its own.
    let mut next = open(&copied, &far, 0);
    let own = next.share().expect("a state");
    own.make_own().expect("copied");
    let (own_copy, _) = copy_of(&own, at("own"));
    let theirs = far.names();
    drop((state, engine));
    for name in &theirs {
        let is_of_first = !far.is_named_in(&own_copy, name);
        if is_of_first {
            far.remove(name);
        }
    }
    assert!(far.names().len() < theirs.len());
    check(&next, &model, 3);
    assert_eq!(rows(&open(&own_copy, &far, u64::MAX)), model);
    let mut opened = Engine::builder().dir(&whole).scratch();
    opened = opened.journaling(journaling(false));
    let mut quiet = |settings: &mut Settings, _: &mut Journaling| settings.recall_guard = false;
    assert_eq!(rows(&opened.adjust(&mut quiet).open().expect("it opens alone")), model);
}

/// A retained state: its copy, the rows that it has, and what keeps its far copies.
struct Retained {
    dir: PathBuf,
    model: Model,
    lease: Option<SharedState>,
    /// It was opened by the present engine.
    is_before: bool,
}

/// A life of checkpoints of which two are retained, of failures, and of restores from the newest, with a
/// tenth of all requests failing: every retained state can be opened at every moment.
#[test]
fn no_retained_state_loses_a_far_copy() {
    let (root, far) = (tempfile::tempdir().unwrap(), Far::default());
    let at = |name: String| root.path().join(name);
    far.objects.seed.store(4242, Ordering::SeqCst);
    let (mut random, mut model, mut version) = (SplitMix(99), Model::new(), 1 << 50);
    let mut engine = create(&at("engine".into()), &far, 150_000, journaling(true));
    fill(&mut engine, &mut model, 5);
    let mut retained: Vec<Retained> = Vec::new();
    for step in 0..24 {
        far.objects.fail(100);
        for _ in 0..BATCH {
            version += 1;
            put(&mut engine, &mut model, random.below(ROWS as usize) as u64, version);
        }
        let lease = engine.share().expect("a state");
        let (dir, _) = copy_of(&lease, at(format!("chk-{step}")));
        lease.release_copied();
        // One checkpoint in five is given up.
        if random.below(5) > 0 {
            let model = model.clone();
            retained.push(Retained { dir, model, lease: Some(lease), is_before: false });
        }
        if retained.len() > 2 && retained.remove(0).is_before {
            engine.inherit_remote();
        }
        if random.below(3) == 0 {
            engine.compact().expect("merged");
        }
        let _ = engine.place_segments();
        far.objects.fail(0);
        far.wait();
        if random.below(4) == 0 {
            for one in &mut retained {
                one.lease.take().into_iter().for_each(|lease| lease.end_deletes());
                one.is_before = false;
            }
            drop(engine);
            let last = retained.last_mut().expect("two are retained");
            last.is_before = true;
            model = last.model.clone();
            let dir = at(format!("engine-{step}"));
            copy_tree(&last.dir, &dir);
            engine = open(&dir, &far, 150_000);
            check(&engine, &model, step);
        }
        for (place, one) in retained.iter().enumerate() {
            let dir = at(format!("look-{step}-{place}"));
            copy_tree(&one.dir, &dir);
            let opened = open(&dir, &far, u64::MAX);
            assert!(rows(&opened) == one.model, "step {step}, state {place}");
        }
    }
    assert!(stats(&engine).remote_segments > 0);
    // What no state names and the engine does not need is gone, but for what engines left that ended.
    retained.clear();
    engine.inherit_remote();
    engine.place_segments().expect("placed");
    engine.place_segments().expect("settled");
    check(&engine, &model, 77);
    let placed = stats(&engine);
    assert_eq!(placed.local_segments + placed.remote_segments, engine.stats().tree.segments);
}
