//! One query through the codes of all places, with as many exact distances as it needs.
//!
//! `vstream_index` does the same for the memtable alone: it takes the rows with the least
//! estimates, down to a depth at which a search hardly misses a true neighbour.
//!
//! Over segments, where codes may have to be read, an audit scans those of the nearest leaves, of as many as
//! that rule asks for: hardly a true neighbour stands in the last three quarters of these leaves. Otherwise it
//! scans four times as many, all of them if need be.

use vstream_index::stages::{PlaceState, Refine};
use vstream_index::{
    depth_from, depth_needed, note, positions_of, CodeRanks, Probe, Reach, SearchStats,
};
use vstream_vector::{Neighbor, TopK};

use super::search::{TreeScratch, MEMORY_PLACES};
use super::{Pinned, Tree};
use crate::error::Error;

/// Rows of segments that are read in one round: an audit measures thousands, and their blocks would be
/// in memory together.
const MEASURED_TOGETHER: usize = 256;
/// A scan of every code begins with a leaf for so many rows that are wanted, and one in so many leaves at most.
const ROWS_PER_NEAREST: usize = 32;
const NEAREST_PART: usize = 8;
/// Least leaves whose codes an audit scans, and their least part of all. Tests have few leaves.
const LEAVES_MIN: usize = if cfg!(test) { 8 } else { 256 };
const LEAVES_PART: usize = 16;
/// Factor by which an audit scans the codes of more leaves that was near a neighbour's with fewer.
const FARTHER: usize = 4;
/// Rows that a leaf in memory usually has.
const ROWS_PER_LEAF: u64 = 384;

/// How far an audit over segments goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Rows, by estimate, that it measures.
    pub(crate) depth: usize,
    /// The nearest leaves whose codes it scans.
    pub(crate) leaves: usize,
}

impl Extent {
    /// That of a scan of every code.
    fn whole(depth: usize) -> Extent {
        Extent { depth, leaves: usize::MAX }
    }
}

/// The nearest leaves whose codes an audit scans at first, if `known` were enough before, of so many.
pub(super) fn leaves_from(known: usize, all: usize) -> usize {
    known.max(LEAVES_MIN).max(all / LEAVES_PART)
}

/// A row with its estimate.
struct Candidate {
    estimate: f32,
    /// Rank of its leaf among the leaves of all places, and the cost of that leaf.
    leaf: u32,
    cost: f32,
    place: usize,
    position: usize,
}

/// The result of a search through the codes of enough leaves.
#[derive(Default)]
struct Found {
    depth: usize,
    /// Best first.
    candidates: Vec<Candidate>,
    /// Rows of the answer and their positions among the candidates, sorted by id.
    positions: Vec<(Neighbor, u32)>,
}

impl Tree {
    /// Copies the vector of a live row to `out`, and returns its id: see
    /// `vstream_index::Search::sample`. Errors: `Corrupt`, `Io`.
    pub(crate) fn sample(&self, pick: u64, out: &mut Vec<f32>) -> Result<Option<u64>, Error> {
        let pinned = self.pin();
        let view = &pinned.view;
        let memory = view.memory.leaves() as u64 * ROWS_PER_LEAF;
        let all = memory + view.segments.iter().map(|live| live.segment.rows()).sum::<u64>();
        let mut row = pick % all.max(1);
        let pick = pick / all.max(1);
        if row < memory {
            return Ok(view.memory.sample(pick, out));
        }
        row -= memory;
        for live in &view.segments {
            let rows = live.segment.rows();
            if row >= rows {
                row -= rows;
                continue;
            }
            let graph = live.graph_at(pinned.sequence);
            let sampled = graph.map(|graph| graph.sample(pick, out));
            let sampled = sampled.or_else(|| {
                let leaf = live.segment.leaves()?.leaf_of(row as u32);
                Some(live.leaves_at(pinned.sequence)?.sample(leaf as u32, pick, out))
            });
            return Ok(sampled.transpose()?.flatten());
        }
        Ok(None)
    }
}

