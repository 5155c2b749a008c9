//! Reads of a merge: a walk takes the parts of a run in the order of the file, so each read brings
//! what follows it. Most parts are far smaller than a read.

use std::sync::{Arc, Mutex, PoisonError};

use vstream_store::{Buffer, Error as StoreError, Range, ReadAt};

/// Bytes of a read. Longer ranges are read as they are.
const WINDOW_BYTES: usize = 256 << 10;

/// A file whose reads bring what follows them, into one window.
pub(super) struct Ahead {
    file: Arc<dyn ReadAt>,
    /// Where the window begins, and what it holds.
    window: Mutex<(u64, Buffer)>,
}

impl Ahead {
    pub(super) fn new(file: Arc<dyn ReadAt>) -> Ahead {
        Ahead { file, window: Mutex::default() }
    }
}

impl ReadAt for Ahead {
    fn name(&self) -> &str {
        self.file.name()
    }

    fn bytes(&self) -> u64 {
        self.file.bytes()
    }

    fn read(&self, range: Range) -> Result<Buffer, StoreError> {
        let left = self.file.bytes().saturating_sub(range.offset);
        if range.bytes > WINDOW_BYTES || range.bytes as u64 > left {
            // Also where the file ends too early, which is the file's error to tell.
            return self.file.read(range);
        }
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let end = window.0 + window.1.len() as u64;
        if range.offset < window.0 || range.offset + range.bytes as u64 > end {
            let bytes = left.min(WINDOW_BYTES as u64) as usize;
            *window = (range.offset, self.file.read(Range { bytes, ..range })?);
        }
        let from = (range.offset - window.0) as usize;
        Ok(Buffer::from(window.1[from..from + range.bytes].to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use vstream_store::{Access, FileStore, Memory, Range, ReadAt, Store, Syncing};
    use vstream_vector::SplitMix;

    use super::{Ahead, WINDOW_BYTES};

    #[test]
    fn reads_are_those_of_the_file() {
        let mut random = SplitMix(9);
        let bytes: Vec<u8> = (0..3 * WINDOW_BYTES).map(|_| random.next() as u8).collect();
        let store = FileStore::new(Arc::new(Memory::new()), Syncing::Full);
        store.put("file", &bytes).unwrap();
        let file = store.open("file", Access::Cached).unwrap();
        let ahead = Ahead::new(file);
        for _ in 0..2000 {
            let from = random.below(bytes.len());
            let most = (bytes.len() - from).min(WINDOW_BYTES + WINDOW_BYTES / 2);
            let most = most.min(1 << random.below(20));
            let length = random.below(most + 1);
            let range = Range { offset: from as u64, bytes: length };
            assert!(ahead.read(range).unwrap()[..] == bytes[from..from + length], "{range:?}");
        }
        for (offset, bytes) in [(bytes.len() as u64, 1), (bytes.len() as u64 - 5, 6), (u64::MAX, 2)]
        {
            assert!(ahead.read(Range { offset, bytes }).is_err(), "{offset}");
        }
    }
}
