//! Which rows of the sources of a merge go to which leaf.

use std::collections::HashMap;

use vstream_index::VectorRef;
use vstream_segment::{suit, yield_to_queries, LeafCentroid, NearTargets, Target, Targets};

use super::rewrite::VisitVector;
use super::{Merge, ReadThrough, CACHE_BYTES, ROWS_PER_WAY};
use crate::compaction::plan::Kind;
use crate::error::Error;
use crate::tree::{definer, SealedSegment};

/// Number of targets around a leaf to which its rows may go.
const NEAR: usize = 24;

/// Leaves that rows go to: first those of a source, which the merged segment replaces, then those of
/// other segments.
pub(super) struct MergeTargets {
    pub(super) of: Targets,
    /// Number of the former.
    pub(super) own: usize,
}

/// What goes to a target.
#[derive(Default)]
pub(super) struct Targeted {
    of: LeafCentroid,
    /// Source and leaf of the target's runs.
    pub(super) runs: Vec<(usize, usize)>,
    /// Source and row of other rows, sorted.
    pub(super) rows: Vec<(u32, u32)>,
}

impl Targeted {
    /// Writes the rotated centroid to `out`.
    pub(super) fn centroid(&self, out: &mut Vec<f32>) {
        out.resize(self.of.dimension(), 0.0);
        self.of.write(out);
    }
}

