//! Faults of the disk: a failed sync stops all changes, and a full disk is temporary.

use std::io;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::sync::Arc;

use vstream_store::{
    Access, Buffer, ErrorKind, FileStore, Files, InFile, Memory, OutFile, Range, Store, Syncing,
};

/// A directory in memory whose syncs fail on demand and that holds a limited number of bytes.
#[derive(Clone, Default)]
struct Faulty {
    memory: Memory,
    /// 0: syncs work. 1: the next sync fails. 2: the next sync of the directory fails.
    failing: Arc<AtomicU8>,
    room: Arc<AtomicI64>,
}

fn eio() -> io::Error {
    io::Error::from_raw_os_error(5)
}

impl Files for Faulty {
    fn create(&self, name: &str) -> io::Result<Box<dyn OutFile>> {
        Ok(Box::new(FaultyFile { file: self.memory.create(name)?, faulty: self.clone() }))
    }
    fn reopen(&self, name: &str) -> io::Result<Box<dyn OutFile>> {
        Ok(Box::new(FaultyFile { file: self.memory.reopen(name)?, faulty: self.clone() }))
    }
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn InFile>> {
        Ok(Arc::new(Short(self.memory.open(name, access)?, AtomicU8::new(0))))
    }
    fn rename(&self, from: &str, to: &str, replace: bool) -> io::Result<()> {
        self.memory.rename(from, to, replace)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.memory.remove(name)
    }
    fn sync_names(&self) -> io::Result<()> {
        let failing = self.failing.compare_exchange(2, 0, Ordering::SeqCst, Ordering::SeqCst);
        failing.map_or(Ok(()), |_| Err(eio()))
    }
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        self.memory.list()
    }
}

struct FaultyFile {
    file: Box<dyn OutFile>,
    faulty: Faulty,
}

impl OutFile for FaultyFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Accepts at most seven bytes at a time, as a kernel may.
        let part = bytes.len().min(7);
        if self.faulty.room.fetch_sub(part as i64, Ordering::SeqCst) < part as i64 {
            self.faulty.room.fetch_add(part as i64, Ordering::SeqCst);
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.append(&bytes[..part])
    }
    fn overwrite(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.overwrite(offset, bytes)
    }
    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        self.file.cut(bytes)
    }
    fn sync(&mut self) -> io::Result<()> {
        let failing =
            self.faulty.failing.compare_exchange(1, 0, Ordering::SeqCst, Ordering::SeqCst);
        failing.map_or(Ok(()), |_| Err(eio()))
    }
}

/// Interrupts every other read; the others return at most three bytes.
struct Short(Arc<dyn InFile>, AtomicU8);

impl InFile for Short {
    fn bytes(&self) -> io::Result<u64> {
        self.0.bytes()
    }
    fn read(&self, offset: u64, bytes: usize) -> io::Result<Buffer> {
        if self.1.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        self.0.read(offset, bytes.min(3))
    }
    fn waits(&self) -> bool {
        false
    }
}

fn faulty(room: i64) -> (Faulty, FileStore) {
    let files = Faulty::default();
    files.room.store(room, Ordering::SeqCst);
    (files.clone(), FileStore::new(Arc::new(files), Syncing::Full))
}

#[test]
fn short_and_interrupted_calls_are_continued() {
    let (_, store) = faulty(1_000_000);
    let content: Vec<u8> = (0..100_000u32).map(|i| (i % 253) as u8).collect();
    store.put("file", &content).expect("a whole file");
    let file = store.open("file", Access::Cached).expect("a file");
    assert_eq!(*file.read(Range { offset: 0, bytes: 100_000 }).expect("bytes"), content);
}

/// After a failed sync the kernel drops the pages and reports success the next time. A store that
/// went on would acknowledge lost data.
#[test]
fn a_failed_sync_poisons_the_store() {
    for kind in [1, 2] {
        let (files, store) = faulty(1_000_000);
        let mut log = store.create_log("log").expect("a log");
        let mut begun = store.create("begun").expect("a file");
        begun.append(b"x").expect("room");
        log.append(b"one").expect("room");
        files.failing.store(kind, Ordering::SeqCst);
        let error = match kind {
            1 => log.sync().expect_err("the disk failed"),
            _ => store.replace("M", b"x").expect_err("the disk failed"),
        };
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(store.is_poisoned());
        let refused = [
            log.append(b"two").unwrap_err(),
            log.sync().unwrap_err(),
            store.put("other", b"x").unwrap_err(),
            store.replace("M", b"x").unwrap_err(),
            store.delete("log").unwrap_err(),
            begun.append(b"x").unwrap_err(),
            begun.finish().unwrap_err(),
        ];
        assert!(refused.iter().all(|error| error.kind() == ErrorKind::Poisoned), "{refused:?}");
        store.open("log", Access::Cached).expect("reading goes on");
    }
}

#[test]
fn a_full_disk_leaves_what_was_there_and_writing_resumes() {
    let (files, store) = faulty(100);
    let mut log = store.create_log("log").expect("a log");
    log.append(&[1; 60]).expect("room");
    let error = log.append(&[2; 60]).expect_err("no room");
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    assert_eq!(log.bytes(), 60);
    assert!(!store.is_poisoned());
    assert_eq!(store.put("file", &[3; 60]).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(store.replace("M", &[3; 60]).unwrap_err().kind(), ErrorKind::Full);
    files.room.store(1_000, Ordering::SeqCst);
    log.append(&[4; 10]).expect("room again");
    log.sync().expect("synced");
    store.put("file", &[3; 60]).expect("room again");
    store.replace("M", &[3; 60]).expect("room again");
    let file = store.open("log", Access::Cached).expect("a file");
    let content = file.read(Range { offset: 0, bytes: 70 }).expect("70 bytes");
    assert_eq!(file.bytes(), 70);
    assert!(content[..60].iter().all(|&b| b == 1) && content[60..].iter().all(|&b| b == 4));
}
