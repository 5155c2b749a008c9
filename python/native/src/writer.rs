//! The one writer of a collection, which can be sealed.

use std::path::Path;

use vstream_engine::{
    AttributeKind, Commit, Condition, Engine, Error, Fields, Filter, NumberedWriter, Row, RowId,
    Stats, Update,
};

use crate::failure::Failure;

/// The engine, and whether it takes writes. Lives behind the collection's writer lock.
pub(crate) struct Writer {
    rows: NumberedWriter,
    /// No more writes: the collection is being closed.
    sealed: bool,
}

impl Writer {
    /// Takes over an engine. Cost: O(rows), to count what a restored one holds.
    pub(crate) fn new(engine: Engine) -> Writer {
        Writer { rows: NumberedWriter::new(engine), sealed: false }
    }

    /// See [`Engine::expect_upserts`].
    pub(crate) fn expect_upserts(&mut self, upserts: usize) {
        self.rows.engine_mut().expect_upserts(upserts);
    }

    /// Adds or replaces a row, under the next version if none is given.
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
        let row = Row { id, version: version.unwrap_or(0), code: 0, shard: 0, vector, fields };
        Ok(self.rows.upsert(&row, version.is_some(), &condition)?.is_applied())
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
        Ok(self.rows.update(id, update, version)?.is_applied())
    }

    /// Removes a row, whatever its version if none is given; says whether one was removed.
    pub(crate) fn delete(&mut self, id: RowId, given: Option<u64>) -> Result<bool, Failure> {
        self.check_open()?;
        Ok(self.rows.delete(id, given)?)
    }

    /// Removes the rows that match, whatever their versions if none is given; says how many.
    pub(crate) fn delete_where(
        &mut self,
        filter: &Filter,
        given: Option<u64>,
    ) -> Result<u64, Failure> {
        self.check_open()?;
        Ok(self.rows.delete_where(filter, given)?)
    }

    /// Adds an attribute, unless it is there with this kind.
    pub(crate) fn add_attribute(&mut self, name: &str, kind: AttributeKind) -> Result<(), Failure> {
        self.check_open()?;
        self.rows.engine_mut().add_attribute(name, kind)?;
        Ok(())
    }

    /// Adds an attribute that an open schema lacks.
    pub(crate) fn admit_attribute(
        &mut self,
        name: &str,
        kind: AttributeKind,
    ) -> Result<(), Failure> {
        self.check_open()?;
        self.rows.admit_attribute(name, kind)?;
        Ok(())
    }

    /// Ends a group of writes; whoever wrote them waits for it without the lock.
    pub(crate) fn begin_commit(&mut self) -> Result<Commit, Failure> {
        Ok(self.rows.begin_commit()?)
    }

    /// Writes a snapshot.
    pub(crate) fn snapshot(&mut self, directory: &Path) -> Result<(), Error> {
        self.rows.engine_mut().snapshot(directory).map(|_| ())
    }

    /// Forces every write to the disk.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.check_open()?;
        Ok(self.rows.engine_mut().flush()?)
    }

    /// Forces every write to the disk, gives the directory back and refuses writes from now on.
    /// After an error everything is as before.
    pub(crate) fn close(&mut self) -> Result<(), Failure> {
        // The log has every row first: a checkpoint that fails costs the next open some time.
        let _ = self.rows.engine_mut().shorten_log();
        self.rows.engine_mut().detach()?;
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
        self.rows.stats()
    }

    pub(crate) fn live(&self) -> u64 {
        self.rows.live()
    }
}
