//! Chooses what to merge of segments with leaves, where rows end in any order.
//!
//! 1. A segment that defines all its leaves is a *base*: it has a range of leaves near each other to
//!    itself. Any other is a *delta*, as flushes write it: runs of leaves of many bases, and some leaves
//!    of its own. The *share* of a base in a delta are the runs of its leaves, and the runs of other
//!    leaves that are nearest to one of its leaves.
//! 2. When its shares in all deltas have [`RATIO`] of the rows of a base, or a third of its rows are
//!    gone, base and shares are merged to a new base, or to two if it becomes too large. So a row is
//!    written some `1 + 1 / RATIO` times by such merges, each of which is bounded.
//! 3. Deltas are merged with each other, without their leaves being made anew, when there are more than
//!    [`DELTAS_MANY`]. So the runs of a leaf stay few. Where these are a small part of all rows, bases that are
//!    due wait for it: where merges do not keep pace, bases would always be due, and this is the merge that makes
//!    queries cheaper for the least work.
//! 4. A base of few rows is merged with the base nearest to it.
//! 5. Where the owner asks for merges, shares of [`RATIO_ASKED`] are enough, and deltas of which most rows
//!    are gone are rewritten: each leaf has few runs then.
//! 6. Bases that came from another collection are deltas: both would cover the same space.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::{Free, Homes, Kind, Occasion, Plan, TOGETHER, TOGETHER_MAX};
use crate::compaction::part::Part;
use crate::tree::{definer, LeafRanking, LiveSegment, View};
use vstream_segment::Segment;

/// A base is merged when its shares in deltas have so many of its rows.
const RATIO: f64 = 0.5;
/// The same where the owner asks for merges.
const RATIO_ASKED: f64 = 0.05;
/// Half the width of the band in which the ratio of a base lies: it is drawn by the number of its file,
/// because all bases get rows at the same time.
const SPREAD: f64 = 0.15;
/// Deltas above which they are merged with each other.
const DELTAS_MANY: usize = 8;
/// Deltas above which a base is merged though its shares are few.
const DELTAS_MOST: usize = 2 * DELTAS_MANY;
/// Deltas of a class in one merge have at most this part of all rows, or the rows of a base.
const DELTA_PART: u64 = 32;
/// The same for a merge that bases wait for. Where flushes are a larger part of the collection, bases come first: they
/// make the leaves new in which the rows of deltas lie.
const FIRST_PART: u64 = 8;
/// Bases with fewer rows than this part of a full one are merged with another.
const SMALL_PART: u64 = 8;

/// A segment, as the planner sees it.
#[derive(Clone, Debug, Default)]
pub(super) struct Shape {
    pub(super) rows: u64,
    pub(super) live: u64,
    /// Rows that a merge would leave out.
    pub(super) dead: u64,
    pub(super) is_base: bool,
    /// False if it is being merged or cannot be read.
    pub(super) is_free: bool,
    /// True if some of its leaves are being merged.
    pub(super) is_claimed: bool,
    /// Draws the ratio at which a base is merged.
    pub(super) number: u64,
    /// Rows that its free leaves have of each base, by the position of the base.
    pub(super) shares: BTreeMap<usize, u64>,
}

impl Shape {
    /// Shares of this part of the rows make a merge due.
    fn ratio(&self, occasion: Occasion) -> f64 {
        if occasion == Occasion::Asked {
            return RATIO_ASKED;
        }
        let drawn = vstream_vector::SplitMix(self.number).next() as f64 / u64::MAX as f64;
        RATIO - SPREAD + 2.0 * SPREAD * drawn
    }
}

/// What to merge, by positions of segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// Bases, with their shares in the deltas that are free. The first defines the leaves.
    Range(Vec<usize>),
    Deltas(Vec<usize>),
}

