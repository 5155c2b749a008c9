//! One approximate query through a segment.
//!
//! 1. Rank the leaves by their centroids, which are in memory.
//! 2. Scan the codes of the nearest; if they are not in memory, read their postings together.
//! 3. Read the blocks of the `refine` best estimates together, each block once.
//! 4. Decode those rows and take their exact distances.

use std::sync::Arc;

use vstream_index::{distance, CodeRanks, Coded, Effort, Probe, Reach, SearchStats, CODE_RANK_MAX};
use vstream_quantize::rabitq::{QueryTable, BLOCK};
use vstream_quantize::scalar8::ScanScratch;
use vstream_quantize::Form;
use vstream_store::blocks::{Address, Block, BlockReader};
use vstream_store::codec::{describe, Decoder, BLOCK_ROWS};
use vstream_vector::{kernels, Neighbor, TopK};

use super::deletes::Deletes;
use super::format::RowBlock;
use super::read::{Segment, BLOCKS_AHEAD};
use super::rows::Numbers;
use super::write::form_of;
use crate::error::Error;

/// Share of a leaf's spread that ranking by inner product credits to it, as in `vstream-index`.
const INNER_PRODUCT_SPREAD: f32 = 0.25;

/// Buffers of one searching thread.
#[derive(Default)]
pub struct SegmentScratch {
    rotated: Vec<f32>,
    centroid: Vec<f32>,
    table: QueryTable,
    scan: ScanScratch,
    estimates: Vec<f32>,
    ranked: Vec<Ranked>,
    candidates: Vec<Candidate>,
    /// Candidates to be refined and their positions, block by block.
    wanted: Vec<(Candidate, u32)>,
    decoder: Decoder,
    numbers: Option<Numbers>,
}

impl SegmentScratch {
    /// Empty buffers that grow to what queries need and stay.
    pub fn new() -> SegmentScratch {
        SegmentScratch::default()
    }
}

#[derive(Clone, Copy)]
struct Ranked {
    cost: f32,
    /// Distance of the query to the centroid, the constant of the leaf's estimates.
    base: f32,
    leaf: u32,
}

#[derive(Clone, Copy)]
struct Candidate {
    estimate: f32,
    /// Rank of its leaf.
    rank: u32,
    /// Row block, and the row in it.
    block: u32,
    lane: u32,
}

/// A segment as a reader sees it that pinned a sequence.
#[derive(Clone, Copy)]
pub struct SegmentView<'a> {
    pub(super) segment: &'a Segment,
    deletes: &'a Deletes,
    pin: u64,
}

impl Segment {
    /// What a reader sees that pinned `pin`: rows that were not deleted at or before it.
    pub fn at<'a>(&'a self, deletes: &'a Deletes, pin: u64) -> SegmentView<'a> {
        SegmentView { segment: self, deletes, pin }
    }
}

