//! Buffers of large bodies, used again: the heap gives each block of that size new pages, which the system
//! clears one by one.

use std::sync::{Arc, Mutex, PoisonError};

/// Least bytes of a buffer that is kept, and what its size is a multiple of.
const LEAST: usize = 256 << 10;
/// Most bytes of a buffer that is kept, and most buffers. Both together are what a server keeps for ever.
const MOST: usize = 2 << 20;
const KEPT: usize = 2;

/// Buffers that wait for the next bodies.
#[derive(Default)]
pub(super) struct Spare {
    kept: Mutex<Vec<Vec<u8>>>,
}

/// A buffer, which is kept when it is dropped if there is room.
pub(super) struct Buffer {
    pub(super) bytes: Vec<u8>,
    spare: Arc<Spare>,
}

impl Spare {
    /// An empty buffer with room for so many bytes.
    pub(super) fn take(self: &Arc<Spare>, room: usize) -> Buffer {
        let bytes = match room {
            LEAST..=MOST => {
                let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
                // One that is too small makes room for one that is not.
                let found = kept.iter().position(|bytes| bytes.capacity() >= room);
                let found = found.or_else(|| kept.len().checked_sub(1)).map(|at| kept.remove(at));
                drop(kept);
                let fits = found.filter(|bytes| bytes.capacity() >= room);
                fits.unwrap_or_else(|| Vec::with_capacity(room.next_multiple_of(LEAST)))
            }
            _ => Vec::with_capacity(room),
        };
        Buffer { bytes, spare: self.clone() }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if (LEAST..=MOST).contains(&self.bytes.capacity()) {
            let mut bytes = std::mem::take(&mut self.bytes);
            bytes.clear();
            let mut kept = self.spare.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() < KEPT {
                kept.push(bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(spare: &Spare) -> Vec<usize> {
        let kept = spare.kept.lock().expect("no panic");
        assert!(kept.iter().all(Vec::is_empty));
        kept.iter().map(Vec::capacity).collect()
    }

    #[test]
    fn large_buffers_are_used_again_and_few_are_kept() {
        let spare = Arc::new(Spare::default());
        let mut first = spare.take(LEAST + 1);
        assert_eq!(first.bytes.capacity(), 2 * LEAST);
        first.bytes.extend_from_slice(&[7; LEAST]);
        let at = first.bytes.as_ptr();
        drop(first);
        // A little larger than the first: it fits, and holds nothing of it.
        let second = spare.take(2 * LEAST);
        assert_eq!((second.bytes.as_ptr(), second.bytes.len()), (at, 0));
        let others: Vec<Buffer> = (0..3).map(|_| spare.take(LEAST)).collect();
        drop((second, others));
        assert_eq!(kept(&spare), [2 * LEAST, LEAST]);
        // What is too small goes for what is not.
        drop(spare.take(MOST));
        assert_eq!(kept(&spare), [2 * LEAST, MOST]);
        for room in [0, LEAST - 1, MOST + 1] {
            let other = spare.take(room);
            assert!(other.bytes.capacity() >= room && other.bytes.is_empty());
            drop(other);
            assert_eq!(kept(&spare), [2 * LEAST, MOST], "after {room}");
        }
    }
}
