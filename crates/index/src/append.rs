//! A fixed buffer that one writer fills while any number of readers read what is filled.
//!
//! The only `unsafe` memory of the index. Vectors must be plain `&[f32]` for the kernels and must
//! not be copied when a row is appended beside them, which no safe type of the standard library
//! offers: `OnceLock` per row costs one allocation and one more cache miss per distance.
//!
//! Protocol: elements below `len` never change again. The writer fills above `len`, then stores
//! `len` with Release; a reader loads `len` with Acquire and looks only below it.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

struct Shared<T> {
    cells: Box<[UnsafeCell<T>]>,
    len: AtomicUsize,
}

// SAFETY: cells below `len` are never written again, and cells at or above it are touched only by
// the one `Appender`, so no cell is written while another thread can read it.
unsafe impl<T: Copy + Send + Sync> Sync for Shared<T> {}
// SAFETY: the buffer owns plain `Copy` data.
unsafe impl<T: Copy + Send> Send for Shared<T> {}

/// The writing end: there is exactly one per buffer, and pushing needs `&mut`.
pub(crate) struct Appender<T>(Arc<Shared<T>>);

/// The reading end: a growing prefix of what was pushed.
pub(crate) struct Prefix<T>(Arc<Shared<T>>);

/// A buffer for `capacity` elements, allocated now, and its two ends.
pub(crate) fn append_buffer<T: Copy + Default>(capacity: usize) -> (Appender<T>, Prefix<T>) {
    let cells = (0..capacity).map(|_| UnsafeCell::new(T::default())).collect();
    let shared = Arc::new(Shared { cells, len: AtomicUsize::new(0) });
    (Appender(shared.clone()), Prefix(shared))
}

impl<T: Copy> Appender<T> {
    /// Appends `items` and publishes them together. Panics if they do not fit.
    pub(crate) fn push(&mut self, items: &[T]) {
        let len = self.0.len.load(Ordering::Relaxed);
        let end = len + items.len();
        assert!(end <= self.0.cells.len(), "append buffer is full");
        for (cell, item) in self.0.cells[len..end].iter().zip(items) {
            // SAFETY: this cell lies at or above the published length, so no reader looks at it,
            // and `&mut self` of the only appender excludes another writer.
            unsafe { *cell.get() = *item };
        }
        self.0.len.store(end, Ordering::Release);
    }
}

impl<T: Copy> Prefix<T> {
    /// Elements published so far.
    pub(crate) fn len(&self) -> usize {
        self.0.len.load(Ordering::Acquire)
    }

    /// Elements that fit.
    pub(crate) fn capacity(&self) -> usize {
        self.0.cells.len()
    }

    /// `count` elements from `start`, which must have been published: panics otherwise.
    #[inline]
    pub(crate) fn slice(&self, start: usize, count: usize) -> &[T] {
        assert!(start + count <= self.len(), "reading above what was published");
        let cells = &self.0.cells[start..start + count];
        // SAFETY: `UnsafeCell<T>` has the layout of `T`; all cells of the range lie below the
        // length that was loaded with Acquire, hence are initialised and never written again.
        unsafe { std::slice::from_raw_parts(cells.as_ptr().cast::<T>(), cells.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::append_buffer;

    #[test]
    fn readers_see_a_growing_prefix_while_the_writer_appends() {
        let (mut writer, reader) = append_buffer::<u64>(4_000);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut seen = 0;
                while seen < 4_000 {
                    seen = reader.len();
                    for (i, &x) in reader.slice(0, seen).iter().enumerate() {
                        assert_eq!(x, i as u64 * 7);
                    }
                    std::thread::yield_now();
                }
            });
            for i in 0..1_000u64 {
                writer.push(&[i * 28, i * 28 + 7, i * 28 + 14, i * 28 + 21]);
            }
        });
    }

    #[test]
    #[should_panic(expected = "append buffer is full")]
    fn a_full_buffer_refuses() {
        let (mut writer, _reader) = append_buffer::<u8>(3);
        writer.push(&[1, 2]);
        writer.push(&[3, 4]);
    }

    #[test]
    #[should_panic(expected = "above what was published")]
    fn the_unpublished_part_cannot_be_read() {
        let (mut writer, reader) = append_buffer::<u8>(3);
        writer.push(&[1]);
        reader.slice(0, 2);
    }
}
