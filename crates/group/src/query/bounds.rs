//! What is known of the distances of candidates: intervals from codes, narrower ones from codes for
//! a second look, and exact distances.

use super::ask::QueryStats;
use super::gather::Candidate;
use super::group::{GroupView, Place};
use crate::accept::Distances;
use crate::code::{Interval, LeafQuery, QueryCodes};
use crate::error::Error;
use crate::run::Part;

/// Leaves whose codes are read together.
const LEAVES_TOGETHER: usize = 64;
const NO_LEAF: u32 = u32::MAX;

/// The distance of a candidate lies between these ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Near {
    pub(super) least: f32,
    pub(super) most: f32,
    /// True if both ends are the distance of the stored vector.
    pub(super) is_exact: bool,
    /// Position of its leaf in [`Bounds::besides`].
    beside: u32,
}

impl Near {
    const UNKNOWN: Near =
        Near { least: f32::NEG_INFINITY, most: f32::INFINITY, is_exact: false, beside: NO_LEAF };

    fn exact(distance: f32) -> Near {
        Near { least: distance, most: distance, is_exact: true, beside: NO_LEAF }
    }

    fn narrow(&mut self, interval: Interval) {
        // Damaged codes may give no number, which changes nothing.
        self.least = self.least.max(interval.least);
        self.most = self.most.min(interval.most);
    }
}

/// The distances of the candidates of a query to its vector.
pub(super) struct Bounds<'a> {
    group: &'a GroupView,
    distances: Distances<'a>,
    make_codes: &'a dyn Fn(&Part) -> QueryCodes,
    /// Built when the first codes are read.
    codes: Option<QueryCodes>,
    besides: Vec<LeafQuery>,
    pub(super) stats: QueryStats,
}

