//! The tombstones of a segment: its deleted rows, each with the sequence of its deletion.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;

/// Rows of a chunk; the first tombstone of a chunk allocates a bit for each of them.
const CHUNK: usize = 1024;
/// Rows of a word of bits.
const WORD: usize = u64::BITS as usize;
/// Entries of the first part of a chunk's list. Each later part is as long as all before it.
const FIRST: usize = 8;
/// Parts of a list with an entry for each row of a chunk.
const PARTS: usize = (CHUNK / FIRST).ilog2() as usize + 1;
/// Bits that an entry has for a sequence's distance to the chunk's base.
const DISTANCE: u32 = 44;
/// In place of a sequence where there is no tombstone.
const NEVER: u64 = u64::MAX;

/// Tombstones of the rows of a segment: one writer, any number of readers, no lock.
///
/// A tombstone holds the sequence of the write that deleted or replaced the row: a delete, or an
/// upsert of its id. A reader that pinned an earlier sequence still sees the row. Memory: some 370
/// bytes in each chunk of 1,024 rows that has a tombstone, and a list of 8, 16, 32 and so on entries of 8
/// bytes, one for each run of successive rows that have gone one after the other with one sequence. Rows
/// with sequence 0, which no reader has seen, take no entry.
pub struct Tombstones {
    chunks: Box<[OnceLock<Box<Chunk>>]>,
    rows: u32,
    count: AtomicU64,
}

/// A bit per row, and the sequences in a list, in the order in which they came.
///
/// The writer stores the sequence, then `latest`, then the bit: who has seen the bit sees both.
struct Chunk {
    /// Set where a row has a tombstone.
    bits: [AtomicU64; CHUNK / WORD],
    /// The greatest sequence so far. Who pinned it, or a later one, sees no row that has a bit.
    latest: AtomicU64,
    /// What the distances of entries begin at.
    base: u64,
    /// Entries in use, each an [`Entry`].
    len: AtomicU32,
    list: [OnceLock<Box<[AtomicU64]>>; PARTS],
    /// By row sequences that are too far from `base` for an entry, once there is one; 0 for none.
    far: OnceLock<Box<[AtomicU64]>>,
}

/// Successive rows whose tombstones have one sequence.
#[derive(Clone, Copy)]
struct Entry {
    first: usize,
    rows: usize,
    distance: u64,
}

impl Entry {
    fn packed(self) -> u64 {
        (self.distance * CHUNK as u64 + self.rows as u64 - 1) * CHUNK as u64 + self.first as u64
    }

    fn of(packed: u64) -> Entry {
        let (rest, first) = (packed / CHUNK as u64, packed as usize % CHUNK);
        Entry { first, rows: rest as usize % CHUNK + 1, distance: rest / CHUNK as u64 }
    }

    fn range(self) -> Range<usize> {
        self.first..self.first + self.rows
    }
}

/// The part of a list in which an entry is, and its place there.
fn place(at: usize) -> (usize, usize) {
    match (at / FIRST).checked_ilog2() {
        None => (0, at),
        Some(log) => (log as usize + 1, at - (FIRST << log)),
    }
}

/// Entries of a part.
fn entries_of(part: usize) -> usize {
    FIRST << part.saturating_sub(1)
}

impl Chunk {
    /// No tombstone; the first will have this sequence.
    fn new(first: u64) -> Chunk {
        Chunk {
            bits: Default::default(),
            latest: AtomicU64::new(0),
            base: first.saturating_sub(1 << (DISTANCE - 1)),
            len: AtomicU32::new(0),
            list: Default::default(),
            far: OnceLock::new(),
        }
    }

    #[inline]
    fn has(&self, offset: usize) -> bool {
        self.bits[offset / WORD].load(Ordering::Acquire) >> (offset % WORD) & 1 == 1
    }

    fn has_any(&self, offsets: &Range<usize>) -> bool {
        let words = &self.bits[offsets.start / WORD..offsets.end.div_ceil(WORD)];
        words.iter().any(|word| word.load(Ordering::Acquire) != 0)
    }

    fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        let len = self.len.load(Ordering::Acquire) as usize;
        let all = self.list.iter().map_while(OnceLock::get).flat_map(|part| part.iter());
        all.take(len).map(|entry| Entry::of(entry.load(Ordering::Relaxed)))
    }

    /// The sequence of a row that has a bit. Cost: a pass over the list.
    #[cold]
    fn sequence(&self, offset: usize) -> u64 {
        let entry = self.entries().find(|entry| entry.range().contains(&offset));
        entry.map_or_else(|| self.far_sequence(offset), |entry| self.base + entry.distance)
    }

    fn far_sequence(&self, offset: usize) -> u64 {
        self.far.get().map_or(0, |far| far[offset].load(Ordering::Relaxed))
    }

    /// Who pinned a sequence has seen it published, after all that this reads was written; for later
    /// tombstones it makes no difference whether they are seen.
    #[inline]
    fn is_visible(&self, offset: usize, pin: u64) -> bool {
        !self.has(offset)
            || self.latest.load(Ordering::Relaxed) > pin && self.sequence(offset) > pin
    }

    /// Adds the tombstones of successive rows that have none yet.
    fn add(&self, offsets: Range<usize>, sequence: u64) {
        let distance = sequence.checked_sub(self.base).filter(|&of| of < 1 << DISTANCE);
        match distance {
            _ if sequence == 0 => (),
            Some(distance) => {
                self.append(Entry { first: offsets.start, rows: offsets.len(), distance });
            }
            None => {
                let none = || (0..CHUNK).map(|_| AtomicU64::new(0)).collect();
                let far = &self.far.get_or_init(none)[offsets.clone()];
                far.iter().for_each(|of| of.store(sequence, Ordering::Relaxed));
            }
        }
        self.latest.fetch_max(sequence, Ordering::Relaxed);
        let mut at = offsets.start;
        while at < offsets.end {
            let (word, from) = (at / WORD, at % WORD);
            let rows = (WORD - from).min(offsets.end - at);
            self.bits[word].fetch_or(u64::MAX >> (WORD - rows) << from, Ordering::Release);
            at += rows;
        }
    }

    /// Makes the last entry longer if the new one follows it, or adds that one.
    fn append(&self, new: Entry) {
        let len = self.len.load(Ordering::Relaxed) as usize;
        if let Some(last) = len.checked_sub(1) {
            let (part, at) = place(last);
            let last = &self.list[part].get().expect("a part with entries in use")[at];
            let entry = Entry::of(last.load(Ordering::Relaxed));
            if entry.distance == new.distance && entry.range().end == new.first {
                let longer = Entry { rows: entry.rows + new.rows, ..entry };
                last.store(longer.packed(), Ordering::Relaxed);
                return;
            }
        }
        let (part, at) = place(len);
        let entries = || (0..entries_of(part)).map(|_| AtomicU64::new(0)).collect();
        self.list[part].get_or_init(entries)[at].store(new.packed(), Ordering::Relaxed);
        self.len.store(len as u32 + 1, Ordering::Release);
    }

    /// Calls `visit` with offset and sequence of every tombstone of some successive rows.
    fn for_each_in(&self, offsets: Range<usize>, visit: &mut dyn FnMut(usize, u64)) {
        if !self.has_any(&offsets) {
            return;
        }
        let bits: [u64; CHUNK / WORD] =
            std::array::from_fn(|word| self.bits[word].load(Ordering::Acquire));
        let mut sequences = [0; CHUNK];
        for entry in self.entries() {
            let here = entry.first.max(offsets.start)..entry.range().end.min(offsets.end);
            if !here.is_empty() {
                sequences[here].fill(self.base + entry.distance);
            }
        }
        for offset in offsets.filter(|offset| bits[offset / WORD] >> (offset % WORD) & 1 == 1) {
            let listed = sequences[offset];
            visit(offset, if listed > 0 { listed } else { self.far_sequence(offset) });
        }
    }

    fn memory_bytes(&self) -> usize {
        let parts = self.list.iter().chain([&self.far]).filter_map(OnceLock::get);
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
        self.add_rows(row..row + 1, sequence) > 0
    }

    /// Adds the tombstones of successive rows as [`Tombstones::add`] does, to those that have none; returns how
    /// many. Cost: a look at the bit of each row, and of the atomic steps one for 64 rows of a run, and three for all.
    pub fn add_rows(&self, rows: Range<u32>, sequence: u64) -> u64 {
        assert!(rows.end <= self.rows, "rows of the segment");
        assert!(sequence < NEVER, "a sequence that was given out");
        let (mut row, mut added) = (rows.start as usize, 0);
        while row < rows.end as usize {
            let end = ((row / CHUNK + 1) * CHUNK).min(rows.end as usize);
            let chunk = self.chunks[row / CHUNK].get_or_init(|| Box::new(Chunk::new(sequence)));
            let offsets = row % CHUNK..row % CHUNK + (end - row);
            let mut at = offsets.start;
            while let Some(first) = (at..offsets.end).find(|&offset| !chunk.has(offset)) {
                at = (first..offsets.end).find(|&offset| chunk.has(offset)).unwrap_or(offsets.end);
                chunk.add(first..at, sequence);
                added += (at - first) as u64;
            }
            row = end;
        }
        if added > 0 {
            self.count.fetch_add(added, Ordering::Relaxed);
        }
        added
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
                let first = (at * CHUNK) as u32;
                let offsets = (row - first) as usize..(end.min(next) - first) as usize;
                chunk.for_each_in(offsets, &mut |offset, sequence| {
                    visit(first + offset as u32, sequence);
                });
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
