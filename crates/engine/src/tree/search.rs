//! One query over all places: one ranking of leaves, one set of candidates, one list of answers.
//!
//! 1. Rank the leaves of each place, and visit the `probes` nearest of all.
//! 2. Scan memory, and take the exact distances of what is good there: that costs no read. The
//!    worst of the `k` best rows so far says which leaves of segments cannot hold a better one.
//! 3. Read the codes that are not in memory in one round, and scan them, the hottest segment
//!    first: only what is among the `refine` best estimates so far is noted.
//! 4. Read the rows of the `refine` best estimates of all in one round.
//!
//! What steps 2 and 3 pass over could not have become part of the answer: the threshold stop is
//! exact. Memory alone is searched by its index directly: an engine without segments pays nothing
//! here.

use std::cmp::Reverse;

use vstream_index::{Coded, Effort, Probe, Reach, Refined, Scratch, SearchStats};
use vstream_store::blocks::{read_together, BlockHandle, BlockReader};
use vstream_vector::{Neighbor, TopK};

use super::heat::nearness;
use super::{Pinned, Places};
use crate::error::Error;
use vstream_segment::{RotatedQuery, SegmentKind, SegmentView, Visit};

/// Places in memory.
pub(super) const UNSEALED: usize = 2;

/// Buffers of one searching thread.
#[derive(Default)]
pub(crate) struct PlacesScratch {
    /// Of memory, and of frozen memory.
    unsealed: [Scratch; UNSEALED],
    sealed: Vec<Visit>,
    /// The query for each seed of a rotation, and which of them each segment takes.
    queries: Vec<(u64, RotatedQuery)>,
    query_of: Vec<usize>,
    /// Segments, the hottest first.
    order: Vec<usize>,
    /// Per place: costs of its leaves, ascending.
    pub(super) costs: Vec<Vec<f32>>,
    /// Per place: its candidates, best first.
    pub(super) found: Vec<Vec<Coded>>,
    pub(super) best: Best,
    merged: Vec<f32>,
    /// Id and segment of rows that were among the nearest when their distance was taken.
    pub(super) origins: Vec<(u64, usize)>,
}

/// The `keep` least estimates of all places so far.
#[derive(Default)]
pub(super) struct Best {
    keep: usize,
    /// Off: nothing is known of other places.
    is_shared: bool,
    estimates: Vec<f32>,
}

impl Best {
    pub(super) fn reset(&mut self, keep: usize, is_shared: bool) {
        (self.keep, self.is_shared) = (keep, is_shared);
        self.estimates.clear();
    }

    fn take(&mut self, found: &[Coded]) {
        self.estimates.extend(found.iter().map(|row| row.estimate));
        if self.estimates.len() > self.keep {
            self.estimates.select_nth_unstable_by(self.keep - 1, f32::total_cmp);
            self.estimates.truncate(self.keep);
        }
    }

    /// Takes what all places found, instead of what was taken so far.
    fn retake(&mut self, found: &[Vec<Coded>]) {
        self.estimates.clear();
        found.iter().for_each(|found| self.take(found));
    }

    /// Only estimates below are among the `keep` least.
    fn bound(&self) -> f32 {
        if !self.is_shared || self.estimates.len() < self.keep {
            return f32::INFINITY;
        }
        self.estimates.iter().copied().fold(f32::NEG_INFINITY, f32::max)
    }
}

impl Places {
    /// Offers the nearest rows of one moment to `out`, which was reset to `probe.k`.
    ///
    /// Errors: `Corrupt`, `Io`, if a segment cannot be read; `out` is incomplete then.
    pub(crate) fn search(
        &self,
        probe: &Probe<'_>,
        scratch: &mut PlacesScratch,
        out: &mut TopK,
    ) -> Result<SearchStats, Error> {
        {
            let view = self.view.load();
            if view.frozen.is_none() && view.sealed.is_empty() {
                return Ok(view.memory.search(probe, &mut scratch.unsealed[0], out));
            }
        }
        self.pin().search(probe, scratch, out)
    }

