//! Disks that fail: an error for whoever asked, and nothing else.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use vstream_engine::{
    verify, Effort, Element, Engine, ErrorKind, IndexKind, Metric, Query, Row, Scratch,
};
use vstream_store::{Access, Buffer, FileStore, Files, InFile, Memory, OutFile, Syncing};

use super::{filled, journaling, put, rows, tiny, vector_of};

/// A disk in memory of which, as long as a switch is on, nothing can be read, no segment written,
/// or nothing removed.
#[derive(Clone, Default)]
struct Failing {
    disk: Memory,
    reads: Arc<AtomicBool>,
    segments: Arc<AtomicBool>,
    /// Whoever begins a segment panics.
    panics: Arc<AtomicBool>,
    removals: Arc<AtomicBool>,
    /// A name that cannot be read.
    unreadable: Arc<Mutex<String>>,
    /// Holds up the next merge that begins, until it is off again.
    first_merge: Arc<AtomicBool>,
    is_held_up: Arc<AtomicBool>,
    /// Logs take no more bytes.
    logs: Arc<AtomicBool>,
}

/// A log of a [`Failing`] disk.
struct FailingLog {
    file: Box<dyn OutFile>,
    fails: Arc<AtomicBool>,
}

impl OutFile for FailingLog {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.fails.load(Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(28));
        }
        self.file.append(bytes)
    }

    fn overwrite(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.overwrite(offset, bytes)
    }

    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        self.file.cut(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }
}

struct FailingFile {
    file: Arc<dyn InFile>,
    name: String,
    reads: Arc<AtomicBool>,
    unreadable: Arc<Mutex<String>>,
}

impl Files for Failing {
    fn create(&self, name: &str) -> io::Result<Box<dyn OutFile>> {
        if name.starts_with("segment-") && self.segments.load(Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(28));
        }
        let is_merge = std::thread::current().name() == Some("vstream-compaction");
        if is_merge && self.first_merge.swap(false, Ordering::Relaxed) {
            self.is_held_up.store(true, Ordering::Relaxed);
            while self.is_held_up.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        assert!(!name.starts_with("segment-") || !self.panics.load(Ordering::Relaxed), "a defect");
        let file = self.disk.create(name)?;
        match name.starts_with("log-") {
            true => Ok(Box::new(FailingLog { file, fails: self.logs.clone() })),
            false => Ok(file),
        }
    }

    fn reopen(&self, name: &str) -> io::Result<Box<dyn OutFile>> {
        let file = self.disk.reopen(name)?;
        Ok(Box::new(FailingLog { file, fails: self.logs.clone() }))
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn InFile>> {
        let reads = self.reads.clone();
        let unreadable = self.unreadable.clone();
        let (file, name) = (self.disk.open(name, access)?, name.to_owned());
        Ok(Arc::new(FailingFile { file, name, reads, unreadable }))
    }

    fn rename(&self, from: &str, to: &str, replace: bool) -> io::Result<()> {
        self.disk.rename(from, to, replace)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let is_there = || self.disk.list().is_ok_and(|all| all.iter().any(|(of, _)| of == name));
        if self.removals.load(Ordering::Relaxed) && is_there() {
            return Err(io::Error::from_raw_os_error(5));
        }
        self.disk.remove(name)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.disk.sync_names()
    }

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        self.disk.list()
    }
}

impl InFile for FailingFile {
    fn bytes(&self) -> io::Result<u64> {
        self.file.bytes()
    }

    fn read(&self, offset: u64, bytes: usize) -> io::Result<Buffer> {
        let is_bad = *self.unreadable.lock().expect("no panic") == self.name;
        if is_bad || self.reads.load(Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(5));
        }
        self.file.read(offset, bytes)
    }

    /// So that the reads of several segments go through the pool.
    fn waits(&self) -> bool {
        true
    }
}

