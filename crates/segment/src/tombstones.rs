//! The tombstones of a segment: its deleted rows, each with the sequence of its deletion.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

/// Rows of a chunk; the first tombstone of a chunk allocates memory for all of them.
const CHUNK: usize = 1024;
/// The sequence that stands for a live row.
const NEVER: u64 = u64::MAX;

/// Tombstones of the rows of a segment: one writer, any number of readers, no lock.
///
/// A tombstone holds the sequence of the write that deleted or replaced the row: a delete, or an
/// upsert of its id. A reader that pinned an earlier sequence still sees the row. Memory: 8 bytes
/// per row in each chunk of 1,024 rows that has a tombstone, none elsewhere.
pub struct Tombstones {
    chunks: Box<[OnceLock<Box<[AtomicU64]>>]>,
    rows: u32,
    count: AtomicU64,
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
        let chunk =
            self.chunks[chunk].get_or_init(|| (0..CHUNK).map(|_| AtomicU64::new(NEVER)).collect());
        if chunk[offset].load(Ordering::Relaxed) != NEVER {
            return false;
        }
        chunk[offset].store(sequence, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// True if a reader that pinned `pin` sees the row.
    #[inline]
    pub fn is_visible(&self, row: u32, pin: u64) -> bool {
        let (chunk, offset) = (row as usize / CHUNK, row as usize % CHUNK);
        self.chunks[chunk].get().is_none_or(|chunk| chunk[offset].load(Ordering::Relaxed) > pin)
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
                    let sequence = chunk[row as usize % CHUNK].load(Ordering::Relaxed);
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
        let chunks = self.chunks.iter().filter(|chunk| chunk.get().is_some()).count();
        (size_of_val(&*self.chunks) + chunks * CHUNK * size_of::<AtomicU64>()) as u64
    }
}
