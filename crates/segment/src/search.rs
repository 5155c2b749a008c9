//! One approximate query through a segment.
//!
//! 1. Rank the leaves by their centroids, which are in memory (`rank.rs`).
//! 2. Scan the codes of the nearest; those that are not in memory are read together.
//! 3. Read the blocks of the `refine` best estimates together, each block once.
//! 4. Decode those rows and take their exact distances.

use std::sync::Arc;

use vstream_index::{distance, Coded, Effort, Probe, SearchStats};
use vstream_quantize::rabitq::{QueryTable, BLOCK};
use vstream_quantize::scalar8::ScanScratch;
use vstream_store::blocks::{Block, BlockHandle, BlockReader};
use vstream_store::codec::{describe, Decoder, BLOCK_ROWS};
use vstream_vector::{Neighbor, TopK};

use crate::codes::HeldCodes;
use crate::defect::{self, Defect};
use crate::deletes::Deletes;
use crate::format::RowBlock;
use crate::rank::{Ranked, RotatedQuery};
use crate::read::{Segment, BLOCKS_AHEAD};
use crate::rows::Numbers;
use vstream_store::Error;

/// Leaves whose codes are asked for together.
const LEAVES_AHEAD: usize = 8 * BLOCKS_AHEAD;

/// Buffers of one searching thread.
#[derive(Default)]
pub struct SegmentScratch {
    query: RotatedQuery,
    visit: Visit,
}

impl SegmentScratch {
    /// Empty buffers that grow to what queries need and stay.
    pub fn new() -> SegmentScratch {
        SegmentScratch::default()
    }
}

/// What a query knows of one segment, stage by stage.
#[derive(Default)]
pub struct Visit {
    pub(crate) centroid: Vec<f32>,
    pub(crate) scan: ScanScratch,
    pub(crate) estimates: Vec<f32>,
    pub(crate) ranked: Vec<Ranked>,
    /// Norm of the query.
    pub(crate) length: f32,
    /// Leaves that were asked for and not scanned yet, and where their codes are.
    asked: Vec<(u32, Source)>,
    /// Leaves that were asked for.
    begun: usize,
    candidates: Vec<Candidate>,
    /// Candidates to be refined and their positions, block by block.
    wanted: Vec<(Candidate, u32)>,
    decoder: Decoder,
    numbers: Option<Numbers>,
}

/// Where the codes of a leaf are that is to be scanned.
enum Source {
    Held(HeldCodes),
    /// Position among the blocks that are being read.
    Read(usize),
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
    pub(crate) segment: &'a Segment,
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
    pub(crate) fn is_visible(&self, row: u32) -> bool {
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
        let SegmentScratch { query, visit } = scratch;
        query.rotate(self.segment, probe.vector);
        let (mut probes, mut stats) = (probes, SearchStats::default());
        loop {
            self.rank_nearest(query, probes, visit);
            stats.leaves += visit.ranked.len();
            stats.rows += self.scan_all(query, refine.max(probe.k), visit)?;
            let found = visit.candidates.len();
            if found >= probe.k || visit.ranked.len() >= self.segment.leaves() {
                stats.exact += found;
                self.read_and_refine(probe.vector, visit, out)?;
                return Ok(stats);
            }
            // So many of their rows are gone that fewer than k are left.
            probes = probes.max(1).saturating_mul(4);
        }
    }

    /// Scans every ranked leaf of this segment alone; returns how many codes it looked at.
    fn scan_all(
        &self,
        query: &RotatedQuery,
        keep: usize,
        visit: &mut Visit,
    ) -> Result<usize, Error> {
        self.begin(visit);
        let mut rows = 0;
        while let Some(addresses) = self.ask(visit) {
            let read = self.segment.blocks.read_many(&addresses)?;
            rows += self.scan(query, &read, (keep, f32::INFINITY), visit);
        }
        Ok(rows)
    }

    /// Begins the scan of the ranked leaves.
    pub fn begin(&self, visit: &mut Visit) {
        visit.asked.clear();
        visit.begun = 0;
        visit.candidates.clear();
    }

    /// The postings of the next leaves that are not in memory, in the order of the file; `None` if
    /// all leaves were asked for. What is in memory stays there until it is scanned.
    pub fn ask(&self, visit: &mut Visit) -> Option<Vec<BlockHandle>> {
        let from = visit.begun;
        let to = visit.ranked.len().min(from + LEAVES_AHEAD);
        if from == to {
            return None;
        }
        let mut away: Vec<(u32, usize)> = Vec::new();
        for (at, leaf) in visit.ranked[from..to].iter().enumerate() {
            let source = match self.segment.visit_codes(leaf.leaf) {
                Some(held) => Source::Held(held),
                None => {
                    away.push((leaf.leaf, at));
                    Source::Read(0)
                }
            };
            visit.asked.push(((from + at) as u32, source));
        }
        away.sort_unstable();
        for (position, &(_, at)) in away.iter().enumerate() {
            visit.asked[at].1 = Source::Read(position);
        }
        visit.begun = to;
        Some(away.iter().map(|&(leaf, _)| self.segment.posting(leaf)).collect())
    }

