//! The stages of a search in a segment.
//!
//! 1. Rank the leaves by their centroids, which are in memory (`rank.rs`). With a filter, pass over
//!    those whose summaries prove that no row matches (`select.rs`).
//! 2. Scan the codes of the nearest leaves; read those that are not in memory together, and the
//!    blocks of columns that the filter needs. Pass over 32 rows at a time if none of them matches.
//! 3. Read the blocks of the best candidates together, each block once.
//! 4. Decode the candidates' rows and take their exact distances.

use std::ops::Range;
use std::sync::Arc;

use vstream_attribute::Filter;
use vstream_index::stages::{
    form_of, search_place, sort_candidates, BestCandidates, Candidate, ExactSearch, Found,
    PlaceState, RotatedQuery, Scanned, StagedSearch, Wanted,
};
use vstream_index::{distance, work_done, Probe, RowKey, SearchStats};
use vstream_quantize::rabitq::{Rotation, BLOCK};
use vstream_quantize::scalar8::ScanScratch;
use vstream_quantize::Form;
use vstream_store::blocks::{Block, BlockHandle, BlockReader};
use vstream_store::codec::{describe, Decoder, BLOCK_ROWS};
use vstream_store::Error;
use vstream_vector::{Neighbor, TopK};

use crate::codes::HeldCodes;
use crate::defect::{self, Defect};
use crate::format::RowBlock;
use crate::rank::Ranked;
use crate::read::{LeafLayout, Segment, BLOCKS_AHEAD};
use crate::rows::Numbers;
use crate::select::{Selected, WantedColumnBlocks};
use crate::take::takes_rows_alone;
use crate::tombstones::Tombstones;

/// Leaves whose codes are read together.
pub(crate) const LEAVES_AHEAD: usize = 8 * BLOCKS_AHEAD;

/// A candidate's row number starts at the first row of its leaf, in code blocks and in row blocks
/// alike.
const _: () = assert!(BLOCK == BLOCK_ROWS);

/// Buffers of one thread that searches single segments.
#[derive(Default)]
pub struct SegmentScratch {
    query: RotatedQuery,
    place: PlaceState<SegmentSearchState>,
}

impl SegmentScratch {
    /// Empty buffers; they grow to what queries need and are kept.
    pub fn new() -> SegmentScratch {
        SegmentScratch::default()
    }
}

/// A query's buffers for one segment, filled stage by stage.
#[derive(Default)]
pub struct SegmentSearchState {
    pub(crate) centroid: Vec<f32>,
    pub(crate) scan: ScanScratch,
    pub(crate) estimates: Vec<f32>,
    pub(crate) ranked: Vec<Ranked>,
    /// How many of them, the first, are in order.
    pub(crate) sorted: usize,
    /// Norm of the query.
    pub(crate) norm: f32,
    /// Ranks of the leaves of this scan.
    pub(crate) kept: Vec<u32>,
    /// Ranks of the leaves to scan next, and the place of their codes.
    next: Vec<(u32, Source)>,
    /// Number of kept leaves that were scanned or are next.
    begun: usize,
    /// The filter of the query.
    pub(crate) selected: Option<Selected>,
    /// A bit per row of the leaf that is scanned.
    masks: Vec<u32>,
    /// Rows of candidates and their positions, block by block.
    wanted: Vec<(RowPlace, u32)>,
    decoder: Decoder,
    numbers: Option<Numbers>,
}

impl SegmentSearchState {
    /// Begins the scan of the ranked leaves.
    pub(crate) fn begin_scan(&mut self) {
        self.next.clear();
        self.begun = 0;
    }
}

/// Place of the codes of a leaf to scan.
enum Source {
    Held(HeldCodes),
    /// Position among the blocks being read.
    Read(usize),
}

/// Place of a row in a segment.
#[derive(Clone, Copy)]
struct RowPlace {
    /// Number of the row block, and the row in it.
    block: u32,
    lane: u32,
    /// Number of rows in the block.
    rows: u32,
}

