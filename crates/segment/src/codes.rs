//! Codes of a segment in memory, by part. Any part may enter or leave memory while queries run.
//!
//! A part has the codes of successive leaves, which are near each other and visited together. A
//! query that holds a part keeps it until it has scanned it.
//!
//! In the file every leaf begins a block of 32 lanes, and its last block is filled with empty ones. Where
//! leaves have few rows, that is a large part: runs of 16 rows take twice their bytes. Then the rows of a
//! part lie without a gap in memory, so that a block may have rows of several leaves. A query scans such
//! a block once for each leaf that it visits, and leaves out the lanes of others.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use vstream_quantize::rabitq::{clear, copy_lane, BLOCK};
use vstream_store::blocks::{Block, BlockHandle};

use crate::read::{LeafLayout, Segment};
use vstream_store::Error;

/// Leaves of a part: about 40 KiB of codes at 128 dimensions.
const PART_LEAVES: usize = 8;
/// Codes that are read together, a part more or less.
const TOGETHER_BYTES: u64 = 1 << 20;
/// The rows of a part lie without a gap if that saves one in so many blocks: a leaf that begins within a
/// block costs a scan half a block more.
const SAVED_PART: usize = 8;

/// The codes of [`PART_LEAVES`] leaves; the last part may have fewer.
pub(crate) struct Part {
    /// Code blocks in the order of the rows; `None` while queries read them on demand.
    codes: ArcSwapOption<Vec<u8>>,
    /// Length of the codes in memory.
    bytes: usize,
    /// True if they lie without a gap in memory.
    is_packed: bool,
    /// Visits of its leaves by queries since [`Segment::take_visits`].
    visits: AtomicU32,
}

/// Codes of one leaf, in memory.
pub(crate) struct HeldCodes {
    part: Arc<Vec<u8>>,
    /// Offset of the block with the leaf's first row.
    from: usize,
    /// Lane of that row.
    pub first_lane: u32,
}

impl HeldCodes {
    /// The blocks with the codes of the leaf, followed by those of the part's later leaves.
    pub fn bytes(&self) -> &[u8] {
        &self.part[self.from..]
    }
}

/// State of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartState {
    /// Length of its codes.
    pub bytes: u64,
    /// True if they are in memory.
    pub is_held: bool,
}

impl Segment {
    /// Makes the parts, [`PART_LEAVES`] leaves each, none in memory.
    pub(crate) fn make_parts(&self) -> Vec<Part> {
        if !self.is_cluster() {
            return Vec::new();
        }
        let block_bytes = self.header.posting_block_bytes();
        let blocks = |leaf: &LeafLayout| (leaf.rows as usize).div_ceil(BLOCK);
        let part = |leaves: &[LeafLayout]| {
            let stored: usize = leaves.iter().map(blocks).sum();
            let rows: usize = leaves.iter().map(|leaf| leaf.rows as usize).sum();
            let packed = rows.div_ceil(BLOCK);
            let is_packed = (stored - packed) * SAVED_PART >= stored.max(1);
            Part {
                codes: ArcSwapOption::empty(),
                bytes: if is_packed { packed } else { stored } * block_bytes,
                is_packed,
                visits: AtomicU32::new(0),
            }
        };
        self.leaves.chunks(PART_LEAVES).map(part).collect()
    }

    /// Number of parts of the codes; 0 for a flat segment.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// The leaves of a part.
    pub fn part_leaves(&self, part: usize) -> Range<u32> {
        let first = (part * PART_LEAVES) as u32;
        first..(first + PART_LEAVES as u32).min(self.leaves.len() as u32)
    }

    /// State of a part; `part` is below [`Segment::parts`].
    pub fn part(&self, part: usize) -> PartState {
        let Part { codes, bytes, .. } = &self.parts[part];
        PartState { bytes: *bytes as u64, is_held: codes.load().is_some() }
    }

    /// Takes the visits of a part's leaves since the last call.
    pub fn take_visits(&self, part: usize) -> u32 {
        self.parts[part].visits.swap(0, Ordering::Relaxed)
    }