    /// Scans the codes of the leaves that were asked for; returns how many it looked at.
    ///
    /// * `read`: the postings that [`SegmentView::ask`] named.
    /// * `(keep, below)`: the best `keep` visible rows with estimates below `below` are kept.
    pub fn scan(
        &self,
        query: &RotatedQuery,
        read: &[Arc<Block>],
        (keep, below): (usize, f32),
        visit: &mut Visit,
    ) -> usize {
        let segment = self.segment;
        let block_bytes = segment.header.posting_block_bytes();
        let Visit { ranked, asked, candidates, .. } = visit;
        let last = candidates.get(keep.wrapping_sub(1)).map_or(f32::INFINITY, |row| row.estimate);
        let mut best = Best { keep, threshold: below.min(last), candidates };
        let mut scanned = 0;
        for (rank, source) in asked.drain(..) {
            let codes: &[u8] = match &source {
                Source::Held(held) => held.bytes(),
                Source::Read(at) => &read[*at],
            };
            let leaf = ranked[rank as usize];
            let place = &segment.leaves[leaf.leaf as usize];
            scanned += place.rows as usize;
            let blocks = (place.rows as usize).div_ceil(BLOCK);
            for (block, codes) in codes.chunks_exact(block_bytes).take(blocks).enumerate() {
                let number = place.first_block + block as u32;
                let first_row = place.first_row + (block * BLOCK) as u32;
                let rows = (place.rows as usize - block * BLOCK).min(BLOCK) as u32;
                let from = Scanned { rank, base: leaf.base, block: number, first_row, rows };
                best.take(&query.table, codes, from, self);
            }
        }
        if candidates.len() > keep {
            keep_nearest(candidates, keep);
        }
        candidates.sort_unstable_by(|a, b| a.estimate.total_cmp(&b.estimate));
        scanned
    }

    /// The rows that were kept, best first.
    pub fn found<'a>(&self, visit: &'a Visit) -> impl Iterator<Item = Coded> + 'a {
        let coded = |row: &Candidate| Coded { estimate: row.estimate, leaf: row.rank };
        visit.candidates.iter().map(coded)
    }

    /// Offers the exact distances of all candidates.
    fn read_and_refine(
        &self,
        query: &[f32],
        visit: &mut Visit,
        out: &mut TopK,
    ) -> Result<(), Error> {
        let addresses = self.wanted(usize::MAX, visit);
        let read = self.segment.blocks.read_many(&addresses)?;
        self.refine(query, &read, visit, out, &mut |_, _| {})
    }

    /// The blocks with the first `most` candidates, each once.
    pub fn wanted(&self, most: usize, visit: &mut Visit) -> Vec<BlockHandle> {
        let Visit { candidates, wanted, .. } = visit;
        wanted.clear();
        wanted.extend(candidates.iter().copied().zip(0..).take(most));
        wanted.sort_unstable_by_key(|(candidate, _)| (candidate.block, candidate.lane));
        let groups = wanted.chunk_by(|a, b| a.0.block == b.0.block);
        groups.map(|group| self.segment.row_block(group[0].0.block)).collect()
    }

    /// The blocks of the segment, through the cache.
    pub fn blocks(&self) -> &BlockReader {
        &self.segment.blocks
    }

    /// The blocks of the segment, past the cache.
    pub fn passing(&self) -> &BlockReader {
        &self.segment.passing
    }

    /// Offers the exact distances of the candidates that are wanted; shows position and row of those
    /// that were among the nearest to `seen`.
    ///
    /// * `read`: what [`SegmentView::wanted`] asked for.
    pub fn refine(
        &self,
        query: &[f32],
        read: &[Arc<Block>],
        visit: &mut Visit,
        out: &mut TopK,
        seen: &mut dyn FnMut(usize, Neighbor),
    ) -> Result<(), Error> {
        let segment = self.segment;
        let Visit { wanted, decoder, numbers, .. } = visit;
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
                    if distance <= out.bound() {
                        let key = block.key(row);
                        let row = Neighbor { distance, id: key.id, version: key.version };
                        seen(*at as usize, row);
                        out.offer(row);
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
            let is_found =
                || of.is_visible(from.first_row + lane) || defect::active(Defect::DeadFound);
            if lane < from.rows && is_found() {
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
