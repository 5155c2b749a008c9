//! The new owner's part of a hand-over: adopts the moved rows.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use vstream_attribute::Schema;
use vstream_index::RowKey;
use vstream_store::{FileStore, Syncing};

use crate::applied::Applied;
use crate::engine::{Buffers, Engine};
use crate::error::Error;
use crate::row::Row;
use crate::settings::Settings;
use crate::snapshot::SnapshotRows;
use crate::translate::Translation;

/// Deletes since the new owner began to wait for rows. A row that arrives with a version older than
/// its delete is dead.
#[derive(Clone, Debug, Default)]
pub struct Awaiting {
    deleted: HashMap<u64, u64>,
}

impl Awaiting {
    /// Remembers a delete, whether the row is here or not.
    pub fn deleted(&mut self, id: u64, version: u64) {
        let last = self.deleted.entry(id).or_insert(version);
        *last = version.max(*last);
    }

    /// Returns false if the row is dead. A delete does not remove a row of its own version: such a
    /// delete comes from an update, which put that very row into some partition, perhaps this one.
    pub fn admits(&self, id: u64, version: u64) -> bool {
        self.deleted.get(&id).is_none_or(|&deleted| deleted <= version)
    }
}

/// Adopts sealed rows into an engine, some at a time.
pub struct Adoption {
    rows: SnapshotRows,
    theirs: Arc<Schema>,
    translation: Translation,
}

impl Adoption {
    /// Opens the snapshot that [`crate::PinnedSnapshot::write_moved`] wrote, and verifies every
    /// byte.
    ///
    /// Cost: O(bytes). Errors: `Invalid` if the settings do not fit, `Corrupt`, `Unsupported`,
    /// `Io`.
    pub fn open(settings: &Settings, dir: &Path) -> Result<Adoption, Error> {
        let store = FileStore::open_dir(dir, Syncing::Off)?;
        let rows = SnapshotRows::open(&store, settings)?;
        let theirs = rows.schema().clone();
        Ok(Adoption { rows, theirs, translation: Translation::default() })
    }

    /// Reads up to `rows_max` rows and inserts them into `engine`, except rows that the engine has
    /// newer and rows that `awaiting` does not admit. A newer row of the same code gets the shard of
    /// the sealed one. Returns how many rows it read; 0 when none is left.
    ///
    /// Cost: that of as many upserts. Errors: `Io`, `Invalid` if `engine` lacks an attribute of
    /// the rows and its schema is not open; rows that were inserted stay.
    pub fn step(
        &mut self,
        engine: &mut Engine,
        awaiting: &Awaiting,
        rows_max: usize,
    ) -> Result<usize, Error> {
        let mut rows = 0;
        while rows < rows_max {
            let Some(row) = self.rows.next()? else { break };
            rows += 1;
            if awaiting.admits(row.id, row.version) {
                let applied = engine.take_over(&row, &self.theirs, &mut self.translation)?;
                if applied == Applied::Stale {
                    engine.follow(&row)?;
                }
            }
        }
        Ok(rows)
    }
}

impl Engine {
    /// Gives the newer row of this id the shard of the sealed one, if it has the code of that one.
    ///
    /// Both owners of a range may be one partition: the parallelism was another one when the range
    /// got its new owner. Then an update since the row was sealed is an update of the row that the
    /// partition has, which keeps the old shard. Without this the partition would drop it as a row
    /// that has left, while it has no other copy. A row that a new vector has put here has the shard
    /// of its code already.
    fn follow(&mut self, sealed: &Row<'_>) -> Result<(), Error> {
        let writer = self.tree.writer();
        let Some(found) = writer.find(sealed.id) else { return Ok(()) };
        let Buffers { vector, fields, .. } = &mut self.buffers;
        vector.resize(self.settings.dimension, 0.0);
        let mut key = RowKey { id: sealed.id, version: found.version, code: 0, shard: 0 };
        writer.show(sealed.id, found, &mut |row| {
            (key.code, key.shard) = (row.key.code, row.key.shard);
            row.vector.read(vector);
            fields.set(row.fields);
        })?;
        drop(writer);
        if key.code != sealed.code || key.shard == sealed.shard {
            return Ok(());
        }
        let (vector, fields) = (std::mem::take(vector), std::mem::take(fields));
        let row = Row {
            id: key.id,
            version: key.version,
            code: key.code,
            shard: sealed.shard,
            vector: &vector,
            fields: fields.fields(),
        };
        let done = self.restore_row(&row);
        (self.buffers.vector, self.buffers.fields) = (vector, fields);
        done.map(|_| ())
    }
}
