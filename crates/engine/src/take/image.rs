//! Takes rows of a base image and of the logs after it, without routing the rows of its leaves again.
//!
//! The engine is empty, keeps its rows in memory, and remembers no deletes. 1. It loads the rows of its shards leaf by leaf.
//! 2. It writes an image of its own, since no log has them, or begins to. 3. It replays the logs: a change of a row
//! that it has, or gets, is logged here as any other.

use super::Source;
use crate::engine::{rows_of, Engine};
use crate::error::Error;
use crate::recovery::{recover_part, Change, Replay, SegmentFiles};
use crate::remembered::RememberedDelete;
use crate::snapshot::ImageFiles;

/// An engine that loads the image of another one.
struct Loading<'a>(&'a mut Engine);

impl Engine {
    /// Takes the rows of some shards of a state that has an image and no segment; returns how many.
    /// The engine is empty. Errors: those of [`recover_part`] and of a checkpoint.
    pub(super) fn take_image(&mut self, source: &Source, shards: &[bool]) -> Result<u64, Error> {
        let store = &source.directory.store;
        let recovered = recover_part(store, &source.manifest, Some(shards), &mut Loading(self))?;
        let (index, _) = self.tree.stats();
        debug_assert_eq!(index.live, recovered.state.live, "the logs count what is taken");
        Ok(recovered.state.live)
    }
}

impl Replay for Loading<'_> {
    fn apply(&mut self, change: &Change<'_>) -> Result<(), Error> {
        self.0.apply(change)
    }

    fn image(&mut self, files: &ImageFiles<'_>) -> Result<(u64, u128), Error> {
        let (rows, digest) = self.0.load_image(files)?;
        let Engine { settings, tree, remembered, journal, .. } = &mut *self.0;
        if let Some(journal) = journal {
            journal.note_loaded(rows, digest);
            journal.owe(&rows_of(settings, tree, remembered.as_ref()))?;
        }
        Ok((rows, digest))
    }

    fn segments(&mut self, files: &SegmentFiles<'_>) -> Result<(u64, u128), Error> {
        assert!(files.entries.is_empty(), "a state with an image has no segments");
        Ok((0, 0))
    }

    /// This engine remembers none.
    fn remembered(&mut self, _: Vec<RememberedDelete>) {}

    fn version_of(&self, id: u64) -> Option<u64> {
        self.0.version_of(id)
    }

    fn shard_of(&self, id: u64) -> Option<u16> {
        Replay::shard_of(&*self.0, id)
    }
}
