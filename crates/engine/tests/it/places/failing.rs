//! Disks that fail: an error for whoever asked, and nothing else.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use vstream_engine::{
    verify, Effort, Element, Engine, ErrorKind, IndexKind, Metric, Query, Row, Scratch,
};
use vstream_store::{Access, Buffer, FileStore, Files, InFile, Memory, OutFile, Syncing};

use super::{filled, journaling, put, rows, tiny, vector_of};

/// A disk in memory of which, as long as a switch is on, nothing can be read, or no segment written.
#[derive(Clone, Default)]
struct Failing {
    disk: Memory,
    reads: Arc<AtomicBool>,
    segments: Arc<AtomicBool>,
}

struct FailingFile(Arc<dyn InFile>, Arc<AtomicBool>);

impl Files for Failing {
    fn create(&self, name: &str) -> io::Result<Box<dyn OutFile>> {
        if name.starts_with("segment-") && self.segments.load(Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(28));
        }
        self.disk.create(name)
    }

    fn reopen(&self, name: &str) -> io::Result<Box<dyn OutFile>> {
        self.disk.reopen(name)
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn InFile>> {
        Ok(Arc::new(FailingFile(self.disk.open(name, access)?, self.reads.clone())))
    }

    fn rename(&self, from: &str, to: &str, replace: bool) -> io::Result<()> {
        self.disk.rename(from, to, replace)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
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
        self.0.bytes()
    }

    fn read(&self, offset: u64, bytes: usize) -> io::Result<Buffer> {
        if self.1.load(Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(5));
        }
        self.0.read(offset, bytes)
    }

    /// So that the reads of several segments go through the pool.
    fn waits(&self) -> bool {
        true
    }
}

fn over(disk: &Failing, background: bool) -> Engine {
    let settings = tiny(IndexKind::Cluster, Metric::L2, Element::F32);
    let store = FileStore::new(Arc::new(disk.clone()), Syncing::Full);
    Engine::create_in_store(store, settings, journaling(background), 1).expect("an engine")
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
    let query = |effort| Query { vector: &[7.0; super::DIMENSION], k: 10, effort };
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
        let row = Row { id, version: 1, code: 0, shard: 0, vector: &vector };
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
    engine.checkpoint().expect("a checkpoint");
    assert!(engine.stats().places.segments > 0);
    put(&mut engine, id, 1, &vector_of(id));
    assert_eq!(rows(&engine).len() as u64, id);
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
        let query = Query { vector: &vector_of(3), k: 10, effort };
        let error = reader.search(&query, &mut scratch, &mut out).expect_err("damage");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.message().contains("segment-0000000001"), "{error}");
    }
    let error = reader.within(&vector_of(3), 1e9, &mut scratch, &mut out).expect_err("damage");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert_eq!(
        engine.pin().for_each_row(&mut |_| {}).expect_err("damage").kind(),
        ErrorKind::Corrupt
    );
    assert_eq!(engine.shard_rows().expect_err("damage").kind(), ErrorKind::Corrupt);
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
    let engine = Engine::create_in(dir.path(), settings, journaling(false)).expect("an engine");
    drop(engine);
    // The limit is part of the collection, and can be taken away.
    let reopen = |limit| {
        Engine::open_with(dir.path(), &mut |settings, _| settings.memory = limit).expect("opens")
    };
    assert_eq!(Engine::open(dir.path()).expect("opens").settings().memory, Some(64 << 10));
    assert_eq!(reopen(None).settings().memory, None);
}
