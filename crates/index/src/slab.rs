//! Memory for rows and codes: equal blocks in slabs of 2 MiB, each of which the kernel may back with one
//! huge page.
//!
//! A query touches some thousand cache lines all over the index. With pages of 4 KiB nearly every one
//! of them misses the TLB too: slabs made a query over 300,000 rows a fifth cheaper. Slabs also return
//! the memory that mass deletes free; the heap, fragmented by then, does not. The pool unmaps an empty
//! slab, and gives back the pages under the free blocks of a slab that is less than half full.
//!
//! There is one pool per process and a class of slabs per block size. The lowest slab with room serves
//! first, so that later slabs drain. Allocation happens once per 32 rows or per leaf, so a lock is
//! enough. A thread prepares the memory of the next slabs (`spare.rs`), since a write should not wait
//! for 2 MiB of zeros.
//!
//! Linux allows a process some 65,530 mappings (`vm.max_map_count`). With up to three mappings per slab
//! a process would reach that limit at 64 GiB, so slabs lie in regions of 32 (`region.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::mem::{align_of, needs_drop, size_of};
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use memmap2::{MmapMut, MmapOptions};

mod region;
mod spare;

use self::region::Mapping;

const SLAB: usize = 2 << 20;
/// Blocks begin at cache lines.
const ALIGN: usize = 64;
/// A larger block gets a mapping of its own.
const BLOCK_MAX: usize = SLAB / 16;

fn pool() -> MutexGuard<'static, Pool> {
    static POOL: OnceLock<Mutex<Pool>> = OnceLock::new();
    let pool = POOL.get_or_init(|| Mutex::new(Pool::new(rustix::param::page_size())));
    // No panic can happen within a change of the pool, so a poisoned pool is whole.
    pool.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Pool {
    /// Keyed by the bytes of a block.
    classes: BTreeMap<usize, Class>,
    /// Bytes of a page. The system takes back whole pages, and some systems have pages of 16 or 64 KiB.
    page: usize,
}

#[derive(Default)]
struct Class {
    slabs: Vec<Option<Slab>>,
    /// Slabs with a free block.
    open: BTreeSet<u32>,
    /// Positions in `slabs` that hold no slab.
    vacant: Vec<u32>,
}

struct Slab {
    mapping: Mapping,
    used: Vec<bool>,
    live: usize,
    /// True if the pages under free blocks were given back.
    thin: bool,
}

/// Memory of one owner, aligned to a cache line. Its first content is unspecified.
pub(crate) struct Block {
    start: NonNull<u8>,
    home: Home,
}

enum Home {
    Slab { bytes: usize, slab: u32, block: u32 },
    Own { _memory: MmapMut },
}

// SAFETY: a block is plain memory that nobody else refers to; its owner decides who may touch it.
unsafe impl Send for Block {}
// SAFETY: as above; `Block` itself offers no access.
unsafe impl Sync for Block {}

impl Block {
    /// A block of at least `bytes`. Aborts if the system has no memory left, as `Box` does.
    pub(crate) fn new(bytes: usize) -> Block {
        let bytes = bytes.max(1).next_multiple_of(ALIGN);
        if bytes <= BLOCK_MAX {
            return pool().take(bytes);
        }
        let mut memory = map(bytes).unwrap_or_else(|| out_of_memory(bytes));
        let start = NonNull::new(memory.as_mut_ptr()).expect("a mapping");
        Block { start, home: Home::Own { _memory: memory } }
    }

    /// Its first byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Home::Slab { bytes, slab, block } = self.home {
            pool().give_back(bytes, slab, block as usize);
        }
    }
}

/// Anonymous memory. Small mappings stay with small pages.
fn map(bytes: usize) -> Option<MmapMut> {
    MmapOptions::new().len(bytes).map_anon().ok()
}

/// Ends the process, as `Box` does.
fn out_of_memory(bytes: usize) -> ! {
    let layout =
        std::alloc::Layout::from_size_align(bytes, ALIGN).expect("a size below isize::MAX");
    std::alloc::handle_alloc_error(layout)
}

impl Pool {
    /// * `page`: bytes of a page, a power of two up to a slab.
    fn new(page: usize) -> Pool {
        assert!(page.is_power_of_two() && page <= SLAB, "pages of {page} bytes");
        Pool { classes: BTreeMap::new(), page }
    }

