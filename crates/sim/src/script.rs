//! What is written, as a function of a seed, and what must be there after each write.

use std::collections::BTreeMap;

use vstream_engine::{Engine, Error, Row};
use vstream_vector::SplitMix;

/// Dimensions of the collections of the lab.
pub const DIMENSION: usize = 2;
/// Ids of small collections: most writes meet an older row.
pub const FEW_IDS: usize = 24;

/// Id to version and vector.
pub type Rows = BTreeMap<u64, (u64, [f32; DIMENSION])>;

/// A write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Write {
    /// Adds or replaces a row.
    Upsert(u64, u64, [f32; DIMENSION]),
    /// Removes a row that is there.
    Delete(u64),
}

/// An endless sequence of writes, each of which gets the next LSN.
#[derive(Clone)]
pub struct Script {
    random: SplitMix,
    ids: usize,
    rows: Rows,
    lsn: u64,
}

impl Script {
    /// The sequence of `seed` over that many ids, before its first write.
    pub fn new(seed: u64, ids: usize) -> Script {
        Script { random: SplitMix(seed), ids, rows: Rows::new(), lsn: 0 }
    }

    /// The sequence of `seed` after its first `lsn` writes.
    pub fn after(seed: u64, ids: usize, lsn: u64) -> Script {
        let mut script = Script::new(seed, ids);
        for _ in 0..lsn {
            script.step();
        }
        script
    }

    /// What must be there after the writes so far.
    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    /// How many writes there were.
    pub fn lsn(&self) -> u64 {
        self.lsn
    }

    /// The next write. It is part of [`Script::rows`] from now on.
    pub fn step(&mut self) -> Write {
        self.lsn += 1;
        let id = self.random.below(self.ids) as u64;
        let is_delete = self.random.below(4) == 0;
        if is_delete && self.rows.remove(&id).is_some() {
            return Write::Delete(id);
        }
        let vector = [self.random.unit(), self.lsn as f32];
        self.rows.insert(id, (self.lsn, vector));
        Write::Upsert(id, self.lsn, vector)
    }
}

/// Gives a write to an engine. Errors: those of the engine, which then has not changed.
pub fn apply(engine: &mut Engine, write: Write) -> Result<(), Error> {
    match write {
        Write::Upsert(id, version, vector) => {
            let shard = (id % 3) as u16;
            engine.upsert(&Row { id, version, code: id << 8, shard, vector: &vector }).map(|_| ())
        }
        Write::Delete(id) => engine.delete(id, u64::MAX).map(|_| ()),
    }
}

/// Why the rows of an engine are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unsound {
    /// A row is there twice.
    Twice(u64),
    /// A file cannot be read: this is what the engine says.
    Unreadable(String),
}

/// The rows of an engine.
pub fn rows_of(engine: &Engine) -> Result<Rows, Unsound> {
    let mut rows = Rows::new();
    let mut twice = None;
    let read = engine.pin().for_each_row(&mut |row| {
        let vector = row.vector.try_into().expect("the dimension of the lab");
        if rows.insert(row.id, (row.version, vector)).is_some() {
            twice = Some(row.id);
        }
    });
    read.map_err(|error| Unsound::Unreadable(error.to_string()))?;
    twice.map_or(Ok(rows), |id| Err(Unsound::Twice(id)))
}