/// A segment as seen by a reader that pinned a sequence.
#[derive(Clone, Copy)]
pub struct SegmentView<'a> {
    pub(crate) segment: &'a Segment,
    tombstones: &'a Tombstones,
    pin: u64,
}

impl Segment {
    /// The segment as seen by a reader that pinned the sequence `pin`: without rows deleted at or
    /// before it.
    pub fn at<'a>(&'a self, tombstones: &'a Tombstones, pin: u64) -> SegmentView<'a> {
        SegmentView { segment: self, tombstones, pin }
    }
}

impl ExactSearch for SegmentView<'_> {
    type Error = Error;

    fn leaves(&self) -> usize {
        self.segment.leaves()
    }

    fn rotation(&self) -> Option<&Rotation> {
        self.segment.is_cluster().then_some(&self.segment.rotation)
    }

    /// Every row of a segment is in a leaf.
    fn scan_loose(&self, _: &[f32], _: Option<&Filter>, _: &mut TopK) -> usize {
        0
    }

    fn exact(
        &self,
        vector: &[f32],
        filter: Option<&Filter>,
        out: &mut TopK,
    ) -> Result<SearchStats, Error> {
        self.search_exactly(vector, filter, out)
    }

    fn for_each_match(
        &self,
        filter: Option<&Filter>,
        visit: &mut dyn FnMut(RowKey),
    ) -> Result<(), Error> {
        self.for_each_key(filter, &mut |_, key| visit(key))
    }

    fn search_radius(
        &self,
        vector: &[f32],
        radius: f32,
        filter: Option<&Filter>,
        out: &mut Vec<Neighbor>,
    ) -> Result<SearchStats, Error> {
        self.rows_within(vector, radius, filter, out)
    }
}

