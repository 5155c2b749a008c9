//! Numbers the writes of an engine whose callers give no versions.

use vstream_attribute::{AttributeKind, Filter};

use crate::applied::Applied;
use crate::engine::{Engine, Stats};
use crate::error::Error;
use crate::journal::Commit;
use crate::read::With;
use crate::row::{Row, RowId, Update};
use crate::write::Condition;

/// An engine whose writes get the next version unless they come with one.
///
/// A row that is there may carry a higher version than was given here: then the counter doubles
/// until it is past it, at most 64 times in the life of the collection. It ends there: the highest
/// version there is replaces any other.
pub struct NumberedWriter {
    engine: Engine,
    /// The highest version of a write so far.
    version: u64,
    /// Rows that live.
    live: u64,
}

impl NumberedWriter {
    /// Takes over an engine. Cost: O(rows), to count what a restored one holds.
    pub fn new(engine: Engine) -> NumberedWriter {
        let live = engine.stats().index.live;
        NumberedWriter { engine, version: 0, live }
    }

    /// The engine, for what needs no version.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The engine, for what needs no version and changes no row.
    pub fn engine_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Rows that live.
    pub fn live(&self) -> u64 {
        self.live
    }

    /// Adds or replaces a row; its version counts only if `is_versioned`. A row that is there stays
    /// unless the condition holds for it; with a version, a newer row stays, and so does a newer delete
    /// that is remembered. Errors: those of [`Engine::upsert_if`].
    pub fn upsert(
        &mut self,
        row: &Row<'_>,
        is_versioned: bool,
        condition: &Condition<'_>,
    ) -> Result<Applied, Error> {
        let given = is_versioned.then_some(row.version);
        let applied = self.newest(given, |engine, version| {
            engine.upsert_if(&Row { version, ..*row }, condition)
        })?;
        self.live += u64::from(applied == Applied::Inserted);
        Ok(applied)
    }

    /// Adds or replaces a row whose vector [`Engine::check`] has accepted, whatever is there. Errors: those
    /// of [`Engine::upsert_checked`].
    pub fn upsert_checked(&mut self, row: &Row<'_>) -> Result<Applied, Error> {
        let applied =
            self.newest(None, |engine, version| engine.upsert_checked(&Row { version, ..*row }))?;
        self.live += u64::from(applied == Applied::Inserted);
        Ok(applied)
    }

    /// Changes what a row carries beside its vector. Errors: those of [`Engine::update`].
    pub fn update(
        &mut self,
        id: RowId,
        update: &Update<'_>,
        given: Option<u64>,
    ) -> Result<Applied, Error> {
        self.newest(given, |engine, version| engine.update(id, version, update))
    }

    /// Makes a write under a version; if none is given under the next one, and again under a higher
    /// one while the row is newer.
    fn newest(
        &mut self,
        given: Option<u64>,
        mut write: impl FnMut(&mut Engine, u64) -> Result<Applied, Error>,
    ) -> Result<Applied, Error> {
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

    /// Removes a row, whatever its version if none is given; says whether one was removed. Errors:
    /// those of [`Engine::delete`].
    pub fn delete(&mut self, id: RowId, given: Option<u64>) -> Result<bool, Error> {
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

    /// Removes the rows that match, whatever their versions if none is given; says how many. Errors:
    /// those of [`Engine::delete_where`].
    pub fn delete_where(&mut self, filter: &Filter, given: Option<u64>) -> Result<u64, Error> {
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

    /// Applies a group of writes of another engine. Errors: those of [`Engine::apply_group`].
    pub fn apply_group(&mut self, group: &[u8]) -> Result<u64, Error> {
        let done = self.engine.apply_group(group);
        self.live = self.engine.state().live;
        done
    }

    /// Adds an attribute that an open schema lacks. Errors: those of [`Engine::admit_attribute`].
    pub fn admit_attribute(&mut self, name: &str, kind: AttributeKind) -> Result<u16, Error> {
        self.engine.admit_attribute(name, kind)
    }

    /// Ends a group of writes; whoever wrote them waits for it. Errors: those of
    /// [`Engine::begin_commit`].
    pub fn begin_commit(&mut self) -> Result<Commit, Error> {
        self.engine.begin_commit()
    }

    /// The engine's figures.
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }
}