impl Pinned {
    /// Offers the nearest rows after a scan of every code. Errors: as `Pinned::search`.
    pub(in crate::tree) fn thorough(
        &self,
        probe: &Probe<'_>,
        depth: usize,
        scratch: &mut TreeScratch,
        out: &mut TopK,
    ) -> Result<SearchStats, Error> {
        let mut stats = SearchStats::default();
        self.nearest_codes(probe, Extent::whole(depth), scratch, out, &mut stats)?;
        self.thorough_graphs(probe, depth, scratch, out)?;
        Ok(stats)
    }

    /// Offers the nearest rows of all graphs, and returns the greatest depth that one took.
    fn thorough_graphs(
        &self,
        probe: &Probe<'_>,
        depth: usize,
        scratch: &mut TreeScratch,
        out: &mut TopK,
    ) -> Result<usize, Error> {
        let mut deepest = 0;
        for graph in self.graphs() {
            let reached = graph.thorough(probe.vector, depth, &mut scratch.graph, out)?;
            deepest = deepest.max(reached);
        }
        Ok(deepest)
    }

    /// Notes how far searches must go for the rows of an answer that are in graphs.
    fn note_graphs(
        &self,
        probe: &Probe<'_>,
        scratch: &mut TreeScratch,
        reach: &mut [Reach],
    ) -> Result<(), Error> {
        for (live, graph) in
            self.view.segments.iter().filter_map(|live| Some((live, live.graph_at(self.sequence)?)))
        {
            let is_here = |id| {
                let row = live.ids.find(id);
                row.is_some_and(|row| live.tombstones.is_visible(row, self.sequence))
            };
            let mut own: Vec<&mut Reach> = reach
                .iter_mut()
                .filter(|reach| reach.leaf.is_none() && is_here(reach.id))
                .collect();
            if own.is_empty() {
                continue;
            }
            let ids: Vec<u64> = own.iter().map(|reach| reach.id).collect();
            let ranks = graph.ranks((probe.vector, probe.k), &ids, &mut scratch.graph)?;
            for (reach, rank) in own.iter_mut().zip(ranks) {
                reach.code = Some(CodeRanks::always(rank));
            }
        }
        Ok(())
    }

    /// Audits a query over all places: see `vstream_index::Search::audit`. Errors: as
    /// `Pinned::search`.
    ///
    /// * `begin`: how far it goes at first. It returns how far it had to go.
    /// * `is_whole`: it scans every code, and returns how many leaves it would have scanned.
    pub(super) fn audit(
        &self,
        probe: &Probe<'_>,
        (begin, is_whole): (Extent, bool),
        scratch: &mut TreeScratch,
        out: &mut TopK,
        reach: &mut Vec<Reach>,
    ) -> Result<Extent, Error> {
        let is_flat = self.view.segments.iter().any(|live| live.segment.is_flat());
        let (found, deepest) = if is_flat {
            self.exact(probe.vector, probe.filter, out)?;
            (Found::default(), Extent { depth: 0, leaves: begin.leaves })
        } else {
            let (found, leaves) = self.enough_codes(probe, (begin, is_whole), scratch, out)?;
            let depth = self.thorough_graphs(probe, begin.depth, scratch, out)?;
            (found, Extent { depth, leaves })
        };
        let candidates = &found.candidates;
        let ranks_of = |at: u32| {
            let Candidate { leaf: own, cost, .. } = candidates[at as usize];
            (own, cost, candidates[..at as usize].iter().map(|better| better.leaf))
        };
        note(out.rows(), &found.positions, ranks_of, reach);
        if !is_flat {
            self.note_graphs(probe, scratch, reach)?;
        }
        Ok(Extent { depth: found.depth.max(deepest.depth), ..deepest })
    }