impl StagedSearch for SegmentView<'_> {
    type State = SegmentSearchState;
    type Address = BlockHandle;
    type Block = Arc<Block>;

    /// Reads id blocks if the filter names ids. The bound counts deleted rows too.
    fn select(
        &self,
        filter: Option<&Filter>,
        state: &mut SegmentSearchState,
    ) -> Result<u64, Error> {
        state.selected = None;
        let Some(filter) = filter else { return Ok(self.segment.rows()) };
        let compiled = self.segment.compile(filter)?;
        let most = self.segment.matches_at_most(&compiled);
        let wanted = WantedColumnBlocks::default();
        state.selected = Some(Selected { compiled, wanted, first_block: 0 });
        Ok(most)
    }

    fn estimate_leaves(
        &self,
        query: &RotatedQuery,
        _: usize,
        state: &mut SegmentSearchState,
        costs: &mut Vec<f32>,
    ) {
        self.estimate(query, state, costs);
    }

    fn rank_leaves(
        &self,
        query: &RotatedQuery,
        bound: f32,
        state: &mut SegmentSearchState,
        costs: &mut Vec<f32>,
    ) {
        self.rank(query, bound, state, costs);
    }

    fn keep_leaves(
        &self,
        leaves: Range<usize>,
        radius: f32,
        state: &mut SegmentSearchState,
    ) -> usize {
        self.keep(leaves, radius, state)
    }

    /// Reads in the order of the file. Codes in memory are held until they are scanned. The blocks of
    /// columns follow the codes.
    fn next_codes(&self, state: &mut SegmentSearchState) -> Option<Vec<BlockHandle>> {
        let SegmentSearchState { ranked, kept, next, selected, begun, .. } = state;
        let from = *begun;
        let to = kept.len().min(from + LEAVES_AHEAD);
        if from == to {
            return None;
        }
        let mut away: Vec<(u32, usize)> = Vec::new();
        for (at, &rank) in kept[from..to].iter().enumerate() {
            let leaf = ranked[rank as usize].leaf;
            let source = match self.segment.visit_codes(leaf) {
                Some(held) => Source::Held(held),
                None => {
                    away.push((leaf, at));
                    Source::Read(0)
                }
            };
            next.push((rank, source));
        }
        away.sort_unstable();
        for (position, &(_, at)) in away.iter().enumerate() {
            next[at].1 = Source::Read(position);
        }
        *begun = to;
        let mut addresses: Vec<BlockHandle> =
            away.iter().map(|&(leaf, _)| self.segment.posting(leaf)).collect();
        if let Some(Selected { compiled, wanted, first_block }) = selected {
            let leaves = kept[from..to].iter().map(|&rank| ranked[rank as usize].leaf);
            self.segment.wanted_columns(compiled, leaves, wanted);
            *first_block = addresses.len();
            addresses.extend_from_slice(&wanted.addresses);
        }
        Some(addresses)
    }

    fn scan_codes(
        &self,
        query: &RotatedQuery,
        codes: &[Arc<Block>],
        wanted: Wanted,
        state: &mut SegmentSearchState,
        candidates: &mut Vec<Candidate>,
    ) -> Result<Scanned, Error> {
        let SegmentSearchState { ranked, next, selected, masks, .. } = state;
        let filter = match selected {
            None => None,
            Some(Selected { compiled, wanted, first_block }) => {
                let columns = self.segment.column_blocks(wanted, &codes[*first_block..])?;
                Some((&*compiled, columns))
            }
        };
        let mut best = BestCandidates::new(wanted.keep, wanted.below, candidates);
        let mut scanned = Scanned::default();
        for (rank, source) in next.drain(..) {
            let codes: (&[u8], u32) = match &source {
                Source::Held(held) => (held.bytes(), held.first_lane),
                Source::Read(position) => (&codes[*position], 0),
            };
            let leaf = ranked[rank as usize];
            let masks = filter.as_ref().map(|(compiled, columns)| {
                self.segment.leaf_masks(compiled, leaf.leaf, columns, masks);
                self.clear_deleted(leaf.leaf, masks);
                masks.as_slice()
            });
            let margin = self.margin_of(query, leaf, wanted.deviations);
            let seen = self.scan_leaf(query, codes, (rank, leaf, margin), masks, &mut best);
            scanned.rows += seen.rows;
            scanned.matches += seen.matches;
            scanned.leaves += seen.leaves;
        }
        best.finish();
        sort_candidates(candidates);
        Ok(scanned)
    }

    fn rows_of(
        &self,
        candidates: &[Candidate],
        state: &mut SegmentSearchState,
    ) -> Vec<BlockHandle> {
        let SegmentSearchState { ranked, wanted, .. } = state;
        wanted.clear();
        let place = |candidate: &Candidate| self.place_of(ranked, candidate);
        wanted.extend(candidates.iter().map(place).zip(0..));
        wanted.sort_unstable_by_key(|(row, _)| (row.block, row.lane));
        let groups = wanted.chunk_by(|a, b| a.0.block == b.0.block);
        groups.map(|group| self.segment.row_block(group[0].0.block)).collect()
    }

    fn refine(
        &self,
        found: Found<'_>,
        rows: &[Arc<Block>],
        state: &mut SegmentSearchState,
        out: &mut TopK,
        seen: &mut dyn FnMut(usize, Neighbor),
    ) -> Result<usize, Error> {
        let segment = self.segment;
        let SegmentSearchState { wanted, decoder, numbers, .. } = state;
        let numbers = match numbers {
            Some(numbers) if numbers.element() == segment.element() => numbers,
            other => other.insert(Numbers::new(segment.element())),
        };
        for (group, bytes) in wanted.chunk_by(|a, b| a.0.block == b.0.block).zip(rows) {
            let offset = segment.row_block(group[0].0.block).offset;
            let corrupt = |what: &dyn std::fmt::Display| segment.corrupt(offset, what);
            let rows = group[0].0.rows as usize;
            let block = RowBlock::decode(bytes, rows).map_err(|what| corrupt(&what))?;
            let (codec, _) = describe(block.vectors).map_err(|what| corrupt(&what))?;
            let span = group[group.len() - 1].0.lane - group[0].0.lane + 1;
            let is_one_by_one =
                takes_rows_alone(codec.is_random_access(), span as usize, group.len());
            let parts = group.chunks(if is_one_by_one { 1 } else { rows });
            for part in parts {
                let first = part[0].0.lane as usize;
                let range = first..part[part.len() - 1].0.lane as usize + 1;
                numbers
                    .decode(block.vectors, range, segment.shape(), decoder)
                    .map_err(|what| corrupt(&what))?;
                for (place, position) in part {
                    let row = place.lane as usize;
                    let vector = numbers.row(row - first, segment.dimension());
                    let distance = distance(segment.metric(), found.vector, vector);
                    if distance <= out.bound() {
                        let key = block.key(row);
                        let row = Neighbor { distance, id: key.id, version: key.version };
                        seen(*position as usize, row);
                        out.offer(row);
                    }
                }
            }
        }
        Ok(wanted.len())
    }
}

