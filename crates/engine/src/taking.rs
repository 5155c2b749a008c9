//! Some of the rows of a shared state, on their way into an engine of other shards.

use std::collections::HashMap;

use vstream_store::FileStore;

use crate::engine::Engine;
use crate::error::Error;
use crate::journal::{Change, Replay, SegmentEntry};

/// Rows of the wanted shards, as they are recovered, and what is known of the others.
pub(crate) struct Taking<'a> {
    rows: Engine,
    keep: &'a dyn Fn(u16) -> bool,
    /// Versions of living rows of other shards: recovery is held to them too.
    passed: HashMap<u64, u64>,
}

impl Taking<'_> {
    /// * `rows`: an empty engine.
    /// * `keep`: whether a shard is wanted.
    pub(crate) fn new(rows: Engine, keep: &dyn Fn(u16) -> bool) -> Taking<'_> {
        Taking { rows, keep, passed: HashMap::new() }
    }

    /// What was recovered; of segments also rows of shards that are not wanted.
    pub(crate) fn into_rows(self) -> Engine {
        self.rows
    }
}

impl Replay for Taking<'_> {
    fn apply(&mut self, change: &Change<'_>) -> Result<(), Error> {
        match change {
            Change::Upsert(key, _) if (self.keep)(key.shard) => {
                self.passed.remove(&key.id);
                Replay::apply(&mut self.rows, change)
            }
            Change::Upsert(key, _) => {
                self.passed.insert(key.id, key.version);
                self.rows.delete(key.id, key.version).map(|_| ())
            }
            Change::Delete { id, .. } => {
                self.passed.remove(id);
                Replay::apply(&mut self.rows, change)
            }
        }
    }

    fn segment(
        &mut self,
        store: &FileStore,
        entry: &SegmentEntry,
        collection: u64,
        marks: &[u8],
    ) -> Result<(u64, u128), Error> {
        self.rows.segment(store, entry, collection, marks)
    }

    fn version_of(&self, id: u64) -> Option<u64> {
        self.passed.get(&id).copied().or_else(|| self.rows.version_of(id))
    }
}
