//! Which segments are merged, and which are dropped: a pure function of their sizes.
//!
//! 1. Segments without a living row are dropped: nothing is read, nothing is written.
//! 2. Where rows end in any order, a segment of which most rows are gone is written anew, and four
//!    of one size class are merged; a class is four times as large as the one below. So a row is
//!    written once per class: log4 of how much larger the collection is than memory.
//! 3. Where rows end oldest first, neighbours in age alone are merged: `age.rs`.

mod age;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::settings::DeleteOrder;
use crate::tree::{LiveSegment, Tree};
use vstream_segment::rows_max;

/// Segments of a class that are merged together at least.
const TOGETHER: usize = 4;
/// Segments that are merged together at most.
const TOGETHER_MAX: usize = 8;
/// Rows below which sizes are not told apart.
const ROWS_MIN: u64 = 1024;

/// What is merged, or dropped.
pub(crate) struct Plan {
    pub(super) sources: Vec<Arc<LiveSegment>>,
    /// Rows that died at or before this sequence are left out.
    pub(super) since: u64,
    /// None of their rows lived then.
    pub(crate) is_drop: bool,
}

/// What the planner knows of a segment.
#[derive(Clone, Copy, Debug)]
struct Size {
    rows: u64,
    dead: u64,
}

impl Size {
    fn live_rows(&self) -> u64 {
        self.rows - self.dead
    }

    fn class(&self) -> u32 {
        (self.live_rows().max(ROWS_MIN) / ROWS_MIN).ilog(4)
    }

    fn is_worn(&self) -> bool {
        self.dead * 2 > self.rows
    }
}

impl Plan {
    /// What is to be merged or dropped, if anything.
    ///
    /// * `since`: sequence up to which tombstones are published.
    /// * `is_free`: whether the segment of a number may be taken; others are being merged, or
    ///   cannot be read.
    pub(crate) fn of(tree: &Tree, since: u64, is_free: &dyn Fn(u64) -> bool) -> Option<Plan> {
        let view = tree.view();
        // Only tombstones that are published count: others would be found dead again and again.
        let dead = |live: &Arc<LiveSegment>| live.delete_bitmap(since).1;
        let is_gone =
            |live: &&Arc<LiveSegment>| live.live_rows() == 0 && dead(live) == live.segment.rows();
        let is_gone = |live: &&Arc<LiveSegment>| is_free(live.number) && is_gone(live);
        let gone: Vec<Arc<LiveSegment>> = view.segments.iter().filter(is_gone).cloned().collect();
        if !gone.is_empty() {
            return Some(Plan { sources: gone, since, is_drop: true });
        }
        let size = |live: &Arc<LiveSegment>| {
            let (rows, dead) = (live.segment.rows(), live.tombstones.count());
            Size { rows, dead }
        };
        let sizes: Vec<Size> = view.segments.iter().map(size).collect();
        let free = |at: usize| is_free(view.segments[at].number);
        let rows_max = rows_max(tree.settings().dimension);
        let chosen = choose(&sizes, &free, tree.settings().deletes, rows_max);
        let sources = chosen.into_iter().map(|at| view.segments[at].clone()).collect::<Vec<_>>();
        let shrinks = |live: &Arc<LiveSegment>| dead(live) * 2 >= live.segment.rows();
        let pays = sources.len() > 1 || sources.first().is_some_and(shrinks);
        pays.then_some(Plan { sources, since, is_drop: false })
    }

    /// Numbers of the segments that it takes.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.sources.iter().map(|live| live.number)
    }
}

/// Positions of the free segments to be merged; none if it does not pay.
///
/// * `rows_max`: rows that one segment may hold.
fn choose(
    sizes: &[Size],
    is_free: &dyn Fn(usize) -> bool,
    order: DeleteOrder,
    rows_max: u64,
) -> Vec<usize> {
    let positions: Vec<usize> = (0..sizes.len()).collect();
    // Under an order neighbours alone are merged, and those beside one that is not free are none.
    let groups: Vec<Vec<usize>> = match order {
        DeleteOrder::Any => vec![positions.into_iter().filter(|&at| is_free(at)).collect()],
        DeleteOrder::OldestFirst => {
            positions.split(|&at| !is_free(at)).map(<[usize]>::to_vec).collect()
        }
    };
    for group in groups {
        let sizes: Vec<Size> = group.iter().map(|&at| sizes[at]).collect();
        let chosen = match order {
            DeleteOrder::Any => by_size(&sizes, rows_max),
            DeleteOrder::OldestFirst => fitting(&sizes, age::oldest_first(&sizes), rows_max),
        };
        if !chosen.is_empty() {
            return chosen.into_iter().map(|at| group[at]).collect();
        }
    }
    Vec::new()
}

/// The first of `chosen` that fit into one segment; none if that is one of several.
fn fitting(sizes: &[Size], mut chosen: Vec<usize>, rows_max: u64) -> Vec<usize> {
    let before = chosen.len();
    let mut rows = 0;
    let fit = chosen.iter().take_while(|&&at| {
        rows += sizes[at].live_rows();
        rows <= rows_max
    });
    chosen.truncate(fit.count());
    if chosen.len() == 1 && before > 1 {
        chosen.clear();
    }
    chosen
}

/// Positions of the segments to be merged; none if it does not pay.
fn by_size(sizes: &[Size], rows_max: u64) -> Vec<usize> {
    if let Some(worn) = sizes.iter().position(Size::is_worn) {
        return vec![worn];
    }
    for wanted in classes(sizes) {
        let members = (0..sizes.len()).filter(|&at| sizes[at].class() == wanted);
        let members: Vec<usize> = members.take(TOGETHER_MAX).collect();
        if members.len() >= TOGETHER {
            let members = fitting(sizes, members, rows_max);
            if !members.is_empty() {
                return members;
            }
        }
    }
    Vec::new()
}

/// The classes of some segments, the smallest first.
fn classes(sizes: &[Size]) -> Vec<u32> {
    let mut classes: Vec<u32> = sizes.iter().map(Size::class).collect();
    classes.sort_unstable();
    classes.dedup();
    classes
}
