//! Finds an id among the segments, as the writer sees them.

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