fn over(disk: &Failing, background: bool) -> Engine {
    let settings = tiny(IndexKind::Cluster, Metric::L2, Element::F32);
    let store = FileStore::new(Arc::new(disk.clone()), Syncing::Full);
    Engine::builder()
        .store(store)
        .collection(1)
        .journaling(journaling(background))
        .create(settings)
        .expect("an engine")
}

#[test]
fn a_disk_that_cannot_be_read_is_a_typed_error_until_it_can() {
    let disk = Failing::default();
    let mut engine = over(&disk, false);
    for id in 0..3_000 {
        put(&mut engine, id, 1, &vector_of(id));
        if id % 1_000 == 999 {
            engine.checkpoint().expect("a checkpoint");
        }
    }
    let reader = engine.reader();
    let (mut scratch, mut out) = (Scratch::new(), Vec::new());
    let query = |effort| Query {
        vector: &[7.0; super::DIMENSION],
        k: 10,
        effort,
        filter: None,
        radius: None,
    };
    let efforts = [Effort::Auto, Effort::probes(500), Effort::Exact];
    disk.reads.store(true, Ordering::Relaxed);
    for effort in efforts {
        let error = reader.search(&query(effort), &mut scratch, &mut out).expect_err("EIO");
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(error.message().contains("segment-"), "{error}");
    }
    assert_eq!(engine.compact().map_err(|e| e.kind()), Ok(()), "three are too few to merge");
    disk.reads.store(false, Ordering::Relaxed);
    let answers = efforts.map(|effort| {
        reader.search(&query(effort), &mut scratch, &mut out).expect("an answer");
        out.clone()
    });
    assert_eq!(answers[1], answers[2]);
    assert_eq!(rows(&engine).len(), 3_000);
}

/// Nothing is lost while rows cannot move on: the writer is told when memory is far above its limit,
/// and goes on when there is room again.
#[test]
fn a_full_disk_holds_the_writer_up_and_loses_nothing() {
    let disk = Failing::default();
    let mut engine = over(&disk, true);
    disk.segments.store(true, Ordering::Relaxed);
    let mut id = 0;
    let refused = loop {
        let vector = vector_of(id);
        let row =
            Row { id, version: 1, code: 0, shard: 0, vector: &vector, fields: Default::default() };
        match engine.upsert(&row) {
            Ok(_) => id += 1,
            Err(error) => break error,
        }
        if id % 100 == 0 {
            engine.commit().expect("the log has room");
        }
        assert!(id < 100_000, "{:?}", engine.stats());
    };
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    assert!(engine.delete(0, 1).expect("deletes make room"));
    assert_eq!(rows(&engine).len() as u64, id - 1);
    disk.segments.store(false, Ordering::Relaxed);
    // Whoever writes again when there is room on the disk is heard, without a checkpoint of theirs.
    let vector = vector_of(id);
    let row =
        Row { id, version: 1, code: 0, shard: 0, vector: &vector, fields: Default::default() };
    let begun = Instant::now();
    while let Err(error) = engine.upsert(&row) {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(begun.elapsed() < Duration::from_secs(300), "{:?}", engine.stats());
    }
    assert!(engine.stats().tree.segments > 0);
    assert_eq!(rows(&engine).len() as u64, id);
}

/// A search that finds too few rows in the leaves it was told to visit goes on to others, wherever
/// these are: in memory, in rows that left it and are not written yet, or in both.
#[test]
fn too_few_rows_are_never_an_answer_while_memory_is_frozen() {
    let disk = Failing::default();
    let mut engine = over(&disk, true);
    disk.segments.store(true, Ordering::Relaxed);
    let reader = engine.reader();
    let (mut scratch, mut out) = (Scratch::new(), Vec::new());
    let mut id = 0;
    loop {
        let vector = vector_of(id);
        if engine
            .upsert(&Row {
                id,
                version: 1,
                code: 0,
                shard: 0,
                vector: &vector,
                fields: Default::default(),
            })
            .is_err()
        {
            break;
        }
        id += 1;
        let query = Query {
            vector: &vector,
            k: 300,
            effort: Effort::probes(1),
            filter: None,
            radius: None,
        };
        reader.search(&query, &mut scratch, &mut out).expect("an answer");
        assert_eq!(out.len() as u64, id.min(300), "{:?}", engine.stats());
        if id % 100 == 0 {
            engine.commit().expect("the log has room");
        }
    }
    let tree = engine.stats().tree;
    assert!(tree.segments == 0 && id > 600, "{tree:?} of {id} rows");
}