    /// As [`Pinned::nearest_codes`], of as many leaves as hardly miss a neighbour; returns their number too, of
    /// those that it would have scanned if it `is_whole`.
    fn enough_codes(
        &self,
        probe: &Probe<'_>,
        (begin, is_whole): (Extent, bool),
        scratch: &mut TreeScratch,
        out: &mut TopK,
    ) -> Result<(Found, usize), Error> {
        let mut stats = SearchStats::default();
        let in_memory: usize = self.memory_places().map(|place| place.leaves()).sum();
        let all = in_memory + self.view.leaves.len();
        let begin = Extent { leaves: begin.leaves.max(1), ..begin };
        let mut extent = if is_whole { Extent::whole(begin.depth) } else { begin };
        loop {
            // One scan of all costs less than one of half of them and then another.
            let is_all = extent.leaves > all / 2;
            extent.leaves = if is_all { usize::MAX } else { extent.leaves };
            let found = self.nearest_codes(probe, extent, scratch, out, &mut stats)?;
            let leaf = |&(_, at): &(Neighbor, u32)| found.candidates[at as usize].leaf as usize;
            let needed = depth_needed(found.positions.iter().map(leaf));
            if is_all {
                let mut leaves = begin.leaves;
                while leaves < needed.min(all) {
                    leaves = leaves.saturating_mul(FARTHER);
                }
                return Ok((found, leaves.min(all)));
            }
            if out.len() >= probe.k && needed <= extent.leaves {
                return Ok((found, extent.leaves));
            }
            extent = Extent { depth: found.depth, leaves: extent.leaves.saturating_mul(FARTHER) };
        }
    }

    /// The rows of the nearest leaves of all places with the least estimates, best first, down to the depth at
    /// which a search hardly misses a neighbour. Offers their exact distances.
    fn nearest_codes(
        &self,
        probe: &Probe<'_>,
        extent: Extent,
        scratch: &mut TreeScratch,
        out: &mut TopK,
        stats: &mut SearchStats,
    ) -> Result<Found, Error> {
        self.rank(probe, extent.leaves, scratch)?;
        let mut probes: Vec<f32> = scratch.probe_costs().collect();
        probes.sort_unstable_by(f32::total_cmp);
        let last = probes.get(extent.leaves.saturating_sub(1)).copied();
        let mut depth = depth_from(extent.depth, probe.k);
        loop {
            let bound = last.unwrap_or(f32::INFINITY);
            stats.rows += self.bound_estimates(depth, bound, scratch)?;
            out.reset(probe.k);
            let loose = self.scan_loose(probe.vector, probe.filter, out);
            match last {
                Some(cost) => scratch.keep_within(cost),
                None => scratch.keep_all(),
            }
            let mut rows = self.scan_memory(depth, &[], scratch);
            self.keep_segment_leaves(f32::INFINITY, &[], scratch);
            // Reads one segment after the other and bypasses the cache: these are many codes.
            for at in 0..self.segments().count() {
                rows += self.scan_segments(&[at], depth, |view| view.passing(), scratch)?;
                scratch.keep_useful(at);
            }
            stats.rows += loose + rows;
            let mut candidates = merged(scratch, &probes, scratch.best.bound());
            let is_cut = candidates.len() > depth || rows > candidates.len();
            candidates.truncate(depth);
            stats.exact += loose + candidates.len();
            let mut positions = self.measure(probe.vector, &candidates, scratch, out)?;
            positions_of(out.rows(), &mut positions, |at| candidates[at as usize].leaf);
            let needed = depth_needed(positions.iter().map(|&(_, at)| at as usize));
            if !is_cut || needed <= depth || depth >= rows {
                stats.leaves += scratch.leaves();
                return Ok(Found { depth, candidates, positions });
            }
            depth = depth.saturating_mul(4);
        }
    }

    /// Lets a scan for the `depth` best estimates begin with a bound: that of the rows of the nearest leaves, some
    /// times as many, but no more than an eighth of all. Else each segment would pass thousands of rows on before
    /// the last bounds them all. Returns the number of codes scanned, which are scanned once more.
    ///
    /// * `last`: no leaf that costs more is scanned then.
    fn bound_estimates(
        &self,
        depth: usize,
        last: f32,
        scratch: &mut TreeScratch,
    ) -> Result<usize, Error> {
        let leaves = scratch.probe_costs().count();
        let nearest = (depth / ROWS_PER_NEAREST).min(leaves / NEAREST_PART).max(1);
        scratch.keep_nearest(nearest, last);
        scratch.best.reset(depth, true);
        let in_memory = self.scan_memory(depth, &[], scratch);
        self.keep_segment_leaves(f32::INFINITY, &[], scratch);
        let all: Vec<usize> = (0..self.segments().count()).collect();
        let in_segments = self.scan_segments(&all, depth, |view| view.passing(), scratch)?;
        scratch.best.reset_within(depth);
        Ok(in_memory + in_segments)
    }

