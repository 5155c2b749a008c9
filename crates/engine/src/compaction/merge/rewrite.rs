//! Makes new leaves of all rows of leaves that a source defined.
//!
//! 1. Each old leaf is divided by 2-means until its parts have the size of leaves; the means of the parts
//!    are *points*.
//! 2. Each row goes to the nearest point around its old leaf. So a row leaves its leaf when another is
//!    nearer by now, which is LIRE's reassignment (SPFresh, section 3.3), and no row keeps a
//!    place that it got when leaves were few.
//! 3. The rows of each point are written as a leaf. Too few wait for the next point, which is near.
//!
//! Cost: two walks over the vectors of the sources, then each row block once or a few times through
//! the cache. Memory: 12 bytes per row beside what the writer holds, and 4 bytes per dimension and leaf.

use std::ops::Range;

use vstream_index::{IndexRow, VectorRef};
use vstream_segment::{yield_to_queries, LeafRows, Points};

use super::{Merge, ReadThrough, Targeted, GONE, LEAF_ROWS_MIN, ROWS_PER_WAY};
use crate::compaction::plan::Kind;
use crate::error::Error;

/// A row is compared with so many points around its old leaf.
const NEAR_POINTS: usize = 32;

/// Rows by point.
struct ByPoint {
    /// Where the rows of each point begin, then the end of the last.
    starts: Vec<u32>,
    /// Source and row, sorted within a point.
    rows: Vec<(u32, u32)>,
}

impl ByPoint {
    fn rows(&self, point: usize) -> &[(u32, u32)] {
        &self.rows[self.starts[point] as usize..self.starts[point + 1] as usize]
    }
}

