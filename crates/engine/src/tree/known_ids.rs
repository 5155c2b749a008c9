//! Which ids the segments may have: a writer asks it before it looks an id up in each of a hundred
//! segments. Most ids of a stream that grows are new.
//!
//! A Bloom filter in blocks of a cache line, so that a look-up reads one. An id that is gone stays until
//! the filter is made anew, which is when it is full. Memory: 1.5 to 3 bytes per row. Source: F. Putze,
//! P. Sanders, J. Singler, "Cache-, hash- and space-efficient Bloom filters" (2007).

use std::panic::resume_unwind;
use std::sync::Arc;

use vstream_vector::kernels;

use super::LiveSegment;

/// Bits per id that a full filter has: one of 100 ids that no segment has is looked up in vain.
const BITS_PER_ID: usize = 12;
/// Bits of an id.
const BITS: u32 = 6;
/// Ids whose blocks are waited for together.
const AHEAD: usize = 32;
/// Threads that fill a filter at most: each looks at all ids.
const THREADS_MAX: usize = 8;
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
    /// The ids of some segments. Cost: each thread looks at all ids, and waits for the memory of its part.
    ///
    /// * `threads`: at least one; more than [`THREADS_MAX`] are not used.
    pub(super) fn of(segments: &[Arc<LiveSegment>], threads: usize) -> KnownIds {
        let rows: u64 = segments.iter().map(|live| live.live_rows()).sum();
        let ids_max = (rows as usize / 2 * 3).max(IDS_MIN);
        let count = (ids_max * BITS_PER_ID).div_ceil(512);
        let mut blocks: Box<[Block]> = vec![Block::default(); count].into();
        // Each thread has blocks of its own, and looks for their ids among all.
        let part = count.div_ceil(threads.min(THREADS_MAX));
        let ids = std::thread::scope(|scope| {
            let filled = |(at, blocks): (usize, &mut [Block])| {
                let mut filling = Filling::new(blocks, at * part, count);
                segments.iter().for_each(|live| filling.add(live));
                filling.end()
            };
            let mut parts = blocks.chunks_mut(part).enumerate();
            let first = parts.next();
            let others: Vec<_> = parts.map(|part| scope.spawn(move || filled(part))).collect();
            let ids = first.map_or(0, filled);
            // Without some ids the filter would hide rows: a panic goes on.
            let others = others.into_iter().map(|one| one.join());
            ids + others.map(|ids| ids.unwrap_or_else(|panic| resume_unwind(panic))).sum::<usize>()
        });
        KnownIds { blocks, ids, ids_max }
    }

    /// True if it should be made anew before it gets so many ids.
    pub(super) fn is_full(&self, more: u64) -> bool {
        self.ids as u64 + more > self.ids_max as u64
    }

    /// Adds ids.
    pub(super) fn add(&mut self, ids: &mut dyn Iterator<Item = u64>) {
        let count = self.blocks.len();
        if count > 0 {
            let mut filling = Filling::new(&mut self.blocks, 0, count);
            ids.for_each(|id| filling.insert(id));
            self.ids += filling.end();
        }
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

/// Adds ids to successive blocks of a filter, some at a time: the blocks of all of them are on their way
/// from memory before the first is needed.
struct Filling<'a> {
    blocks: &'a mut [Block],
    /// Number of the first of these blocks, and how many the filter has.
    first: usize,
    count: usize,
    /// Block and places of ids that wait.
    waiting: Vec<(usize, u64)>,
    /// Ids that set a bit.
    ids: usize,
}

impl<'a> Filling<'a> {
    fn new(blocks: &'a mut [Block], first: usize, count: usize) -> Filling<'a> {
        Filling { blocks, first, count, waiting: Vec::with_capacity(AHEAD), ids: 0 }
    }

    /// Adds the ids of the rows of a segment that live, as far as they are of these blocks.
    fn add(&mut self, live: &LiveSegment) {
        live.live_ids().for_each(|id| self.insert(id));
    }

    #[inline]
    fn insert(&mut self, id: u64) {
        let (block, bits) = place(id, self.count);
        // A block before the first becomes a huge number, so one comparison rules out both ends.
        let block = block.wrapping_sub(self.first);
        if block < self.blocks.len() {
            kernels::prefetch(&self.blocks[block..block + 1]);
            self.waiting.push((block, bits));
            if self.waiting.len() == AHEAD {
                self.set();
            }
        }
    }

    /// Sets the bits of those that wait.
    fn set(&mut self) {
        for (block, mut bits) in self.waiting.drain(..) {
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
    }

    /// How many ids set a bit.
    fn end(mut self) -> usize {
        self.set();
        self.ids
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
        for threads in [1, 2, 3] {
            let count = (IDS_MIN * BITS_PER_ID).div_ceil(512);
            let mut blocks: Box<[Block]> = vec![Block::default(); count].into();
            let part = count.div_ceil(threads);
            let mut ids = 0;
            for (at, blocks) in blocks.chunks_mut(part).enumerate() {
                let mut filling = Filling::new(blocks, at * part, count);
                (0..IDS_MIN as u64).for_each(|id| filling.insert(id << 20));
                ids += filling.end();
            }
            let known = KnownIds { blocks, ids, ids_max: IDS_MIN };
            assert!((0..IDS_MIN as u64).all(|id| known.may_have(id << 20)));
            assert!(known.ids > IDS_MIN * 9 / 10 && known.is_full(IDS_MIN as u64 / 5));
            let wrong = (0..100_000).filter(|&id| known.may_have(id << 20 | 1)).count();
            assert!(wrong < 2_000, "{wrong} of 100,000 unknown ids");
        }
        assert!(KnownIds::default().may_have(7), "without a filter every id is looked up");
    }
}
