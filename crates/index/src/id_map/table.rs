//! A table: entries in the order of their hashes, with gaps. A look-up starts where the hash belongs
//! and stops at the first entry with a larger hash.
//!
//! Entries are atomic words, since readers look while the writer moves them. What a reader sees then is
//! of no meaning, and never out of bounds.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use vstream_vector::kernels;

use super::{hash, AddressBits, FREE};
use crate::slab::Slots;

/// Homes of an empty table.
pub(super) const CAPACITY_MIN: usize = 16;
/// Slots behind the last home, for entries that collisions push there.
const OVERHANG: usize = 16;

/// The entries of a table.
pub(super) struct Entries {
    slots: Slots<Entry>,
    /// Number of homes; `slots` has [`OVERHANG`] more.
    capacity: usize,
}

struct Entry {
    id: AtomicU64,
    address: AtomicU64,
}

fn pack((high, low): AddressBits) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn unpack(bits: u64) -> AddressBits {
    ((bits >> 32) as u32, bits as u32)
}

impl Entry {
    #[inline]
    fn is_free(&self) -> bool {
        self.address.load(Ordering::Relaxed) == pack(FREE)
    }

    fn id(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    fn copy_from(&self, other: &Entry) {
        self.id.store(other.id(), Ordering::Relaxed);
        self.address.store(other.address.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl Entries {
    pub(super) fn new(capacity: usize) -> Entries {
        let free = || Entry { id: AtomicU64::new(0), address: AtomicU64::new(pack(FREE)) };
        Entries { slots: Slots::new(capacity + OVERHANG, free), capacity }
    }

    /// Number of homes.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.slots.len() * size_of::<Entry>()
    }

    /// The slot where a hash belongs. Homes are in the order of hashes.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        (((hash & 0xffff_ffff) * self.capacity as u64) >> 32) as usize
    }

    /// Prefetches the slot where a hash belongs.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        let home = self.home(hash);
        kernels::prefetch(&self.slots[home..home + 1]);
    }

    /// The slot of the id, or `Err` with the slot where it belongs.
    #[inline]
    pub(super) fn find(&self, seed: u64, hash: u64, id: u64) -> Result<usize, usize> {
        let key = hash & 0xffff_ffff;
        let mut slot = self.home(hash);
        while let Some(entry) = self.slots.get(slot).filter(|entry| !entry.is_free()) {
            let found = entry.id();
            if found == id {
                return Ok(slot);
            }
            if super::hash(seed, found) & 0xffff_ffff > key {
                break;
            }
            slot += 1;
        }
        Err(slot)
    }

    /// The address in a slot.
    #[inline]
    pub(super) fn address(&self, slot: usize) -> AddressBits {
        unpack(self.slots[slot].address.load(Ordering::Relaxed))
    }

    /// Sets the address in a slot that has an id.
    #[inline]
    pub(super) fn set_address(&self, slot: usize, address: AddressBits) {
        self.slots[slot].address.store(pack(address), Ordering::Relaxed);
    }

    /// Fills a slot.
    pub(super) fn set(&self, slot: usize, id: u64, address: AddressBits) {
        self.slots[slot].id.store(id, Ordering::Relaxed);
        self.set_address(slot, address);
    }

    /// The first free slot from `slot` on; `None` if there is none.
    pub(super) fn free_from(&self, slot: usize) -> Option<usize> {
        let free = self.slots.get(slot..)?.iter().position(Entry::is_free)?;
        Some(slot + free)
    }

    /// Moves the entries of a range one slot up, over the free slot behind it.
    pub(super) fn shift_up(&self, range: Range<usize>) {
        for slot in range.rev() {
            self.slots[slot + 1].copy_from(&self.slots[slot]);
        }
    }

    /// Frees a slot, and moves the entries behind it that are not at home one slot down.
    pub(super) fn close(&self, seed: u64, mut slot: usize) {
        while let Some(next) = self.slots.get(slot + 1).filter(|entry| !entry.is_free()) {
            if self.home(hash(seed, next.id())) == slot + 1 {
                break;
            }
            self.slots[slot].copy_from(next);
            slot += 1;
        }
        self.set_address(slot, FREE);
    }

    /// Copies the entries to a table of another capacity; `None` if they do not fit behind its end.
    pub(super) fn copy(&self, seed: u64, capacity: usize) -> Option<Entries> {
        let copy = Entries::new(capacity);
        let mut next = 0;
        for entry in self.slots.iter().filter(|entry| !entry.is_free()) {
            let slot = next.max(copy.home(hash(seed, entry.id())));
            copy.slots.get(slot)?.copy_from(entry);
            next = slot + 1;
        }
        Some(copy)
    }

    /// Asserts that entries lie in the order of their hashes, none before its home, none behind a gap.
    #[cfg(test)]
    pub(super) fn check(&self, seed: u64) {
        let mut last = 0;
        for (slot, entry) in self.slots.iter().enumerate().filter(|(_, entry)| !entry.is_free()) {
            let key = hash(seed, entry.id()) & 0xffff_ffff;
            let home = self.home(key);
            assert!(home <= slot && last <= key);
            assert!((home..slot).all(|before| !self.slots[before].is_free()));
            last = key;
        }
    }
}

/// The next larger capacity. All tables use the same steps, so the slabs need few block sizes.
pub(super) fn next_capacity(capacity: usize) -> usize {
    capacity * 5 / 4 + CAPACITY_MIN
}
