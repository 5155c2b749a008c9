//! Address space for slabs, 32 at a time, in one mapping. The system provides memory when it is touched.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memmap2::{Advice, MmapMut, UncheckedAdvice};

use super::{map, SLAB};

/// Slabs of a region: one bit of a word each.
const SLABS: usize = u32::BITS as usize;

/// Some slabs that begin at a multiple of 2 MiB.
struct Region {
    memory: MmapMut,
    /// Offset of the first slab in `memory`.
    offset: usize,
    base: NonNull<u8>,
}

// SAFETY: `base` points into `memory`, which the region owns and never moves.
unsafe impl Send for Region {}
// SAFETY: as above; a region itself offers no access to its memory.
unsafe impl Sync for Region {}

impl Region {
    /// `None` if the system has no address space left.
    fn new(slabs: usize) -> Option<Region> {
        // One slab more, so that `slabs` aligned ones lie inside. The rest is never touched.
        let mut memory = map((slabs + 1) * SLAB)?;
        let start = NonNull::new(memory.as_mut_ptr()).expect("a mapping");
        let offset = start.as_ptr().align_offset(SLAB);
        // SAFETY: an aligned address lies within the first of two slabs.
        let base = unsafe { start.add(offset) };
        Some(Region { memory, offset, base })
    }
}

/// A shared region, and which of its slabs are in use.
struct Used {
    region: Arc<Region>,
    slabs: u32,
}

/// Regions with huge pages, the oldest first, so that later ones drain.
fn regions() -> MutexGuard<'static, Vec<Used>> {
    static REGIONS: Mutex<Vec<Used>> = Mutex::new(Vec::new());
    // Every change of the list is one call, so a poisoned list is whole.
    REGIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The memory of one slab: 2 MiB that begin at a multiple of 2 MiB.
pub(super) struct Mapping {
    region: Arc<Region>,
    slot: usize,
}

impl Mapping {
    /// Memory that the system provides page by page; `None` if it has none left.
    pub(super) fn new() -> Option<Mapping> {
        Some(Mapping { region: Arc::new(Region::new(1)?), slot: 0 })
    }

    /// Memory in a shared region, as one huge page where the system has them; `None` if the system has
    /// none left.
    pub(super) fn huge() -> Option<Mapping> {
        let mut regions = regions();
        let position = match regions.iter().position(|used| used.slabs != u32::MAX) {
            Some(position) => position,
            None => {
                let region = Region::new(SLABS)?;
                // Without huge pages the index is slower and just as right.
                let range = (region.offset, SLABS * SLAB);
                let _refused = region.memory.advise_range(Advice::HugePage, range.0, range.1);
                regions.push(Used { region: Arc::new(region), slabs: 0 });
                regions.len() - 1
            }
        };
        let used = &mut regions[position];
        let slot = used.slabs.trailing_ones() as usize;
        used.slabs |= 1 << slot;
        Some(Mapping { region: used.region.clone(), slot })
    }

    /// Its first byte.
    pub(super) fn base(&self) -> NonNull<u8> {
        // SAFETY: the region has a slab there.
        unsafe { self.region.base.add(self.slot * SLAB) }
    }

    /// Touches every page, so that the system provides the memory now.
    pub(super) fn touch(&mut self) {
        for offset in (0..SLAB).step_by(4096) {
            // SAFETY: the byte lies in the slab, which nobody else has yet.
            unsafe { self.base().add(offset).write_volatile(0) };
        }
    }

    /// Gives memory back to the system; it reads as zeros from now on. If the system refuses, the
    /// memory is merely kept.
    ///
    /// # Safety
    ///
    /// The bytes lie inside the slab, and nobody needs what is in them.
    pub(super) unsafe fn give_back(&self, bytes: Range<usize>) {
        let start = self.region.offset + self.slot * SLAB + bytes.start;
        // SAFETY: as the caller promises; no other slab has these bytes.
        let _refused = unsafe {
            self.region.memory.unchecked_advise_range(UncheckedAdvice::DontNeed, start, bytes.len())
        };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // Must come before the slab is free for others.
        // SAFETY: the slab ends, so nobody has a block of it.
        unsafe { self.give_back(0..SLAB) };
        let mut regions = regions();
        let ours = |used: &Used| Arc::ptr_eq(&used.region, &self.region);
        // A region that is not in the list ends with its only slab.
        let Some(position) = regions.iter().position(ours) else { return };
        regions[position].slabs &= !(1 << self.slot);
        let has_room = |used: &Used| used.slabs != u32::MAX;
        if regions[position].slabs == 0 && regions.iter().filter(|used| has_room(used)).count() > 1
        {
            regions.remove(position);
        }
    }
}