    /// All parts, in runs whose codes are about 1 MiB.
    pub fn code_runs(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut next = 0;
        std::iter::from_fn(move || {
            let from = next;
            let mut bytes = 0;
            while next < self.parts() && bytes < TOGETHER_BYTES {
                bytes += self.parts[next].bytes as u64;
                next += 1;
            }
            (from < next).then_some(from..next)
        })
    }

    /// Reads all codes into memory. Errors: as [`Segment::hold_codes`].
    pub(crate) fn hold_all(&self) -> Result<(), Error> {
        self.code_runs().try_for_each(|parts| self.hold_codes(parts))
    }

    /// Reads the codes of some parts into memory, in one round of reads that bypasses the cache. Errors:
    /// `Corrupt`, those of the store; an error changes nothing.
    pub fn hold_codes(&self, parts: Range<usize>) -> Result<(), Error> {
        let end = self.leaves.len().min(parts.end * PART_LEAVES);
        let leaves = (parts.start * PART_LEAVES) as u32..end as u32;
        let addresses: Vec<BlockHandle> = leaves.map(|leaf| self.posting(leaf)).collect();
        let postings = self.passing.read_many(&addresses)?;
        let firsts = (parts.start * PART_LEAVES..).step_by(PART_LEAVES);
        let parts = self.parts[parts].iter().zip(postings.chunks(PART_LEAVES));
        for ((part, postings), leaf) in parts.zip(firsts) {
            let codes = if part.is_packed {
                self.packed(leaf, postings, part.bytes)
            } else {
                let mut codes = Vec::with_capacity(part.bytes);
                postings.iter().for_each(|posting| codes.extend_from_slice(posting));
                codes
            };
            part.codes.store(Some(Arc::new(codes)));
        }
        Ok(())
    }

    /// The codes of some successive leaves without a gap.
    ///
    /// * `postings`: the blocks of the leaves from `first` on.
    fn packed(&self, first: usize, postings: &[Arc<Block>], bytes: usize) -> Vec<u8> {
        let (padded, block_bytes) = (self.header.padded(), self.header.posting_block_bytes());
        let mut codes = vec![0; bytes];
        // The last block may have lanes that no row fills.
        codes.chunks_exact_mut(block_bytes).last().into_iter().for_each(clear);
        let mut to = 0;
        for (leaf, posting) in self.leaves[first..].iter().zip(postings) {
            for row in 0..leaf.rows as usize {
                let from = &posting[row / BLOCK * block_bytes..][..block_bytes];
                let into = &mut codes[to / BLOCK * block_bytes..][..block_bytes];
                copy_lane(padded, (from, row % BLOCK), (into, to % BLOCK));
                to += 1;
            }
        }
        codes
    }

    /// Releases the codes of a part; queries read them on demand from now on.
    pub fn release_codes(&self, part: usize) {
        self.parts[part].codes.store(None);
    }

    /// The codes of a leaf, if they are in memory. Counts the visit.
    pub(crate) fn visit_codes(&self, leaf: u32) -> Option<HeldCodes> {
        let at = leaf as usize / PART_LEAVES;
        let part = &self.parts[at];
        part.visits.fetch_add(1, Ordering::Relaxed);
        let held = part.codes.load_full()?;
        let (first, leaf) = (&self.leaves[at * PART_LEAVES], &self.leaves[leaf as usize]);
        let (block, first_lane) = match part.is_packed {
            true => {
                let rows = leaf.first_row - first.first_row;
                (rows / BLOCK as u32, rows % BLOCK as u32)
            }
            false => (leaf.first_block - first.first_block, 0),
        };
        let from = block as usize * self.header.posting_block_bytes();
        Some(HeldCodes { part: held, from, first_lane })
    }

    /// Bytes of codes in memory, and bytes of codes read on demand.
    pub fn code_bytes(&self) -> (u64, u64) {
        (0..self.parts()).map(|part| self.part(part)).fold((0, 0), |(held, away), part| {
            if part.is_held {
                (held + part.bytes, away)
            } else {
                (held, away + part.bytes)
            }
        })
    }
}
