//! Moves rows to another partition while both partitions continue: `docs/design/handover.md`.
//!
//! The old owner *seals*: [`PinnedSnapshot::write_moved`] writes the rows of the moved ranges as a
//! snapshot, with the shards that they will have. The new owner *adopts* this snapshot
//! ([`Adoption`]), except rows that it has newer and rows whose delete it remembers ([`Awaiting`]).
//! Last, the old owner *releases*: [`Engine::leaving`] lists the moved rows, and the old owner
//! deletes them.

mod adopt;
mod seal;

#[cfg(test)]
mod tests;

pub use adopt::{Adoption, Awaiting};

use vstream_index::RowKey;

/// A range of routing codes that moves from one shard to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedRange {
    /// First code of the range.
    pub first: u64,
    /// Last code of the range, inclusive.
    pub last: u64,
    /// Shard of its rows before the move.
    pub from: u16,
    /// Shard of its rows after the move.
    pub to: u16,
}

/// Returns the range that moves this row, if one does. `ranges` are ascending and do not overlap.
fn range_of<'a>(ranges: &'a [MovedRange], key: &RowKey) -> Option<&'a MovedRange> {
    let after = ranges.partition_point(|range| range.first <= key.code);
    let range = ranges[..after].last()?;
    (key.code <= range.last && key.shard == range.from).then_some(range)
}