    /// Adds every row of one moment within `radius` to `out`, in no order. Errors: as
    /// [`Places::search`].
    pub(crate) fn within(
        &self,
        vector: &[f32],
        radius: f32,
        out: &mut Vec<Neighbor>,
    ) -> Result<SearchStats, Error> {
        let pinned = self.pin();
        let mut stats = SearchStats::default();
        for staged in pinned.unsealed() {
            add(&mut stats, staged.within(vector, radius, out));
        }
        for sealed in &pinned.view.sealed {
            add(&mut stats, sealed.at(pinned.sequence).within(vector, radius, out)?);
        }
        Ok(stats)
    }

    /// As `vstream_index::Search::audit`, over all places. Errors: as [`Places::search`].
    pub(crate) fn audit(
        &self,
        probe: &Probe<'_>,
        scratch: &mut PlacesScratch,
        out: &mut TopK,
        reach: &mut Vec<Reach>,
    ) -> Result<usize, Error> {
        {
            let view = self.view.load();
            if view.frozen.is_none() && view.sealed.is_empty() {
                return Ok(view.memory.audit(probe, &mut scratch.unsealed[0], out, reach));
            }
        }
        self.pin().audit(probe, scratch, out, reach)
    }
}

impl Pinned {
    /// As [`Places::search`], at this moment.
    pub(crate) fn search(
        &self,
        probe: &Probe<'_>,
        scratch: &mut PlacesScratch,
        out: &mut TopK,
    ) -> Result<SearchStats, Error> {
        if self.frozen.is_none() && self.view.sealed.is_empty() {
            return Ok(self.memory.search(probe, &mut scratch.unsealed[0], out));
        }
        if self.view.sealed.iter().any(|sealed| sealed.segment.kind() == SegmentKind::Flat) {
            return self.exact(probe.vector, out);
        }
        let (mut probes, refine) = match probe.effort {
            Effort::Exact => return self.exact(probe.vector, out),
            Effort::Thorough { depth } => return self.thorough(probe, depth, scratch, out),
            Effort::Approximate { probes, refine } => (probes, refine.max(probe.k)),
        };
        let mut stats = SearchStats::default();
        loop {
            let visited = self.approximate(probe, (probes, refine), scratch, out)?;
            add(&mut stats, visited.stats);
            if out.len() >= probe.k || visited.is_all {
                return Ok(stats);
            }
            // So many of their rows are gone that fewer than k are left.
            probes = probes.max(1).saturating_mul(4);
            out.reset(probe.k);
        }
    }

    /// One search through the `probes` nearest leaves.
    fn approximate(
        &self,
        probe: &Probe<'_>,
        (probes, refine): (usize, usize),
        scratch: &mut PlacesScratch,
        out: &mut TopK,
    ) -> Result<Visited, Error> {
        let mut stats = SearchStats { rows: self.loose(probe.vector, out), ..Default::default() };
        stats.exact = stats.rows;
        self.rank(probe.vector, probes, scratch);
        let bound = nth(&scratch.costs, probes, &mut scratch.merged, |&cost| cost);
        let mut leaves: Vec<usize> = scratch
            .costs
            .iter()
            .map(|costs| costs.partition_point(|cost| cost.total_cmp(&bound).is_le()))
            .collect();
        let is_all = leaves.iter().sum::<usize>() >= self.leaves();
        let stops = !self.tiers.without.threshold_stop;
        scratch.best.reset(refine, stops);
        stats.rows += self.scan_unsealed(&leaves, refine, scratch);
        let best = [Refined::Best(refine); UNSEALED];
        stats.exact += self.refine_unsealed(probe.vector, &best, scratch, out, &mut |_, _, _| {});
        let radius = if stops { out.bound() } else { f32::INFINITY };
        self.cut(&mut leaves, radius, scratch);
        stats.leaves = leaves.iter().sum();
        self.order(scratch);
        let order = std::mem::take(&mut scratch.order);
        let scanned = self.scan_sealed(&order, refine, |view| view.blocks(), scratch);
        scratch.order = order;
        stats.rows += scanned?;
        let bound = nth(&scratch.found, refine, &mut scratch.merged, |row| row.estimate);
        let most: Vec<usize> = scratch.found[UNSEALED..]
            .iter()
            .map(|found| found.partition_point(|row| row.estimate.total_cmp(&bound).is_le()))
            .collect();
        stats.exact += most.iter().sum::<usize>();
        let mut origins = std::mem::take(&mut scratch.origins);
        origins.clear();
        let noted = &mut |place: usize, _, row: Neighbor| origins.push((row.id, place - UNSEALED));
        let refined = self.refine_sealed(probe.vector, &most, scratch, out, noted);
        self.note(&leaves[UNSEALED..], &mut origins, out);
        scratch.origins = origins;
        refined.map(|()| Visited { stats, is_all })
    }

