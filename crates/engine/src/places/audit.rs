//! One query through every code of all places, and as many exact distances as it takes.
//!
//! As `vstream_index` does it for memory alone: the best rows by estimate, to a depth at which hardly
//! a true neighbour is missed.

use vstream_index::{
    depth_from, is_deep_enough, noted, CodeRanks, Probe, Reach, Refined, SearchStats,
};
use vstream_vector::{Neighbor, TopK};

use super::search::{PlacesScratch, UNSEALED};
use super::{Pinned, Places};
use crate::error::Error;
use crate::segment::SegmentKind;

/// A row by its estimate.
struct Candidate {
    estimate: f32,
    /// Rank of its leaf among those of all places.
    leaf: u32,
    place: usize,
    position: usize,
    /// Its id, if it was among the nearest when it was measured.
    id: Option<u64>,
}

impl Places {
    /// Copies the vector of a living row to `out`, and returns its id: see
    /// `vstream_index::Search::sample`. Errors: `Corrupt`, `Io`.
    pub(crate) fn sample(&self, pick: u64, out: &mut Vec<f32>) -> Result<Option<u64>, Error> {
        let pinned = self.pin();
        let view = &pinned.view;
        let memory = view.memory.leaves();
        let sealed = || view.sealed.iter();
        let all = memory + sealed().map(|sealed| sealed.segment.leaves()).sum::<usize>();
        let mut leaf = (pick % all.max(1) as u64) as usize;
        let pick = pick / all.max(1) as u64;
        if leaf < memory {
            return Ok(view.memory.sample(pick, out));
        }
        leaf -= memory;
        for sealed in sealed() {
            let leaves = sealed.segment.leaves();
            if leaf < leaves {
                return sealed.at(pinned.sequence).sample(leaf as u32, pick, out);
            }
            leaf -= leaves;
        }
        Ok(None)
    }
}

impl Pinned {
    /// Offers the nearest rows by every code. Errors: as `Pinned::search`.
    pub(super) fn thorough(
        &self,
        probe: &Probe<'_>,
        depth: usize,
        scratch: &mut PlacesScratch,
        out: &mut TopK,
    ) -> Result<SearchStats, Error> {
        let mut stats = SearchStats::default();
        self.every_code(probe, depth, scratch, out, &mut stats)?;
        Ok(stats)
    }

    /// As `vstream_index::Search::audit`, over all places. Errors: as `Pinned::search`.
    pub(super) fn audit(
        &self,
        probe: &Probe<'_>,
        scratch: &mut PlacesScratch,
        out: &mut TopK,
        reach: &mut Vec<Reach>,
    ) -> Result<usize, Error> {
        let depth = match probe.effort {
            vstream_index::Effort::Thorough { depth } => depth,
            _ => 0,
        };
        let mut stats = SearchStats::default();
        let is_flat = |kind| kind == SegmentKind::Flat;
        let (depth, candidates) =
            if self.view.sealed.iter().any(|sealed| is_flat(sealed.segment.kind())) {
                self.exact(probe.vector, out)?;
                (depth, Vec::new())
            } else {
                self.every_code(probe, depth, scratch, out, &mut stats)?
            };
        let mut rows: Vec<Neighbor> = out.rows().to_vec();
        rows.sort_unstable_by(Neighbor::order);
        reach.clear();
        reach.extend(noted(rows.len()).map(|(nth, weight)| {
            let id = rows[nth].id;
            let ranks = position_of(&candidates, id).map(|at| {
                let own = candidates[at].leaf;
                let better = candidates[..at].iter().map(|better| better.leaf);
                (own, CodeRanks::new(own, better))
            });
            let (leaf, code) = ranks.unzip();
            Reach { id, nth: nth as u32, weight, leaf, code }
        }));
        Ok(depth)
    }

    /// The best rows by estimate of all places, best first, down to the depth at which hardly a
    /// neighbour is missed; offers their exact distances.
    fn every_code(
        &self,
        probe: &Probe<'_>,
        depth: usize,
        scratch: &mut PlacesScratch,
        out: &mut TopK,
        stats: &mut SearchStats,
    ) -> Result<(usize, Vec<Candidate>), Error> {
        self.rank(probe.vector, usize::MAX, scratch);
        let ranks = ranks(&scratch.costs);
        let leaves: Vec<usize> = scratch.costs.iter().map(Vec::len).collect();
        stats.leaves += leaves.iter().sum::<usize>();
        let mut depth = depth_from(depth, probe.k);
        loop {
            out.reset(probe.k);
            let loose = self.loose(probe.vector, out);
            scratch.best.reset(depth, true);
            let mut rows = self.scan_unsealed(&leaves, depth, scratch);
            // One after the other, and past the cache: this looks at all codes there are.
            for at in 0..self.view.sealed.len() {
                rows += self.scan_sealed(&[at], depth, |view| view.passing(), scratch)?;
            }
            stats.rows += loose + rows;
            let mut candidates = merged(&scratch.found, &ranks);
            let is_cut = candidates.len() > depth || rows > candidates.len();
            candidates.truncate(depth);
            stats.exact += loose + self.measure(probe.vector, &mut candidates, scratch, out)?;
            let found = out.rows().iter().filter_map(|row| position_of(&candidates, row.id));
            if !is_cut || is_deep_enough(depth, found) || depth >= rows {
                return Ok((depth, candidates));
            }
            depth = depth.saturating_mul(4);
        }
    }

    /// Offers the exact distances of candidates, and notes the ids of those that were among the
    /// nearest.
    fn measure(
        &self,
        vector: &[f32],
        candidates: &mut [Candidate],
        scratch: &mut PlacesScratch,
        out: &mut TopK,
    ) -> Result<usize, Error> {
        let mut most = vec![0; scratch.found.len()];
        candidates.iter().for_each(|candidate| most[candidate.place] += 1);
        let mut ids: Vec<Vec<Option<u64>>> = most.iter().map(|&n| vec![None; n]).collect();
        let seen = &mut |place: usize, at: usize, id| ids[place][at] = Some(id);
        let each: Vec<Refined> = most[..UNSEALED].iter().map(|&n| Refined::Each(n)).collect();
        self.refine_unsealed(vector, &each, scratch, out, seen);
        self.refine_sealed(vector, &most[UNSEALED..], scratch, out, seen)?;
        for candidate in &mut *candidates {
            candidate.id = ids[candidate.place].get(candidate.position).copied().flatten();
        }
        Ok(candidates.len())
    }
}

fn position_of(candidates: &[Candidate], id: u64) -> Option<usize> {
    candidates.iter().position(|candidate| candidate.id == Some(id))
}

/// What each place found, best first.
fn merged(found: &[Vec<vstream_index::Coded>], ranks: &[Vec<u32>]) -> Vec<Candidate> {
    let mut candidates: Vec<Candidate> = Vec::new();
    for (place, found) in found.iter().enumerate() {
        candidates.extend(found.iter().enumerate().map(|(position, row)| Candidate {
            estimate: row.estimate,
            leaf: ranks[place][row.leaf as usize],
            place,
            position,
            id: None,
        }));
    }
    candidates.sort_by(|a, b| a.estimate.total_cmp(&b.estimate));
    candidates
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
