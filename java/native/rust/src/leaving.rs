//! Rows that went to another partition and are still to be dropped here.
//!
//! Place sends updates to the old owner too until the hand-over is done. So a row may get a newer
//! version between the moment when the rows were listed and its turn to be dropped, and a delete of
//! the listed version would leave it here for ever.

use std::collections::HashMap;

use vstream_engine::{Applied, Engine};

use crate::failure::Failure;

/// Rows to be dropped, with what was written since they were listed. Memory: 16 bytes per row, and
/// as much for every write until all are dropped.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    /// Ids and versions, as they were listed.
    rows: Vec<(u64, u64)>,
    /// By id: the version of its last update since; `None` if it was put here anew, to stay.
    since: HashMap<u64, Option<u64>>,
}

impl Leaving {
    /// Takes the list. Writes since its rows were pinned are known by now.
    pub(crate) fn list(&mut self, rows: Vec<(u64, u64)>) {
        self.rows = rows;
    }

    /// A row was updated.
    pub(crate) fn updated(&mut self, id: u64, version: u64, applied: Applied) {
        if applied.is_applied() {
            let last = self.since.entry(id).or_insert(Some(version));
            *last = last.map(|_| version);
        }
    }

    /// A row was put here by the template in use: it is none of those that leave.
    pub(crate) fn put(&mut self, id: u64) {
        self.since.insert(id, None);
    }

    /// Drops up to `rows_max` rows; returns how many are left. Cost: a delete for each.
    pub(crate) fn drop_some(
        &mut self,
        engine: &mut Engine,
        rows_max: usize,
    ) -> Result<usize, Failure> {
        for _ in 0..rows_max {
            let Some((id, listed)) = self.rows.pop() else { break };
            match self.since.get(&id) {
                None => drop(engine.delete(id, listed)?),
                Some(Some(updated)) => drop(engine.delete(id, *updated.max(&listed))?),
                Some(None) => {}
            }
        }
        Ok(self.rows.len())
    }
}
