//! A fixed buffer that one writer fills while any number of readers read the filled part.
//!
//! The only `unsafe` memory of the index besides the slabs. Kernels take vectors as plain `&[f32]`, and
//! an append must not copy the vectors beside the new one. No safe type of the standard library offers
//! both: `OnceLock` per row costs one allocation and one more cache miss per distance.
//!
//! A buffer may have several parts, each allocated when it is first written to.
//!
//! Protocol: elements below `len` never change again. The writer fills above `len`, then stores
//! `len` with Release; a reader loads `len` with Acquire and looks only below it.

use std::marker::PhantomData;
use std::mem::{align_of, size_of};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::OnceLock;

use crate::slab::Block;

/// Parts of a buffer at most.
pub(crate) const PARTS: usize = 4;

/// A buffer that grows at its end. Whoever holds it may read; only its [`Pen`] can write.
///
/// The fields that readers need fill less than a cache line. `own` holds the others.
pub(crate) struct Cells<T> {
    /// First byte of each part; null until it is allocated.
    starts: [AtomicPtr<u8>; PARTS],
    len: AtomicUsize,
    /// Elements of a part.
    part: usize,
    own: Box<Own>,
    elements: PhantomData<T>,
}

/// Fields that only the writer reads.
struct Own {
    parts: [OnceLock<Block>; PARTS],
    capacity: usize,
    /// Matches the one pen of this buffer.
    number: u64,
}

/// The right to append to one buffer. It is not `Clone` and `push` takes it by `&mut`, so there is one
/// writer.
pub(crate) struct Pen {
    number: u64,
}

/// A buffer for `capacity` elements in at most [`PARTS`] parts of `part` elements, and its pen. One push
/// must not cross from one part to the next.
pub(crate) fn append_buffer<T: Copy + Send + Sync>(
    capacity: usize,
    part: usize,
) -> (Pen, Cells<T>) {
    const { assert!(align_of::<T>() <= 64, "blocks begin at cache lines") };
    assert!(capacity.div_ceil(part) <= PARTS, "a buffer of too many parts");
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let own = Box::new(Own { parts: Default::default(), capacity, number });
    let (starts, len) = (Default::default(), AtomicUsize::new(0));
    (Pen { number }, Cells { starts, len, part, own, elements: PhantomData })
}

impl<T: Copy + Send + Sync> Cells<T> {
    /// Appends `items` and publishes them together. Panics if they do not fit, or if the pen is
    /// that of another buffer.
    pub(crate) fn push(&self, pen: &mut Pen, items: &[T]) {
        assert_eq!(pen.number, self.own.number, "the pen of another buffer");
        let len = self.len.load(Ordering::Relaxed);
        let end = len + items.len();
        assert!(end <= self.own.capacity, "append buffer is full");
        let (part, offset) = self.split(len, items.len());
        let block = self.own.parts[part].get_or_init(|| {
            let block = Block::new(self.part * size_of::<T>());
            self.starts[part].store(block.start().as_ptr(), Ordering::Relaxed);
            block
        });
        // SAFETY: the room from `offset` on lies in the part and above the published length, so no
        // reader looks at it, and `&mut` of the buffer's only pen excludes another writer.
        unsafe {
            let free = block.start().cast::<T>().add(offset).as_ptr();
            std::ptr::copy_nonoverlapping(items.as_ptr(), free, items.len());
        }
        self.len.store(end, Ordering::Release);
    }

    /// Elements published so far.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Bytes of the allocated parts and of `own`.
    pub(crate) fn bytes(&self) -> usize {
        let parts = self.own.parts.iter().filter_map(OnceLock::get).count();
        parts * self.part * size_of::<T>() + size_of::<Own>()
    }

    /// Part, and offset in it, of `count` elements from `start`.
    #[inline]
    fn split(&self, start: usize, count: usize) -> (usize, usize) {
        let (part, offset) =
            if start < self.part { (0, start) } else { (start / self.part, start % self.part) };
        assert!(offset + count <= self.part, "across the parts of a buffer");
        (part, offset)
    }

    /// `count` elements from `start`. Panics unless all of them are published.
    #[inline]
    pub(crate) fn slice(&self, start: usize, count: usize) -> &[T] {
        assert!(start + count <= self.len(), "reading above what was published");
        let (part, offset) = self.split(start, count);
        // The writer stored the start before the length that was loaded with Acquire.
        let first = match NonNull::new(self.starts[part].load(Ordering::Relaxed)) {
            // SAFETY: the offset lies in the part.
            Some(start) => unsafe { start.cast::<T>().add(offset) },
            None => NonNull::dangling(),
        };
        // SAFETY: the range lies below the length that was loaded with Acquire, hence in a part that
        // is there unless it is empty, was written and is never written again.
        unsafe { std::slice::from_raw_parts(first.as_ptr(), count) }
    }
}

