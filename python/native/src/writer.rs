//! The one writer of a collection, which numbers upserts.

use std::path::Path;

use vstream_engine::{
    Applied, AttributeKind, Commit, Condition, Engine, Error, Fields, Filter, Row, RowId, Stats,
    Update,
};

use crate::failure::Failure;

/// The engine and what only its writer may change. Lives behind the collection's writer lock.
pub(crate) struct Writer {
    engine: Engine,
    /// Version of the last upsert.
    version: u64,
    /// Rows that live.
    live: u64,
    /// No more writes: the collection is being closed.
    sealed: bool,
}

impl Writer {
    /// Takes over an engine. Cost: O(rows), to count what a restored one holds.
    pub(crate) fn new(engine: Engine) -> Writer {
        let live = engine.stats().index.live;
        Writer { engine, version: 0, live, sealed: false }
    }

    /// Adds or replaces a row under the next version.
    ///
    /// A restored row may carry a higher version than was handed out here: then the counter
    /// doubles until it is past it, at most 64 times in the life of the collection. It ends there:
    /// the highest version there is replaces any other.
    ///
    /// With a condition, a row that is there stays unless the condition holds for it. Returns whether
    /// the row was written.
    pub(crate) fn upsert(
        &mut self,
        id: u64,
        vector: &[f32],
        fields: Fields<'_>,
        condition: Option<&Filter>,
    ) -> Result<bool, Failure> {
        self.check_open()?;
        let condition = Condition { filter: condition, ..Condition::default() };
        let applied = self.newest(|engine, version| {
            let row = Row { id, version, code: 0, shard: 0, vector, fields };
            engine.upsert_if(&row, &condition)
        })?;
        self.live += u64::from(applied == Applied::Inserted);
        Ok(applied.is_applied())
    }

    /// Changes what a row carries beside its vector; says whether there was one.
    pub(crate) fn update(&mut self, id: RowId, update: &Update<'_>) -> Result<bool, Failure> {
        self.check_open()?;
        let applied = self.newest(|engine, version| engine.update(id, version, update))?;
        Ok(applied.is_applied())
    }

    /// Makes a write under the next version, and again under a higher one while the row is newer.
    fn newest(
        &mut self,
        mut write: impl FnMut(&mut Engine, u64) -> Result<Applied, Error>,
    ) -> Result<Applied, Failure> {
        loop {
            let version = self.version.saturating_add(1);
            let applied = write(&mut self.engine, version)?;
            self.version = version;
            match applied {
                Applied::Stale => self.version = self.version.saturating_mul(2),
                applied => return Ok(applied),
            }
        }
    }

    /// Removes a row whatever its version; says whether there was one.
    pub(crate) fn delete(&mut self, id: RowId) -> Result<bool, Failure> {
        self.check_open()?;
        let removed = self.engine.delete(id, u64::MAX)?;
        if removed {
            self.live -= 1;
        }
        Ok(removed)
    }

    /// Removes the rows that match; says how many there were.
    pub(crate) fn delete_where(&mut self, filter: &Filter) -> Result<u64, Failure> {
        self.check_open()?;
        let removed = self.engine.delete_where(filter, u64::MAX)?;
        self.live -= removed;
        Ok(removed)
    }

    /// Adds an attribute, unless it is there with this kind.
    pub(crate) fn add_attribute(&mut self, name: &str, kind: AttributeKind) -> Result<(), Failure> {
        self.check_open()?;
        self.engine.add_attribute(name, kind)?;
        Ok(())
    }

    /// Adds an attribute that an open schema lacks.
    pub(crate) fn admit_attribute(
        &mut self,
        name: &str,
        kind: AttributeKind,
    ) -> Result<(), Failure> {
        self.check_open()?;
        self.engine.admit_attribute(name, kind)?;
        Ok(())
    }

    /// Ends a group of writes; whoever wrote them waits for it without the lock.
    pub(crate) fn begin_commit(&mut self) -> Result<Commit, Failure> {
        Ok(self.engine.begin_commit()?)
    }

    /// Writes a snapshot.
    pub(crate) fn snapshot(&mut self, directory: &Path) -> Result<(), Error> {
        self.engine.snapshot(directory).map(|_| ())
    }

    /// Forces every write to the disk.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.check_open()?;
        Ok(self.engine.flush()?)
    }

    /// Forces every write to the disk, gives the directory back and refuses writes from now on.
    /// After an error everything is as before.
    pub(crate) fn close(&mut self) -> Result<(), Failure> {
        self.engine.detach()?;
        self.sealed = true;
        Ok(())
    }

    fn check_open(&self) -> Result<(), Failure> {
        if self.sealed {
            return Err(Failure::closed());
        }
        Ok(())
    }

    pub(crate) fn stats(&self) -> Stats {
        self.engine.stats()
    }

    pub(crate) fn live(&self) -> u64 {
        self.live
    }
}