/// The next merge, if one pays.
pub(super) fn plan(view: &View, free: &Free<'_>, rows_max: u64, since: u64) -> Option<Plan> {
    let owners = Owners::of(view, free);
    let shapes = owners.shapes(free, since);
    let nearest = |base| owners.nearest_base(base, &shapes);
    let choice = choose(&shapes, rows_max, free.occasion, &nearest)?;
    let (kind, parts) = match choice {
        Choice::Deltas(chosen) => {
            let whole = |at: usize| Part::whole(view.segments[at].clone());
            (Kind::Deltas, chosen.into_iter().map(whole).collect())
        }
        Choice::Range(bases) => {
            let mut parts: Vec<Part> =
                bases.iter().map(|&at| Part::whole(view.segments[at].clone())).collect();
            let deltas = (0..shapes.len()).filter(|at| shapes[*at].is_free && !shapes[*at].is_base);
            for delta in deltas {
                let leaves = owners.leaves_of(delta, &bases);
                if !leaves.is_empty() {
                    parts.push(Part::of(view.segments[delta].clone(), leaves));
                }
            }
            (Kind::Range, parts)
        }
    };
    Some(Plan { parts, since, kind, rows_max })
}

/// The next merge.
///
/// * `nearest`: another base near a base.
pub(super) fn choose(
    shapes: &[Shape],
    rows_max: u64,
    occasion: Occasion,
    nearest: &dyn Fn(usize) -> Option<usize>,
) -> Option<Choice> {
    let free = |at: &usize| shapes[*at].is_free;
    let is_base = |at: &usize| shapes[*at].is_base && !shapes[*at].is_claimed;
    let bases: Vec<usize> = (0..shapes.len()).filter(is_base).filter(free).collect();
    let deltas: Vec<usize> =
        (0..shapes.len()).filter(|&at| !shapes[at].is_base).filter(free).collect();
    let share =
        |base: usize| -> u64 { deltas.iter().filter_map(|&at| shapes[at].shares.get(&base)).sum() };
    let ratio = |base: usize| share(base) as f64 / shapes[base].live.max(1) as f64;
    let is_worn = |base: &usize| shapes[*base].dead * 3 > shapes[*base].rows;
    if let Some(&worn) = bases.iter().find(|base| is_worn(base)) {
        return Some(Choice::Range(vec![worn]));
    }
    let all: u64 = shapes.iter().map(|shape| shape.live).sum();
    let unclaimed: Vec<usize> =
        deltas.iter().copied().filter(|&at| !shapes[at].is_claimed).collect();
    let first = few_deltas(shapes, &unclaimed, all / FIRST_PART);
    if let Some(chosen) = first.filter(|_| occasion == Occasion::Flushed) {
        return Some(Choice::Deltas(chosen));
    }
    let fullest = bases.iter().copied().max_by(|&a, &b| ratio(a).total_cmp(&ratio(b)));
    if let Some(base) = fullest.filter(|&base| ratio(base) >= shapes[base].ratio(occasion)) {
        return Some(Choice::Range(vec![base]));
    }
    if let Some(chosen) = few_deltas(shapes, &unclaimed, (all / DELTA_PART).max(rows_max)) {
        return Some(Choice::Deltas(chosen));
    }
    // Deltas too large to be merged with each other are used up by the bases that have most of them.
    if deltas.len() > DELTAS_MOST {
        if let Some(base) = fullest.filter(|&base| share(base) > 0) {
            return Some(Choice::Range(vec![base]));
        }
    }
    let dead: u64 = deltas.iter().map(|&at| shapes[at].dead).sum();
    let is_wasteful = |&at: &usize| shapes[at].dead * 2 > shapes[at].rows;
    let wasteful = unclaimed.iter().copied().filter(is_wasteful).max_by_key(|&at| shapes[at].dead);
    if let Some(at) = wasteful.filter(|_| occasion == Occasion::Asked || dead * 4 > all) {
        return Some(Choice::Deltas(vec![at]));
    }
    let small = bases.iter().copied().min_by_key(|&at| shapes[at].live);
    let small = small.filter(|&at| shapes[at].live + share(at) < rows_max / SMALL_PART)?;
    let other = nearest(small).filter(|other| bases.contains(other))?;
    let together = shapes[small].live + shapes[other].live;
    (together <= rows_max).then(|| Choice::Range(vec![other, small]))
}