impl SegmentView<'_> {
    #[inline]
    pub(super) fn is_visible(&self, row: u32) -> bool {
        self.deletes.is_visible(row, self.pin)
    }

    /// Offers the nearest visible rows to `out`, which was reset to `probe.k`.
    ///
    /// Cost: at most two rounds of reads, the first none with resident codes; `Effort::Exact` and
    /// flat segments read every row. Errors: `Corrupt`, those of the store; `out` is incomplete
    /// then.
    pub fn search(
        &self,
        probe: &Probe<'_>,
        scratch: &mut SegmentScratch,
        out: &mut TopK,
    ) -> Result<SearchStats, Error> {
        let Effort::Approximate { probes, refine } = probe.effort else {
            return self.exact(probe.vector, out);
        };
        if self.segment.centroids.is_none() {
            return self.exact(probe.vector, out);
        }
        let mut stats = SearchStats::default();
        self.rank(probe.vector, probes, scratch);
        self.scan(refine.max(probe.k), scratch, &mut stats)?;
        stats.exact = scratch.candidates.len();
        self.read_and_refine(probe.vector, scratch, out, &mut |_, _| {})?;
        Ok(stats)
    }

    /// Ranks the `probes` nearest leaves and adds what they are ordered by to `costs`, ascending;
    /// none in a flat segment.
    pub(crate) fn rank_leaves(
        &self,
        query: &[f32],
        probes: usize,
        scratch: &mut SegmentScratch,
        costs: &mut Vec<f32>,
    ) {
        scratch.ranked.clear();
        if self.segment.centroids.is_some() {
            self.rank(query, probes, scratch);
            costs.extend(scratch.ranked.iter().map(|leaf| leaf.cost));
        }
    }

    /// Scans the codes of the first `leaves` that were ranked, and adds the `keep` best visible rows
    /// to `found`, best first; returns how many codes it looked at. Errors: as
    /// [`SegmentView::search`].
    pub(crate) fn scan_leaves(
        &self,
        leaves: usize,
        keep: usize,
        scratch: &mut SegmentScratch,
        found: &mut Vec<Coded>,
    ) -> Result<usize, Error> {
        let mut stats = SearchStats::default();
        scratch.ranked.truncate(leaves);
        self.scan(keep, scratch, &mut stats)?;
        let coded = |row: &Candidate| Coded { estimate: row.estimate, leaf: row.rank };
        found.extend(scratch.candidates.iter().map(coded));
        Ok(stats.rows)
    }

    /// The answer of a search through every code, and for each row of it how far a search must go
    /// to find it; see `vstream_index::Search::audit`. Errors: as [`SegmentView::search`].
    pub fn audit(
        &self,
        probe: &Probe<'_>,
        scratch: &mut SegmentScratch,
        out: &mut TopK,
        reach: &mut Vec<Reach>,
    ) -> Result<(), Error> {
        reach.clear();
        if self.segment.centroids.is_none() {
            self.exact(probe.vector, out)?;
            let unranked = |row: &Neighbor| Reach { id: row.id, leaf: None, code: None };
            reach.extend(out.rows().iter().map(unranked));
            return Ok(());
        }
        self.rank(probe.vector, usize::MAX, scratch);
        self.scan(CODE_RANK_MAX, scratch, &mut SearchStats::default())?;
        let mut ranks: Vec<(u64, usize)> = Vec::new();
        self.read_and_refine(probe.vector, scratch, out, &mut |at, id| ranks.push((id, at)))?;
        let candidates = &scratch.candidates;
        let ranks: Vec<(u64, Candidate)> =
            ranks.into_iter().map(|(id, at)| (id, candidates[at])).collect();
        let probes = match probe.effort {
            Effort::Approximate { probes, .. } => probes as u32,
            Effort::Exact => u32::MAX,
        };
        for row in out.rows() {
            let Some((_, own)) = ranks.iter().find(|(id, _)| *id == row.id) else { continue };
            let up_to = |last: u32| {
                let is_before = |(_, other): &&(u64, Candidate)| {
                    other.rank <= last && other.estimate.total_cmp(&own.estimate).is_lt()
                };
                ranks.iter().filter(is_before).count() as u32
            };
            let code = CodeRanks {
                own: up_to(own.rank),
                visited: up_to(own.rank.max(probes.saturating_sub(1))),
                all: up_to(u32::MAX),
            };
            reach.push(Reach { id: row.id, leaf: Some(own.rank), code: Some(code) });
        }
        Ok(())
    }

    /// Fills `scratch.ranked` with the `probes` nearest leaves, nearest first.
    fn rank(&self, query: &[f32], probes: usize, scratch: &mut SegmentScratch) {
        let segment = self.segment;
        let SegmentScratch { rotated, centroid, table, scan, estimates, ranked, .. } = scratch;
        rotated.resize(segment.rotation.padded(), 0.0);
        centroid.resize(segment.rotation.padded(), 0.0);
        segment.rotation.apply(query, rotated);
        table.build(rotated);
        let form = form_of(segment.metric());
        let length = kernels::norm_squared(rotated).sqrt();
        let cost = |distance: f32, leaf: u32| match form {
            Form::L2 => distance,
            Form::InnerProduct => {
                let spread = length * segment.leaves[leaf as usize].length;
                distance - INNER_PRODUCT_SPREAD * spread
            }
        };
        let centroids = segment.centroids.as_ref().expect("a cluster segment");
        centroids.scan(form, rotated, scan, estimates);
        ranked.clear();
        let leaves = estimates.iter().zip(0..);
        ranked.extend(leaves.map(|(&estimate, leaf)| Ranked {
            cost: cost(estimate, leaf),
            base: 0.0,
            leaf,
        }));
        let probes = probes.clamp(1, ranked.len().max(1));
        if probes < ranked.len() {
            ranked.select_nth_unstable_by(probes - 1, |a, b| a.cost.total_cmp(&b.cost));
            ranked.truncate(probes);
        }
        for leaf in ranked.iter_mut() {
            segment.centroid(leaf.leaf, centroid);
            leaf.base = form.base(rotated, centroid);
            leaf.cost = cost(leaf.base, leaf.leaf);
        }
        ranked.sort_unstable_by(|a, b| a.cost.total_cmp(&b.cost));
    }

    /// Fills `scratch.candidates` with the `keep` best estimates of visible rows, best first.
    fn scan(
        &self,
        keep: usize,
        scratch: &mut SegmentScratch,
        stats: &mut SearchStats,
    ) -> Result<(), Error> {
        let segment = self.segment;
        let SegmentScratch { table, ranked, candidates, .. } = scratch;
        candidates.clear();
        let mut best = Best { keep, threshold: f32::INFINITY, candidates };
        let block_bytes = segment.header.posting_block_bytes();
        let ahead = BLOCKS_AHEAD.max(ranked.len().min(8 * BLOCKS_AHEAD));
        for (group, leaves) in ranked.chunks(ahead).enumerate() {
            let postings = match segment.resident {
                Some(_) => Vec::new(),
                None => {
                    let addresses: Vec<_> =
                        leaves.iter().map(|leaf| segment.posting(leaf.leaf)).collect();
                    segment.blocks.read_many(&addresses)?
                }
            };
            for (at, leaf) in leaves.iter().enumerate() {
                let place = &segment.leaves[leaf.leaf as usize];
                stats.leaves += 1;
                stats.rows += place.rows as usize;
                let rank = (group * ahead + at) as u32;
                let blocks = (place.rows as usize).div_ceil(BLOCK);
                for block in 0..blocks {
                    let number = place.first_block + block as u32;
                    let first_row = place.first_row + (block * BLOCK) as u32;
                    let rows = (place.rows as usize - block * BLOCK).min(BLOCK) as u32;
                    let from = Scanned { rank, base: leaf.base, block: number, first_row, rows };
                    let codes = match &segment.resident {
                        Some(codes) => &codes[number as usize * block_bytes..],
                        None => &postings[at][block * block_bytes..],
                    };
                    best.take(table, &codes[..block_bytes], from, self);
                }
            }
        }
        if candidates.len() > keep {
            keep_nearest(candidates, keep);
        }
        candidates.sort_unstable_by(|a, b| a.estimate.total_cmp(&b.estimate));
        Ok(())
    }

    /// Offers the exact distances of all candidates; shows the position and id of each to `seen`.
    fn read_and_refine(
        &self,
        query: &[f32],
        scratch: &mut SegmentScratch,
        out: &mut TopK,
        seen: &mut dyn FnMut(usize, u64),
    ) -> Result<(), Error> {
        let addresses = self.wanted(usize::MAX, scratch);
        let read = self.segment.blocks.read_many(&addresses)?;
        self.refine(query, &read, scratch, out, seen)
    }

    /// The blocks with the first `most` candidates, each once.
    pub(crate) fn wanted(&self, most: usize, scratch: &mut SegmentScratch) -> Vec<Address> {
        let SegmentScratch { candidates, wanted, .. } = scratch;
        wanted.clear();
        wanted.extend(candidates.iter().copied().zip(0..).take(most));
        wanted.sort_unstable_by_key(|(candidate, _)| (candidate.block, candidate.lane));
        let groups = wanted.chunk_by(|a, b| a.0.block == b.0.block);
        groups.map(|group| self.segment.row_block(group[0].0.block)).collect()
    }

    /// The blocks of the segment, through the cache.
    pub(crate) fn blocks(&self) -> &BlockReader {
        &self.segment.blocks
    }

    /// Offers the exact distances of the candidates that are wanted; shows the position and id of
    /// each to `seen`.
    ///
    /// * `read`: what [`SegmentView::wanted`] asked for.
    pub(crate) fn refine(
        &self,
        query: &[f32],
        read: &[Arc<Block>],
        scratch: &mut SegmentScratch,
        out: &mut TopK,
        seen: &mut dyn FnMut(usize, u64),
    ) -> Result<(), Error> {
        let segment = self.segment;
        let SegmentScratch { wanted, decoder, numbers, .. } = scratch;
        let numbers = match numbers {
            Some(numbers) if numbers.element() == segment.element() => numbers,
            other => other.insert(Numbers::new(segment.element())),
        };
        for (group, bytes) in wanted.chunk_by(|a, b| a.0.block == b.0.block).zip(read) {
            let offset = segment.row_block(group[0].0.block).offset;
            let corrupt = |what: &dyn std::fmt::Display| segment.corrupt(offset, what);
            let rows = self.rows_of(group[0].0);
            let block = RowBlock::decode(bytes, rows).map_err(|what| corrupt(&what))?;
            let (codec, _) = describe(block.vectors).map_err(|what| corrupt(&what))?;
            // A block that must be decoded whole is decoded once.
            let parts = if codec.is_random_access() { group.chunks(1) } else { group.chunks(rows) };
            for part in parts {
                let first = part[0].0.lane as usize;
                let range = first..part[part.len() - 1].0.lane as usize + 1;
                numbers
                    .decode(block.vectors, range, segment.shape(), decoder)
                    .map_err(|what| corrupt(&what))?;
                for (candidate, at) in part {
                    let row = candidate.lane as usize;
                    let vector = numbers.row(row - first, segment.dimension());
                    let distance = distance(segment.metric(), query, vector);
                    let key = block.key(row);
                    seen(*at as usize, key.id);
                    if distance <= out.bound() {
                        out.offer(Neighbor { distance, id: key.id, version: key.version });
                    }
                }
            }
        }
        Ok(())
    }

    /// Rows of the block of a candidate.
    fn rows_of(&self, candidate: Candidate) -> usize {
        let after = self.segment.leaves.partition_point(|leaf| leaf.first_block <= candidate.block);
        let leaf = &self.segment.leaves[after - 1];
        let before = (candidate.block - leaf.first_block) as usize * BLOCK_ROWS;
        (leaf.rows as usize - before).min(BLOCK_ROWS)
    }
}

