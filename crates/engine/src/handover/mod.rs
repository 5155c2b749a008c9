//! Rows that change partition while both partitions go on: `docs/design/handover.md`.
//!
//! The old owner *seals*: [`PinnedSnapshot::write_moved`] writes the rows of the ranges that leave, as
//! a snapshot, already with the shards that they will have. The new owner *adopts* it
//! ([`Adoption`]), held to what it has heard since ([`Awaiting`]). At last the old owner *releases*:
//! [`Engine::leaving`] names its rows, which it then deletes.

mod adopt;
mod seal;

#[cfg(test)]
mod tests;

pub use adopt::{Adoption, Awaiting};

use vstream_index::RowKey;

/// A range of codes that goes from one shard to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedRange {
    /// First code of the range.
    pub first: u64,
    /// Last code of the range, included.
    pub last: u64,
    /// Shard that its rows have before.
    pub from: u16,
    /// Shard that they have afterwards.
    pub to: u16,
}

/// The range that takes a row away, if one does. `ranges` are ascending and do not overlap.
fn range_of<'a>(ranges: &'a [MovedRange], key: &RowKey) -> Option<&'a MovedRange> {
    let after = ranges.partition_point(|range| range.first <= key.code);
    let range = ranges[..after].last()?;
    (key.code <= range.last && key.shard == range.from).then_some(range)
}