impl SegmentView<'_> {
    /// True if a row of the segment is deleted, be it for this reader or a later one.
    pub(crate) fn has_tombstones(&self) -> bool {
        self.tombstones.count() > 0
    }

    #[inline]
    pub(crate) fn is_visible(&self, row: u32) -> bool {
        self.tombstones.is_visible(row, self.pin)
    }

    /// Offers the nearest visible rows of this segment alone to `out`, which the caller reset to
    /// `probe.k`.
    ///
    /// Cost: at most two rounds of reads, only one with resident codes. Efforts other than
    /// `Effort::Approximate`, and flat segments, read every row. Errors: `Corrupt`, those of the
    /// store; `out` is incomplete then.
    pub fn search(
        &self,
        probe: &Probe<'_>,
        scratch: &mut SegmentScratch,
        out: &mut TopK,
    ) -> Result<SearchStats, Error> {
        let SegmentScratch { query, place } = scratch;
        let read = |addresses: &[BlockHandle]| self.segment.blocks.read_many(addresses);
        search_place(self, probe, &read, (query, place), out)
    }

    /// A reader of the segment's blocks through the cache.
    pub fn blocks(&self) -> &BlockReader {
        &self.segment.blocks
    }

    /// A reader of the segment's blocks that bypasses the cache.
    pub fn passing(&self) -> &BlockReader {
        &self.segment.passing
    }

    /// The number of a candidate's row in its segment, until the next query ranks leaves.
    pub fn row_of(&self, candidate: &Candidate, state: &SegmentSearchState) -> u32 {
        let leaf = state.ranked[candidate.leaf as usize].leaf;
        self.segment.leaves[leaf as usize].first_row + candidate.row
    }

    /// By how many standard deviations estimates are lowered, and the Euclidean distance of the query to
    /// the centroid of the leaf; `None` if they are not.
    fn margin_of(&self, query: &RotatedQuery, leaf: Ranked, deviations: f32) -> Option<(f32, f32)> {
        if deviations == 0.0 {
            return None;
        }
        let squared = match form_of(self.segment.metric()) {
            Form::L2 => leaf.base,
            Form::InnerProduct => {
                let length = self.segment.leaves[leaf.leaf as usize].centroid.length;
                query.norm_squared() + length * length + 2.0 * leaf.base
            }
        };
        Some((deviations, squared.max(0.0).sqrt()))
    }

    /// Scans the codes of a leaf; returns what it looked at.
    ///
    /// * `first_lane`: of the leaf's first row in the first block; lanes before it are of other leaves, and
    ///   so may be those after its last row.
    /// * `masks`: the rows that match, 32 to a word; `None` without a filter.
    fn scan_leaf(
        &self,
        query: &RotatedQuery,
        (codes, first_lane): (&[u8], u32),
        (rank, leaf, margin): (u32, Ranked, Option<(f32, f32)>),
        masks: Option<&[u32]>,
        best: &mut BestCandidates<'_>,
    ) -> Scanned {
        let entry = &self.segment.leaves[leaf.leaf as usize];
        let end = first_lane + entry.rows;
        let blocks = (end as usize).div_ceil(BLOCK);
        let codes = codes.chunks_exact(self.segment.header.posting_block_bytes()).take(blocks);
        let mut scanned = Scanned::default();
        for (block, codes) in (0..).zip(codes) {
            let mask = match masks {
                None if block == 0 => u32::MAX << first_lane,
                None => u32::MAX,
                Some(masks) => lanes_of(masks, block as usize, first_lane),
            };
            if mask != 0 {
                if masks.is_some() {
                    let lanes = block * BLOCK as u32;
                    let rows = end.min(lanes + BLOCK as u32) - first_lane.max(lanes);
                    scanned.rows += rows as usize;
                    scanned.matches += mask.count_ones() as usize;
                }
                let base = leaf.base;
                let from = ScannedBlock { rank, base, margin, entry, first_lane, block, mask };
                self.scan_block(query, codes, from, best);
            }
        }
        scanned.leaves = usize::from(scanned.matches > 0);
        if masks.is_none() {
            let rows = entry.rows as usize;
            scanned = Scanned { rows, matches: rows, leaves: 1 };
        }
        work_done(scanned.rows);
        scanned
    }

    /// Scans a block of codes for visible rows.
    fn scan_block(
        &self,
        query: &RotatedQuery,
        codes: &[u8],
        from: ScannedBlock<'_>,
        best: &mut BestCandidates<'_>,
    ) {
        let ScannedBlock { rank, base, margin, entry, first_lane, block, mask: matches } = from;
        let mut estimates = [0.0f32; BLOCK];
        let threshold = best.threshold();
        let table = query.table();
        let mut mask = match margin {
            None => table.scan_block_below(codes, base, threshold, &mut estimates),
            Some((deviations, gap)) => {
                let bases = (base, gap);
                table.scan_block_lowered(codes, bases, deviations, threshold, &mut estimates)
            }
        };
        mask &= matches;
        while mask != 0 {
            let lane = mask.trailing_zeros();
            mask &= mask - 1;
            let estimate = estimates[lane as usize];
            let row = block * BLOCK as u32 + lane - first_lane;
            let is_found =
                || self.is_visible(entry.first_row + row) || defect::active(Defect::DeadFound);
            // The last block of a leaf may have lanes without a row, or with rows of the next leaf.
            if row < entry.rows && is_found() {
                best.push(Candidate { estimate, leaf: rank, row });
            }
        }
        best.lower();
    }

    /// The place of a candidate's row.
    fn place_of(&self, ranked: &[Ranked], candidate: &Candidate) -> RowPlace {
        let entry = &self.segment.leaves[ranked[candidate.leaf as usize].leaf as usize];
        let (block, lane) = (candidate.row / BLOCK as u32, candidate.row % BLOCK as u32);
        let rows = (entry.rows - block * BLOCK as u32).min(BLOCK as u32);
        RowPlace { block: entry.first_block + block, lane, rows }
    }
}

/// A block of codes to scan.
#[derive(Clone, Copy)]
struct ScannedBlock<'a> {
    /// Rank of its leaf, and the distance of the query to the leaf's centroid.
    rank: u32,
    base: f32,
    /// See `SegmentView::margin_of`.
    margin: Option<(f32, f32)>,
    entry: &'a LeafLayout,
    /// Lane of the leaf's first row in its first block.
    first_lane: u32,
    /// Number of the block, counted from that one.
    block: u32,
    /// Lanes whose rows match; those before the first row are not among them.
    mask: u32,
}

/// The lanes of a block whose rows match, where the first row of the leaf is in lane `first_lane` of block 0.
///
/// * `masks`: by row of the leaf, 32 to a word.
fn lanes_of(masks: &[u32], block: usize, first_lane: u32) -> u32 {
    let word =
        |at: Option<usize>| at.and_then(|at| masks.get(at)).map_or(0, |&word| u64::from(word));
    let (before, own) = (word(block.checked_sub(1)), word(Some(block)));
    ((own << 32 | before) << first_lane >> 32) as u32
}