impl Merge<'_> {
    /// Writes the rows of the targets that a source defined as new leaves. The leaves of a range that is
    /// too large go to several segments.
    pub(super) fn rewrite(&mut self, own: &[Targeted], reading: &ReadThrough) -> Result<(), Error> {
        let every: Vec<&Targeted> = own.iter().collect();
        let (points, by_target) = self.points(&every, reading)?;
        for made in &by_target {
            match made.len() as u64 {
                0 => self.made.merges += 1,
                1 => self.made.rewrites += 1,
                leaves => self.made.splits += leaves - 1,
            }
        }
        self.assign_to(&points, &every, &by_target, reading)?;
        let by_point = self.by_point(points.len());
        let segments = self.divide_range(&points, &by_point);
        let last = segments.iter().max().copied().unwrap_or(0);
        for segment in 0..=last {
            let is_here = |&point: &u32| segments[point as usize] == segment;
            let points = |at: usize| by_target[at].clone().filter(is_here);
            let (targets, points): (Vec<&Targeted>, Vec<Vec<u32>>) = (0..own.len())
                .map(|at| (&own[at], points(at).collect::<Vec<u32>>()))
                .filter(|(_, points)| !points.is_empty())
                .unzip();
            let mut next = points.iter();
            for group in self.groups(&targets) {
                // Most rows of these points are in those runs.
                self.read_ahead(group, reading)?;
                for &point in next.by_ref().take(group.len()).flatten() {
                    self.check_stop()?;
                    self.gather_rows(by_point.rows(point as usize), reading)?;
                    if self.gathered.rows.len() >= self.leaf_rows_min() {
                        self.flush()?;
                    }
                }
            }
            self.flush()?;
            if segment < last {
                self.end_segment()?;
            }
        }
        Ok(())
    }

    /// The number of the segment that each point goes to, from 0 on: several if a range has more rows
    /// than a segment should have.
    fn divide_range(&self, points: &Points, by_point: &ByPoint) -> Vec<u32> {
        let mut segments = vec![0; points.len()];
        if self.kind != Kind::Range {
            return segments;
        }
        let weights: Vec<u32> =
            (0..points.len()).map(|point| by_point.rows(point).len() as u32).collect();
        let (mut parts, mut next) = (vec![(0..points.len() as u32).collect::<Vec<u32>>()], 0);
        while let Some(part) = parts.pop() {
            let rows: u64 = part.iter().map(|&at| u64::from(weights[at as usize])).sum();
            if rows > self.rows_max && part.len() > 1 {
                let (first, second) = points.halves(&part, &weights, self.settings.seed ^ rows);
                parts.extend([second, first]);
                continue;
            }
            part.iter().for_each(|&at| segments[at as usize] = next);
            next += 1;
        }
        segments
    }

    /// Parts with fewer rows do not become leaves. Deltas have few rows of a leaf.
    fn leaf_rows_min(&self) -> usize {
        match self.kind {
            _ if self.without.join => 1,
            Kind::Deltas => LEAF_ROWS_MIN / 3,
            _ => LEAF_ROWS_MIN,
        }
    }

    /// The means of parts of each target, and which points are of which target.
    fn points(
        &self,
        own: &[&Targeted],
        reading: &ReadThrough,
    ) -> Result<(Points, Vec<Range<u32>>), Error> {
        let dimension = self.settings.dimension;
        let mut points = Points::new(dimension, self.settings.seed);
        let mut by_target = Vec::new();
        let mut rows = LeafRows::new(self.settings.element, dimension);
        let (mut vector, mut mean) = (vec![0.0f32; dimension], vec![0.0f32; dimension]);
        self.for_each_target(own, reading, &mut |at, target| {
            rows.clear();
            self.for_each_vector(target, reading, &mut |(source, row), key, stored| {
                if self.is_kept(source, row) {
                    rows.push(IndexRow::plain(key, stored));
                }
            })?;
            let from = points.len() as u32;
            let all = (0..rows.len() as u32).collect();
            for part in self.divide(&rows, all, self.settings.seed ^ at as u64) {
                // A few rows join the leaves around them.
                if part.is_empty() || part.len() < self.leaf_rows_min() && !points.is_empty() {
                    continue;
                }
                mean.fill(0.0);
                for &row in &part {
                    rows.vector(row as usize).read(&mut vector);
                    mean.iter_mut().zip(&vector).for_each(|(sum, x)| *sum += x);
                }
                mean.iter_mut().for_each(|x| *x /= part.len() as f32);
                points.push(&mean);
            }
            by_target.push(from..points.len() as u32);
            Ok(())
        })?;
        Ok((points, by_target))
    }

    /// Notes in `moved` the point of each row.
    fn assign_to(
        &mut self,
        points: &Points,
        own: &[&Targeted],
        by_target: &[Range<u32>],
        reading: &ReadThrough,
    ) -> Result<(), Error> {
        let (mut moved, parts) = (std::mem::take(&mut self.moved), self.parts);
        let (mut vector, mut rotated) = (vec![0.0; self.settings.dimension], Vec::new());
        let (mut middle, mut left) = (Vec::new(), 0);
        self.for_each_target(own, reading, &mut |at, target| {
            target.centroid(&mut middle);
            let own = by_target[at].clone();
            let mut near: Vec<u32> = own.clone().collect();
            if !self.without.reassign || near.is_empty() {
                near.extend(points.near(&middle, NEAR_POINTS));
                near.sort_unstable();
                near.dedup();
            }
            self.for_each_vector(target, reading, &mut |(source, row), _, stored| {
                if !self.is_kept(source, row) {
                    return;
                }
                if row.is_multiple_of(ROWS_PER_WAY) {
                    yield_to_queries();
                }
                stored.read(&mut vector);
                let (point, _) = points.nearest(&vector, &near, &mut rotated);
                moved[source][parts[source].position(row)] = point;
                left += u64::from(!own.contains(&point));
            })
        })?;
        self.made.moved += left;
        self.moved = moved;
        Ok(())
    }

    /// Calls `visit` with each target and its position, once its runs are in the cache.
    fn for_each_target(
        &self,
        own: &[&Targeted],
        reading: &ReadThrough,
        visit: &mut dyn FnMut(usize, &Targeted) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut at = 0;
        for group in self.groups(own) {
            self.read_ahead(group, reading)?;
            for &target in group {
                self.check_stop()?;
                visit(at, target)?;
                at += 1;
            }
        }
        Ok(())
    }

    /// Lists the rows of each point.
    fn by_point(&self, points: usize) -> ByPoint {
        let mut starts = vec![0u32; points + 1];
        let assigned = || self.moved.iter().flatten().filter(|&&point| point != GONE);
        assigned().for_each(|&point| starts[point as usize + 1] += 1);
        for at in 0..points {
            starts[at + 1] += starts[at];
        }
        let mut next = starts.clone();
        let mut rows = vec![(0, 0); starts[points] as usize];
        for ((part, moved), source) in self.parts.iter().zip(&self.moved).zip(0..) {
            part.for_each_row(&mut |row, position| {
                let point = moved[position];
                if point != GONE {
                    rows[next[point as usize] as usize] = (source, row);
                    next[point as usize] += 1;
                }
            });
        }
        ByPoint { starts, rows }
    }
}

/// Receives source and row, key and vector.
pub(super) type VisitVector<'a> =
    dyn FnMut((usize, u32), vstream_index::RowKey, VectorRef<'_>) + 'a;
