//! Chooses what to merge or to drop: a pure function of sizes.
//!
//! 1. Segments without a live row are dropped: nothing is read, nothing is written.
//! 2. Segments with leaves are merged by ranges of leaves (`ranges.rs`), so that a merge is bounded
//!    whatever the size of the collection.
//! 3. Flat segments and graphs are merged whole. A segment with more than half of its rows deleted is
//!    rewritten, and four segments of one size class are merged. A class is four times as large as the
//!    one below. So a row is written once per class: log4(collection / memory) times.
//! 4. Of `segments: graph`, a merge writes a graph if no segment that it leaves is of a larger size class
//!    than the merged one. So every row is in a graph in the end, and a graph is not built for rows that
//!    the next merges move again. A merge with a graph writes a graph, whatever its size.
//! 5. Where rows end oldest first, only neighbours in age are merged: `age.rs`.

mod age;
mod ranges;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use super::part::Part;
use crate::settings::{DeleteOrder, SegmentIndex};
use crate::tree::{LiveSegment, Tree};
use vstream_segment::rows_max;

/// Least segments of a class in one merge.
const TOGETHER: usize = 4;
/// Most segments in one merge.
const TOGETHER_MAX: usize = 8;
/// Segments with fewer rows than this are all in the smallest class.
const ROWS_MIN: u64 = 1024;

/// A base has at most so large a part of all rows, and no fewer than [`RANGE_ROWS_MIN`]: so what is written
/// between two checkpoints is a small part of the collection.
const RANGES: u64 = 64;
const RANGE_ROWS_MIN: u64 = 32_768;

/// Most rows of a graph: it is built in some five minutes on one thread, from rows in memory.
const GRAPH_ROWS_MAX: u64 = 1 << 20;
/// Most bytes of the vectors of a graph.
const GRAPH_BYTES_MAX: u64 = 1 << 30;

/// How a merge makes leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing is written: no row of the parts lives.
    Drop,
    /// Whole segments become one, which has leaves.
    Whole,
    /// Whole segments become a graph.
    Graph,
    /// Segments with runs of leaves that others define become one of the same kind.
    Deltas,
    /// The first part defines the leaves of a range, and all rows of the range get new ones.
    Range,
}

/// What to merge or to drop.
pub(crate) struct Plan {
    pub(super) parts: Vec<Part>,
    /// The merge leaves out rows deleted at or before this sequence.
    pub(super) since: u64,
    pub(crate) kind: Kind,
    /// Most rows of a segment of a range.
    pub(super) rows_max: u64,
}

/// Which segments a plan may take.
pub(super) struct Free<'a> {
    /// False for the number of a segment that is being merged or cannot be read.
    pub(super) is_free: &'a dyn Fn(u64) -> bool,
    /// Leaves of a segment that are being merged.
    pub(super) claimed: &'a dyn Fn(u64) -> Vec<u32>,
    /// What earlier plans found.
    pub(super) homes: &'a RefCell<Homes>,
    pub(super) occasion: Occasion,
}

/// Why a merge is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// Segments came: merges keep pace with them, and a row is written few times.
    Flushed,
    /// The owner asks for it, and wants queries to be as fast as they can be.
    Asked,
}

/// Numbers of leaves that no base defines, each with the number of the base that has the leaf nearest to it:
/// finding it costs a look at every leaf.
pub(super) type Homes = HashMap<u64, u64>;

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
    /// What to merge or drop next, if anything.
    ///
    /// * `since`: sequence up to which tombstones are published.
    pub(super) fn of(tree: &Tree, since: u64, free: &Free<'_>) -> Option<Plan> {
        let view = tree.view();
        // Only published tombstones count: a merge keeps the other deleted rows, so it would be
        // planned over and over.
        let dead = |live: &Arc<LiveSegment>| live.delete_bitmap(since).1;
        let is_free = |number: u64| (free.is_free)(number) && (free.claimed)(number).is_empty();
        let is_gone =
            |live: &&Arc<LiveSegment>| live.live_rows() == 0 && dead(live) == live.segment.rows();
        let is_gone = |live: &&Arc<LiveSegment>| is_free(live.number) && is_gone(live);
        let gone: Vec<Part> =
            view.segments.iter().filter(is_gone).cloned().map(Part::whole).collect();
        let rows: u64 = view.segments.iter().map(|live| live.live_rows()).sum();
        let rows_max = (rows / RANGES).max(RANGE_ROWS_MIN).min(tree.settings().segment_rows());
        if !gone.is_empty() {
            return Some(Plan { parts: gone, since, kind: Kind::Drop, rows_max });
        }
        if tree.settings().merges_ranges() {
            return ranges::plan(&view, free, rows_max, since);
        }
        let size = |live: &Arc<LiveSegment>| {
            let (rows, dead) = (live.segment.rows(), live.tombstones.count());
            Size { rows, dead }
        };
        let sizes: Vec<Size> = view.segments.iter().map(size).collect();
        let is_free = |at: usize| is_free(view.segments[at].number);
        let has_graphs = tree.settings().segments == SegmentIndex::Graph;
        let chosen = choose(&sizes, &is_free, tree.settings().deletes, most_rows(tree));
        let is_graph = has_graphs && is_largest(&sizes, &chosen);
        let sources = chosen.into_iter().map(|at| view.segments[at].clone()).collect::<Vec<_>>();
        // A graph holds no fields. It has leaves again only where it meets rows that have some.
        let is_one = |live: &Arc<LiveSegment>| live.segment.graph().is_some();
        let has_fields = sources.iter().any(|live| live.segment.has_fields());
        let is_graph = (is_graph || sources.iter().any(is_one)) && !has_fields;
        let shrinks = |live: &Arc<LiveSegment>| dead(live) * 2 >= live.segment.rows();
        let pays = sources.len() > 1 || sources.first().is_some_and(shrinks);
        let kind = if is_graph { Kind::Graph } else { Kind::Whole };
        let parts = sources.into_iter().map(Part::whole).collect();
        pays.then_some(Plan { parts, since, kind, rows_max })
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
/// * `rows_max`: most rows of one segment.
fn choose(
    sizes: &[Size],
    is_free: &dyn Fn(usize) -> bool,
    order: DeleteOrder,
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

/// Positions of the segments to merge; none if a merge does not pay.
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

/// The size classes of some segments, the smallest first.
fn classes(sizes: &[Size]) -> Vec<u32> {
    let mut classes: Vec<u32> = sizes.iter().map(Size::class).collect();
    classes.sort_unstable();
    classes.dedup();
    classes
}
