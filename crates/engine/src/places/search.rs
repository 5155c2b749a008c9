//! One query over all places: one ranking of leaves, one set of candidates, one list of answers.
//!
//! 1. Rank the leaves of each place, and visit the `probes` nearest of all.
//! 2. Scan their codes, and refine the `refine` best estimates of all.
//! 3. Read what lies in segments for them in one round.
//!
//! Memory alone is searched by its index directly: an engine without segments pays nothing here.

use vstream_index::{CodeRanks, Coded, Effort, Probe, Reach, Scratch, SearchStats};
use vstream_store::blocks::{read_together, Address, BlockReader};
use vstream_vector::{Neighbor, TopK};

use super::{Pinned, Places};
use crate::error::Error;
use crate::segment::{SegmentKind, SegmentScratch, SegmentView};

/// Rows that an audit over segments measures exactly: each costs a read.
const AUDITED: usize = 1024;

/// Buffers of one searching thread.
#[derive(Default)]
pub(crate) struct PlacesScratch {
    /// Of memory, and of frozen memory.
    unsealed: [Scratch; 2],
    sealed: Vec<SegmentScratch>,
    /// Per place: costs of its leaves, ascending.
    costs: Vec<Vec<f32>>,
    /// Per place: its candidates, best first.
    found: Vec<Vec<Coded>>,
    merged: Vec<f32>,
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
    ) -> Result<(), Error> {
        {
            let view = self.view.load();
            if view.frozen.is_none() && view.sealed.is_empty() {
                view.memory.audit(probe, &mut scratch.unsealed[0], out, reach);
                return Ok(());
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
        let Effort::Approximate { probes, refine } = probe.effort else {
            return self.exact(probe.vector, out);
        };
        if self.view.sealed.iter().any(|sealed| sealed.segment.kind() == SegmentKind::Flat) {
            return self.exact(probe.vector, out);
        }
        let mut stats = SearchStats { rows: self.loose(probe.vector, out), ..Default::default() };
        stats.exact = stats.rows;
        self.rank(probe.vector, probes, scratch);
        let bound = nth(&scratch.costs, probes, &mut scratch.merged, |&cost| cost);
        let leaves: Vec<usize> = scratch
            .costs
            .iter()
            .map(|costs| costs.partition_point(|cost| cost.total_cmp(&bound).is_le()))
            .collect();
        stats.leaves = leaves.iter().sum();
        let refine = refine.max(probe.k);
        stats.rows += self.scan(&leaves, refine, scratch)?;
        let bound = nth(&scratch.found, refine, &mut scratch.merged, |row| row.estimate);
        let most: Vec<usize> = scratch
            .found
            .iter()
            .map(|found| found.partition_point(|row| row.estimate.total_cmp(&bound).is_le()))
            .collect();
        stats.exact += most.iter().sum::<usize>();
        self.refine(probe.vector, &most, scratch, out, &mut |_, _, _| {})?;
        Ok(stats)
    }

    fn exact(&self, vector: &[f32], out: &mut TopK) -> Result<SearchStats, Error> {
        let mut stats = SearchStats::default();
        self.unsealed().for_each(|staged| add(&mut stats, staged.exact(vector, out)));
        for sealed in &self.view.sealed {
            add(&mut stats, sealed.at(self.sequence).exact(vector, out)?);
        }
        Ok(stats)
    }

    fn loose(&self, vector: &[f32], out: &mut TopK) -> usize {
        self.unsealed().map(|staged| staged.loose(vector, out)).sum()
    }

    fn segments(&self) -> impl Iterator<Item = SegmentView<'_>> {
        self.view.sealed.iter().map(|sealed| sealed.at(self.sequence))
    }

    /// Fills `scratch.costs` with the `probes` nearest leaves of each place.
    fn rank(&self, vector: &[f32], probes: usize, scratch: &mut PlacesScratch) {
        let PlacesScratch { unsealed, sealed, costs, .. } = scratch;
        let count = 2 + self.view.sealed.len();
        costs.resize_with(count, Vec::new);
        costs.iter_mut().for_each(Vec::clear);
        sealed.resize_with(count - 2, SegmentScratch::default);
        let (memory, segments) = costs.split_at_mut(2);
        for ((staged, scratch), costs) in self.unsealed().zip(unsealed).zip(memory) {
            staged.rank(vector, probes, scratch, costs);
        }
        for ((view, scratch), costs) in self.segments().zip(sealed).zip(segments) {
            view.rank_leaves(vector, probes, scratch, costs);
        }
    }

    /// Fills `scratch.found` with the `keep` best of each place in its nearest `leaves`; returns
    /// how many codes it looked at.
    fn scan(
        &self,
        leaves: &[usize],
        keep: usize,
        scratch: &mut PlacesScratch,
    ) -> Result<usize, Error> {
        let PlacesScratch { unsealed, sealed, found, .. } = scratch;
        found.resize_with(leaves.len(), Vec::new);
        found.iter_mut().for_each(Vec::clear);
        let (memory, segments) = found.split_at_mut(2);
        let mut rows = 0;
        for (((staged, scratch), found), &n) in
            self.unsealed().zip(unsealed).zip(memory).zip(leaves)
        {
            rows += staged.scan(n, keep, scratch, found);
        }
        for (((view, scratch), found), &n) in
            self.segments().zip(sealed).zip(segments).zip(&leaves[2..])
        {
            rows += view.scan_leaves(n, keep, scratch, found)?;
        }
        Ok(rows)
    }

    /// Offers the exact distances of the `most` best of each place; `seen` is told place, position
    /// and id of each. One round of reads.
    fn refine(
        &self,
        vector: &[f32],
        most: &[usize],
        scratch: &mut PlacesScratch,
        out: &mut TopK,
        seen: &mut dyn FnMut(usize, usize, u64),
    ) -> Result<(), Error> {
        let PlacesScratch { unsealed, sealed, .. } = scratch;
        for (place, (staged, scratch)) in self.unsealed().zip(unsealed).enumerate() {
            staged.refine(vector, most[place], scratch, out, &mut |at, id| seen(place, at, id));
        }
        let views: Vec<SegmentView<'_>> = self.segments().collect();
        let wanted: Vec<Vec<Address>> = views
            .iter()
            .zip(sealed.iter_mut())
            .zip(&most[2..])
            .map(|((view, scratch), &most)| view.wanted(most, scratch))
            .collect();
        let asked: Vec<(&BlockReader, &[Address])> =
            views.iter().map(SegmentView::blocks).zip(wanted.iter().map(Vec::as_slice)).collect();
        let read = read_together(&asked)?;
        for (at, ((view, scratch), read)) in views.iter().zip(sealed).zip(&read).enumerate() {
            view.refine(vector, read, scratch, out, &mut |position, id| {
                seen(2 + at, position, id);
            })?;
        }
        Ok(())
    }

    fn audit(
        &self,
        probe: &Probe<'_>,
        scratch: &mut PlacesScratch,
        out: &mut TopK,
        reach: &mut Vec<Reach>,
    ) -> Result<(), Error> {
        reach.clear();
        self.loose(probe.vector, out);
        self.rank(probe.vector, usize::MAX, scratch);
        let ranks = ranks(&scratch.costs);
        let leaves: Vec<usize> = scratch.costs.iter().map(Vec::len).collect();
        self.scan(&leaves, AUDITED, scratch)?;
        let mut candidates: Vec<Candidate> = Vec::new();
        for (place, found) in scratch.found.iter().enumerate() {
            candidates.extend(found.iter().enumerate().map(|(position, row)| Candidate {
                estimate: row.estimate,
                leaf: ranks[place][row.leaf as usize],
                place,
                position,
                id: None,
            }));
        }
        candidates.sort_by(|a, b| a.estimate.total_cmp(&b.estimate));
        candidates.truncate(AUDITED);
        let mut most = vec![0; leaves.len()];
        candidates.iter().for_each(|candidate| most[candidate.place] += 1);
        let mut ids: Vec<Vec<u64>> = most.iter().map(|&n| vec![0; n]).collect();
        self.refine(probe.vector, &most, scratch, out, &mut |place, at, id| ids[place][at] = id)?;
        for candidate in &mut candidates {
            candidate.id = ids[candidate.place].get(candidate.position).copied();
        }
        let probes = match probe.effort {
            Effort::Approximate { probes, .. } => u32::try_from(probes).unwrap_or(u32::MAX),
            Effort::Exact => u32::MAX,
        };
        reach.extend(out.rows().iter().map(|row| reach_of(row.id, &candidates, probes)));
        Ok(())
    }
}