/// Columns of words for the rows of a chunk, filled lane by lane. Lanes that were passed over, and
/// columns that were not set, read as zeros.
///
/// The protocol is that of [`Cells`], with lanes in place of elements.
pub(crate) struct Table {
    block: Block,
    /// Lanes published.
    len: AtomicUsize,
    /// Words in all, and words of flags behind them.
    words: usize,
    flags: usize,
    lanes: usize,
    /// Matches the one pen of this table.
    number: u64,
}

impl Table {
    /// A table for `lanes` lanes of `words` words of 32 bits each, with `flags` words of flags in all,
    /// and its pen.
    pub(crate) fn new(lanes: usize, words: usize, flags: usize) -> (Pen, Table) {
        static NEXT: AtomicU64 = AtomicU64::new(1 << 63);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let words = words * lanes;
        let block = Block::new((words + flags) * size_of::<u32>());
        // SAFETY: the block has room for so many words and nobody else knows it yet.
        unsafe { block.start().cast::<u32>().write_bytes(0, words + flags) };
        (Pen { number }, Table { block, len: AtomicUsize::new(0), words, flags, lanes, number })
    }

    /// Flags, which are zeros at first and lie beside the columns so that one page has both. They may
    /// be set at any time.
    #[inline]
    pub(crate) fn flags(&self) -> &[AtomicU32] {
        // SAFETY: the flags lie in the block behind the words, are aligned as these, were written before
        // anybody knew the table, and nobody uses them but as atomics.
        unsafe {
            let first = self.block.start().cast::<AtomicU32>().add(self.words);
            std::slice::from_raw_parts(first.as_ptr(), self.flags)
        }
    }

    /// Sets a word of a lane that is not published. The column begins at the word `start`.
    pub(crate) fn set_narrow(&self, pen: &mut Pen, start: usize, lane: usize, value: u32) {
        self.check(pen, start + self.lanes, lane);
        // SAFETY: the word lies in the block and in an unpublished lane, so no reader looks at it, and
        // `&mut` of the table's only pen excludes another writer.
        unsafe { self.block.start().cast::<u32>().add(start + lane).write(value) };
    }

    /// Sets two words of a lane that is not published. The column begins at the even word `start`.
    pub(crate) fn set_wide(&self, pen: &mut Pen, start: usize, lane: usize, value: u64) {
        self.check(pen, start + 2 * self.lanes, lane);
        assert!(start.is_multiple_of(2), "a column of two words begins at an even word");
        // SAFETY: as above; an even word of a block is aligned for two words.
        unsafe { self.block.start().cast::<u64>().add(start / 2 + lane).write(value) };
    }

    /// Asserts that a lane can be written in a column that ends at the word `end`.
    fn check(&self, pen: &Pen, end: usize, lane: usize) {
        assert_eq!(pen.number, self.number, "the pen of another table");
        assert!(lane >= self.len.load(Ordering::Relaxed), "a published lane never changes");
        assert!(lane < self.lanes && end <= self.words, "beyond the table");
    }

    /// Publishes the lanes below `lanes`.
    pub(crate) fn publish(&self, pen: &mut Pen, lanes: usize) {
        assert_eq!(pen.number, self.number, "the pen of another table");
        assert!(lanes >= self.len.load(Ordering::Relaxed) && lanes <= self.lanes, "more lanes");
        self.len.store(lanes, Ordering::Release);
    }

    /// The published words of the column that begins at the word `start`.
    #[inline]
    pub(crate) fn narrow(&self, start: usize) -> &[u32] {
        let len = self.len.load(Ordering::Acquire);
        assert!(start + self.lanes <= self.words, "beyond the table");
        // SAFETY: the words lie in the block, were written (zeros at least) before the length that was
        // loaded with Acquire, and never change below it.
        unsafe {
            let first = self.block.start().cast::<u32>().add(start);
            std::slice::from_raw_parts(first.as_ptr(), len)
        }
    }

