//! Finds an id among the segments, as the writer sees them.

use std::collections::HashMap;
use std::sync::Arc;

use super::LiveSegment;

/// Id tables whose memory is waited for together: a core has room for some ten such reads.
const TOGETHER: usize = 16;

/// The newest segment with a live row of an id, and that row.
///
/// Cost: two reads of memory per segment, seldom in the cache. One after the other a look-up takes some
/// 100 ns in each segment of a large collection, and has a hundred of them to look at; so they are begun
/// together.
pub(super) fn find_live(segments: &[Arc<LiveSegment>], id: u64) -> Option<(usize, u32)> {
    let mut buckets = [0; TOGETHER];
    let mut end = segments.len();
    // Newer segments first: most rows that are written again are recent.
    while end > 0 {
        let first = end.saturating_sub(TOGETHER);
        let group = &segments[first..end];
        for (bucket, live) in buckets.iter_mut().zip(group) {
            *bucket = live.ids.approach(id);
        }
        for (&bucket, live) in buckets.iter().zip(group) {
            live.ids.prefetch(bucket);
        }
        for at in (first..end).rev() {
            if let Some(row) = segments[at].find_in(buckets[at - first], id) {
                return Some((at, row));
            }
        }
        end = first;
    }
    None
}

/// Where rows of segments were when they were looked up together, for writes that follow.
#[derive(Default)]
pub(super) struct Foreseen {
    /// By id: the number of the segment, its position, and the row there.
    rows: HashMap<u64, (u64, usize, u32)>,
}

impl Foreseen {
    /// Looks ids up in each segment in turn, whose table stays in the processor's cache meanwhile. What was
    /// foreseen before is forgotten.
    pub(super) fn look_up(&mut self, segments: &[Arc<LiveSegment>], mut ids: Vec<u64>) {
        self.rows.clear();
        let (mut buckets, mut found) = ([0; TOGETHER], Vec::new());
        for (at, live) in segments.iter().enumerate().rev() {
            for (chunk, ids) in ids.chunks(TOGETHER).enumerate() {
                for (bucket, &id) in buckets.iter_mut().zip(ids) {
                    *bucket = live.ids.approach(id);
                }
                for &bucket in &buckets[..ids.len()] {
                    live.ids.prefetch(bucket);
                }
                for (place, (&bucket, &id)) in buckets.iter().zip(ids).enumerate() {
                    if let Some(row) = live.find_in(bucket, id) {
                        self.rows.insert(id, (live.number, at, row));
                        found.push(chunk * TOGETHER + place);
                    }
                }
            }
            // From the last on, so that none that is left has moved.
            for place in found.drain(..).rev() {
                ids.swap_remove(place);
            }
        }
    }

    /// The row of an id, if it was foreseen and is still there.
    pub(super) fn find(&self, segments: &[Arc<LiveSegment>], id: u64) -> Option<(usize, u32)> {
        if self.rows.is_empty() {
            return None;
        }
        let &(number, at, row) = self.rows.get(&id)?;
        // A row of an id lives in one place, and a number is of one file.
        let live = segments.get(at).filter(|live| live.number == number)?;
        live.is_live(row).then_some((at, row))
    }
}
