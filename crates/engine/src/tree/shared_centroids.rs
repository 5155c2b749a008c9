//! Centroids of leaves that several segments have runs of, held once.
//!
//! A run of few rows would else take more bytes for its centroid than for its codes: 1,536 bytes at as many
//! dimensions, beside 16 codes of 196.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use vstream_segment::{Segment, SegmentKind};

/// Entries below which none is looked for that nobody holds any more.
const ENTRIES_MIN: usize = 1 << 12;

/// The centroids that open segments hold, by the numbers of their leaves.
#[derive(Default)]
pub(super) struct SharedCentroids(Mutex<Held>);

#[derive(Default)]
struct Held {
    all: HashMap<u64, Weak<[u8]>>,
    /// Entries above which those that nobody holds are removed.
    most: usize,
}

impl SharedCentroids {
    /// Lets a segment hold the centroids that others hold already, and notes its own.
    ///
    /// Cost: O(leaves), and now and then O(entries).
    pub(super) fn share(&self, segment: &mut Segment) {
        if segment.kind() != SegmentKind::Cluster {
            return;
        }
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = &mut held.all;
        segment.share_centroids(&mut |number, own| {
            let known = all.entry(number).or_insert_with(|| Arc::downgrade(own));
            let other = known.upgrade();
            if other.is_none() {
                *known = Arc::downgrade(own);
            }
            other
        });
        if held.all.len() > held.most.max(ENTRIES_MIN) {
            held.all.retain(|_, of| of.strong_count() > 0);
            held.most = 2 * held.all.len();
        }
    }
}

#[cfg(test)]
mod tests;