/// Whoever writes a segment dies of a defect: the rows that had left memory are still served, still
/// written some time, and the writer is told.
#[test]
fn a_checkpoint_that_panics_loses_nothing_and_is_tried_again() {
    let disk = Failing::default();
    let mut engine = over(&disk, true);
    disk.panics.store(true, Ordering::Relaxed);
    let mut id = 0;
    while engine.stats().journal.expect("a journal").checkpoint_failure.is_none() {
        // Memory may be full before the failure is noted: then the row is refused, and not there.
        match engine.upsert(&crate::row(id, &vector_of(id))) {
            Ok(_) => id += 1,
            Err(refused) => assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}"),
        }
        engine.commit().expect("the log takes it");
        assert!(id < 100_000, "{:?}", engine.stats());
    }
    let failure = engine.stats().journal.and_then(|journal| journal.checkpoint_failure);
    assert!(failure.expect("a failure").contains("panicked"));
    assert_eq!(rows(&engine).len() as u64, id);
    disk.panics.store(false, Ordering::Relaxed);
    engine.checkpoint().expect("a checkpoint");
    assert_eq!(engine.stats().tree.segment_rows, id, "every row is in a segment");
    for id in id..id + 3_000 {
        put(&mut engine, id, 1, &vector_of(id));
    }
    engine.checkpoint().expect("a checkpoint");
    let stats = engine.stats();
    assert_eq!(stats.tree.segment_rows, id + 3_000, "every row is in a segment: {stats:?}");
    assert_eq!(rows(&engine).len() as u64, id + 3_000);
}

/// Merges that an owner asks for have two threads: a full disk stops both, and nothing is lost.
#[test]
fn an_error_stops_all_merges_that_an_owner_asked_for() {
    let disk = Failing::default();
    let mut engine = over(&disk, true);
    for id in 0..30_000 {
        put(&mut engine, id, 1, &vector_of(id));
        if id % 6_000 == 5_999 {
            engine.checkpoint().expect("a checkpoint");
        }
    }
    let before = rows(&engine);
    disk.segments.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        let error = engine.compact().expect_err("a disk without room");
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(engine.stats().journal.expect("a journal").compaction_failure.is_some());
    }
    assert_eq!(rows(&engine), before);
    disk.segments.store(false, Ordering::Relaxed);
    engine.compact().expect("there is room again");
    let stats = engine.stats();
    assert_eq!(stats.journal.expect("a journal").compaction_failure, None);
    assert_eq!(rows(&engine), before);
    engine.close().expect("closed");
    let store = FileStore::new(Arc::new(disk), Syncing::Full);
    let opened = Engine::builder().store(store).adjust(&mut |_, _| {}).open().expect("opens");
    assert_eq!(rows(&opened), before);
}