impl Merge<'_> {
    /// The leaves that rows go to.
    pub(super) fn targets(&self) -> MergeTargets {
        let new = |targets| Targets::new(self.settings.dimension, self.settings.seed, targets);
        if self.kind == Kind::Range {
            // The leaves of the base.
            let of: Vec<Target> = self.parts[0].leaves().map(|leaf| self.target(0, leaf)).collect();
            return MergeTargets { own: of.len(), of: new(of) };
        }
        let is_source = |number| self.parts.iter().any(|part| part.live.number == number);
        let others = self.leaves.targets(&is_source);
        let mut own = match self.kind {
            Kind::Deltas => (0..self.parts.len()).flat_map(|part| self.defined(part)).collect(),
            _ => self.defined_by_most(),
        };
        if own.is_empty() && others.is_empty() {
            let rows = |part: &usize| self.parts[*part].live.live_rows();
            let with_leaves = (0..self.parts.len()).filter(|&at| self.leaves_of(at).is_some());
            let most = with_leaves.max_by_key(rows).expect("graphs alone become a graph");
            own = self.parts[most].leaves().map(|leaf| (most, leaf)).collect();
        }
        // Where the others suit, leaves that a small source defined for itself are given up.
        let rows: u64 = self.parts.iter().map(|part| part.live.live_rows()).sum();
        let gives_up = self.kind != Kind::Deltas && own.len() < others.len();
        if gives_up && suit(&others, rows as usize) {
            own.clear();
        }
        let mut of: Vec<Target> = own.iter().map(|&(part, leaf)| self.target(part, leaf)).collect();
        of.extend(others);
        MergeTargets { own: own.len(), of: new(of) }
    }

    /// The leaves that a part defines, each with the part.
    fn defined(&self, part: usize) -> Vec<(usize, usize)> {
        let Some(segment) = self.leaves_of(part) else { return Vec::new() };
        let number = self.parts[part].live.number;
        let own = |&leaf: &usize| definer(segment.leaf_number(leaf)) == number;
        self.parts[part].leaves().filter(own).map(|leaf| (part, leaf)).collect()
    }

    /// The leaves of the part that defines most.
    fn defined_by_most(&self) -> Vec<(usize, usize)> {
        let defined = (0..self.parts.len()).map(|part| self.defined(part));
        let most =
            defined.zip(self.parts).max_by_key(|(own, part)| (own.len(), part.live.live_rows()));
        most.map_or(Vec::new(), |(own, _)| own)
    }

    fn target(&self, part: usize, leaf: usize) -> Target {
        self.leaves_of(part).expect("a part with leaves").target(leaf)
    }

    /// The runs of the sources that go to each target as they are, and the other rows that go there,
    /// sorted by source and row.
    pub(super) fn assign(&self, targets: &MergeTargets) -> Result<Vec<Targeted>, Error> {
        let of = &targets.of;
        let numbers = of.all().iter().map(|target| target.leaf.number);
        let by_number: HashMap<u64, usize> = numbers.zip(0..).collect();
        let targeted =
            |target: &Target| Targeted { of: target.leaf.clone(), ..Targeted::default() };
        let mut all: Vec<Targeted> = of.all().iter().map(targeted).collect();
        let mut coming: Vec<(u32, u32, u32)> = Vec::new();
        let mut vector = vec![0.0; self.settings.dimension];
        let mut near = NearTargets::default();
        // `is_near`: false if nothing is known of the row but its vector.
        let mut place = |source: usize,
                         row: u32,
                         stored: VectorRef<'_>,
                         near: &mut NearTargets,
                         is_near: bool| {
            if !self.is_kept(source, row) {
                return;
            }
            if row.is_multiple_of(ROWS_PER_WAY) {
                yield_to_queries();
            }
            stored.read(&mut vector);
            let (target, _) = match is_near {
                true => of.nearest(&vector, near),
                false => of.nearest_of_all(&vector, near),
            };
            coming.push((target, source as u32, row));
        };
        let mut centroid = Vec::new();
        for (source, part) in self.parts.iter().enumerate() {
            match part.sealed() {
                SealedSegment::Leaves(segment) => {
                    for leaf in part.leaves() {
                        self.check_stop()?;
                        if let Some(&target) = by_number.get(&segment.leaf_number(leaf)) {
                            all[target].runs.push((source, leaf));
                            continue;
                        }
                        segment.leaf_centroid(leaf, &mut centroid);
                        of.take_near(&centroid, NEAR, &mut near);
                        let reader = segment.uncached();
                        segment.for_each_vector_in_leaf(leaf, reader, &mut |row, _, stored| {
                            place(source, row, stored, &mut near, true);
                        })?;
                    }
                }
                SealedSegment::Graph(graph) => {
                    graph.for_each_row(&mut |row, stored| {
                        place(source, row, stored.vector, &mut near, false);
                    })?;
                }
            }
        }
        coming.sort_unstable();
        for group in coming.chunk_by(|a, b| a.0 == b.0) {
            let rows = group.iter().map(|&(_, source, row)| (source, row));
            all[group[0].0 as usize].rows = rows.collect();
        }
        Ok(all)
    }

    /// Targets in groups whose runs fit the cache together, some times over.
    pub(super) fn groups<'t, 'a>(&self, all: &'t [&'a Targeted]) -> Vec<&'t [&'a Targeted]> {
        let row_bytes = self.settings.dimension * self.settings.element.bytes() + 24;
        let bytes = |target: &&Targeted| {
            let rows = |&(source, leaf): &(usize, usize)| {
                self.leaves_of(source).map_or(0, |segment| segment.leaf_rows(leaf) as usize)
            };
            target.runs.iter().map(rows).sum::<usize>() * row_bytes
        };
        let (mut groups, mut rest) = (Vec::new(), all);
        while !rest.is_empty() {
            let mut sum = 0;
            let fit = rest.iter().take_while(|target| {
                sum += bytes(target);
                sum <= CACHE_BYTES / 4
            });
            let (group, later) = rest.split_at(fit.count().max(1));
            groups.push(group);
            rest = later;
        }
        groups
    }

    /// Reads the runs of some targets into the cache. The runs of successive targets follow each other
    /// in every source, so these are a few long reads, not many short ones.
    pub(super) fn read_ahead(
        &self,
        group: &[&Targeted],
        reading: &ReadThrough,
    ) -> Result<(), Error> {
        let mut runs: Vec<(usize, usize)> =
            group.iter().flat_map(|target| target.runs.iter().copied()).collect();
        runs.sort_unstable();
        for runs in runs.chunk_by(|a, b| a.0 == b.0) {
            let segment = self.leaves_of(runs[0].0).expect("a run of leaves");
            let leaves: Vec<usize> = runs.iter().map(|&(_, leaf)| leaf).collect();
            segment.read_ahead(&leaves, reading.of(runs[0].0, segment))?;
        }
        Ok(())
    }

    /// Calls `visit` with the rows that go to a target, deleted ones too.
    pub(super) fn for_each_vector(
        &self,
        target: &Targeted,
        reading: &ReadThrough,
        visit: &mut VisitVector<'_>,
    ) -> Result<(), Error> {
        for &(source, leaf) in &target.runs {
            let segment = self.leaves_of(source).expect("a run of leaves");
            let reader = reading.of(source, segment);
            segment.for_each_vector_in_leaf(leaf, reader, &mut |row, key, stored| {
                visit((source, row), key, stored);
            })?;
        }
        for group in target.rows.chunk_by(|a, b| a.0 == b.0) {
            let source = group[0].0 as usize;
            let rows: Vec<u32> = group.iter().map(|&(_, row)| row).collect();
            let segment = self.parts[source].sealed();
            let visit = &mut |row: u32, stored: vstream_index::IndexRow<'_>| {
                visit((source, row), stored.key, stored.vector);
            };
            match (segment.leaves(), &reading.0[source]) {
                (Some(segment), Some(reader)) => segment.for_each_of(&rows, reader, visit)?,
                _ => segment.for_each_of(&rows, visit)?,
            }
        }
        Ok(())
    }
}