    /// Offers the exact distances of candidates; returns those that were among the nearest, with
    /// their positions.
    fn measure(
        &self,
        vector: &[f32],
        candidates: &[Candidate],
        scratch: &mut TreeScratch,
        out: &mut TopK,
    ) -> Result<Vec<(Neighbor, u32)>, Error> {
        // Positions among all candidates, by place and by position in that place.
        let mut among: Vec<Vec<u32>> = vec![Vec::new(); MEMORY_PLACES + scratch.segments.len()];
        for (candidate, position) in candidates.iter().zip(0..) {
            // The candidates of one place come in that place's order.
            debug_assert_eq!(candidate.position, among[candidate.place].len());
            among[candidate.place].push(position);
        }
        let (memory, segments) = among.split_at(MEMORY_PLACES);
        for (state, among) in scratch.memory.iter_mut().zip(memory) {
            state.candidates.truncate(among.len());
        }
        for (state, among) in scratch.segments.iter_mut().zip(segments) {
            state.candidates.truncate(among.len());
        }
        let mut measured = Vec::new();
        let note = &mut |place: usize, position: usize, row| {
            measured.push((row, among[place][position]));
        };
        self.refine_memory(vector, Refine::Each, scratch, out, note);
        let take = |state: &mut PlaceState<_>| std::mem::take(&mut state.candidates);
        let all: Vec<Vec<_>> = scratch.segments.iter_mut().map(take).collect();
        // Leaf by leaf, so that a block with many of them is read once or twice: in the order of estimates each
        // round would read most blocks of a small collection.
        let order: Vec<Vec<u32>> = all.iter().map(|rows| by_leaf(rows)).collect();
        let mut from = vec![0; all.len()];
        loop {
            let mut room = MEASURED_TOGETHER;
            for (((state, all), order), from) in
                scratch.segments.iter_mut().zip(&all).zip(&order).zip(&from)
            {
                let part = &order[*from..(*from + room).min(order.len())];
                state.candidates.extend(part.iter().map(|&at| all[at as usize]));
                room -= part.len();
            }
            if room == MEASURED_TOGETHER {
                break;
            }
            let note = &mut |place: usize, position: usize, row| {
                let segment = place - MEMORY_PLACES;
                let at = order[segment][from[segment] + position];
                measured.push((row, among[place][at as usize]));
            };
            self.refine_segments(vector, scratch, out, note)?;
            for (state, from) in scratch.segments.iter_mut().zip(&mut from) {
                *from += state.candidates.len();
                state.candidates.clear();
            }
        }
        for (state, all) in scratch.segments.iter_mut().zip(all) {
            state.candidates = all;
        }
        Ok(measured)
    }
}

/// Positions of candidates in the order of their leaves, and of their rows in each.
fn by_leaf(rows: &[vstream_index::stages::Candidate]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..rows.len() as u32).collect();
    order.sort_unstable_by_key(|&at| (rows[at as usize].leaf, rows[at as usize].row));
    order
}

/// The candidates of all places, best first, without those whose estimates are above `bound`: segments that were
/// scanned first keep many such.
///
/// * `probes`: costs of the leaves that count as probes, sorted. The rank of a leaf is how many of them cost less:
///   a query of one more probe visits it. Leaves that every query visits have rank 0, and their cost all the
///   same: after a flush or a merge their rows are in leaves like any others.
fn merged(scratch: &TreeScratch, probes: &[f32], bound: f32) -> Vec<Candidate> {
    let mut candidates: Vec<Candidate> = Vec::new();
    let places = scratch.candidates().zip(scratch.costs()).zip(scratch.always());
    for (place, ((found, costs), always)) in places.enumerate() {
        let near = found.iter().take_while(|row| row.estimate.total_cmp(&bound).is_le());
        candidates.extend(near.enumerate().map(|(position, row)| {
            let cost = costs[row.leaf as usize];
            let rank = || probes.partition_point(|probe| probe.total_cmp(&cost).is_lt());
            let leaf = if (row.leaf as usize) < always { 0 } else { rank() as u32 };
            Candidate { estimate: row.estimate, leaf, cost, place, position }
        }));
    }
    candidates.sort_by(|a, b| a.estimate.total_cmp(&b.estimate));
    candidates
}
