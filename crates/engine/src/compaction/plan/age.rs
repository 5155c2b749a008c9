//! Which segments are merged where rows end oldest first, as under a time to live.
//!
//! Segments are in the order in which their rows came. The clock is that order: no row carries a
//! time, and none is needed. A *span* is an eighth of the rows that live. Under a time to live they
//! came during it, so a span came in about an eighth of it, and ends in as long, whether the stream
//! ran fast or slow, or is read again after a failure.
//!
//! 1. Four to eight neighbours are merged if together they are at most a span, and three times as
//!    many as the largest of them: so a row is written log3 of a span over memory times at most, not
//!    of the collection, and a segment that is complete is not touched again until it is dropped.
//! 2. In the oldest span, segments of which a quarter is gone *wait*: the rest will follow soon, and
//!    to write it anew would be in vain. If rows stay in them after all, so that more than two spans
//!    of rows that are gone wait too, they are merged.
//! 3. Elsewhere a segment of which most rows are gone, because they were replaced or deleted early,
//!    is written anew.
//! 4. Beyond 64 segments the four neighbours with the fewest rows are merged, whatever they are.

use std::ops::Range;

use super::{Size, ROWS_MIN, TOGETHER, TOGETHER_MAX};

/// Spans of a collection: segments are at most so large, and so much of it waits for its end.
const SPANS: u64 = 8;
/// Spans of rows that are gone and may wait for those beside them.
const WAITING_MAX: u64 = 2;
/// A merged segment is so many times as large as any that it was made of.
const GROWTH: u64 = 3;
/// More are merged whatever it costs: each is looked at by every query.
pub(super) const SEGMENTS_MAX: usize = 64;

/// Positions of the segments to be merged; none if it does not pay.
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

/// How many of the oldest segments have a span of living rows together at most.
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

/// The smallest neighbours that are worth being merged, and as many of them as there are.
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