/// A candidate of an audit.
struct Candidate {
    estimate: f32,
    /// Rank of its leaf among those of all places.
    leaf: u32,
    place: usize,
    position: usize,
    id: Option<u64>,
}

/// How far a search that visits `probes` leaves must go to find the row of `id`.
fn reach_of(id: u64, candidates: &[Candidate], probes: u32) -> Reach {
    let found = candidates.iter().position(|candidate| candidate.id == Some(id));
    let Some(at) = found else { return Reach { id, leaf: None, code: None } };
    let leaf = candidates[at].leaf;
    let up_to =
        |last: u32| candidates[..at].iter().filter(|other| other.leaf <= last).count() as u32;
    let code = CodeRanks {
        own: up_to(leaf),
        visited: up_to(leaf.max(probes.saturating_sub(1))),
        all: at as u32,
    };
    Reach { id, leaf: Some(leaf), code: Some(code) }
}

/// Rank of each leaf of each place among all, by cost.
fn ranks(costs: &[Vec<f32>]) -> Vec<Vec<u32>> {
    let mut order: Vec<(f32, usize, usize)> = Vec::new();
    for (place, costs) in costs.iter().enumerate() {
        order.extend(costs.iter().enumerate().map(|(leaf, &cost)| (cost, place, leaf)));
    }
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut ranks: Vec<Vec<u32>> = costs.iter().map(|costs| vec![0; costs.len()]).collect();
    for ((_, place, leaf), rank) in order.into_iter().zip(0..) {
        ranks[place][leaf] = rank;
    }
    ranks
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

fn add(stats: &mut SearchStats, more: SearchStats) {
    stats.leaves += more.leaves;
    stats.rows += more.rows;
    stats.exact += more.exact;
}
