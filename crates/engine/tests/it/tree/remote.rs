//! Engines some of whose segments are in a far store: the answers are those of one that has them all at
//! hand, and nothing is lost while the store gives no answer.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use vstream_engine::{
    inspect_collection, verify, Effort, Element, Engine, ErrorKind, Journaling, Metric, Neighbor,
    Query, RemoteLevel, RemoteStats, Row, Scratch, Settings,
};
use vstream_store::remote::{
    Fault, FaultKind, MemoryObjects, Objects, PutMode, RemoteStore, RetryPolicy, Upload,
};
use vstream_store::{Buffer, Clock, Entry, Range};
use vstream_vector::SplitMix;

use super::{journaling, truth, Model};
use crate::ask;

const DIMENSION: usize = 64;
pub(super) const ROWS: u64 = 20_000;
/// Rows of a segment before it is merged.
pub(super) const BATCH: u64 = 1_000;

/// Objects in memory of whose requests so many of 1,000 give no answer.
#[derive(Clone, Default)]
pub(super) struct Flaky {
    memory: MemoryObjects,
    failing: Arc<AtomicU64>,
    pub(super) seed: Arc<AtomicU64>,
}

impl Flaky {
    fn meet<T>(&self, work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
        let mut random = SplitMix(self.seed.fetch_add(1, Ordering::SeqCst));
        if random.below(1000) as u64 >= self.failing.load(Ordering::SeqCst) {
            return work();
        }
        Err(Fault::new(FaultKind::Doubtful, "no answer"))
    }

    pub(super) fn fail(&self, per_mille: u64) {
        self.failing.store(per_mille, Ordering::SeqCst);
    }
}

impl Objects for Flaky {
    fn put(&self, name: &str, bytes: &[u8], mode: PutMode, t: Duration) -> Result<(), Fault> {
        self.meet(|| self.memory.put(name, bytes, mode, t))
    }
    fn bytes(&self, name: &str, t: Duration) -> Result<u64, Fault> {
        self.meet(|| self.memory.bytes(name, t))
    }
    fn get(&self, name: &str, ranges: &[Range], t: Duration) -> Vec<Result<Buffer, Fault>> {
        let get = |range: &Range| self.meet(|| self.memory.get(name, &[*range], t).pop().unwrap());
        ranges.iter().map(get).collect()
    }
    fn list(&self, prefix: &str, t: Duration) -> Result<Vec<Entry>, Fault> {
        self.meet(|| self.memory.list(prefix, t))
    }
    fn delete(&self, name: &str, t: Duration) -> Result<(), Fault> {
        self.meet(|| self.memory.delete(name, t))
    }
    fn upload(&self, name: &str, t: Duration) -> Result<Box<dyn Upload>, Fault> {
        self.meet(|| self.memory.upload(name, t))
    }
    fn describe(&self, name: &str) -> String {
        self.memory.describe(name)
    }
}

/// Time that passes with every look at it, so that waits end and pauses pass without a sleep.
#[derive(Default)]
struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.fetch_add(5, Ordering::SeqCst))
    }
    fn sleep(&self, wait: Duration) {
        self.0.fetch_add(wait.as_millis() as u64, Ordering::SeqCst);
    }
}

/// The far store, which outlives engines.
#[derive(Clone, Default)]
pub(super) struct Far {
    pub(super) objects: Flaky,
    clock: Arc<Ticking>,
}

impl Far {
    pub(super) fn level(&self, local_bytes: u64) -> RemoteLevel {
        let policy = RetryPolicy { total: Duration::from_secs(5), ..RetryPolicy::default() };
        let objects = Arc::new(self.objects.clone());
        let store = RemoteStore::new(objects, policy, self.clock.clone(), 3);
        RemoteLevel::over(Arc::new(store), self.clock.clone(), local_bytes)
    }

    pub(super) fn wait(&self) {
        self.clock.sleep(Duration::from_secs(120));
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.objects.memory.content().into_keys().collect()
    }

