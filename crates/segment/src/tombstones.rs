//! The tombstones of a segment: its deleted rows, each with the sequence of its deletion.

use std::ops::Range;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;

/// Rows of a chunk; the first tombstone of a chunk allocates a bit for each of them.
const CHUNK: usize = 1024;
/// Rows of a word of bits.
const WORD: usize = u64::BITS as usize;
/// Entries of the first part of a chunk's list. Each later part is as long as all before it.
const FIRST: usize = 8;
/// Parts of a list with an entry for each row of a chunk.
const PARTS: usize = (CHUNK / FIRST).ilog2() as usize + 1;
/// In place of a sequence where there is no tombstone.
const NEVER: u64 = u64::MAX;

/// Tombstones of the rows of a segment: one writer, any number of readers, no lock.
///
/// A tombstone holds the sequence of the write that deleted or replaced the row: a delete, or an
/// upsert of its id. A reader that pinned an earlier sequence still sees the row. Memory: some 350
/// bytes in each chunk of 1,024 rows that has a tombstone, and 12 to 24 bytes per tombstone with a
/// sequence other than 0, which stands for rows that were never part of the collection's segment.
pub struct Tombstones {
    chunks: Box<[OnceLock<Box<Chunk>>]>,
    rows: u32,
    count: AtomicU64,
}

/// A bit per row, and the sequences in a list, in the order in which they came.
///
/// The writer stores the sequence, then `latest`, then the bit: who has seen the bit sees both.
#[derive(Default)]
struct Chunk {
    /// Set where a row has a tombstone.
    bits: [AtomicU64; CHUNK / WORD],
    /// The greatest sequence so far. Who pinned it, or a later one, sees no row that has a bit.
    latest: AtomicU64,
    /// Entries in use. A row that has a bit and no entry was deleted with sequence 0.
    len: AtomicU32,
    list: [OnceLock<Box<[Entry]>>; PARTS],
}

/// Halves of a sequence, since this takes 12 bytes and not 16.
#[derive(Default)]
struct Entry {
    high: AtomicU32,
    low: AtomicU32,
    offset: AtomicU16,
}

impl Entry {
    fn set(&self, offset: usize, sequence: u64) {
        self.high.store((sequence >> 32) as u32, Ordering::Relaxed);
        self.low.store(sequence as u32, Ordering::Relaxed);
        self.offset.store(offset as u16, Ordering::Relaxed);
    }

    fn offset(&self) -> usize {
        self.offset.load(Ordering::Relaxed).into()
    }

    fn sequence(&self) -> u64 {
        let high = u64::from(self.high.load(Ordering::Relaxed));
        high << 32 | u64::from(self.low.load(Ordering::Relaxed))
    }
}

/// Entries of a part, and the entries before it.
fn part(number: usize) -> (usize, usize) {
    match number {
        0 => (FIRST, 0),
        _ => (FIRST << (number - 1), FIRST << (number - 1)),
    }
}

impl Chunk {
    #[inline]
    fn has(&self, offset: usize) -> bool {
        self.bits[offset / WORD].load(Ordering::Acquire) >> (offset % WORD) & 1 == 1
    }

    /// The sequence of a row that has a bit. Cost: a pass over the list.
    #[cold]
    fn sequence(&self, offset: usize) -> u64 {
        self.entries().find(|entry| entry.offset() == offset).map_or(0, Entry::sequence)
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        let len = self.len.load(Ordering::Acquire) as usize;
        self.list.iter().map_while(OnceLock::get).flat_map(|part| part.iter()).take(len)
    }

    /// Who pinned a sequence has seen it published, after all that this reads was written; for later
    /// tombstones it makes no difference whether they are seen.
    #[inline]
    fn is_visible(&self, offset: usize, pin: u64) -> bool {
        !self.has(offset)
            || self.latest.load(Ordering::Relaxed) > pin && self.sequence(offset) > pin
    }

