//! Opens what a crash left and compares it with the oracle: rows, then answers.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

use vstream_engine::{Durability, Engine, Error, ErrorKind, Journaling};
use vstream_store::{FileStore, Syncing};

use crate::answers::{self, Recall};
use crate::crash::{fingerprint, Promise, Seen, Walk};
use crate::disk::{Content, Disk, Faults};
use crate::reads;
use crate::script::{adjust, settings, Script};

/// Exact and approximate queries of every state that is opened.
const QUERIES: (usize, usize) = (1, 2);
/// Writes to a state that is written to.
const WRITES: u64 = 3;
/// One state in this many is opened with short and interrupted calls.
const SHORT_ONE_IN: u64 = 4;

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
    /// Approximate answers miss more of the nearest rows than the target allows.
    Blind,
    /// It does not open, or panics.
    Refused,
    /// A query was not answered.
    Unread,
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

/// Runs `work`; a panic is a violation too.
pub fn guarded<T>(work: impl FnOnce() -> Result<T, Violation>) -> Result<T, Violation> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(Violation::new(Breach::Refused, format!("panic: {text}")))
    })
}

/// The store over a simulated disk.
pub fn store(disk: &Disk) -> FileStore {
    FileStore::new(Arc::new(disk.clone()), Syncing::Full)
}

/// Opens the collection of a disk without threads.
pub fn open(disk: &Disk) -> Result<Engine, Error> {
    Engine::builder()
        .store(store(disk))
        .adjust(&mut |settings, journaling| {
            adjust(settings);
            journaling.background = false;
        })
        .open()
}

/// LSN of an engine.
pub fn lsn_of(engine: &Engine) -> u64 {
    engine.stats().journal.map_or(0, |journal| journal.lsn)
}

/// Compares the rows of an engine with what must be there, after some write of `promise`; returns
/// which.
pub fn compare(engine: &Engine, promise: &Promise, script: &Script) -> Result<u64, Violation> {
    let lsn = lsn_of(engine);
    promise.judge(lsn)?;
    match unlike(engine, script, lsn) {
        Ok(None) => Ok(lsn),
        Ok(Some(violation)) => Err(violation),
        Err(error) => Err(Violation::new(Breach::Lost, error.to_string())),
    }
}

/// In what the rows of an engine are not those after `lsn` writes, if they are not.
///
/// Errors: the engine's own, if they cannot be read.
pub fn unlike(engine: &Engine, script: &Script, lsn: u64) -> Result<Option<Violation>, Error> {
    let mut expected = script.rows_after(lsn);
    let mut wrong = None;
    engine.pin().for_each_row(&mut |row| {
        let expected = expected.get_mut(row.id as usize);
        let is_right = expected.as_ref().is_some_and(|expected| {
            **expected == row.version
                && script.placed(row.id, row.version) == (row.code, row.shard)
                && script.stored(row.version) == row.vector
                && script.fields(row.version) == row.fields
        });
        if is_right {
            *expected.expect("an id of the script") = FOUND;
        } else if wrong.is_none() {
            let breach = match expected {
                Some(&mut FOUND) => Breach::Duplicate,
                _ => Breach::Ghost,
            };
            let what = format!("row {} of write {} after write {lsn}", row.id, row.version);
            wrong = Some(Violation::new(breach, what));
        }
    })?;
    let missing = expected.iter().position(|&row| row != 0 && row != FOUND);
    Ok(wrong.or_else(|| {
        let what = format!("row {} is gone after write {lsn}", missing?);
        Some(Violation::new(Breach::Lost, what))
    }))
}

/// Instead of the write of a row that was found.
const FOUND: u64 = u64::MAX;

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

/// States that were opened, and what approximate queries found there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checked {
    /// Distinct contents of disks.
    pub states: u64,
    /// Rows of their answers.
    pub recall: Recall,
}

impl Checked {
    /// Adds what was checked elsewhere.
    pub fn add(&mut self, other: Checked) {
        self.states += other.states;
        self.recall.add(other.recall);
    }
}

/// What the states of a seed are compared with.
#[derive(Clone, Copy)]
pub struct Oracle<'a> {
    /// The seed.
    pub seed: u64,
    /// Its writes.
    pub script: &'a Script,
    /// States that need not be opened again.
    pub seen: &'a Seen,
}

