//! Chooses segments to merge or to drop: a pure function of their sizes.
//!
//! 1. Segments without a live row are dropped: nothing is read, nothing is written.
//! 2. Where rows end in any order, a segment with more than half of its rows deleted is rewritten,
//!    and four segments of one size class are merged. A class is four times as large as the one
//!    below. So a row is written once per class: log4(collection / memory) times.
//!    The largest segment, which defines most leaves, is merged with all others as soon as these hold as
//!    many rows: so leaves have at most twice the rows that they had when they were made. That writes a
//!    row twice more.
//! 3. Of `segments: graph`, a merge writes a graph if no segment that it leaves is of a larger size class
//!    than the merged one. So every row is in a graph in the end, and a graph is not built for rows that
//!    the next merges move again. A merge with a graph writes a graph, whatever its size.
//! 4. Where rows end oldest first, only neighbours in age are merged: `age.rs`.

mod age;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::settings::{DeleteOrder, SegmentIndex};
use crate::tree::{LiveSegment, Tree};
use vstream_segment::rows_max;

/// Least segments of a class in one merge.
const TOGETHER: usize = 4;
/// Most segments in one merge.
const TOGETHER_MAX: usize = 8;
/// Segments with fewer rows than this are all in the smallest class.
const ROWS_MIN: u64 = 1024;

/// Most rows of a graph: it is built in some five minutes on one thread, from rows in memory.
const GRAPH_ROWS_MAX: u64 = 1 << 20;
/// Most bytes of the vectors of a graph.
const GRAPH_BYTES_MAX: u64 = 1 << 30;

/// Segments to merge or to drop.
pub(crate) struct Plan {
    pub(super) sources: Vec<Arc<LiveSegment>>,
    /// The merge leaves out rows deleted at or before this sequence.
    pub(super) since: u64,
    /// True if no row of the sources lived then: they are dropped.
    pub(crate) is_drop: bool,
    /// True if the merge writes a graph.
    pub(super) is_graph: bool,
}

/// Row counts of a segment, for the planner.
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
    /// The next segments to merge or drop, if any.
    ///
    /// * `since`: sequence up to which tombstones are published.
    /// * `is_free`: false for the number of a segment that is being merged or cannot be read.
    pub(crate) fn of(tree: &Tree, since: u64, is_free: &dyn Fn(u64) -> bool) -> Option<Plan> {
        let view = tree.view();
        // Only published tombstones count: a merge keeps the other deleted rows, so it would be
        // planned over and over.
        let dead = |live: &Arc<LiveSegment>| live.delete_bitmap(since).1;
        let is_gone =
            |live: &&Arc<LiveSegment>| live.live_rows() == 0 && dead(live) == live.segment.rows();
        let is_gone = |live: &&Arc<LiveSegment>| is_free(live.number) && is_gone(live);
        let gone: Vec<Arc<LiveSegment>> = view.segments.iter().filter(is_gone).cloned().collect();
        if !gone.is_empty() {
            return Some(Plan { sources: gone, since, is_drop: true, is_graph: false });
        }
        let size = |live: &Arc<LiveSegment>| {
            let (rows, dead) = (live.segment.rows(), live.tombstones.count());
            Size { rows, dead }
        };
        let sizes: Vec<Size> = view.segments.iter().map(size).collect();
        let free = |at: usize| is_free(view.segments[at].number);
        let rows_max = most_rows(tree);
        let has_graphs = tree.settings().segments == SegmentIndex::Graph;
        let chosen = choose(&sizes, &free, (tree.settings().deletes, !has_graphs), rows_max);
        let is_graph = has_graphs && is_largest(&sizes, &chosen);
        let sources = chosen.into_iter().map(|at| view.segments[at].clone()).collect::<Vec<_>>();
        // A graph holds no fields. It has leaves again only where it meets rows that have some.
        let is_one = |live: &Arc<LiveSegment>| live.segment.graph().is_some();
        let has_fields = sources.iter().any(|live| live.segment.has_fields());
        let is_graph = (is_graph || sources.iter().any(is_one)) && !has_fields;
        let shrinks = |live: &Arc<LiveSegment>| dead(live) * 2 >= live.segment.rows();
        let pays = sources.len() > 1 || sources.first().is_some_and(shrinks);
        pays.then_some(Plan { sources, since, is_drop: false, is_graph })
    }

    /// Numbers of the source segments.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.sources.iter().map(|live| live.number)
    }
}