impl<'a> Bounds<'a> {
    pub(super) fn new(
        group: &'a GroupView,
        distances: Distances<'a>,
        make_codes: &'a dyn Fn(&Part) -> QueryCodes,
    ) -> Bounds<'a> {
        let stats = QueryStats::default();
        Bounds { group, distances, make_codes, codes: None, besides: Vec::new(), stats }
    }

    /// An interval for each candidate. Rows of the memtable and of parts without codes get exact
    /// distances, and so do those of a leaf whose codes are more bytes than these rows.
    pub(super) fn first(&mut self, candidates: &[Candidate]) -> Result<Vec<Near>, Error> {
        let mut near = vec![Near::UNKNOWN; candidates.len()];
        let mut whole: Vec<usize> = Vec::new();
        let mut from = 0;
        for of_part in candidates.chunk_by(|a, b| a.place.is_beside(b.place)) {
            let all = from..from + of_part.len();
            let place = of_part[0].place;
            if place.is_in_memory() || !self.group.part(place).is_coded() {
                whole.extend(all);
            } else {
                self.scan(candidates, all, &mut near, &mut whole)?;
            }
            from += of_part.len();
        }
        self.exact(candidates, &whole, &mut near)?;
        Ok(near)
    }

    /// Scans the codes of the candidates `all`, which are in one part.
    fn scan(
        &mut self,
        candidates: &[Candidate],
        all: std::ops::Range<usize>,
        near: &mut [Near],
        whole: &mut Vec<usize>,
    ) -> Result<(), Error> {
        let part = self.group.part(candidates[all.start].place);
        let codes = self.codes.take().unwrap_or_else(|| (self.make_codes)(part));
        let shape = *part.shape();
        let leaf_of = |at: usize| part.leaf_of(candidates[at].place.row).0;
        // The leaves to scan, and which candidates are in each.
        let mut leaves: Vec<(usize, std::ops::Range<usize>)> = Vec::new();
        let mut from = all.start;
        while from < all.end {
            let leaf = leaf_of(from);
            let to = (from..all.end).find(|&at| leaf_of(at) != leaf).unwrap_or(all.end);
            let rows = part.leaves()[leaf].rows as usize;
            let bytes = shape.codes.leaf_bytes(rows, shape.padded());
            if (to - from) * shape.row_bytes() <= bytes {
                whole.extend(from..to);
            } else {
                leaves.push((leaf, from..to));
            }
            from = to;
        }
        let mut centroid = vec![0.0; shape.padded()];
        let mut intervals = Vec::new();
        for leaves in leaves.chunks(LEAVES_TOGETHER) {
            let numbers: Vec<usize> = leaves.iter().map(|(leaf, _)| *leaf).collect();
            for ((leaf, of_leaf), block) in leaves.iter().zip(part.codes(&numbers)?) {
                let head = &part.leaves()[*leaf];
                head.centroid(&mut centroid);
                let factors = (head.add_max, head.scale_max);
                let beside = codes.beside(&centroid, head.reach, factors);
                intervals.clear();
                let rows = head.rows as usize;
                codes.scan(shape.codes, beside, &block, rows, &mut intervals);
                self.stats.coded_rows += rows as u64;
                for at in of_leaf.clone() {
                    let (_, within) = part.leaf_of(candidates[at].place.row);
                    near[at].narrow(intervals[within]);
                    near[at].beside = self.besides.len() as u32;
                }
                self.besides.push(beside);
            }
        }
        self.codes = Some(codes);
        Ok(())
    }

    /// Narrows the intervals of some candidates whose runs have codes for a second look. True if
    /// there were any.
    pub(super) fn look_again(
        &self,
        candidates: &[Candidate],
        which: &[usize],
        near: &mut [Near],
    ) -> Result<bool, Error> {
        let Some(codes) = &self.codes else { return Ok(false) };
        let mut any = false;
        for of_part in by_part(candidates, which) {
            let place = candidates[of_part[0]].place;
            let scanned: Vec<usize> =
                of_part.iter().copied().filter(|at| near[*at].beside != NO_LEAF).collect();
            if scanned.is_empty() || self.group.part(place).shape().second_bytes() == 0 {
                continue;
            }
            let rows: Vec<u32> = scanned.iter().map(|at| candidates[*at].place.row).collect();
            self.group.part(place).visit_seconds(&rows, |number, code| {
                let near = &mut near[scanned[number]];
                near.narrow(codes.bound(self.besides[near.beside as usize], code));
            })?;
            any = true;
        }
        Ok(any)
    }

    /// Exact distances of some candidates. Cost: reads their vectors.
    pub(super) fn exact(
        &mut self,
        candidates: &[Candidate],
        which: &[usize],
        near: &mut [Near],
    ) -> Result<(), Error> {
        self.stats.exact_rows += which.len() as u64;
        for of_part in by_part(candidates, which) {
            let place = candidates[of_part[0]].place;
            if place.is_in_memory() {
                for &at in &of_part {
                    near[at] = Near::exact(self.in_memory(candidates[at].place));
                }
                continue;
            }
            let rows: Vec<u32> = of_part.iter().map(|at| candidates[*at].place.row).collect();
            let mut next = of_part.iter();
            self.group.part(place).visit_rows(&rows, |_, _, _, vector| {
                let at = next.next().expect("a row for each that was asked for");
                near[*at] = Near::exact(self.distances.to(vector));
            })?;
        }
        Ok(())
    }

    /// The exact distance of each of some candidates, in any order of places.
    pub(super) fn of_each(&mut self, candidates: &[Candidate]) -> Result<Vec<f32>, Error> {
        let mut by_place: Vec<usize> = (0..candidates.len()).collect();
        by_place.sort_unstable_by_key(|at| candidates[*at].place);
        let sorted: Vec<Candidate> = by_place.iter().map(|at| candidates[*at].clone()).collect();
        let all: Vec<usize> = (0..sorted.len()).collect();
        let mut near = vec![Near::UNKNOWN; sorted.len()];
        self.exact(&sorted, &all, &mut near)?;
        let mut distances = vec![0.0; candidates.len()];
        by_place.iter().zip(near).for_each(|(at, near)| distances[*at] = near.least);
        Ok(distances)
    }

    fn in_memory(&mut self, place: Place) -> f32 {
        let content = self.group.memory[place.row as usize].content.as_ref();
        self.distances.to(content.expect("a living row").content().vector)
    }
}

/// Positions of candidates in the order of their places, part by part.
fn by_part(candidates: &[Candidate], which: &[usize]) -> Vec<Vec<usize>> {
    let mut order = which.to_vec();
    // Candidates are found in the order of their places.
    order.sort_unstable();
    let is_beside = |a: &usize, b: &usize| candidates[*a].place.is_beside(candidates[*b].place);
    order.chunk_by(is_beside).map(<[usize]>::to_vec).collect()
}
