//! Opens what a crash left and compares it with the oracle.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

use vstream_engine::{DeleteOrder, Durability, Element, Engine, Error, ErrorKind};
use vstream_engine::{IndexKind, Journaling, Metric, Settings};
use vstream_store::{FileStore, Syncing};

use crate::crash::{Promise, Walk};
use crate::disk::{Content, Disk};
use crate::script::{apply, rows_of, Rows, Script, Unsound, DIMENSION, FEW_IDS};

/// How a promise was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Breach {
    /// A write that was promised is not there.
    Lost,
    /// A row is there that was deleted, replaced or never written.
    Ghost,
    /// A row is there twice.
    Duplicate,
    /// Changed bytes were not noticed.
    Undetected,
    /// It does not open, or panics.
    Refused,
}

/// A broken promise.
#[derive(Clone, Debug)]
pub struct Violation {
    /// How.
    pub breach: Breach,
    /// What was seen.
    pub what: String,
}

impl Violation {
    /// A violation that says `what`.
    pub fn new(breach: Breach, what: impl Into<String>) -> Violation {
        Violation { breach, what: what.into() }
    }
}

impl From<Unsound> for Violation {
    fn from(unsound: Unsound) -> Violation {
        match unsound {
            Unsound::Twice(id) => {
                Violation::new(Breach::Duplicate, format!("row {id} is there twice"))
            }
            Unsound::Unreadable(error) => Violation::new(Breach::Lost, error),
        }
    }
}

/// The store over a simulated disk.
pub fn store(disk: &Disk) -> FileStore {
    FileStore::new(Arc::new(disk.clone()), Syncing::Full)
}

/// Settings of the collection of a seed: every other one keeps its rows in segments, and its
/// checkpoints are flushes. Of those, every other one merges neighbours in age.
pub fn settings(seed: u64) -> Settings {
    let settings = Settings::new(DIMENSION, Metric::L2, Element::F32);
    let memory = seed.is_multiple_of(2).then_some(64 << 10);
    let deletes = match seed.is_multiple_of(4) {
        true => DeleteOrder::OldestFirst,
        false => DeleteOrder::Any,
    };
    Settings { index: IndexKind::Flat, recall_guard: false, memory, deletes, ..settings }
}

/// Opens the collection of a disk without threads.
pub fn open(disk: &Disk) -> Result<Engine, Error> {
    Engine::open_in_store(store(disk), &mut |settings, journaling| {
        settings.recall_guard = false;
        journaling.background = false;
    })
}

/// LSN of an engine.
pub fn lsn_of(engine: &Engine) -> u64 {
    engine.stats().journal.map_or(0, |journal| journal.lsn)
}

/// Compares an engine with what must be there, after some write of `promise`; returns which.
pub fn compare(engine: &Engine, promise: &Promise, models: &[Rows]) -> Result<u64, Violation> {
    let lsn = lsn_of(engine);
    if lsn < *promise.lsn.start() {
        let what = format!("ends at write {lsn}, {} was promised", promise.lsn.start());
        return Err(Violation::new(Breach::Lost, what));
    }
    if lsn > *promise.lsn.end() {
        let what = format!("ends at write {lsn}, {} was the last one", promise.lsn.end());
        return Err(Violation::new(Breach::Ghost, what));
    }
    let found = rows_of(engine).map_err(Violation::from)?;
    same(&models[lsn as usize], &found, lsn)?;
    Ok(lsn)
}

/// Compares rows that were found after write `lsn` with those that must be there.
pub fn same(expected: &Rows, found: &Rows, lsn: u64) -> Result<(), Violation> {
    if let Some(id) = expected.keys().find(|id| !found.contains_key(id)) {
        return Err(Violation::new(Breach::Lost, format!("row {id} is gone after write {lsn}")));
    }
    if let Some((id, row)) = found.iter().find(|(id, row)| expected.get(id) != Some(row)) {
        let what = format!("row {id} is {row:?} after write {lsn}");
        return Err(Violation::new(Breach::Ghost, what));
    }
    Ok(())
}

/// How closely a state is looked at, beyond being opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Opened and compared.
    Open,
    /// Also written to and opened again.
    Write,
    /// Also crashed at every step of its recovery.
    Recovery,
}

/// Opens `content` and compares; a panic is a violation too. Returns the states that were opened.
pub fn check(
    content: &Content,
    promise: &Promise,
    models: &[Rows],
    seed: u64,
    depth: Depth,
) -> Result<u64, Violation> {
    let checked = || check_inside(content, promise, models, seed, depth);
    catch_unwind(AssertUnwindSafe(checked)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(Violation::new(Breach::Refused, format!("panic: {text}")))
    })
}

fn check_inside(
    content: &Content,
    promise: &Promise,
    models: &[Rows],
    seed: u64,
    depth: Depth,
) -> Result<u64, Violation> {
    let disk = Disk::holding(content, seed);
    let mut engine = match open(&disk) {
        Ok(engine) => engine,
        Err(error) if !promise.made && error.is_not_made() => return made_again(&disk),
        Err(error) => {
            let what = format!("does not open, promised {:?}: {error}", promise.lsn);
            return Err(Violation::new(Breach::Refused, what));
        }
    };
    let lsn = compare(&engine, promise, models)?;
    let mut states = 1;
    if depth == Depth::Recovery {
        let exactly = Promise { made: true, lsn: lsn..=lsn };
        let mut walk = Walk::new(content, exactly.clone(), seed);
        for event in disk.trace() {
            walk.step(&event);
            for state in walk.states() {
                states += check(&state, &exactly, models, seed, Depth::Open)?;
            }
        }
    }
    if depth != Depth::Open {
        let mut script = Script::after(seed, FEW_IDS, lsn);
        for _ in 0..3 {
            let write = script.step();
            let done = apply(&mut engine, write).and_then(|()| engine.flush());
            done.map_err(|e| Violation::new(Breach::Refused, format!("no more writes: {e}")))?;
        }
        disk.kill(|| drop(engine));
        let again = open(&disk).map_err(|error| {
            let what = format!("does not open after recovery and 3 writes: {error}");
            Violation::new(Breach::Refused, what)
        })?;
        let exactly = Promise { made: true, lsn: lsn + 3..=lsn + 3 };
        let mut longer = models[..=lsn as usize].to_vec();
        longer.resize(lsn as usize + 3, Rows::new());
        longer.push(script.rows().clone());
        compare(&again, &exactly, &longer)?;
        disk.kill(|| drop(again));
        states += 1;
    } else {
        disk.kill(|| drop(engine));
    }
    Ok(states)
}

/// A crash while a collection was made leaves a place where one can be made.
fn made_again(disk: &Disk) -> Result<u64, Violation> {
    let journaling =
        Journaling { durability: Durability::Sync, background: false, ..Journaling::default() };
    let made = Engine::create_in_store(store(disk), settings(1), journaling, 1);
    made.map(|_| 1).map_err(|error| {
        Violation::new(Breach::Refused, format!("cannot be made after a crash: {error}"))
    })
}

/// Whether an error says that there is no collection.
trait NotMade {
    fn is_not_made(&self) -> bool;
}

impl NotMade for Error {
    fn is_not_made(&self) -> bool {
        self.kind() == ErrorKind::Invalid || self.message().contains("COLLECTION: cannot open")
    }
}