/// Most rows of one segment.
fn most_rows(tree: &Tree) -> u64 {
    let index = tree.settings().index_settings();
    let most = rows_max(index.dimension);
    if tree.settings().segments == SegmentIndex::Clusters {
        return most;
    }
    let bytes = (index.dimension * index.element.bytes()) as u64;
    most.min(GRAPH_ROWS_MAX).min(GRAPH_BYTES_MAX / bytes)
}

/// True if no other segment is of a larger class than the one that some segments become.
fn is_largest(sizes: &[Size], chosen: &[usize]) -> bool {
    let merged = Size { rows: chosen.iter().map(|&at| sizes[at].live_rows()).sum(), dead: 0 };
    let others = (0..sizes.len()).filter(|at| !chosen.contains(at));
    others.map(|at| sizes[at].class()).max().is_none_or(|class| class <= merged.class())
}

/// Positions of the free segments to merge; none if a merge does not pay.
///
/// * `has_base`: whether the largest segment defines leaves for the others.
/// * `rows_max`: most rows of one segment.
fn choose(
    sizes: &[Size],
    is_free: &dyn Fn(usize) -> bool,
    (order, has_base): (DeleteOrder, bool),
    rows_max: u64,
) -> Vec<usize> {
    let positions: Vec<usize> = (0..sizes.len()).collect();
    // Under an order, only neighbours are merged, and segments on the two sides of one that is not
    // free are not neighbours.
    let groups: Vec<Vec<usize>> = match order {
        DeleteOrder::Any => vec![positions.into_iter().filter(|&at| is_free(at)).collect()],
        DeleteOrder::OldestFirst => {
            positions.split(|&at| !is_free(at)).map(<[usize]>::to_vec).collect()
        }
    };
    let base = largest(sizes).filter(|_| has_base);
    for group in groups {
        let base = base.and_then(|base| group.iter().position(|&at| at == base));
        let sizes: Vec<Size> = group.iter().map(|&at| sizes[at]).collect();
        let chosen = match order {
            DeleteOrder::Any => by_size(&sizes, base, rows_max),
            DeleteOrder::OldestFirst => fitting(&sizes, age::oldest_first(&sizes), rows_max),
        };
        if !chosen.is_empty() {
            return chosen.into_iter().map(|at| group[at]).collect();
        }
    }
    Vec::new()
}

/// The first of `chosen` that together fit into one segment; none if only one of several fits.
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

/// Position of the segment with most live rows.
fn largest(sizes: &[Size]) -> Option<usize> {
    (0..sizes.len()).max_by_key(|&at| sizes[at].live_rows())
}

/// Positions of the segments to merge; none if a merge does not pay.
///
/// * `base`: the largest of all segments, if it is free and defines leaves for the others.
fn by_size(sizes: &[Size], base: Option<usize>, rows_max: u64) -> Vec<usize> {
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
    let Some(base) = base.filter(|&base| sizes[base].class() > 0) else { return Vec::new() };
    let others = || (0..sizes.len()).filter(|&at| at != base);
    let rows: u64 = others().map(|at| sizes[at].live_rows()).sum();
    if rows < sizes[base].live_rows() || rows + sizes[base].live_rows() > rows_max {
        return Vec::new();
    }
    (0..sizes.len()).collect()
}

/// The size classes of some segments, the smallest first.
fn classes(sizes: &[Size]) -> Vec<u32> {
    let mut classes: Vec<u32> = sizes.iter().map(Size::class).collect();
    classes.sort_unstable();
    classes.dedup();
    classes
}
