//! A log on a disk that is full for a while.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use vstream_attribute::Attributes;
use vstream_store::{Files, InFile, Memory, OutFile, Syncing};

use super::*;

/// Files in memory that take no byte while the disk is full.
#[derive(Clone, Default)]
struct Disk {
    memory: Memory,
    is_full: Arc<AtomicBool>,
}

struct OnDisk(Box<dyn OutFile>, Disk);

impl OutFile for OnDisk {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.1.is_full.load(Ordering::Relaxed) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => self.0.append(bytes),
        }
    }
    fn overwrite(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.overwrite(offset, bytes)
    }
    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        self.0.cut(bytes)
    }
    fn sync(&mut self) -> io::Result<()> {
        self.0.sync()
    }
}

impl Files for Disk {
    fn create(&self, name: &str) -> io::Result<Box<dyn OutFile>> {
        Ok(Box::new(OnDisk(self.memory.create(name)?, self.clone())))
    }
    fn reopen(&self, name: &str) -> io::Result<Box<dyn OutFile>> {
        Ok(Box::new(OnDisk(self.memory.reopen(name)?, self.clone())))
    }
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn InFile>> {
        self.memory.open(name, access)
    }
    fn rename(&self, from: &str, to: &str, replace: bool) -> io::Result<()> {
        self.memory.rename(from, to, replace)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.memory.remove(name)
    }
    fn sync_names(&self) -> io::Result<()> {
        self.memory.sync_names()
    }
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        self.memory.list()
    }
}

/// More records wait for room than one frame may have; all of them are read again.
#[test]
fn records_that_wait_for_room_are_read_again() {
    let disk = Disk::default();
    let store = FileStore::new(Arc::new(disk.clone()), Syncing::Full);
    let mut log = Log::create(&store, "log", 3).expect("room");
    disk.is_full.store(true, Ordering::Relaxed);
    let payload = vec![7; PAYLOAD_BYTES_MAX];
    let set = Attributes::decode(&[]).expect("no attributes");
    let update = Update { set, unset: &[], payload: PayloadChange::Set(&payload) };
    let (count, bytes) = (3 * FRAME_BYTES_MAX / PAYLOAD_BYTES_MAX, log.bytes());
    for id in 0..count as u64 {
        let pushed = log.push(&Record::Update("a group", id, id, update));
        pushed.expect_err("a frame is full, and there is no room for it");
    }
    log.push(&Record::Drop("another")).expect("it waits for the commit");
    assert!(log.bytes() > bytes + (count * PAYLOAD_BYTES_MAX) as u64);
    log.commit().expect_err("no room");
    disk.is_full.store(false, Ordering::Relaxed);
    log.push(&Record::Drop("a third")).expect("it waits for the commit");
    log.commit().expect("room again");
    let mut read = Vec::new();
    let whole = replay(&store, "log", 3, 4, &mut |record| {
        read.push(match record {
            Record::Update(_, id, ..) => id.to_string(),
            Record::Drop(group) => (*group).to_owned(),
            Record::Row(..) => unreachable!("none was written"),
        });
        Ok(())
    });
    assert_eq!(whole.expect("a whole log"), log.bytes());
    let mut expected: Vec<String> = (0..count).map(|id| id.to_string()).collect();
    expected.extend(["another".to_owned(), "a third".to_owned()]);
    assert_eq!(read, expected);
}
