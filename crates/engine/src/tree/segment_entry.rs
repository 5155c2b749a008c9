//! The manifest's entry of a segment.

use xxhash_rust::xxh3::xxh3_64;

/// A segment of a durable engine, as the manifest lists it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentEntry {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    pub(crate) rows: u64,
    /// Digest of all its rows, deleted ones included.
    pub(crate) digest: u128,
    /// Number of its delete bitmap file; 0 if no row is deleted.
    pub(crate) tombstones: u64,
    /// Deleted rows.
    pub(crate) deleted: u64,
}

impl SegmentEntry {
    /// A number that no other segment ever had. It exposes blocks of another segment.
    pub(crate) fn identity(&self, collection: u64) -> u64 {
        let mut bytes = [0u8; 16];
        bytes[..8].copy_from_slice(&collection.to_le_bytes());
        bytes[8..].copy_from_slice(&self.number.to_le_bytes());
        xxh3_64(&bytes)
    }
}
