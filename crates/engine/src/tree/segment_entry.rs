//! A segment, as the manifest names it.

use xxhash_rust::xxh3::xxh3_64;

/// A segment of a durable engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentEntry {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    pub(crate) rows: u64,
    /// Of all its rows, gone or not.
    pub(crate) digest: u128,
    /// Number of the file that says which rows are gone; 0 if none is.
    pub(crate) tombstones: u64,
    /// Rows that are gone.
    pub(crate) deleted: u64,
}

impl SegmentEntry {
    /// What no other segment ever had: blocks of another are noticed by it.
    pub(crate) fn identity(&self, collection: u64) -> u64 {
        let mut bytes = [0u8; 16];
        bytes[..8].copy_from_slice(&collection.to_le_bytes());
        bytes[8..].copy_from_slice(&self.number.to_le_bytes());
        xxh3_64(&bytes)
    }
}