    /// Objects that the collection in a directory does not name.
    fn unnamed(&self, dir: &Path) -> Vec<String> {
        let summary = inspect_collection(dir).expect("a manifest").expect("a collection");
        let is_named = |name: &String| summary.segments.iter().any(|of| of.name == *name);
        self.names().into_iter().filter(|name| !is_named(name)).collect()
    }

    pub(super) fn remove(&self, name: &str) {
        Objects::delete(&self.objects.memory, name, Duration::from_secs(1)).expect("removed");
    }

    /// True if a pointer in a directory leads to this far copy.
    pub(super) fn is_named_in(&self, dir: &Path, name: &str) -> bool {
        let files =
            std::fs::read_dir(dir).expect("a list").map(|file| file.expect("a file").path());
        let mut pointers = files.filter(|path| path.extension().is_some_and(|end| end == "far"));
        pointers.any(|path| std::fs::read_to_string(path).expect("a text").contains(name))
    }
}

pub(super) fn settings() -> Settings {
    Settings {
        memory: Some(1 << 20),
        recall_guard: false,
        ..Settings::new(DIMENSION, Metric::L2, Element::F32)
    }
}

/// Whole numbers around one of 40 centers, so that sums are exact.
pub(super) fn vector_of(seed: u64) -> Vec<f32> {
    let mut random = SplitMix(seed.wrapping_mul(0x9e37_79b9));
    let mut center = SplitMix(random.below(40) as u64);
    (0..DIMENSION).map(|_| (center.below(60) + random.below(16)) as f32).collect()
}

pub(super) fn put(engine: &mut Engine, model: &mut Model, id: u64, version: u64) {
    let vector = vector_of(id << 20 ^ version);
    let shard = (id % 128) as u16;
    let row = Row { id, version, code: id, shard, vector: &vector, fields: Default::default() };
    engine.upsert(&row).expect("a good row");
    model.insert(id, (version, vector));
}

/// `ROWS` rows, with updates and deletes among them, in many segments.
pub(super) fn fill(engine: &mut Engine, model: &mut Model, seed: u64) {
    let (mut random, mut version) = (SplitMix(seed), seed << 32);
    let mut next = || {
        version += 1;
        version
    };
    for step in 0..ROWS {
        put(engine, model, step, next());
        if step % 10 == 0 {
            put(engine, model, random.below(step as usize + 1) as u64, next());
        }
        if step % 17 == 0 {
            let id = random.below(step as usize + 1) as u64;
            engine.delete(id, next()).expect("a delete");
            model.remove(&id);
        }
        if step % BATCH == BATCH - 1 {
            engine.checkpoint().expect("a checkpoint");
        }
    }
}

fn create(dir: &Path, level: RemoteLevel, kept: Journaling) -> Engine {
    let builder = Engine::builder().dir(dir).journaling(kept).remote(level);
    builder.create(settings()).expect("an engine")
}

/// Opens it without threads.
pub(super) fn reopen(dir: &Path, level: RemoteLevel) -> Engine {
    let opened = Engine::builder()
        .dir(dir)
        .remote(level)
        .adjust(&mut |settings, kept| {
            (settings.recall_guard, kept.background) = (false, false);
        })
        .open();
    opened.expect("it opens, wherever the segments are")
}

pub(super) fn queries(seed: u64, count: u64) -> Vec<Vec<f32>> {
    (0..count).map(|at| vector_of(seed.wrapping_add(at) << 40)).collect()
}

pub(super) fn check(engine: &Engine, model: &Model, seed: u64) {
    for query in queries(seed, 12) {
        assert_eq!(ask(&engine.reader(), &query, 10, Effort::Exact), truth(model, &query, 10));
    }
}

pub(super) fn stats(engine: &Engine) -> RemoteStats {
    engine.remote_stats().expect("a remote level")
}

