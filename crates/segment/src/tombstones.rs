//! The tombstones of a segment: its deleted rows, each with the sequence of its deletion.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;

/// Rows of a chunk; the first tombstone of a chunk allocates memory for all of them.
const CHUNK: usize = 1024;
/// The sequence that stands for a live row.
const NEVER: u64 = u64::MAX;
/// What a row without a tombstone has in place of a distance, and one whose sequence is too far away.
const NONE: u32 = u32::MAX;
const FAR: u32 = u32::MAX - 1;
/// How far below that of the first tombstone of a chunk a sequence may be.
const BELOW: u64 = 1 << 31;

/// Tombstones of the rows of a segment: one writer, any number of readers, no lock.
///
/// A tombstone holds the sequence of the write that deleted or replaced the row: a delete, or an
/// upsert of its id. A reader that pinned an earlier sequence still sees the row. Memory: 4 bytes
/// per row in each chunk of 1,024 rows that has a tombstone, none elsewhere; 12 bytes in a chunk whose
/// sequences are two billion writes apart.
pub struct Tombstones {
    chunks: Box<[OnceLock<Chunk>]>,
    rows: u32,
    count: AtomicU64,
}

struct Chunk {
    base: u64,
    /// By row the distance of its tombstone's sequence to `base`, [`NONE`] or [`FAR`].
    near: Box<[AtomicU32]>,
    /// By row the sequences that are too far away, once there is one.
    far: OnceLock<Box<[AtomicU64]>>,
}

impl Chunk {
    /// No tombstone; the first will have this sequence.
    fn new(first: u64) -> Chunk {
        let near = (0..CHUNK).map(|_| AtomicU32::new(NONE)).collect();
        Chunk { base: first.saturating_sub(BELOW), near, far: OnceLock::new() }
    }

    /// The sequence of a row's tombstone, [`NEVER`] without one.
    ///
    /// Who pinned that sequence has seen it published, after all that this reads was written; for
    /// everybody else [`NEVER`] is as good.
    #[inline]
    fn sequence(&self, offset: usize) -> u64 {
        match self.near[offset].load(Ordering::Relaxed) {
            NONE => NEVER,
            FAR => self.far.get().map_or(NEVER, |far| far[offset].load(Ordering::Relaxed)),
            distance => self.base + u64::from(distance),
        }
    }

    fn set(&self, offset: usize, sequence: u64) {
        let distance = sequence.checked_sub(self.base).filter(|&distance| distance < FAR.into());
        let near = distance.map_or(FAR, |distance| distance as u32);
        if near == FAR {
            let none = || (0..CHUNK).map(|_| AtomicU64::new(NEVER)).collect();
            self.far.get_or_init(none)[offset].store(sequence, Ordering::Relaxed);
        }
        self.near[offset].store(near, Ordering::Relaxed);
    }

    fn memory_bytes(&self) -> usize {
        size_of_val(&*self.near) + self.far.get().map_or(0, |far| size_of_val(&**far))
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
        let chunk = self.chunks[chunk].get_or_init(|| Chunk::new(sequence));
        if chunk.sequence(offset) != NEVER {
            return false;
        }
        chunk.set(offset, sequence);
        self.count.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// True if a reader that pinned `pin` sees the row.
    #[inline]
    pub fn is_visible(&self, row: u32, pin: u64) -> bool {
        let (chunk, offset) = (row as usize / CHUNK, row as usize % CHUNK);
        self.chunks[chunk].get().is_none_or(|chunk| chunk.sequence(offset) > pin)
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
                for row in row..end.min(next) {
                    let sequence = chunk.sequence(row as usize % CHUNK);
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
        let held: usize = chunks.map(Chunk::memory_bytes).sum();
        (size_of_val(&*self.chunks) + held) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_far_apart_are_kept_as_they_are() {
        let tombstones = Tombstones::none(3_000);
        let near = [(5, 7), (6, 7), (1_023, 0), (900, 4_000_000_000)];
        let far = [(7, 1 << 40), (8, u64::MAX - 1), (2_050, 1 << 50), (2_051, 3), (2_999, 1 << 51)];
        let before = tombstones.memory_bytes();
        for (row, sequence) in near {
            assert!(tombstones.add(row, sequence) && !tombstones.add(row, sequence + 1));
        }
        assert_eq!(tombstones.memory_bytes() - before, 4_096);
        for (row, sequence) in far {
            assert!(tombstones.add(row, sequence) && !tombstones.add(row, 1));
        }
        let mut expected = [&near[..], &far[..]].concat();
        expected.sort_unstable();
        let mut found = Vec::new();
        tombstones.for_each(&mut |row, sequence| found.push((row, sequence)));
        assert_eq!(found, expected);
        for (row, sequence) in expected {
            assert!(!tombstones.is_visible(row, sequence), "{row}");
            assert!(sequence == 0 || tombstones.is_visible(row, sequence - 1), "{row}");
        }
        assert!(tombstones.is_visible(1_500, u64::MAX - 1) && tombstones.is_visible(4, 9));
        assert_eq!(tombstones.count(), 9);
    }
}
