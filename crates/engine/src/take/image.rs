//! Takes rows of a base image and of the logs after it, without routing the rows of its leaves again.
//!
//! The engine is empty, keeps its rows in memory, and remembers no deletes. 1. It loads the rows of its shards leaf by leaf.
//! 2. It writes an image of its own, since no log has them. 3. It replays the logs: a change of a row
//! that it has, or gets, is logged here as any other.
//!
//! Rows of other shards are known by id, version and shard alone: with them the logs prove that nothing
//! is missing.

use std::collections::HashMap;

use vstream_segment::row_digest;

use super::Source;
use crate::engine::Engine;
use crate::error::Error;
use crate::recovery::{recover, Change, Replay, SegmentFiles};
use crate::remembered::RememberedDelete;
use crate::snapshot::ImageFiles;

/// An engine that takes some shards of what is replayed.
struct Divided<'a> {
    engine: &'a mut Engine,
    /// By shard, whether its rows are taken.
    shards: &'a [bool],
    /// Versions and shards of all other rows.
    others: HashMap<u64, (u64, u16)>,
}

impl Engine {
    /// Takes the rows of some shards of a state that has an image and no segment; returns how many.
    /// The engine is empty. Errors: those of [`recover`] and of a checkpoint.
    pub(super) fn take_image(&mut self, source: &Source, shards: &[bool]) -> Result<u64, Error> {
        let mut divided = Divided { engine: self, shards, others: HashMap::new() };
        let store = &source.directory.store;
        let recovered = recover(store, &source.manifest, &mut divided)?;
        let others = divided.others.len() as u64;
        let (index, _) = self.tree.stats();
        debug_assert_eq!(index.live + others, recovered.state.live, "each row is in one place");
        Ok(recovered.state.live - others)
    }
}

impl Divided<'_> {
    fn is_taken(&self, shard: u16) -> bool {
        self.shards[usize::from(shard)]
    }
}

impl Replay for Divided<'_> {
    fn apply(&mut self, change: &Change<'_>) -> Result<(), Error> {
        match change {
            Change::Upsert(row) if self.is_taken(row.shard) => {
                self.others.remove(&row.id);
                self.engine.restore_row(row).map(|_| ())
            }
            Change::Upsert(row) => {
                if self.others.insert(row.id, (row.version, row.shard)).is_none() {
                    self.engine.delete(row.id, row.version)?;
                }
                Ok(())
            }
            Change::Update { id, version, update } => match self.others.get_mut(id) {
                Some((known, _)) => {
                    *known = *version;
                    Ok(())
                }
                None => self.engine.update(*id, *version, update).map(|_| ()),
            },
            Change::Delete { id, version } if self.others.remove(id).is_none() => {
                self.engine.delete(*id, *version).map(|_| ())
            }
            Change::Delete { .. } | Change::Remember { .. } => Ok(()),
        }
    }

    fn image(&mut self, files: &ImageFiles<'_>) -> Result<(u64, u128), Error> {
        let Divided { engine, shards, others } = self;
        let (mut rows, mut digest) = (0, 0u128);
        let read = engine.load_image(files, &mut |row| {
            if shards[usize::from(row.shard)] {
                rows += 1;
                digest = digest.wrapping_add(row_digest(row.id, row.version));
                return Ok(true);
            }
            match others.insert(row.id, (row.version, row.shard)) {
                None => Ok(false),
                Some(_) => Err(files.twice()),
            }
        })?;
        if let Some(journal) = &mut engine.journal {
            journal.note_loaded(rows, digest);
        }
        engine.checkpoint()?;
        Ok(read)
    }

    fn segments(&mut self, files: &SegmentFiles<'_>) -> Result<(u64, u128), Error> {
        assert!(files.entries.is_empty(), "a state with an image has no segments");
        Ok((0, 0))
    }

    /// This engine remembers none.
    fn remembered(&mut self, _: Vec<RememberedDelete>) {}

    fn version_of(&self, id: u64) -> Option<u64> {
        let other = self.others.get(&id).map(|(version, _)| *version);
        other.or_else(|| self.engine.tree.writer().find(id).map(|found| found.version))
    }

    fn shard_of(&self, id: u64) -> Option<u16> {
        let other = self.others.get(&id).map(|(_, shard)| *shard);
        other.or_else(|| Replay::shard_of(&*self.engine, id))
    }
}
