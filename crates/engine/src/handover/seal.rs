//! The old owner's half.

use std::path::Path;

use vstream_index::{RowKey, VectorRef};
use vstream_store::Syncing;

use super::{range_of, MovedRange};
use crate::engine::Engine;
use crate::error::Error;
use crate::snapshot::{PinnedSnapshot, RowSource, SnapshotSummary};

/// Rows that leave, as they will be.
struct Moved<'a> {
    rows: &'a dyn RowSource,
    ranges: &'a [MovedRange],
}

impl RowSource for Moved<'_> {
    fn for_each_row(&self, visit: &mut dyn FnMut(RowKey, VectorRef<'_>)) -> Result<(), Error> {
        self.rows.for_each_row(&mut |key, vector| {
            if let Some(range) = range_of(self.ranges, &key) {
                visit(RowKey { shard: range.to, ..key }, vector);
            }
        })
    }
}

impl PinnedSnapshot {
    /// Writes the rows of `ranges` to `dir`, with the shards that they go to: a snapshot of its own.
    ///
    /// * `ranges`: ascending, not overlapping.
    /// * `dir`: is created; must not hold a snapshot yet.
    ///
    /// Cost: O(rows), and the bytes of those that leave. Errors: `Invalid`, `Io`.
    pub fn write_moved(
        &self,
        dir: &Path,
        ranges: &[MovedRange],
        syncing: Syncing,
    ) -> Result<SnapshotSummary, Error> {
        self.write_rows(&Moved { rows: &self.rows, ranges }, dir, syncing)
    }

    /// Id and version of every row of this moment that leaves. Cost: O(rows); segments are read.
    /// Errors: `Corrupt`, `Io`, if one cannot be.
    pub fn leaving(&self, ranges: &[MovedRange]) -> Result<Vec<(u64, u64)>, Error> {
        let mut leaving = Vec::new();
        self.rows.for_each_row(&mut |key, _| {
            if range_of(ranges, &key).is_some() {
                leaving.push((key.id, key.version));
            }
        })?;
        Ok(leaving)
    }
}

impl Engine {
    /// Id and version of every living row that leaves; see [`PinnedSnapshot::leaving`].
    pub fn leaving(&self, ranges: &[MovedRange]) -> Result<Vec<(u64, u64)>, Error> {
        self.pin().leaving(ranges)
    }
}
