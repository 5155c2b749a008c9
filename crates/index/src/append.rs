//! A fixed buffer that one writer fills while any number of readers read what is filled.
//!
//! The only `unsafe` memory of the index. Vectors must be plain `&[f32]` for the kernels and must
//! not be copied when a row is appended beside them, which no safe type of the standard library
//! offers: `OnceLock` per row costs one allocation and one more cache miss per distance.
//!
//! Protocol: elements below `len` never change again. The writer fills above `len`, then stores
//! `len` with Release; a reader loads `len` with Acquire and looks only below it.

use std::marker::PhantomData;
use std::mem::{align_of, size_of};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::slab::Block;

/// A buffer that grows at its end. Whoever holds it may read; only its [`Pen`] can write.
pub(crate) struct Cells<T> {
    block: Block,
    capacity: usize,
    len: AtomicUsize,
    /// Matches the one pen of this buffer.
    number: u64,
    elements: PhantomData<T>,
}

/// The right to append to one buffer. Not `Clone`, and pushing needs `&mut`: one writer.
pub(crate) struct Pen {
    number: u64,
}

// SAFETY: elements below `len` are never written again, and memory above it is touched only
// through the one `Pen`, so nothing is written while another thread can read it.
unsafe impl<T: Copy + Send + Sync> Sync for Cells<T> {}
// SAFETY: the buffer owns plain `Copy` data.
unsafe impl<T: Copy + Send> Send for Cells<T> {}

/// A buffer for `capacity` elements, allocated now, and its pen.
pub(crate) fn append_buffer<T: Copy>(capacity: usize) -> (Pen, Cells<T>) {
    const { assert!(align_of::<T>() <= 64, "blocks begin at cache lines") };
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let block = Block::new(capacity * size_of::<T>());
    let cells = Cells { block, capacity, len: AtomicUsize::new(0), number, elements: PhantomData };
    (Pen { number }, cells)
}

impl<T: Copy> Cells<T> {
    /// Appends `items` and publishes them together. Panics if they do not fit, or if the pen is
    /// that of another buffer.
    pub(crate) fn push(&self, pen: &mut Pen, items: &[T]) {
        assert_eq!(pen.number, self.number, "the pen of another buffer");
        let len = self.len.load(Ordering::Relaxed);
        let end = len + items.len();
        assert!(end <= self.capacity, "append buffer is full");
        // SAFETY: the room from `len` to `end` lies in the block and above the published length, so
        // no reader looks at it, and `&mut` of the buffer's only pen excludes another writer.
        unsafe {
            let free = self.start().add(len).as_ptr();
            std::ptr::copy_nonoverlapping(items.as_ptr(), free, items.len());
        }
        self.len.store(end, Ordering::Release);
    }

    /// Elements published so far.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Elements that fit.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    fn start(&self) -> NonNull<T> {
        self.block.start().cast()
    }

    /// `count` elements from `start`, which must have been published: panics otherwise.
    #[inline]
    pub(crate) fn slice(&self, start: usize, count: usize) -> &[T] {
        assert!(start + count <= self.len(), "reading above what was published");
        // SAFETY: the range lies below the length that was loaded with Acquire, hence inside the
        // block, was written and is never written again.
        unsafe { std::slice::from_raw_parts(self.start().add(start).as_ptr(), count) }
    }
}

#[cfg(test)]
mod tests {
    use super::append_buffer;

    #[test]
    fn readers_see_a_growing_prefix_while_the_writer_appends() {
        let (mut pen, cells) = append_buffer::<u64>(4_000);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut seen = 0;
                while seen < 4_000 {
                    seen = cells.len();
                    for (i, &x) in cells.slice(0, seen).iter().enumerate() {
                        assert_eq!(x, i as u64 * 7);
                    }
                    std::thread::yield_now();
                }
            });
            for i in 0..1_000u64 {
                cells.push(&mut pen, &[i * 28, i * 28 + 7, i * 28 + 14, i * 28 + 21]);
            }
        });
    }

    #[test]
    #[should_panic(expected = "append buffer is full")]
    fn a_full_buffer_refuses() {
        let (mut pen, cells) = append_buffer::<u8>(3);
        cells.push(&mut pen, &[1, 2]);
        cells.push(&mut pen, &[3, 4]);
    }

    #[test]
    #[should_panic(expected = "above what was published")]
    fn the_unpublished_part_cannot_be_read() {
        let (mut pen, cells) = append_buffer::<u8>(3);
        cells.push(&mut pen, &[1]);
        cells.slice(0, 2);
    }

    #[test]
    #[should_panic(expected = "pen of another buffer")]
    fn a_pen_writes_to_its_own_buffer_only() {
        let (_own, cells) = append_buffer::<u8>(3);
        let (mut other, _) = append_buffer::<u8>(3);
        cells.push(&mut other, &[1]);
    }
}