#[test]
fn answers_are_the_same_wherever_segments_are_and_the_limit_is_kept() {
    let (dir, far, mut model) = (tempfile::tempdir().unwrap(), Far::default(), Model::new());
    let mut engine = create(dir.path(), far.level(u64::MAX), journaling(false));
    fill(&mut engine, &mut model, 1);
    let all = stats(&engine);
    assert!(all.local_segments >= 4 && all.remote_segments == 0, "{all:?}");
    let few = Effort::Chosen { probes: 12, refine: Some(60) };
    let found = |engine: &Engine| -> Vec<Vec<Neighbor>> {
        queries(7, 40).iter().map(|query| ask(&engine.reader(), query, 10, few)).collect()
    };
    let expected = found(&engine);
    for limit in [all.local_bytes / 2, all.local_bytes / 8, 0, u64::MAX, all.local_bytes / 3] {
        engine.close().expect("closed");
        engine = reopen(dir.path(), far.level(limit));
        engine.place_segments().expect("placed");
        let placed = stats(&engine);
        assert!(placed.local_bytes <= limit, "{placed:?}");
        assert_eq!(placed.local_bytes + placed.remote_bytes, all.local_bytes);
        assert_eq!(placed.remote_segments > 0, limit < all.local_bytes, "{placed:?}");
        assert_eq!(found(&engine), expected);
        check(&engine, &model, limit);
    }
    // Merges read segments there, and leave nothing there that nobody names.
    engine.place_segments().expect("placed");
    let merges = |engine: &Engine| engine.stats().journal.expect("a journal").compactions;
    let flushes = |engine: &Engine| engine.stats().journal.expect("a journal").checkpoints;
    let (before, merged, flushed) = (engine.stats().tree, merges(&engine), flushes(&engine));
    let mut reads = (before.reads, before.read_bytes);
    for round in 1..4 {
        for id in 0..ROWS / 2 {
            put(&mut engine, &mut model, id, (round << 40) + id);
        }
        engine.checkpoint().expect("a checkpoint");
        engine.compact().expect("merged");
        let after = engine.stats().tree;
        let more = after.reads >= reads.0 && after.read_bytes >= reads.1;
        assert!(more, "reads of segments that are gone still count: {reads:?} {after:?}");
        reads = (after.reads, after.read_bytes);
    }
    assert!(merges(&engine) > merged && reads.0 > before.reads, "{before:?} {reads:?}");
    let (after, came) = (engine.stats().tree, flushes(&engine) - flushed);
    assert!(after.segments < before.segments + came, "{after:?} {before:?}, {came} flushes");
    engine.place_segments().expect("placed");
    engine.place_segments().expect("settled");
    check(&engine, &model, 99);
    assert!(far.unnamed(dir.path()).is_empty(), "{:?}", far.unnamed(dir.path()));
    let shared = engine.share().map(|_| ()).expect_err("its files are not all here");
    assert_eq!(shared.kind(), ErrorKind::Unsupported, "{shared}");
    // Nor does a merge after the last round, once the engine is closed.
    for id in 0..ROWS / 2 {
        put(&mut engine, &mut model, id, (9 << 40) + id);
    }
    engine.checkpoint().expect("a checkpoint");
    engine.compact().expect("merged");
    assert!(!far.unnamed(dir.path()).is_empty(), "no far copy is left to be removed");
    engine.close().expect("closed");
    assert!(far.unnamed(dir.path()).is_empty(), "{:?}", far.unnamed(dir.path()));
}