/// Deltas to merge with each other: of the class with fewest rows that has enough of them.
fn few_deltas(shapes: &[Shape], deltas: &[usize], rows_max: u64) -> Option<Vec<usize>> {
    if deltas.len() <= DELTAS_MANY {
        return None;
    }
    let mut by_rows = deltas.to_vec();
    by_rows.sort_by_key(|&at| shapes[at].live);
    let mut rows = 0;
    let fit = by_rows.iter().take_while(|&&at| {
        rows += shapes[at].live;
        rows <= rows_max
    });
    let most = fit.count().min(TOGETHER_MAX);
    // Those of one class: a small one would be written again with each of the large ones.
    let class = |at: usize| shapes[at].live.max(super::ROWS_MIN).ilog(4);
    let chosen = &by_rows[..most];
    let least = chosen.iter().map(|&at| class(at)).min()?;
    let of_class = chosen.iter().filter(|&&at| class(at) <= least + 1).count();
    (of_class >= TOGETHER).then(|| chosen[..of_class].to_vec())
}

/// Which base each leaf of each delta belongs to.
struct Owners<'a> {
    view: &'a View,
    /// Positions of the bases, by the numbers of their files.
    bases: HashMap<u64, usize>,
    /// By segment: base and rows by leaf, for the free leaves that it serves.
    leaves: Vec<Vec<(u32, usize, u64)>>,
}

impl<'a> Owners<'a> {
    fn of(view: &'a View, free: &Free<'_>) -> Owners<'a> {
        let bases = bases(&view.segments);
        let mut owners = Owners { view, bases, leaves: vec![Vec::new(); view.segments.len()] };
        let known = free.homes.take();
        let mut nearest = NearestBase {
            owners: &owners,
            known: &known,
            found: Homes::new(),
            ranking: LeafRanking::default(),
        };
        let mut all = Vec::with_capacity(view.segments.len());
        for live in &view.segments {
            let is_base = owners.bases.contains_key(&live.number);
            let Some(segment) = live.segment.leaves().filter(|_| !is_base) else {
                all.push(Vec::new());
                continue;
            };
            let claimed = (free.claimed)(live.number);
            let served = live.served_leaves().filter(|leaf| claimed.binary_search(leaf).is_err());
            let with_base = |leaf: u32| {
                let at = leaf as usize;
                let rows = u64::from(segment.leaf_rows(at));
                let base = owners.bases.get(&definer(segment.leaf_number(at))).copied();
                Some((leaf, base.or_else(|| nearest.to(segment, at))?, rows))
            };
            all.push(served.filter_map(with_base).collect());
        }
        free.homes.replace(nearest.found);
        owners.leaves = all;
        owners
    }

    fn shapes(&self, free: &Free<'_>, since: u64) -> Vec<Shape> {
        let shape = |(at, live): (usize, &Arc<LiveSegment>)| {
            let mut shares = BTreeMap::new();
            for &(_, base, rows) in &self.leaves[at] {
                *shares.entry(base).or_insert(0) += rows;
            }
            Shape {
                rows: live.segment.rows(),
                live: live.live_rows(),
                // A merge keeps rows whose tombstones are not published.
                dead: live.delete_bitmap(since).1,
                is_base: self.bases.contains_key(&live.number),
                is_free: (free.is_free)(live.number) && live.segment.leaves().is_some(),
                is_claimed: !(free.claimed)(live.number).is_empty(),
                number: live.number,
                shares,
            }
        };
        self.view.segments.iter().enumerate().map(shape).collect()
    }

    /// The leaves of a delta that belong to some bases, ascending.
    fn leaves_of(&self, delta: usize, bases: &[usize]) -> Vec<u32> {
        let of = self.leaves[delta].iter().filter(|(_, base, _)| bases.contains(base));
        of.map(|&(leaf, _, _)| leaf).collect()
    }

    /// The free base whose middle is nearest to that of a base.
    fn nearest_base(&self, base: usize, shapes: &[Shape]) -> Option<usize> {
        let middle = |at: usize| -> Option<Vec<f32>> {
            let segment = self.view.segments[at].segment.leaves()?;
            let (mut sum, mut centroid) = (Vec::new(), Vec::new());
            for leaf in 0..segment.leaves() {
                segment.leaf_centroid(leaf, &mut centroid);
                sum.resize(centroid.len(), 0.0);
                sum.iter_mut().zip(&centroid).for_each(|(sum, x)| *sum += x);
            }
            sum.iter_mut().for_each(|x| *x /= segment.leaves().max(1) as f32);
            Some(sum)
        };
        let own = middle(base)?;
        let others = self.bases.values().copied().filter(|&at| at != base && shapes[at].is_free);
        let gap = |at: usize| Some((vstream_vector::kernels::l2_squared(&own, &middle(at)?), at));
        let gaps = others.filter_map(gap);
        gaps.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))).map(|(_, at)| at)
    }
}

