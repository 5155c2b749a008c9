//! Centroids of leaves that several segments have runs of, held once.
//!
//! A run of few rows would else take more bytes for its centroid than for its codes: 1,536 bytes at as many
//! dimensions, beside 16 codes of 196.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use vstream_segment::{Segment, SegmentKind, StoredCentroid};

/// Entries that nobody holds any more are removed once leaves as many as this part of all entries came: until then
/// some bytes of each stay.
const SWEEP_PART: usize = 8;

/// The centroids that open segments hold, by the numbers of their leaves.
#[derive(Default)]
pub(super) struct SharedCentroids(Mutex<Held>);

#[derive(Default)]
struct Held {
    all: HashMap<u64, Weak<StoredCentroid>>,
    /// Leaves that came since entries were removed.
    came: usize,
}

impl SharedCentroids {
    /// Lets a segment hold the centroids that others hold already, and notes its own.
    ///
    /// Cost: O(leaves), and O(entries) now and then.
    pub(super) fn share(&self, segment: &mut Segment) {
        if segment.kind() != SegmentKind::Cluster {
            return;
        }
        let mut held = self.lock();
        held.came += segment.leaves();
        if held.came * SWEEP_PART >= held.all.len() {
            held.came = 0;
            held.all.retain(|_, of| of.strong_count() > 0);
        }
        segment.share_centroids(&mut |number, own| {
            let known = held.all.entry(number).or_insert_with(|| Arc::downgrade(own));
            let other = known.upgrade();
            if other.is_none() {
                *known = Arc::downgrade(own);
            }
            other
        });
    }

    /// Bytes of memory for the centroids, of `padded` coordinates each, and for finding them.
    pub(super) fn memory_bytes(&self, padded: usize) -> u64 {
        let held = self.lock();
        let entry = size_of::<(u64, Weak<StoredCentroid>)>() + 1;
        let one = StoredCentroid::memory_bytes_of(padded);
        (held.all.len() * one + held.all.capacity() * entry) as u64
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
