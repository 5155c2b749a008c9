//! A disk that is full while the log changes: every group is in the log that has its place.

use std::io;

use vstream_store::{Access, FileStore, Files, InFile, Memory, OutFile, Store, Syncing};

use super::*;
use crate::error::ErrorKind;
use crate::layout::log_name;
use crate::wal::{LogIdentity, State, HEADER};

/// Files in memory. Appends wait for a permit each, and fail while the disk is full.
#[derive(Clone, Default)]
struct Gate {
    memory: Memory,
    state: Arc<(Mutex<GateState>, Condvar)>,
}

#[derive(Default)]
struct GateState {
    permits: usize,
    is_full: bool,
    /// Appends that wait now.
    waiting: usize,
}

impl Gate {
    fn set(&self, permits: usize, is_full: bool) {
        let mut state = self.state.0.lock().unwrap();
        (state.permits, state.is_full) = (permits, is_full);
        self.state.1.notify_all();
    }

    /// Waits until an append waits.
    fn wait(&self) {
        let mut state = self.state.0.lock().unwrap();
        while state.waiting == 0 {
            state = self.state.1.wait(state).unwrap();
        }
    }

    fn pass(&self) -> io::Result<()> {
        let mut state = self.state.0.lock().unwrap();
        state.waiting += 1;
        self.state.1.notify_all();
        while state.permits == 0 && !state.is_full {
            state = self.state.1.wait(state).unwrap();
        }
        state.waiting -= 1;
        if state.is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.permits -= 1;
        Ok(())
    }
}

struct GatedFile(Box<dyn OutFile>, Gate);

impl OutFile for GatedFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1.pass()?;
        self.0.append(bytes)
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

impl Files for Gate {
    fn create(&self, name: &str) -> io::Result<Box<dyn OutFile>> {
        Ok(Box::new(GatedFile(self.memory.create(name)?, self.clone())))
    }
    fn reopen(&self, name: &str) -> io::Result<Box<dyn OutFile>> {
        Ok(Box::new(GatedFile(self.memory.reopen(name)?, self.clone())))
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

/// A log in the file of number 0, and spares of the next two.
fn begin() -> (Gate, FileStore, Log, [Spare; 2]) {
    let gate = Gate::default();
    gate.set(usize::MAX, false);
    let store = FileStore::new(Arc::new(gate.clone()), Syncing::Full);
    let spare = |number, lsn| {
        Spare::create(&store, LogIdentity { collection: 7, number }, lsn).expect("room")
    };
    let (first, spares) = (spare(0, 0), [spare(1, 1), spare(2, 2)]);
    let log = Log::start(first.writer(0), &Journaling::default()).expect("a thread");
    gate.set(0, false);
    (gate, store, log, spares)
}

/// A group of one record, and its bytes in a log.
fn group(lsn: u64) -> (Group, u64) {
    let mut group = Group::after(State { lsn: lsn - 1, ..State::default() });
    group.push_delete(lsn, lsn, false, State { lsn, ..State::default() });
    let bytes = group.bytes() as u64;
    (group, bytes)
}

fn bytes_of(store: &FileStore, number: u64) -> u64 {
    let found = store.list(&log_name(number)).expect("names").pop();
    found.expect("the log").bytes - HEADER as u64
}

#[test]
fn a_group_that_waits_for_room_stays_before_the_change_of_logs() {
    let (gate, store, log, [next, _]) = begin();
    let ((first, first_bytes), (second, second_bytes)) = (group(1), group(2));
    log.push(first);
    gate.wait();
    // It comes while the first one is being written, and the next log after it.
    log.push(second);
    log.rotate(next).expect("the log goes on");
    gate.set(0, true);
    let failed = log.ticket(1).wait().expect_err("no room");
    assert_eq!(failed.kind(), ErrorKind::Io, "{failed}");
    gate.set(usize::MAX, false);
    let ticket = log.commit(2).expect("room again").expect("a ticket");
    ticket.wait().expect("both are on the disk");
    drop(log);
    assert_eq!(bytes_of(&store, 0), first_bytes + second_bytes);
    assert_eq!(bytes_of(&store, 1), 0);
}

#[test]
fn a_change_of_logs_that_waits_for_room_is_not_replaced_by_the_next() {
    let (gate, store, log, [next, later]) = begin();
    let ((first, first_bytes), (second, second_bytes)) = (group(1), group(2));
    let (third, third_bytes) = group(3);
    log.push(first);
    gate.wait();
    log.push(second);
    log.rotate(next).expect("the log goes on");
    gate.set(1, false);
    log.ticket(1).wait().expect("room for one");
    // The second is being written now, and the change of logs comes after it.
    gate.wait();
    std::thread::scope(|scope| {
        let another = scope.spawn(|| log.rotate(later));
        std::thread::sleep(Duration::from_millis(50));
        gate.set(0, true);
        another.join().expect("no panic").expect_err("the change before has no room");
    });
    gate.set(usize::MAX, false);
    log.push(third);
    let ticket = log.commit(3).expect("room again").expect("a ticket");
    ticket.wait().expect("all are on the disk");
    drop(log);
    assert_eq!(bytes_of(&store, 0), first_bytes + second_bytes);
    assert_eq!(bytes_of(&store, 1), third_bytes);
    assert_eq!(bytes_of(&store, 2), 0);
}