/// Finds the base nearest to a leaf that no base defines: few leaves are.
struct NearestBase<'a> {
    owners: &'a Owners<'a>,
    /// Bases that were found before, and those that were asked for now.
    known: &'a Homes,
    found: Homes,
    ranking: LeafRanking,
}

impl NearestBase<'_> {
    fn to(&mut self, of: &Segment, leaf: usize) -> Option<usize> {
        let number = of.leaf_number(leaf);
        let known = self.known.get(&number).and_then(|base| self.owners.bases.get(base).copied());
        let at = known.or_else(|| self.search(of, leaf))?;
        self.found.insert(number, self.owners.view.segments[at].number);
        Some(at)
    }

    fn search(&mut self, of: &Segment, leaf: usize) -> Option<usize> {
        let mut centroid = Vec::new();
        of.leaf_centroid(leaf, &mut centroid);
        let base_of = |segment: u64| self.owners.bases.get(&segment).copied();
        self.owners.view.leaves.nearest_of(&centroid, &base_of, &mut self.ranking)
    }
}

/// The bases by the numbers of their files; where there is none, the segment with most rows is one.
fn bases(segments: &[Arc<LiveSegment>]) -> HashMap<u64, usize> {
    let with_leaves = || {
        let all = segments.iter().enumerate();
        all.filter_map(|(at, live)| Some((at, live, live.segment.leaves()?)))
    };
    let defines_all = |live: &LiveSegment, segment: &Segment| {
        (0..segment.leaves()).all(|leaf| definer(segment.leaf_number(leaf)) == live.number)
    };
    // Rows of bases by the collection that wrote them.
    let mut written: BTreeMap<Option<u64>, u64> = BTreeMap::new();
    let defining: Vec<_> =
        with_leaves().filter(|(_, live, segment)| defines_all(live, segment)).collect();
    for (_, live, _) in &defining {
        *written.entry(live.origin).or_default() += live.live_rows();
    }
    let most = written.into_iter().max_by_key(|&(origin, rows)| (rows, Reverse(origin)));
    if let Some((origin, _)) = most {
        let own = defining.iter().filter(|(_, live, _)| live.origin == origin);
        return own.map(|&(at, live, _)| (live.number, at)).collect();
    }
    let largest = with_leaves().max_by_key(|(_, live, _)| live.live_rows());
    largest.map(|(at, live, _)| (live.number, at)).into_iter().collect()
}

#[cfg(test)]
mod tests;
