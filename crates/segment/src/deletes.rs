//! Which rows of a segment are gone, and since when.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

/// Rows whose marks lie together; memory is taken for them with the first mark among them.
const CHUNK: usize = 1024;
/// The mark of a row that lives.
const NEVER: u64 = u64::MAX;

/// Marks of deleted rows: one writer, any number of readers, no lock.
///
/// A mark is the sequence of the delete. A reader that pinned an earlier one still sees the row.
/// Costs nothing for rows without a mark nearby, 8 bytes for each other row.
pub struct Deletes {
    chunks: Box<[OnceLock<Box<[AtomicU64]>>]>,
    rows: u32,
    marked: AtomicU64,
}

impl Deletes {
    /// All `rows` live.
    pub fn none(rows: u32) -> Deletes {
        let chunks = (rows as usize).div_ceil(CHUNK);
        let chunks = (0..chunks).map(|_| OnceLock::new()).collect();
        Deletes { chunks, rows, marked: AtomicU64::new(0) }
    }

    /// Ends the life of a row at `sequence`; false if it was over before. Only the writer calls.
    ///
    /// The caller publishes `sequence` afterwards, with Release or stronger.
    pub fn mark(&self, row: u32, sequence: u64) -> bool {
        assert!(row < self.rows, "a row of the segment");
        assert!(sequence < NEVER, "a sequence that was given out");
        let (chunk, at) = (row as usize / CHUNK, row as usize % CHUNK);
        let chunk =
            self.chunks[chunk].get_or_init(|| (0..CHUNK).map(|_| AtomicU64::new(NEVER)).collect());
        if chunk[at].load(Ordering::Relaxed) != NEVER {
            return false;
        }
        chunk[at].store(sequence, Ordering::Relaxed);
        self.marked.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// True if a reader that pinned `pin` sees the row.
    #[inline]
    pub fn is_visible(&self, row: u32, pin: u64) -> bool {
        let (chunk, at) = (row as usize / CHUNK, row as usize % CHUNK);
        self.chunks[chunk].get().is_none_or(|chunk| chunk[at].load(Ordering::Relaxed) > pin)
    }

    /// Shows every mark, row and sequence, in the order of the rows.
    pub fn for_each_mark(&self, visit: &mut dyn FnMut(u32, u64)) {
        for (at, chunk) in self.chunks.iter().enumerate() {
            let Some(chunk) = chunk.get() else { continue };
            for (mark, row) in chunk.iter().zip((at * CHUNK) as u32..self.rows) {
                let sequence = mark.load(Ordering::Relaxed);
                if sequence != NEVER {
                    visit(row, sequence);
                }
            }
        }
    }

    /// Rows marked so far.
    pub fn marked(&self) -> u64 {
        self.marked.load(Ordering::Relaxed)
    }

    /// Bytes held.
    pub fn memory_bytes(&self) -> u64 {
        let chunks = self.chunks.iter().filter(|chunk| chunk.get().is_some()).count();
        (size_of_val(&*self.chunks) + chunks * CHUNK * size_of::<AtomicU64>()) as u64
    }
}