#[test]
fn what_is_asked_for_comes_back() {
    let (dir, far, mut model) = (tempfile::tempdir().unwrap(), Far::default(), Model::new());
    let begun = Instant::now();
    let mut engine = create(dir.path(), far.level(0), journaling(false));
    fill(&mut engine, &mut model, 2);
    engine.place_segments().expect("placed");
    assert_eq!(stats(&engine).local_segments, 0);
    let tree = engine.stats().tree;
    // A tenth of the rows was written twice.
    assert!((ROWS..=ROWS / 10 * 11 + 1).contains(&tree.in_memory.rows), "{tree:?}");
    assert!(tree.on_disk.rows >= tree.segment_rows, "{tree:?}");
    for residence in [tree.in_memory, tree.on_disk] {
        let longest = Duration::from_micros(residence.longest_us);
        assert!(Duration::ZERO < residence.mean() && residence.mean() <= longest, "{tree:?}");
        assert!(longest <= begun.elapsed(), "{tree:?}");
    }
    let all = stats(&engine).remote_bytes;
    engine.close().expect("closed");
    let limit = all * 3 / 4;
    let engine = reopen(dir.path(), far.level(limit));
    for query in queries(3, 400) {
        ask(&engine.reader(), &query, 10, Effort::probes(20));
    }
    let copied = engine.place_segments().expect("placed");
    let placed = stats(&engine);
    assert!(copied > 0 && placed.counts.fetched > 0, "{placed:?}");
    assert!((1..=limit).contains(&placed.local_bytes), "{placed:?} of {all}");
    assert!(placed.counts.far_reads > 0 && placed.counts.far_read_bytes > 0);
    check(&engine, &model, 5);
}

