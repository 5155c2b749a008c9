//! The old owner's part of a hand-over: seals and lists the moved rows.

use std::path::Path;

use vstream_index::{IndexRow, RowKey};
use vstream_store::Syncing;

use super::{range_of, MovedRange};
use crate::engine::Engine;
use crate::error::Error;
use crate::snapshot::{PinnedSnapshot, RowSource, SnapshotSummary};

/// The moved rows, with their new shards.
struct Moved<'a> {
    rows: &'a dyn RowSource,
    ranges: &'a [MovedRange],
}

impl RowSource for Moved<'_> {
    fn for_each_row(&self, visit: &mut dyn FnMut(IndexRow<'_>)) -> Result<(), Error> {
        self.rows.for_each_row(&mut |row| {
            if let Some(range) = range_of(self.ranges, &row.key) {
                let key = RowKey { shard: range.to, ..row.key };
                visit(IndexRow { key, ..row });
            }
        })
    }
}

impl PinnedSnapshot {
    /// Writes the rows of `ranges` to `dir` as a snapshot, with their new shards.
    ///
    /// * `ranges`: ascending, not overlapping.
    /// * `dir`: is created; must not hold a snapshot yet.
    ///
    /// Cost: O(rows), and the bytes of the moved rows. Errors: `Invalid`, `Io`.
    pub fn write_moved(
        &self,
        dir: &Path,
        ranges: &[MovedRange],
        syncing: Syncing,
    ) -> Result<SnapshotSummary, Error> {
        self.write_rows(&Moved { rows: &self.rows, ranges }, dir, syncing)
    }

    /// Returns id and version of every pinned row in `ranges`. Cost: O(rows); reads segments.
    /// Errors: `Corrupt`, `Io`, if a segment cannot be read.
    pub fn leaving(&self, ranges: &[MovedRange]) -> Result<Vec<(u64, u64)>, Error> {
        let mut leaving = Vec::new();
        self.rows.for_each_match(None, &mut |key| {
            if range_of(ranges, &key).is_some() {
                leaving.push((key.id, key.version));
            }
        })?;
        Ok(leaving)
    }
}

impl Engine {
    /// Returns id and version of every living row in `ranges`; see [`PinnedSnapshot::leaving`].
    pub fn leaving(&self, ranges: &[MovedRange]) -> Result<Vec<(u64, u64)>, Error> {
        self.pin().leaving(ranges)
    }
}
