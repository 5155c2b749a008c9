//! Codes of a segment in memory, by part. Any part may enter or leave memory while queries run.
//!
//! A part has the codes of successive leaves, which are near each other and visited together. A
//! query that holds a part keeps it until it has scanned it.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use vstream_quantize::rabitq::BLOCK;
use vstream_store::blocks::BlockHandle;

use crate::read::{LeafLayout, Segment, BLOCKS_AHEAD};
use vstream_store::Error;

/// Leaves of a part: about 40 KiB of codes at 128 dimensions.
const PART_LEAVES: usize = 8;

/// The codes of [`PART_LEAVES`] leaves; the last part may have fewer.
pub(crate) struct Part {
    /// Code blocks in the order of the row blocks; `None` while queries read them on demand.
    codes: ArcSwapOption<Vec<u8>>,
    /// Length of the codes.
    bytes: usize,
    /// Visits of its leaves by queries since [`Segment::take_visits`].
    visits: AtomicU32,
}

/// Codes of one leaf, in memory.
pub(crate) struct HeldCodes {
    part: Arc<Vec<u8>>,
    /// Offset of the leaf's codes.
    from: usize,
}

impl HeldCodes {
    /// The codes of the leaf, followed by those of the part's later leaves.
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
        let part = |leaves: &[LeafLayout]| Part {
            codes: ArcSwapOption::empty(),
            bytes: leaves.iter().map(blocks).sum::<usize>() * block_bytes,
            visits: AtomicU32::new(0),
        };
        self.leaves.chunks(PART_LEAVES).map(part).collect()
    }

    /// Number of parts of the codes; 0 for a flat segment.
    pub fn parts(&self) -> usize {
        self.parts.len()
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

    /// Reads the codes of a part into memory. Errors: `Corrupt`, those of the store; an error
    /// changes nothing.
    pub fn hold_codes(&self, part: usize) -> Result<(), Error> {
        self.hold(part..part + 1)
    }

    /// Reads all codes into memory. Errors: as [`Segment::hold_codes`].
    pub(crate) fn hold_all(&self) -> Result<(), Error> {
        let together = BLOCKS_AHEAD / PART_LEAVES;
        let starts = (0..self.parts()).step_by(together);
        starts.map(|at| at..self.parts().min(at + together)).try_for_each(|parts| self.hold(parts))
    }

    /// Reads the codes of some parts in one walk that bypasses the cache.
    fn hold(&self, parts: Range<usize>) -> Result<(), Error> {
        let end = self.leaves.len().min(parts.end * PART_LEAVES);
        let leaves = (parts.start * PART_LEAVES) as u32..end as u32;
        let addresses: Vec<BlockHandle> = leaves.map(|leaf| self.posting(leaf)).collect();
        let postings = self.passing.read_many(&addresses)?;
        for (part, postings) in self.parts[parts].iter().zip(postings.chunks(PART_LEAVES)) {
            let mut codes = Vec::with_capacity(part.bytes);
            postings.iter().for_each(|posting| codes.extend_from_slice(posting));
            part.codes.store(Some(Arc::new(codes)));
        }
        Ok(())
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
        let first = self.leaves[at * PART_LEAVES].first_block;
        let blocks = (self.leaves[leaf as usize].first_block - first) as usize;
        Some(HeldCodes { part: held, from: blocks * self.header.posting_block_bytes() })
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
