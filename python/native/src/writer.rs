//! The one writer of a collection, which numbers upserts.

use std::path::Path;

use vstream_engine::{
    Applied, AttributeKind, Commit, Condition, Engine, Error, Fields, Filter, Row, RowId, Stats,
    Update, With,
};

use crate::failure::Failure;

/// The engine and what only its writer may change. Lives behind the collection's writer lock.
pub(crate) struct Writer {
    engine: Engine,
    /// The highest version of a write so far.
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

    /// Adds or replaces a row, under the next version if none is given.
    ///
    /// A restored row may carry a higher version than was handed out here: then the counter
    /// doubles until it is past it, at most 64 times in the life of the collection. It ends there:
    /// the highest version there is replaces any other.
    ///
    /// With a condition, a row that is there stays unless the condition holds for it. With a version,
    /// a newer row stays, and so does a newer delete that is remembered. Returns whether the row was
    /// written.
    pub(crate) fn upsert(
        &mut self,
        id: u64,
        vector: &[f32],
        fields: Fields<'_>,
        how: (Option<&Filter>, Option<u64>),
    ) -> Result<bool, Failure> {
        self.check_open()?;
        let (filter, version) = how;
        let condition = Condition { filter, ..Condition::default() };
        let applied = self.newest(version, |engine, version| {
            let row = Row { id, version, code: 0, shard: 0, vector, fields };
            engine.upsert_if(&row, &condition)
        })?;
        self.live += u64::from(applied == Applied::Inserted);
        Ok(applied.is_applied())
    }

    /// Changes what a row carries beside its vector, under the next version if none is given; says
    /// whether there was a row that is not newer.
    pub(crate) fn update(
        &mut self,
        id: RowId,
        update: &Update<'_>,
        version: Option<u64>,
    ) -> Result<bool, Failure> {
        self.check_open()?;
        let applied = self.newest(version, |engine, version| engine.update(id, version, update))?;
        Ok(applied.is_applied())
    }

    /// Makes a write under a version; if none is given under the next one, and again under a higher
    /// one while the row is newer.
    fn newest(
        &mut self,
        given: Option<u64>,
        mut write: impl FnMut(&mut Engine, u64) -> Result<Applied, Error>,
    ) -> Result<Applied, Failure> {
        loop {
            let version = given.unwrap_or(self.version.saturating_add(1));
            let applied = write(&mut self.engine, version)?;
            self.version = self.version.max(version);
            match applied {
                Applied::Stale if given.is_none() => {
                    self.version = self.version.saturating_mul(2);
                }
                applied => return Ok(applied),
            }
        }
    }

    /// Removes a row, whatever its version if none is given; says whether one was removed.
    pub(crate) fn delete(&mut self, id: RowId, given: Option<u64>) -> Result<bool, Failure> {
        self.check_open()?;
        loop {
            let version = given.unwrap_or(self.version.saturating_add(1));
            let removed = self.engine.delete(id, version)?;
            self.version = self.version.max(version);
            if removed {
                self.live -= 1;
                return Ok(true);
            }
            // A delete gets no higher version than it needs: a collection that remembers deletes
            // refuses older upserts of the id, and the next upsert must not be one.
            let newer = match given {
                Some(_) => None,
                None => self.engine.reader().get(&[id], &With::default())?.pop().flatten(),
            };
            match newer {
                Some(row) if row.version > version => self.version = row.version,
                _ => return Ok(false),
            }
        }
    }

    /// Removes the rows that match, whatever their versions if none is given; says how many.
    pub(crate) fn delete_where(
        &mut self,
        filter: &Filter,
        given: Option<u64>,
    ) -> Result<u64, Failure> {
        self.check_open()?;
        let mut all = 0;
        loop {
            let version = given.unwrap_or(self.version.saturating_add(1));
            let removed = self.engine.delete_where(filter, version)?;
            self.version = self.version.max(version);
            self.live -= removed;
            all += removed;
            let is_done = given.is_some() || version == u64::MAX;
            if is_done || self.engine.reader().count(Some(filter))? == 0 {
                return Ok(all);
            }
            self.version = self.version.saturating_mul(2);
        }
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