    pub(super) fn exact(&self, vector: &[f32], out: &mut TopK) -> Result<SearchStats, Error> {
        let mut stats = SearchStats::default();
        self.unsealed().for_each(|staged| add(&mut stats, staged.exact(vector, out)));
        for sealed in &self.view.sealed {
            add(&mut stats, sealed.at(self.sequence).exact(vector, out)?);
        }
        Ok(stats)
    }

    /// Leaves of all places.
    fn leaves(&self) -> usize {
        let unsealed: usize = self.unsealed().map(|staged| staged.leaves()).sum();
        let sealed = self.view.sealed.iter().map(|sealed| sealed.segment.leaves());
        unsealed + sealed.sum::<usize>()
    }

    pub(super) fn loose(&self, vector: &[f32], out: &mut TopK) -> usize {
        self.unsealed().map(|staged| staged.loose(vector, out)).sum()
    }

    fn segments(&self) -> impl Iterator<Item = SegmentView<'_>> {
        self.view.sealed.iter().map(|sealed| sealed.at(self.sequence))
    }

    fn segment(&self, at: usize) -> SegmentView<'_> {
        self.view.sealed[at].at(self.sequence)
    }

    /// Rotates the query once for each seed among the segments.
    fn rotate(&self, vector: &[f32], scratch: &mut PlacesScratch) {
        let PlacesScratch { queries, query_of, .. } = scratch;
        query_of.clear();
        let mut rotated = 0;
        for sealed in &self.view.sealed {
            let seed = sealed.segment.rotation_seed();
            let known = queries[..rotated].iter().position(|(known, _)| *known == seed);
            query_of.push(known.unwrap_or(rotated));
            if known.is_none() {
                if rotated == queries.len() {
                    queries.push(Default::default());
                }
                queries[rotated].0 = seed;
                queries[rotated].1.rotate(&sealed.segment, vector);
                rotated += 1;
            }
        }
    }

    /// Fills `scratch.costs` with the nearest leaves of each place, the `probes` nearest of all
    /// among them.
    pub(super) fn rank(&self, vector: &[f32], probes: usize, scratch: &mut PlacesScratch) {
        self.rotate(vector, scratch);
        let PlacesScratch { unsealed, sealed, queries, query_of, costs, merged, .. } = scratch;
        let count = self.view.sealed.len();
        costs.resize_with(UNSEALED + count, Vec::new);
        costs.iter_mut().for_each(Vec::clear);
        sealed.resize_with(count, Visit::default);
        let (memory, segments) = costs.split_at_mut(UNSEALED);
        for ((staged, scratch), costs) in self.unsealed().zip(unsealed).zip(memory) {
            staged.rank(vector, probes, scratch, costs);
        }
        for ((view, visit), (of, costs)) in
            self.segments().zip(&mut *sealed).zip(query_of.iter().zip(&mut *segments))
        {
            view.estimate(&queries[*of].1, visit, costs);
        }
        // By estimates from centroids in bytes; by what they really cost, the order may be another.
        let near = probes.saturating_add(probes / 4 + 8);
        let bound = nth(segments, near, merged, |&cost| cost);
        for ((view, visit), (of, costs)) in
            self.segments().zip(sealed).zip(query_of.iter().zip(segments))
        {
            costs.clear();
            view.rank(&queries[*of].1, bound, visit, costs);
        }
    }

    /// Fills `scratch.found` with the `keep` best of each place in memory in its nearest `leaves`;
    /// returns how many codes it looked at.
    pub(super) fn scan_unsealed(
        &self,
        leaves: &[usize],
        keep: usize,
        scratch: &mut PlacesScratch,
    ) -> usize {
        let PlacesScratch { unsealed, found, best, .. } = scratch;
        found.resize_with(leaves.len(), Vec::new);
        found.iter_mut().for_each(Vec::clear);
        let mut rows = 0;
        for (((staged, scratch), found), &n) in self.unsealed().zip(unsealed).zip(found).zip(leaves)
        {
            rows += staged.scan(n, keep, scratch, found);
            best.take(found);
        }
        rows
    }

    /// Keeps the first `leaves` of each segment, without those that hold no row within `radius`;
    /// changes `leaves` to how many these are.
    fn cut(&self, leaves: &mut [usize], radius: f32, scratch: &mut PlacesScratch) {
        for ((view, visit), n) in
            self.segments().zip(&mut scratch.sealed).zip(&mut leaves[UNSEALED..])
        {
            *n = view.cut(*n, radius, visit);
        }
    }

    /// Fills `scratch.order`.
    fn order(&self, scratch: &mut PlacesScratch) {
        let PlacesScratch { order, .. } = scratch;
        order.clear();
        order.extend(0..self.view.sealed.len());
        if !self.tiers.without.hot_cold {
            // Read once each: they may change meanwhile. Bits of what is not negative are in order.
            let heat = |&at: &usize| Reverse(self.view.sealed[at].heat.heat().to_bits());
            order.sort_by_cached_key(heat);
        }
    }

    /// Adds to `scratch.found` the best of each segment of `order` in the leaves that were kept, as
    /// far as they are among the `keep` best of all; returns how many codes it looked at. One round
    /// of reads, through what `blocks` gives, or none.
    pub(super) fn scan_sealed(
        &self,
        order: &[usize],
        keep: usize,
        blocks: for<'a> fn(&'a SegmentView<'_>) -> &'a BlockReader,
        scratch: &mut PlacesScratch,
    ) -> Result<usize, Error> {
        let PlacesScratch { sealed, queries, query_of, found, best, .. } = scratch;
        let views: Vec<SegmentView<'_>> = order.iter().map(|&at| self.segment(at)).collect();
        for (view, &at) in views.iter().zip(order) {
            view.begin(&mut sealed[at]);
        }
        let mut rows = 0;
        loop {
            let asked: Vec<Option<Vec<BlockHandle>>> =
                views.iter().zip(order).map(|(view, &at)| view.ask(&mut sealed[at])).collect();
            if asked.iter().all(Option::is_none) {
                break;
            }
            let wanted: Vec<(&BlockReader, &[BlockHandle])> = views
                .iter()
                .zip(&asked)
                .map(|(view, asked)| (blocks(view), asked.as_deref().unwrap_or(&[])))
                .collect();
            let read = read_together(&wanted)?;
            for (((view, &at), asked), read) in views.iter().zip(order).zip(&asked).zip(&read) {
                if asked.is_none() {
                    continue;
                }
                let (query, visit) = (&queries[query_of[at]].1, &mut sealed[at]);
                rows += view.scan(query, read, (keep, best.bound()), visit);
                let place = UNSEALED + at;
                let is_first = found[place].is_empty();
                found[place].clear();
                found[place].extend(view.found(visit));
                if is_first {
                    best.take(&found[place]);
                } else {
                    // What it found in earlier rounds is there already.
                    best.retake(found);
                }
            }
        }
        Ok(rows)
    }

    /// Offers the exact distances of the `most` best of each place in memory; `seen` is told place,
    /// position and id of each.
    pub(super) fn refine_unsealed(
        &self,
        vector: &[f32],
        which: &[Refined],
        scratch: &mut PlacesScratch,
        out: &mut TopK,
        seen: &mut dyn FnMut(usize, usize, Neighbor),
    ) -> usize {
        let unsealed = self.unsealed().zip(&mut scratch.unsealed).zip(which);
        let mut exact = 0;
        for (place, ((staged, scratch), &which)) in unsealed.enumerate() {
            let seen = &mut |at, row| seen(place, at, row);
            exact += staged.refine(vector, which, scratch, out, seen);
        }
        exact
    }

    /// As [`Pinned::refine_unsealed`], of each segment. One round of reads.
    pub(super) fn refine_sealed(
        &self,
        vector: &[f32],
        most: &[usize],
        scratch: &mut PlacesScratch,
        out: &mut TopK,
        seen: &mut dyn FnMut(usize, usize, Neighbor),
    ) -> Result<(), Error> {
        let sealed = &mut scratch.sealed;
        let views: Vec<SegmentView<'_>> = self.segments().collect();
        let wanted: Vec<Vec<BlockHandle>> = views
            .iter()
            .zip(sealed.iter_mut())
            .zip(most)
            .map(|((view, visit), &most)| view.wanted(most, visit))
            .collect();
        let asked: Vec<(&BlockReader, &[BlockHandle])> =
            views.iter().map(SegmentView::blocks).zip(wanted.iter().map(Vec::as_slice)).collect();
        let read = read_together(&asked)?;
        for (at, ((view, visit), read)) in views.iter().zip(sealed).zip(&read).enumerate() {
            view.refine(vector, read, visit, out, &mut |position, row| {
                seen(UNSEALED + at, position, row);
            })?;
        }
        Ok(())
    }

    /// Notes for the heat of segments which of them a query visited, and whose rows it found.
    fn note(&self, leaves: &[usize], origins: &mut [(u64, usize)], out: &TopK) {
        let sealed = &self.view.sealed;
        self.tiers.note_query(sealed);
        let visited = sealed.iter().zip(leaves).filter(|(_, &leaves)| leaves > 0);
        visited.for_each(|(sealed, _)| sealed.heat.note_query());
        origins.sort_unstable();
        let mut rows: Vec<Neighbor> = out.rows().to_vec();
        rows.sort_unstable_by(Neighbor::order);
        for (rank, row) in rows.iter().enumerate() {
            if let Ok(at) = origins.binary_search_by_key(&row.id, |&(id, _)| id) {
                sealed[origins[at].1].heat.note_hits(1, nearness(rank, rows.len()));
            }
        }
    }
}

/// What one search did.
struct Visited {
    stats: SearchStats,
    /// True if there are no leaves beyond those visited.
    is_all: bool,
}

/// The `n`-th least value over all lists; infinite if there are fewer.
fn nth<T>(lists: &[Vec<T>], n: usize, merged: &mut Vec<f32>, value: impl Fn(&T) -> f32) -> f32 {
    merged.clear();
    lists.iter().for_each(|list| merged.extend(list.iter().map(&value)));
    if n >= merged.len() {
        return f32::INFINITY;
    }
    *merged.select_nth_unstable_by(n.max(1) - 1, f32::total_cmp).1
}

pub(super) fn add(stats: &mut SearchStats, more: SearchStats) {
    stats.leaves += more.leaves;
    stats.rows += more.rows;
    stats.exact += more.exact;
}

#[cfg(test)]
mod tests;