#[test]
fn an_unreachable_store_gives_partial_answers_that_say_so_and_loses_nothing() {
    let (dir, far, mut model) = (tempfile::tempdir().unwrap(), Far::default(), Model::new());
    let mut engine = create(dir.path(), far.level(1 << 20), journaling(false));
    fill(&mut engine, &mut model, 3);
    engine.place_segments().expect("placed");
    assert!(stats(&engine).remote_segments > 0);
    far.objects.fail(1000);
    let (reader, mut scratch, mut out) = (engine.reader(), Scratch::new(), Vec::new());
    let asked = queries(11, 1).pop().expect("a query");
    let query = Query { effort: Effort::Exact, ..Query::new(&asked, 10) };
    let error = reader.search(&query, &mut scratch, &mut out).expect_err("no answer from there");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let (_, left_out) = reader.search_reachable(&query, &mut scratch, &mut out).expect("partial");
    assert!(left_out > 0 && left_out < model.len() as u64, "{left_out}");
    for row in &out {
        assert_eq!(model[&row.id].0, row.version, "a row that lives");
    }
    // Writes go on; what they replace in a segment that is away needs no read.
    for id in ROWS..ROWS + 30 * BATCH {
        put(&mut engine, &mut model, id, id);
    }
    engine.checkpoint().expect("a checkpoint");
    assert_eq!(engine.place_segments().unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(stats(&engine).failure.is_some());
    let newest = vector_of((ROWS + 5) << 20 ^ (ROWS + 5));
    let query = Query { effort: Effort::Exact, ..Query::new(&newest, 1) };
    reader.search_reachable(&query, &mut scratch, &mut out).expect("partial");
    assert_eq!(out[0].id, ROWS + 5, "what is here is found");
    far.objects.fail(0);
    far.wait();
    engine.place_segments().expect("placed");
    assert_eq!(stats(&engine).failure, None);
    let (_, left_out) = reader.search_reachable(&query, &mut scratch, &mut out).expect("whole");
    assert_eq!(left_out, 0);
    check(&engine, &model, 13);
}

/// A tenth of all requests fail while rows stream in, segments are merged and moved on threads of their
/// own, and the engine is dropped without a word and opened again.
#[test]
fn nothing_is_lost_with_a_bad_network_beside_a_writer() {
    // Less than all rows take after the last merge.
    const LIMIT: u64 = 1 << 20;
    let (dir, far, mut model) = (tempfile::tempdir().unwrap(), Far::default(), Model::new());
    far.objects.seed.store(77, Ordering::SeqCst);
    let mut engine = create(dir.path(), far.level(LIMIT), journaling(true));
    far.objects.fail(100);
    for life in 0..3 {
        fill(&mut engine, &mut model, 20 + life);
        engine.flush().expect("on the disk");
        drop(engine);
        far.objects.fail(0);
        engine = Engine::builder()
            .dir(dir.path())
            .remote(far.level(LIMIT))
            .adjust(&mut |settings, _| settings.recall_guard = false)
            .open()
            .expect("it opens");
        check(&engine, &model, life);
        let rows: BTreeMap<u64, u64> = model.iter().map(|(&id, row)| (id, row.0)).collect();
        let mut found = BTreeMap::new();
        let walk = engine.pin().for_each_row(&mut |row| {
            assert!(found.insert(row.id, row.version).is_none(), "row {} twice", row.id);
        });
        walk.expect("rows that can be read");
        assert!(found == rows, "life {life}");
        far.objects.fail(100);
    }
    // The engine's own thread may not have had its turn yet.
    let end = Instant::now() + Duration::from_secs(300);
    while stats(&engine).counts.sent == 0 && stats(&engine).remote_segments == 0 {
        assert!(Instant::now() < end, "nothing lies far away: {:?}", stats(&engine));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The directory names its far store, so a path is enough to open, verify and inspect it.
#[test]
fn a_directory_knows_where_its_segments_are() {
    let (dir, far, mut model) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), Model::new());
    let address = far.path().join("level").display().to_string();
    let again = || RemoteLevel::at(&address, 100_000).expect("an address");
    let mut engine = create(dir.path(), again(), journaling(false));
    fill(&mut engine, &mut model, 4);
    engine.place_segments().expect("placed");
    let rows = model.len() as u64;
    engine.close().expect("closed");
    let verified = verify(dir.path()).expect("verified");
    assert_eq!((verified.rows, verified.findings.len()), (rows, 0), "{verified:?}");
    let mut taken = Engine::create(Settings { memory: None, ..settings() }).expect("an engine");
    assert_eq!(taken.take_shared(dir.path(), &|_| true).expect("taken"), rows);
    check(&taken, &model, 17);
    let engine = Engine::open(dir.path()).expect("it opens");
    assert!(stats(&engine).remote_segments > 0);
    check(&engine, &model, 18);
    engine.close().expect("closed");
    // A disk that is not mounted is not taken for one without segments, and nothing is made in its place.
    let (level, away) = (far.path().join("level"), far.path().join("away"));
    std::fs::rename(&level, &away).expect("renamed");
    for is_mount_point in [false, true] {
        if is_mount_point {
            std::fs::create_dir(&level).expect("a folder");
        }
        for refused in [
            Engine::open(dir.path()).map(|_| ()),
            Engine::open_read_only(dir.path()).map(|_| ()),
            verify(dir.path()).map(|_| ()),
            // Nor by a program that says where it is.
            Engine::builder().dir(dir.path()).remote(again()).open().map(|_| ()),
        ] {
            let refused = refused.expect_err("its folder is away");
            assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
            assert!(refused.message().contains("mount it"), "{refused}");
        }
        let made = std::fs::read_dir(&level).map(Iterator::count);
        assert_eq!(made.ok(), is_mount_point.then_some(0), "something was made");
    }
    std::fs::remove_dir(&level).expect("empty");
    std::fs::rename(&away, &level).expect("renamed");
    // A segment that is gone there is told, not served without its rows.
    let folder = std::fs::read_dir(far.path().join("level")).unwrap().next().unwrap().unwrap();
    let file = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap();
    std::fs::remove_file(file.path()).expect("removed");
    assert!(Engine::open(dir.path()).is_err());
    assert!(!verify(dir.path()).expect("verified").findings.is_empty());
    for wrong in ["ftp://there", "s3://", "a\nb"] {
        assert!(RemoteLevel::at(wrong, 1).is_err(), "{wrong:?}");
    }
    let limitless = Settings { memory: None, ..settings() };
    let level = RemoteLevel::at(&address, 1).expect("an address");
    let refused = Engine::builder().dir(dir.path()).remote(level).create(limitless).map(|_| ());
    assert_eq!(refused.expect_err("no segments").kind(), ErrorKind::Invalid);
}
