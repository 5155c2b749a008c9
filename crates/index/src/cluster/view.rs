//! The rows of one moment, searched.
//!
//! A search goes on until it has `k` rows or has visited every leaf, and takes more candidates if
//! rows that the moment does not see were among those it took.

use std::sync::Arc;

use vstream_vector::{kernels, Neighbor, TopK};

use super::leaf::Leaf;
use super::scan::{best_first, sort, ClusterScratch};
use super::tree::Root;
use super::Shared;
use crate::flat::{scan_exactly, scan_within};
use crate::radius::RadiusBound;
use crate::reach::{depth_from, depth_needed, note, positions_of, Reach};
use crate::rows::{Sequence, Visible};
use crate::traits::{Effort, Probe, Refined, SearchStats};

/// Rows by estimate that an audit measures per leaf at least: about as dear as the codes, which it
/// looks at anyway.
const DEPTH_PER_LEAF: usize = 16;

/// What a reader pinned.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) shared: &'a Shared,
    pub(super) root: &'a Root,
    pub(super) pin: Sequence,
}

impl View<'_> {
    /// Rows of the tail that are visible.
    pub(super) fn tail(&self) -> Visible {
        Visible { inserted: self.pin, deleted: self.pin }
    }

    /// Rows of leaves that are visible.
    pub(super) fn placed(&self) -> Visible {
        Visible { inserted: self.root.placed, deleted: self.pin }
    }

    /// Offers the nearest visible rows.
    pub(super) fn search(
        &self,
        probe: &Probe<'_>,
        scratch: &mut ClusterScratch,
        out: &mut TopK,
    ) -> SearchStats {
        match probe.effort {
            Effort::Exact => self.exact(probe.vector, out),
            Effort::Approximate { probes, refine } => {
                self.approximate(probe, probes, refine, scratch, out)
            }
            Effort::Thorough { depth } => {
                let mut stats = SearchStats::default();
                self.thorough(probe, depth, scratch, out, &mut stats);
                stats
            }
        }
    }

    /// Offers every visible row of the tail; returns how many.
    pub(super) fn loose(&self, query: &[f32], out: &mut TopK) -> usize {
        scan_exactly(&self.root.tail, self.shared.index, query, self.tail(), out)
    }

    /// Offers every visible row.
    pub(super) fn exact(&self, query: &[f32], out: &mut TopK) -> SearchStats {
        let rows = self.loose(query, out);
        let mut stats = SearchStats { rows, exact: rows, leaves: 0 };
        for leaf in self.root.tree.leaves() {
            stats.leaves += 1;
            for chunk in leaf.chunks() {
                let rows = scan_exactly(&chunk.rows, self.shared.index, query, self.placed(), out);
                stats.rows += rows;
                stats.exact += rows;
            }
        }
        stats
    }

    /// Offers the nearest rows of `probes` leaves, or of as many as hold `k` rows, by the `refine`
    /// best estimates.
    pub(super) fn approximate(
        &self,
        probe: &Probe<'_>,
        mut probes: usize,
        refine: usize,
        scratch: &mut ClusterScratch,
        out: &mut TopK,
    ) -> SearchStats {
        let refine = refine.max(probe.k);
        let rows = self.loose(probe.vector, out);
        let mut stats = SearchStats { rows, exact: rows, leaves: 0 };
        self.shared.prepare(probe.vector, scratch);
        loop {
            self.shared.rank(&self.root.tree, probes, scratch);
            // Some of the best may have come after the moment.
            let mut keep = refine.saturating_add(refine / 8);
            while self.scan_and_measure(probe, (keep, refine), scratch, out, &mut stats) {
                keep = keep.saturating_mul(2);
                self.begin_again(probe, out);
            }
            if out.len() >= probe.k || scratch.ranked.len() >= self.root.tree.leaves {
                return stats;
            }
            probes = scratch.ranked.len().saturating_mul(4);
            self.begin_again(probe, out);
        }
    }

    /// Empties `out` but for the rows of the tail.
    fn begin_again(&self, probe: &Probe<'_>, out: &mut TopK) {
        out.reset(probe.k);
        self.loose(probe.vector, out);
    }

    /// Scans the ranked leaves and measures the `refine` best; true if fewer of the `keep` best are
    /// visible although there are others.
    fn scan_and_measure(
        &self,
        probe: &Probe<'_>,
        (keep, refine): (usize, usize),
        scratch: &mut ClusterScratch,
        out: &mut TopK,
        stats: &mut SearchStats,
    ) -> bool {
        let is_cut = self.scan(keep, scratch, stats);
        best_first(&mut scratch.candidates, refine);
        let which = Refined::Best(refine);
        let measured = self.measure(probe.vector, which, scratch, out, &mut |_, _| {});
        stats.exact += measured.exact;
        if !is_cut || measured.hidden == 0 {
            return false;
        }
        self.drop_hidden(scratch);
        scratch.candidates.len() < refine
    }

    /// Offers the nearest rows by every code, and as many exact distances as it takes; returns the
    /// depth. `scratch.candidates` are the best by estimate, best first; `scratch.measured` are the
    /// positions of the rows of `out` among them, by their ids.
    pub(super) fn thorough(
        &self,
        probe: &Probe<'_>,
        depth: usize,
        scratch: &mut ClusterScratch,
        out: &mut TopK,
        stats: &mut SearchStats,
    ) -> usize {
        self.shared.prepare(probe.vector, scratch);
        self.shared.rank(&self.root.tree, usize::MAX, scratch);
        let least = self.root.tree.leaves * DEPTH_PER_LEAF;
        let mut depth = depth_from(depth, probe.k).max(least);
        loop {
            self.begin_again(probe, out);
            let is_cut = self.scan(depth, scratch, stats);
            self.drop_hidden(scratch);
            sort(&mut scratch.candidates);
            let mut measured = std::mem::take(&mut scratch.measured);
            measured.clear();
            let which = Refined::Best(usize::MAX);
            let seen = &mut |at: usize, row| measured.push((row, at as u32));
            stats.exact += self.measure(probe.vector, which, scratch, out, seen).exact;
            let leaf_of = |at: u32| scratch.candidates[at as usize].leaf;
            positions_of(out.rows(), &mut measured, leaf_of);
            let ranks = measured.iter().map(|&(_, at)| at as usize);
            let needed = depth_needed(ranks);
            scratch.measured = measured;
            if !is_cut || needed <= depth {
                return depth;
            }
            depth = depth.saturating_mul(4);
        }
    }

    /// As `Search::audit`.
    pub(super) fn audit(
        &self,
        probe: &Probe<'_>,
        depth: usize,
        scratch: &mut ClusterScratch,
        out: &mut TopK,
        reach: &mut Vec<Reach>,
    ) -> usize {
        let depth = self.thorough(probe, depth, scratch, out, &mut SearchStats::default());
        let candidates = &scratch.candidates;
        let ranks_of = |at: u32| {
            let own = candidates[at as usize].leaf;
            (own, candidates[..at as usize].iter().map(|better| better.leaf))
        };
        note(out.rows(), &scratch.measured, ranks_of, reach);
        depth
    }

    /// Copies the vector of a living row: see `Search::sample`.
    pub(super) fn sample(&self, pick: u64, out: &mut Vec<f32>) -> Option<u64> {
        let tree = &self.root.tree;
        let number = (pick % tree.leaves.max(1) as u64) as usize;
        let leaf = tree.leaves().nth(number)?;
        let chunks: Vec<_> = leaf.chunks().collect();
        let pick = (pick / tree.leaves as u64) as usize;
        let rows = &chunks.get(pick % chunks.len().max(1))?.rows;
        let lane = (pick / chunks.len()) % rows.len().max(1);
        if lane >= rows.len() || !rows.is_visible(lane, self.placed()) {
            return None;
        }
        out.resize(self.shared.index.dimension, 0.0);
        rows.vector(lane).read(out);
        Some(rows.key(lane).id)
    }

    /// Adds every visible row within `radius` of a query.
    pub(super) fn within(
        &self,
        vector: &[f32],
        radius: f32,
        out: &mut Vec<Neighbor>,
    ) -> SearchStats {
        let View { shared, root, .. } = *self;
        let mut rotated = vec![0.0; shared.rotation.padded()];
        shared.rotation.apply(vector, &mut rotated);
        let mut stats = SearchStats::default();
        stats.rows += scan_within(&root.tail, shared.index, vector, self.tail(), radius, out);
        let length = kernels::norm_squared(&rotated).sqrt();
        let bound = RadiusBound::new(shared.index, length, radius);
        let may_hold = |leaf: &&Arc<Leaf>| {
            let gap = kernels::l2_squared(&rotated, &leaf.centroid).sqrt();
            bound.may_hold(gap, leaf.reach())
        };
        for leaf in root.tree.leaves().filter(may_hold) {
            stats.leaves += 1;
            for chunk in leaf.chunks() {
                let rows = &chunk.rows;
                stats.rows += scan_within(rows, shared.index, vector, self.placed(), radius, out);
            }
        }
        stats.exact = stats.rows;
        stats
    }
}