    /// Adds a tombstone that is not there yet.
    fn add(&self, offset: usize, sequence: u64) {
        if sequence > 0 {
            let len = self.len.load(Ordering::Relaxed) as usize;
            let number = (len / FIRST).checked_ilog2().map_or(0, |of| of as usize + 1);
            let (size, before) = part(number);
            let entries =
                self.list[number].get_or_init(|| (0..size).map(|_| Entry::default()).collect());
            entries[len - before].set(offset, sequence);
            self.len.store(len as u32 + 1, Ordering::Release);
            self.latest.fetch_max(sequence, Ordering::Relaxed);
        }
        self.bits[offset / WORD].fetch_or(1 << (offset % WORD), Ordering::Release);
    }

    /// By row the sequence of its tombstone, [`NEVER`] without one.
    fn sequences(&self) -> [u64; CHUNK] {
        let mut all = [NEVER; CHUNK];
        for (word, all) in self.bits.iter().zip(all.chunks_exact_mut(WORD)) {
            let bits = word.load(Ordering::Acquire);
            all.iter_mut()
                .enumerate()
                .filter(|(at, _)| bits >> at & 1 == 1)
                .for_each(|(_, of)| *of = 0);
        }
        for entry in self.entries() {
            let of = &mut all[entry.offset()];
            if *of != NEVER {
                *of = entry.sequence();
            }
        }
        all
    }

    fn memory_bytes(&self) -> usize {
        let parts = self.list.iter().filter_map(OnceLock::get);
        size_of::<Chunk>() + parts.map(|part| size_of_val(&**part)).sum::<usize>()
    }
}

impl Tombstones {
    /// No tombstone: all `rows` live.
    pub fn none(rows: u32) -> Tombstones {
        let chunks = (rows as usize).div_ceil(CHUNK);
        let chunks = (0..chunks).map(|_| OnceLock::new()).collect();
        Tombstones { chunks, rows, count: AtomicU64::new(0) }
    }

    /// Adds the tombstone of a row with `sequence`; false if the row already has one. Only the
    /// writer may call this.
    ///
    /// The caller publishes `sequence` afterwards, with Release or stronger.
    pub fn add(&self, row: u32, sequence: u64) -> bool {
        assert!(row < self.rows, "a row of the segment");
        assert!(sequence < NEVER, "a sequence that was given out");
        let (chunk, offset) = (row as usize / CHUNK, row as usize % CHUNK);
        let chunk = self.chunks[chunk].get_or_init(Box::default);
        if chunk.has(offset) {
            return false;
        }
        chunk.add(offset, sequence);
        self.count.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// True if a reader that pinned `pin` sees the row. Cost: a bit where the chunk's newest tombstone
    /// is not newer than `pin`, else a pass over its list for a row that has a tombstone.
    #[inline]
    pub fn is_visible(&self, row: u32, pin: u64) -> bool {
        let (chunk, offset) = (row as usize / CHUNK, row as usize % CHUNK);
        self.chunks[chunk].get().is_none_or(|chunk| chunk.is_visible(offset, pin))
    }

    /// Calls `visit` with row and sequence of every tombstone, in the order of the rows.
    pub fn for_each(&self, visit: &mut dyn FnMut(u32, u64)) {
        self.for_each_in(0..self.rows, visit);
    }

    /// Calls `visit` with row and sequence of every tombstone of some successive rows, in their order.
    pub fn for_each_in(&self, rows: Range<u32>, visit: &mut dyn FnMut(u32, u64)) {
        let end = rows.end.min(self.rows);
        let mut row = rows.start;
        while row < end {
            let (at, next) = (row as usize / CHUNK, (row / CHUNK as u32 + 1) * CHUNK as u32);
            if let Some(chunk) = self.chunks[at].get() {
                let sequences = chunk.sequences();
                for row in row..end.min(next) {
                    let sequence = sequences[row as usize % CHUNK];
                    if sequence != NEVER {
                        visit(row, sequence);
                    }
                }
            }
            row = next;
        }
    }

    /// Number of tombstones so far.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> u64 {
        let chunks = self.chunks.iter().filter_map(OnceLock::get);
        let held: usize = chunks.map(|chunk| chunk.memory_bytes()).sum();
        (size_of_val(&*self.chunks) + held) as u64
    }
}

#[cfg(test)]
mod tests;
