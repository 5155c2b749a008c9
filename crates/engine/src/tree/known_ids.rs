//! Which ids the segments may have: a writer asks it before it looks an id up in each of a hundred
//! segments. Most ids of a stream that grows are new.
//!
//! A Bloom filter in blocks of a cache line, so that a look-up reads one. An id that is gone stays until
//! the filter is made anew, which is when it is full. Memory: 1.5 to 3 bytes per row. Source: F. Putze,
//! P. Sanders, J. Singler, "Cache-, hash- and space-efficient Bloom filters" (2007).

use std::sync::Arc;

use super::LiveSegment;

/// Bits per id that a full filter has: one of 100 ids that no segment has is looked up in vain.
const BITS_PER_ID: usize = 12;
/// Bits of an id.
const BITS: u32 = 6;
/// Least ids that a filter is made for.
const IDS_MIN: usize = 1 << 14;

/// 512 bits.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Block([u64; 8]);

/// Ids that segments may have.
#[derive(Default)]
pub(super) struct KnownIds {
    blocks: Box<[Block]>,
    /// Ids that set a bit, and how many it is made for.
    ids: usize,
    ids_max: usize,
}

impl KnownIds {
    /// The ids of some segments. Cost: some 10 ns per row.
    pub(super) fn of(segments: &[Arc<LiveSegment>]) -> KnownIds {
        let rows: u64 = segments.iter().map(|live| live.live_rows()).sum();
        let ids_max = (rows as usize / 2 * 3).max(IDS_MIN);
        let blocks = vec![Block::default(); (ids_max * BITS_PER_ID).div_ceil(512)].into();
        let mut known = KnownIds { blocks, ids: 0, ids_max };
        segments.iter().for_each(|live| known.add(live));
        known
    }

    /// True if it should be made anew before it gets so many ids.
    pub(super) fn is_full(&self, more: u64) -> bool {
        self.ids as u64 + more > self.ids_max as u64
    }

    /// Adds the ids of the rows of a segment that live.
    pub(super) fn add(&mut self, live: &LiveSegment) {
        live.ids.for_each(&mut |id, _, row| {
            if live.tombstones.is_visible(row, u64::MAX - 1) {
                self.insert(id);
            }
        });
    }

    fn insert(&mut self, id: u64) {
        if self.blocks.is_empty() {
            return;
        }
        let (block, mut bits) = place(id, self.blocks.len());
        let block = &mut self.blocks[block].0;
        let mut is_new = false;
        for _ in 0..BITS {
            let (word, bit) = ((bits >> 6 & 7) as usize, 1u64 << (bits & 63));
            is_new |= block[word] & bit == 0;
            block[word] |= bit;
            bits >>= 9;
        }
        self.ids += usize::from(is_new);
    }

    /// False if no segment has the id.
    #[inline]
    pub(super) fn may_have(&self, id: u64) -> bool {
        if self.blocks.is_empty() {
            return true;
        }
        let (block, mut bits) = place(id, self.blocks.len());
        let block = &self.blocks[block].0;
        let mut has_all = true;
        for _ in 0..BITS {
            has_all &= block[(bits >> 6 & 7) as usize] >> (bits & 63) & 1 == 1;
            bits >>= 9;
        }
        has_all
    }

    /// Bytes of memory held.
    pub(super) fn memory_bytes(&self) -> u64 {
        size_of_val(&*self.blocks) as u64
    }
}

/// The block of an id, and nine bits for each of its places there.
#[inline]
fn place(id: u64, blocks: usize) -> (usize, u64) {
    let hash = xxhash_rust::xxh3::xxh3_64(&id.to_le_bytes());
    let block = ((hash >> 32) * blocks as u64) >> 32;
    // The high half has chosen the block.
    (block as usize, hash.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_was_added_is_known_and_few_others_are() {
        let blocks = vec![Block::default(); (IDS_MIN * BITS_PER_ID).div_ceil(512)].into();
        let mut known = KnownIds { blocks, ids: 0, ids_max: IDS_MIN };
        for id in 0..IDS_MIN as u64 {
            known.insert(id << 20);
        }
        assert!((0..IDS_MIN as u64).all(|id| known.may_have(id << 20)));
        assert!(known.ids > IDS_MIN * 9 / 10 && known.is_full(IDS_MIN as u64 / 5));
        let wrong = (0..100_000).filter(|&id| known.may_have(id << 20 | 1)).count();
        assert!(wrong < 2_000, "{wrong} of 100,000 unknown ids");
        assert!(KnownIds::default().may_have(7), "without a filter every id is looked up");
    }
}