    /// The published double words of the column that begins at the even word `start`.
    #[inline]
    pub(crate) fn wide(&self, start: usize) -> &[u64] {
        let len = self.len.load(Ordering::Acquire);
        assert!(start + 2 * self.lanes <= self.words && start.is_multiple_of(2));
        // SAFETY: as for `narrow`; an even word of a block is aligned for two words.
        unsafe {
            let first = self.block.start().cast::<u64>().add(start / 2);
            std::slice::from_raw_parts(first.as_ptr(), len)
        }
    }

    /// Lanes that there is room for.
    pub(crate) fn lanes(&self) -> usize {
        self.lanes
    }

    /// Bytes reserved.
    pub(crate) fn bytes(&self) -> usize {
        (self.words + self.flags) * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::{append_buffer, Table};

    #[test]
    fn readers_see_whole_lanes_of_a_table_while_the_writer_fills_it() {
        let (mut pen, table) = Table::new(1_000, 3, 2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut seen = 0;
                while seen < 1_000 {
                    let flag =
                        |at: usize| table.flags()[at].load(std::sync::atomic::Ordering::Acquire);
                    assert!(
                        flag(0).is_multiple_of(2) && (flag(1) == 0 || !flag(1).is_multiple_of(2))
                    );
                    let (wide, narrow) = (table.wide(0), table.narrow(2 * 1_000));
                    seen = wide.len();
                    for (lane, value) in wide.iter().enumerate().filter(|(lane, _)| lane % 3 != 1) {
                        assert_eq!(*value, lane as u64 * 7);
                    }
                    for (lane, value) in narrow.iter().enumerate() {
                        assert_eq!(*value, if lane % 3 == 1 { 0 } else { lane as u32 + 1 });
                    }
                    std::thread::yield_now();
                }
            });
            for lane in 0..1_000 {
                if lane % 3 != 1 {
                    table.set_wide(&mut pen, 0, lane, lane as u64 * 7);
                    table.set_narrow(&mut pen, 2 * 1_000, lane, lane as u32 + 1);
                    table.flags()[lane % 2]
                        .store(lane as u32, std::sync::atomic::Ordering::Release);
                    table.publish(&mut pen, lane + 1);
                }
            }
        });
    }

    #[test]
    #[should_panic(expected = "never changes")]
    fn a_published_lane_cannot_be_written() {
        let (mut pen, table) = Table::new(32, 1, 0);
        table.set_narrow(&mut pen, 0, 3, 9);
        table.publish(&mut pen, 4);
        table.set_narrow(&mut pen, 0, 3, 8);
    }

    #[test]
    fn readers_see_a_growing_prefix_while_the_writer_appends() {
        let (mut pen, cells) = append_buffer::<u64>(4_000, 1_000);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut seen = 0;
                while seen < 4_000 {
                    seen = cells.len();
                    for i in (0..seen).step_by(4) {
                        let expected = [0, 7, 14, 21].map(|x| i as u64 * 7 + x);
                        assert_eq!(cells.slice(i, 4), expected);
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
        let (mut pen, cells) = append_buffer::<u8>(3, 3);
        cells.push(&mut pen, &[1, 2]);
        cells.push(&mut pen, &[3, 4]);
    }

    #[test]
    #[should_panic(expected = "across the parts")]
    fn elements_pushed_together_stay_together() {
        let (mut pen, cells) = append_buffer::<u8>(8, 4);
        cells.push(&mut pen, &[1, 2, 3]);
        cells.push(&mut pen, &[4, 5]);
    }

    #[test]
    fn a_part_is_allocated_when_it_is_needed() {
        let (mut pen, cells) = append_buffer::<u32>(400, 100);
        let empty = cells.bytes();
        assert!(cells.slice(0, 0).is_empty());
        cells.push(&mut pen, &[7; 100]);
        assert_eq!(cells.bytes() - empty, 400);
        cells.push(&mut pen, &[8; 10]);
        assert_eq!((cells.bytes() - empty, cells.slice(105, 3)), (800, [8; 3].as_slice()));
    }

    #[test]
    #[should_panic(expected = "above what was published")]
    fn the_unpublished_part_cannot_be_read() {
        let (mut pen, cells) = append_buffer::<u8>(3, 3);
        cells.push(&mut pen, &[1]);
        cells.slice(0, 2);
    }

    #[test]
    #[should_panic(expected = "pen of another buffer")]
    fn a_pen_writes_to_its_own_buffer_only() {
        let (_own, cells) = append_buffer::<u8>(3, 3);
        let (mut other, _) = append_buffer::<u8>(3, 3);
        cells.push(&mut other, &[1]);
    }
}