/// A file that cannot be removed is one too many, and nothing else: it is tried again.
#[test]
fn a_file_that_cannot_be_removed_stops_nothing() {
    let disk = Failing::default();
    let mut engine = over(&disk, false);
    disk.removals.store(true, Ordering::Relaxed);
    let mut count = 0;
    for round in 0..8 {
        for id in 0..500 {
            put(&mut engine, count + id, 1, &vector_of(count + id));
            put(&mut engine, id, 2 + round, &vector_of(id + round));
        }
        count += 500;
        engine.checkpoint().expect("a checkpoint");
        engine.compact().expect("a compaction");
    }
    let journal = engine.stats().journal.expect("a journal");
    assert!(journal.files_stuck > 8, "{journal:?}");
    assert_eq!((&journal.checkpoint_failure, &journal.compaction_failure), (&None, &None));
    assert_eq!(rows(&engine).len() as u64, count);
    disk.removals.store(false, Ordering::Relaxed);
    put(&mut engine, 0, 99, &vector_of(1));
    engine.checkpoint().expect("a checkpoint");
    assert_eq!(engine.stats().journal.expect("a journal").files_stuck, 0);
    let before = rows(&engine);
    engine.close().expect("closed");
    let store = FileStore::new(Arc::new(disk), Syncing::Full);
    let opened = Engine::builder().store(store).adjust(&mut |_, _| {}).open().expect("opens");
    assert_eq!(rows(&opened), before);
}

/// Segments without the one that cannot be read are merged all the same, and what is wrong is said.
#[test]
fn a_segment_that_cannot_be_read_keeps_no_other_from_being_merged() {
    let disk = Failing::default();
    let mut engine = over(&disk, false);
    let mut unreadable = String::new();
    for batch in 0..16 {
        (0..500).for_each(|id| put(&mut engine, batch * 500 + id, 1, &vector_of(id + batch)));
        engine.checkpoint().expect("a checkpoint");
        let journal = engine.stats().journal.expect("a journal");
        if batch > 0 && journal.compaction_failure.is_none() {
            // The newest one, until a merge wants it.
            let names = disk.disk.list().expect("names").into_iter().map(|(name, _)| name);
            unreadable =
                names.filter(|name| name.starts_with("segment-")).max().expect("a segment");
            unreadable.clone_into(&mut disk.unreadable.lock().expect("no panic"));
        }
    }
    let stats = engine.stats();
    let journal = stats.journal.expect("a journal");
    assert!(journal.compactions >= 2, "{journal:?}");
    assert!(stats.tree.segments < 12, "{:?}", stats.tree);
    let failure = journal.compaction_failure.expect("it is still to be seen");
    assert!(failure.contains(&unreadable), "{failure}");
    disk.unreadable.lock().expect("no panic").clear();
    assert_eq!(rows(&engine).len(), 8_000);
}

/// While one merge takes long, the segments that come meanwhile are merged by another.
#[test]
fn segments_do_not_pile_up_while_one_merge_takes_long() {
    let disk = Failing::default();
    let mut engine = over(&disk, true);
    disk.first_merge.store(true, Ordering::Relaxed);
    let mut count = 0;
    for turn in 0..120 {
        (0..100).for_each(|id| put(&mut engine, count + id, 1, &vector_of(count + id)));
        count += 100;
        engine.checkpoint().expect("a checkpoint");
        engine.commit().expect("a commit");
        // The first merge takes the few segments that there are so far.
        while turn == 12 && !disk.is_held_up.load(Ordering::Relaxed) {
            engine.commit().expect("a commit");
            std::thread::yield_now();
        }
    }
    let mut segments = 0;
    for _ in 0..3_000 {
        put(&mut engine, 0, 2, &vector_of(0));
        engine.checkpoint().expect("a checkpoint");
        engine.commit().expect("a commit");
        segments = engine.stats().tree.segments;
        if segments <= 40 {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(disk.is_held_up.load(Ordering::Relaxed), "the first merge has not ended");
    disk.is_held_up.store(false, Ordering::Relaxed);
    assert!(segments <= 40, "{segments} segments");
    assert_eq!(rows(&engine).len() as u64, count);
}

/// An engine whose log cannot be written any more does not leave its threads behind: what they
/// held, the lock of a directory among it, is free when the engine is.
#[test]
fn threads_end_with_an_engine_that_cannot_close() {
    let disk = Failing::default();
    let mut engine = over(&disk, true);
    disk.first_merge.store(true, Ordering::Relaxed);
    let mut id = 0;
    while !disk.is_held_up.load(Ordering::Relaxed) {
        (0..100).for_each(|at| put(&mut engine, id + at, 1, &vector_of(id + at)));
        id += 100;
        engine.checkpoint().expect("a checkpoint");
        engine.commit().expect("a commit");
        assert!(id < 100_000, "{:?}", engine.stats());
    }
    disk.logs.store(true, Ordering::Relaxed);
    put(&mut engine, id, 1, &vector_of(id));
    assert_eq!(engine.detach().expect_err("no room for the log").kind(), ErrorKind::Io);
    let merge = disk.is_held_up.clone();
    let goes_on = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        merge.store(false, Ordering::Relaxed);
    });
    drop(engine);
    // The engine, its threads and its files have copies of the disk; this is the only one left.
    assert_eq!(Arc::strong_count(&disk.first_merge), 1);
    goes_on.join().expect("no panic");
}

