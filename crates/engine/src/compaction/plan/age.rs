//! Chooses segments to merge where rows end oldest first, as under a time to live.
//!
//! Segments are in the order in which their rows came. This order is the clock: no row carries a
//! time. A *span* is an eighth of the live rows. Under a time to live, the live rows came during
//! it. So a span came in about an eighth of that time and ends in as long, whether the stream ran
//! fast or slow, or is replayed after a failure.
//!
//! 1. Four to eight neighbours are merged if together they have at most a span of rows, and at
//!    least three times as many as the largest of them. So a row is written at most log3(span /
//!    memory) times, not log3(collection / memory) times. A segment of full size is not touched
//!    again until it is dropped.
//! 2. In the oldest span, segments with a quarter of their rows deleted *wait*: their other rows
//!    will end soon, so a rewrite would be in vain. If rows stay after all, and more than two spans
//!    of deleted rows wait, the oldest segments are merged.
//! 3. Elsewhere a segment with more than half of its rows deleted is rewritten: its rows were
//!    replaced or deleted early.
//! 4. Above 64 segments, the four neighbours with the fewest rows are merged, whatever their sizes.

use std::ops::Range;

use super::{Size, ROWS_MIN, TOGETHER, TOGETHER_MAX};

/// Spans in a collection. One span is the most rows that a merge writes by size, and the part of
/// the collection that may wait for its end.
const SPANS: u64 = 8;
/// Spans of deleted rows that may wait in the oldest segments.
const WAITING_MAX: u64 = 2;
/// Least ratio of a merged segment's rows to those of its largest source.
const GROWTH: u64 = 3;
/// Segments above which a merge is due at any cost: every query looks at each segment.
pub(super) const SEGMENTS_MAX: usize = 64;

/// Positions of the segments to merge; none if a merge does not pay.
///
/// * `sizes`: in the order in which the rows came.
pub(super) fn oldest_first(sizes: &[Size]) -> Vec<usize> {
    let span = (sizes.iter().map(Size::live_rows).sum::<u64>() / SPANS).max(ROWS_MIN);
    let ending = ending(sizes, span);
    let waits = |at: usize| at < ending && sizes[at].dead * 4 >= sizes[at].rows;
    let waiting: u64 = (0..ending).filter(|&at| waits(at)).map(|at| sizes[at].dead).sum();
    if waiting > WAITING_MAX * span {
        return (0..ending.min(TOGETHER_MAX)).collect();
    }
    if let Some(worn) = (0..sizes.len()).find(|&at| sizes[at].is_worn() && !waits(at)) {
        return vec![worn];
    }
    let found = neighbours(sizes, span, &waits);
    if !found.is_empty() {
        return found;
    }
    if sizes.len() > SEGMENTS_MAX {
        let rows = |&at: &usize| sizes[at..at + TOGETHER].iter().map(Size::live_rows).sum::<u64>();
        let least = (0..=sizes.len() - TOGETHER).min_by_key(rows).expect("more than four");
        return (least..least + TOGETHER).collect();
    }
    Vec::new()
}

/// Number of oldest segments that together have at most a span of live rows.
fn ending(sizes: &[Size], span: u64) -> usize {
    let mut live = 0;
    sizes
        .iter()
        .take_while(|size| {
            live += size.live_rows();
            live <= span
        })
        .count()
}

/// The neighbours worth merging whose largest segment is smallest; among equals, the longest run.
fn neighbours(sizes: &[Size], span: u64, waits: &dyn Fn(usize) -> bool) -> Vec<usize> {
    let mut best: Option<(u64, Range<usize>)> = None;
    for first in 0..sizes.len() {
        let (mut rows, mut largest) = (0, 0);
        for at in (first..sizes.len()).take(TOGETHER_MAX).take_while(|&at| !waits(at)) {
            rows += sizes[at].live_rows();
            largest = sizes[at].live_rows().max(largest);
            let count = at + 1 - first;
            if rows > span || count < TOGETHER || largest * GROWTH > rows {
                continue;
            }
            let is_better = best.as_ref().is_none_or(|(least, found)| {
                largest < *least || (largest == *least && count > found.len())
            });
            if is_better {
                best = Some((largest, first..at + 1));
            }
        }
    }
    best.map_or_else(Vec::new, |(_, found)| found.collect())
}