impl Oracle<'_> {
    /// Opens `content` and compares; a panic is a violation too. What was opened before need not be
    /// again: only the promise may have grown.
    pub fn check(
        &self,
        content: &Content,
        promise: &Promise,
        choose: impl Fn(u64) -> Depth,
    ) -> Result<Checked, Violation> {
        let fingerprint = fingerprint(content);
        match self.seen.find(fingerprint) {
            Some(Some(lsn)) => promise.judge(lsn).map(|()| Checked::default()),
            Some(None) if !promise.made => Ok(Checked::default()),
            Some(None) => Err(Violation::new(Breach::Lost, "there is no collection any more")),
            None => guarded(|| self.open(content, promise, choose(fingerprint))),
        }
    }

    fn open(
        &self,
        content: &Content,
        promise: &Promise,
        depth: Depth,
    ) -> Result<Checked, Violation> {
        let Oracle { seed, script, seen } = *self;
        let disk = Disk::holding(content, seed);
        // Other bits than those by which the depth is chosen.
        let short = (fingerprint(content) >> 32).is_multiple_of(SHORT_ONE_IN);
        disk.set_faults(Faults { short, ..Faults::default() });
        let mut engine = match open(&disk) {
            Ok(engine) => engine,
            Err(error) if !promise.made && error.is_not_made() => {
                seen.note(fingerprint(content), None);
                return made_again(&disk);
            }
            Err(error) => {
                let what = format!("does not open, promised {:?}: {error}", promise.lsn);
                return Err(Violation::new(Breach::Refused, what));
            }
        };
        let lsn = compare(&engine, promise, script)?;
        seen.note(fingerprint(content), Some(lsn));
        let mut checked =
            Checked { states: 1, recall: answers::ask(&engine, script, lsn, QUERIES)? };
        reads::late(&mut engine, script, lsn)?;
        let exactly = Promise { made: true, lsn: lsn..=lsn };
        if depth == Depth::Recovery {
            let mut walk = Walk::new(content, exactly.clone(), seed);
            for event in disk.trace() {
                walk.step(&event);
                for state in walk.states() {
                    checked.add(self.check(&state, &exactly, |_| Depth::Open)?);
                }
            }
        }
        match depth {
            Depth::Open => disk.kill(|| drop(engine)),
            Depth::Write | Depth::Recovery => self.write(&disk, engine, lsn)?,
        }
        Ok(checked)
    }

    /// Writes to what was opened, and opens it again.
    fn write(&self, disk: &Disk, mut engine: Engine, lsn: u64) -> Result<(), Violation> {
        for next in lsn + 1..=lsn + WRITES {
            let done = self.script.apply(&mut engine, next).and_then(|()| engine.flush());
            done.map_err(|e| Violation::new(Breach::Refused, format!("no more writes: {e}")))?;
        }
        disk.kill(|| drop(engine));
        let again = open(disk).map_err(|error| {
            let what = format!("does not open after recovery and {WRITES} writes: {error}");
            Violation::new(Breach::Refused, what)
        })?;
        let lsn = lsn + WRITES;
        compare(&again, &Promise { made: true, lsn: lsn..=lsn }, self.script)?;
        answers::ask(&again, self.script, lsn, QUERIES)?;
        disk.kill(|| drop(again));
        Ok(())
    }
}

/// A crash while a collection was made leaves a place where one can be made.
fn made_again(disk: &Disk) -> Result<Checked, Violation> {
    let journaling =
        Journaling { durability: Durability::Sync, background: false, ..Journaling::default() };
    let made = Engine::builder()
        .store(store(disk))
        .collection(1)
        .journaling(journaling)
        .create(settings(1));
    let checked = Checked { states: 1, ..Checked::default() };
    made.map(|_| checked).map_err(|error| {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Write;
    use vstream_engine::Row;

    /// Of this seed rows are held as they are given.
    const SEED: u64 = 3;

    #[test]
    fn a_row_with_another_code_or_shard_is_a_ghost() {
        let mut script = Script::new(SEED, 10);
        script.extend_to(1);
        let Write::Upsert(id) = script.write(1) else { panic!("the first write adds a row") };
        let (code, shard) = script.placed(id, 1);
        for (code, shard, is_right) in
            [(code, shard, true), (code + 1, shard, false), (code, shard + 1, false)]
        {
            let disk = Disk::holding(&Content::new(), SEED);
            let journaling = Journaling { background: false, ..Journaling::default() };
            let engine = Engine::builder()
                .store(store(&disk))
                .collection(SEED)
                .journaling(journaling)
                .create(settings(SEED));
            let mut engine = engine.expect("an engine");
            let row = Row {
                id,
                version: 1,
                code,
                shard,
                vector: script.stored(1),
                fields: Default::default(),
            };
            engine.upsert(&row).expect("a write");
            let found = unlike(&engine, &script, 1).expect("rows").map(|found| found.breach);
            assert_eq!(found, (!is_right).then_some(Breach::Ghost), "code {code}, shard {shard}");
        }
    }
}