#[test]
fn a_damaged_block_is_a_typed_error_and_the_engine_goes_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = tiny(IndexKind::Cluster, Metric::L2, Element::F32);
    let mut engine = filled(dir.path(), settings, 2_000, 1_999);
    let path = dir.path().join("segment-0000000001");
    let file = File::options().write(true).read(true).open(path).expect("a segment");
    let mut byte = [0];
    let mut at = 100;
    // Every row block is damaged, whichever the query wants.
    while at < 100_000.min(file.metadata().expect("a length").len()) {
        file.read_exact_at(&mut byte, at).expect("a byte");
        file.write_all_at(&[byte[0] ^ 1], at).expect("a write");
        at += 200;
    }
    let reader = engine.reader();
    let (mut scratch, mut out) = (Scratch::new(), Vec::new());
    for effort in [Effort::Auto, Effort::probes(1_000), Effort::Exact] {
        let query = Query { vector: &vector_of(3), k: 10, effort, filter: None, radius: None };
        let error = reader.search(&query, &mut scratch, &mut out).expect_err("damage");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.message().contains("segment-0000000001"), "{error}");
    }
    let error =
        reader.search_radius(&vector_of(3), 1e9, None, &mut scratch, &mut out).expect_err("damage");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert_eq!(
        engine.pin().for_each_row(&mut |_| {}).expect_err("damage").kind(),
        ErrorKind::Corrupt
    );
    put(&mut engine, 9_999, 1, &vector_of(1));
    assert!(engine.delete(5, 1).expect("ids are in memory"));
    engine.commit().expect("a commit");
    engine.detach().expect("closed");
    assert!(verify(dir.path()).expect("a collection").findings.iter().any(|f| f.is_damage));
}

#[test]
fn memory_needs_a_sensible_limit_and_a_directory() {
    let settings = tiny(IndexKind::Cluster, Metric::L2, Element::F32);
    let small = vstream_engine::Settings { memory: Some(1_000), ..settings.clone() };
    let error = Engine::create(small).map(|_| ()).expect_err("too small");
    assert!(error.message().contains("64 kb"), "{error}");
    let error = Engine::create(settings.clone()).map(|_| ()).expect_err("nowhere to go");
    assert!(error.message().contains("directory"), "{error}");
    let dir = tempfile::tempdir().expect("a directory");
    let engine = Engine::builder()
        .dir(dir.path())
        .journaling(journaling(false))
        .create(settings)
        .expect("an engine");
    drop(engine);
    // The limit is part of the collection, and can be taken away.
    let reopen = |limit| {
        Engine::builder()
            .dir(dir.path())
            .adjust(&mut |settings, _| settings.memory = limit)
            .open()
            .expect("opens")
    };
    assert_eq!(Engine::open(dir.path()).expect("opens").settings().memory, Some(64 << 10));
    assert_eq!(reopen(None).settings().memory, None);
}