/// Where a scanned block is.
#[derive(Clone, Copy)]
struct Scanned {
    rank: u32,
    base: f32,
    block: u32,
    first_row: u32,
    rows: u32,
}

/// The least estimates so far, by a threshold that is lowered whenever four times as many passed.
struct Best<'a> {
    keep: usize,
    threshold: f32,
    candidates: &'a mut Vec<Candidate>,
}

impl Best<'_> {
    fn take(&mut self, table: &QueryTable, codes: &[u8], from: Scanned, of: &SegmentView<'_>) {
        let mut estimates = [0.0f32; BLOCK];
        let mut mask = table.scan_block_below(codes, from.base, self.threshold, &mut estimates);
        while mask != 0 {
            let lane = mask.trailing_zeros();
            mask &= mask - 1;
            let estimate = estimates[lane as usize];
            // The last block of a leaf has lanes without a row.
            if lane < from.rows && of.is_visible(from.first_row + lane) {
                let Scanned { rank, block, .. } = from;
                self.candidates.push(Candidate { estimate, rank, block, lane });
            }
        }
        if self.candidates.len() >= 4 * self.keep {
            self.threshold = keep_nearest(self.candidates, self.keep);
        }
    }
}

/// Keeps the `keep` least estimates, in no order; returns the largest of them.
fn keep_nearest(candidates: &mut Vec<Candidate>, keep: usize) -> f32 {
    let (_, last, _) =
        candidates.select_nth_unstable_by(keep - 1, |a, b| a.estimate.total_cmp(&b.estimate));
    let threshold = last.estimate;
    candidates.truncate(keep);
    threshold
}
