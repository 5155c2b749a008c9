//! The manifest's entry of a segment.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::Served;

/// Numbers of leaves that each file of a collection has to itself: more than a segment can have leaves.
const LEAVES_PER_FILE: u64 = 1 << 26;
/// Numbers of files stay below this, so that their leaves have numbers of their own.
pub(crate) const FILES_MAX: u64 = u64::MAX / LEAVES_PER_FILE + 1;

/// The number of the file that defines a leaf.
pub(crate) fn definer(leaf: u64) -> u64 {
    leaf / LEAVES_PER_FILE
}

/// A segment of a durable engine, as the manifest lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// The leaves that it still serves.
    pub(crate) served: Served,
    /// Where its file was written, if not for this collection.
    pub(crate) origin: Option<Arc<Origin>>,
}

/// The collection and the number under which the file of a segment was written. Its blocks hold both,
/// and its leaves have the numbers of that collection. So the file is taken over as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) collection: u64,
    pub(crate) number: u64,
    /// Numbers of the files that defined its leaves there, and the numbers that stand for them here;
    /// ascending.
    pub(crate) definers: Vec<(u64, u64)>,
}

impl Origin {
    /// The number of a leaf here; `None` if no file is known that defined it there.
    pub(crate) fn leaf(&self, there: u64) -> Option<u64> {
        let at = self.definers.binary_search_by_key(&definer(there), |&(from, _)| from).ok()?;
        Some(self.definers[at].1 * LEAVES_PER_FILE + there % LEAVES_PER_FILE)
    }
}

impl SegmentEntry {
    /// A number that no other segment ever had. It exposes blocks of another segment.
    pub(crate) fn identity(&self, collection: u64) -> u64 {
        let here = (collection, self.number);
        let written = self.origin.as_ref().map(|origin| (origin.collection, origin.number));
        let (collection, number) = written.unwrap_or(here);
        let mut bytes = [0u8; 16];
        bytes[..8].copy_from_slice(&collection.to_le_bytes());
        bytes[8..].copy_from_slice(&number.to_le_bytes());
        xxh3_64(&bytes)
    }

    /// Number of the first leaf that this segment defines; the others follow. No number of a file is
    /// used twice, so neither is the number of a leaf, and who writes segments need not agree on
    /// numbers with anybody.
    pub(crate) fn first_leaf(&self) -> u64 {
        self.number.wrapping_mul(LEAVES_PER_FILE)
    }
}