    fn take(&mut self, bytes: usize) -> Block {
        let class = self.classes.entry(bytes).or_default();
        let slot = match class.open.first() {
            Some(&slot) => slot,
            None => class.add_slab(bytes),
        };
        let slab = class.slabs[slot as usize].as_mut().expect("an open slab");
        let block = slab.used.iter().position(|used| !used).expect("a free block");
        slab.used[block] = true;
        slab.live += 1;
        if slab.live == slab.used.len() {
            class.open.remove(&slot);
        }
        // Once the slab is nearly full again, a block that comes and goes costs no system call.
        slab.thin &= slab.live * 4 < slab.used.len() * 3;
        // SAFETY: a slab has room for all its blocks.
        let start = unsafe { slab.mapping.base().add(block * bytes) };
        Block { start, home: Home::Slab { bytes, slab: slot, block: block as u32 } }
    }

    fn give_back(&mut self, bytes: usize, slot: u32, block: usize) {
        let page = self.page;
        let class = self.classes.get_mut(&bytes).expect("the class of a block");
        let slab = class.slabs[slot as usize].as_mut().expect("the slab of a block");
        slab.used[block] = false;
        slab.live -= 1;
        class.open.insert(slot);
        if slab.live == 0 && class.open.len() > 1 {
            class.open.remove(&slot);
            class.slabs[slot as usize] = None;
            class.vacant.push(slot);
        } else if slab.thin {
            slab.release_around(page, bytes, block);
        } else if slab.live * 2 < slab.used.len() {
            slab.thin = true;
            slab.release_all(page, bytes);
        }
    }
}

impl Class {
    fn add_slab(&mut self, bytes: usize) -> u32 {
        // The first slab of a size grows page by page: a small collection stays small.
        let mapping = if self.slabs.is_empty() {
            Mapping::new().unwrap_or_else(|| out_of_memory(2 * SLAB))
        } else {
            spare::take()
        };
        let used = vec![false; SLAB / bytes];
        let slab = Slab { mapping, used, live: 0, thin: false };
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.slabs.push(None);
            self.slabs.len() as u32 - 1
        });
        self.slabs[slot as usize] = Some(slab);
        self.open.insert(slot);
        slot
    }
}

impl Slab {
    /// Gives back the pages that lie wholly under free blocks and at least partly under this one.
    fn release_around(&self, page: usize, bytes: usize, block: usize) {
        // More than a page away from the block no page has become free.
        let reach = page.div_ceil(bytes);
        let free = |block: &usize| !self.used[*block];
        let before = (block.saturating_sub(reach)..block).rev().take_while(free).count();
        let end = self.used.len().min(block + 1 + reach);
        let after = (block + 1..end).take_while(free).count();
        self.release(page, bytes, block - before..block + 1 + after);
    }

    fn release_all(&self, page: usize, bytes: usize) {
        let mut block = 0;
        for run in self.used.chunk_by(|a, b| a == b) {
            if !run[0] {
                self.release(page, bytes, block..block + run.len());
            }
            block += run.len();
        }
    }

    /// Gives back the pages that lie wholly under these blocks, which are free.
    fn release(&self, page: usize, bytes: usize, blocks: Range<usize>) {
        let pages = whole_pages(page, blocks.start * bytes..blocks.end * bytes);
        if !pages.is_empty() {
            // SAFETY: nobody owns these blocks, so nobody minds that they read as zeros now; the
            // pages lie inside the slab, which begins at a page of any size up to its own.
            unsafe { self.mapping.give_back(pages) };
        }
    }
}

/// The bytes of the pages that lie wholly in `bytes`.
fn whole_pages(page: usize, bytes: Range<usize>) -> Range<usize> {
    bytes.start.next_multiple_of(page)..bytes.end / page * page
}

/// A slice of values in a block.
#[repr(C)]
pub(crate) struct Slots<T> {
    block: Block,
    len: usize,
    values: std::marker::PhantomData<T>,
}

impl<T> Slots<T> {
    /// `len` values, each made by `make`.
    pub(crate) fn new(len: usize, make: impl Fn() -> T) -> Slots<T> {
        const { assert!(align_of::<T>() <= ALIGN && !needs_drop::<T>()) };
        let block = Block::new(len * size_of::<T>());
        let start = block.start().cast::<T>();
        for position in 0..len {
            // SAFETY: the block has room for `len` values and is aligned for them.
            unsafe { start.add(position).write(make()) };
        }
        Slots { block, len, values: std::marker::PhantomData }
    }
}

impl<T> Deref for Slots<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `new` wrote `len` values, and they live as long as the block.
        unsafe { std::slice::from_raw_parts(self.block.start.as_ptr().cast::<T>(), self.len) }
    }
}

impl<T> DerefMut for Slots<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`, and `&mut self` excludes any other reference.
        unsafe { std::slice::from_raw_parts_mut(self.block.start.as_ptr().cast::<T>(), self.len) }
    }
}

#[cfg(test)]
mod tests;
