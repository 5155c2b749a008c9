//! The new owner's half.

use std::collections::HashMap;
use std::path::Path;

use vstream_store::{FileStore, Syncing};

use crate::engine::Engine;
use crate::error::Error;
use crate::settings::Settings;
use crate::snapshot::SnapshotRows;

/// Deletes that came since rows have been awaited: an awaited row that is older is dead.
#[derive(Clone, Debug, Default)]
pub struct Awaiting {
    deleted: HashMap<u64, u64>,
}

impl Awaiting {
    /// Remembers a delete, of a row that is here or not.
    pub fn deleted(&mut self, id: u64, version: u64) {
        let last = self.deleted.entry(id).or_insert(version);
        *last = version.max(*last);
    }

    /// False if the row is dead. A delete does not kill the row of its own version: the update that
    /// left it behind has put that very row somewhere, and it may come here.
    pub fn admits(&self, id: u64, version: u64) -> bool {
        self.deleted.get(&id).is_none_or(|&deleted| deleted <= version)
    }
}

/// Sealed rows on their way into an engine, some at a time.
pub struct Adoption {
    rows: SnapshotRows,
}

impl Adoption {
    /// Opens what [`crate::PinnedSnapshot::write_moved`] wrote, and verifies every byte of it.
    ///
    /// Cost: O(bytes). Errors: `Invalid` if the settings do not fit, `Corrupt`, `Unsupported`, `Io`.
    pub fn open(settings: &Settings, dir: &Path) -> Result<Adoption, Error> {
        let store = FileStore::open_dir(dir, Syncing::Off)?;
        Ok(Adoption { rows: SnapshotRows::open(&store, settings)? })
    }

    /// Takes up to `rows_max` rows into `engine`, except those that it has newer and those that
    /// `awaiting` does not admit; returns how many were looked at: 0 when all are in.
    ///
    /// Cost: that of as many upserts. Errors: `Io`; what was taken stays.
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
                engine.restore_row(&row)?;
            }
        }
        Ok(rows)
    }
}
