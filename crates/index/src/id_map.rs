//! The writer's map from the user's id to the address of the living row.
//!
//! The map has 64 tables. Each is an array of entries in the order of their hashes, with gaps: a
//! lookup starts where the hash belongs and stops at the first entry with a larger hash. A table
//! grows by a quarter instead of doubling, which keeps 68 to 85 % of it in use, and it shrinks.
//! Growth copies one table of the 64, in order, so no insert waits until all ids have moved.

use std::hash::BuildHasher;

use vstream_vector::kernels;

use crate::slab::Slots;

const TABLES: usize = 64;
/// Homes of an empty table.
const CAPACITY_MIN: usize = 16;
/// Slots behind the last home, for entries that collisions push there.
const OVERHANG: usize = 16;

/// Two numbers that say where a row is. The index decides their meaning.
pub(crate) type AddressBits = (u32, u32);

/// Marks a free entry. No row has this address.
const FREE: AddressBits = (u32::MAX, u32::MAX);

/// A map from the user's ids to row addresses.
pub(crate) struct IdMap {
    /// Drawn at random per map, so that nobody can choose ids that collide.
    seed: u64,
    tables: Vec<Table>,
    len: usize,
}

#[derive(Clone, Copy)]
struct Entry {
    id: u64,
    address: AddressBits,
}

struct Table {
    entries: Slots<Entry>,
    /// Number of homes; `entries` has [`OVERHANG`] slots more.
    capacity: usize,
    len: usize,
}

impl Default for IdMap {
    fn default() -> IdMap {
        let seed = std::hash::RandomState::new().hash_one(0u64);
        IdMap { seed, tables: (0..TABLES).map(|_| Table::new(CAPACITY_MIN)).collect(), len: 0 }
    }
}

impl IdMap {
    /// Ids in the map.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The address of an id, if the map holds it.
    #[inline]
    pub(crate) fn get(&self, id: u64) -> Option<AddressBits> {
        let hash = hash(self.seed, id);
        let table = &self.tables[table_of(hash)];
        let slot = table.find(self.seed, hash, id).ok()?;
        Some(table.entries[slot].address)
    }

    /// Prefetches the home of an id for a later [`IdMap::insert`].
    #[inline]
    pub(crate) fn prefetch(&self, id: u64) {
        let hash = hash(self.seed, id);
        let table = &self.tables[table_of(hash)];
        let home = table.home(hash);
        kernels::prefetch(&table.entries[home..home + 1]);
    }

    /// Sets the address of an id. `(u32::MAX, u32::MAX)` is not a valid address.
    #[inline]
    pub(crate) fn insert(&mut self, id: u64, address: AddressBits) {
        debug_assert!(address != FREE, "the address that marks a free entry");
        let hash = hash(self.seed, id);
        let table = &mut self.tables[table_of(hash)];
        match table.find(self.seed, hash, id) {
            Ok(slot) => table.entries[slot].address = address,
            Err(slot) => {
                table.add(self.seed, slot, Entry { id, address });
                self.len += 1;
            }
        }
    }

    /// Removes an id; does nothing if the map does not hold it.
    pub(crate) fn remove(&mut self, id: u64) {
        let hash = hash(self.seed, id);
        let table = &mut self.tables[table_of(hash)];
        if let Ok(slot) = table.find(self.seed, hash, id) {
            table.take(self.seed, slot);
            self.len -= 1;
        }
    }

    /// Bytes held.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let entries: usize = self.tables.iter().map(|table| table.entries.len()).sum();
        (entries * size_of::<Entry>()) as u64
    }
}

impl Table {
    fn new(capacity: usize) -> Table {
        let free = Entry { id: 0, address: FREE };
        Table { entries: Slots::new(capacity + OVERHANG, || free), capacity, len: 0 }
    }

    /// The slot where a hash belongs. Homes are in the order of hashes.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        (((hash & 0xffff_ffff) * self.capacity as u64) >> 32) as usize
    }

    /// The slot of the id, or `Err` with the slot where it belongs.
    #[inline]
    fn find(&self, seed: u64, hash: u64, id: u64) -> Result<usize, usize> {
        let key = hash & 0xffff_ffff;
        let mut slot = self.home(hash);
        while let Some(entry) = self.entries.get(slot).filter(|entry| entry.address != FREE) {
            if entry.id == id {
                return Ok(slot);
            }
            if self::hash(seed, entry.id) & 0xffff_ffff > key {
                break;
            }
            slot += 1;
        }
        Err(slot)
    }

    /// Inserts an entry at `slot`, as [`Table::find`] returned it, and shifts the entries behind it.
    fn add(&mut self, seed: u64, mut slot: usize, entry: Entry) {
        let room = |table: &Table| {
            let tail = table.entries.get(slot..)?;
            tail.iter().position(|entry| entry.address == FREE).map(|free| slot + free)
        };
        let is_full = (self.len + 1) * 20 > self.capacity * 17;
        let mut free = if is_full { None } else { room(self) };
        let mut capacity = self.capacity;
        while free.is_none() {
            capacity = next_capacity(capacity);
            // The copy fails only if entries crowd at its end. Then the next capacity is tried.
            let Some(larger) = self.copy(seed, capacity) else { continue };
            *self = larger;
            slot = match self.find(seed, hash(seed, entry.id), entry.id) {
                Ok(slot) | Err(slot) => slot,
            };
            let tail = self.entries.get(slot..).unwrap_or_default();
            free = tail.iter().position(|entry| entry.address == FREE).map(|free| slot + free);
        }
        let free = free.expect("a free entry");
        self.entries.copy_within(slot..free, slot + 1);
        self.entries[slot] = entry;
        self.len += 1;
    }

    /// Removes the entry at `slot` and closes the gap.
    fn take(&mut self, seed: u64, slot: usize) {
        let mut end = slot + 1;
        while let Some(entry) = self.entries.get(end).filter(|entry| entry.address != FREE) {
            if self.home(hash(seed, entry.id)) == end {
                break;
            }
            end += 1;
        }
        self.entries.copy_within(slot + 1..end, slot);
        self.entries[end - 1].address = FREE;
        self.len -= 1;
        if self.capacity > CAPACITY_MIN && self.len * 3 < self.capacity {
            let mut capacity = CAPACITY_MIN;
            while capacity * 3 < self.len * 4 {
                capacity = next_capacity(capacity);
            }
            if let Some(smaller) = self.copy(seed, capacity) {
                *self = smaller;
            }
        }
    }

    /// Copies the entries to a table of another capacity; `None` if they do not fit behind its end.
    fn copy(&self, seed: u64, capacity: usize) -> Option<Table> {
        let mut copy = Table::new(capacity);
        let mut next = 0;
        for entry in self.entries.iter().filter(|entry| entry.address != FREE) {
            let slot = next.max(copy.home(hash(seed, entry.id)));
            *copy.entries.get_mut(slot)? = *entry;
            next = slot + 1;
        }
        copy.len = self.len;
        Some(copy)
    }
}

/// The next larger capacity. All tables use the same steps, so the slabs need few block sizes.
fn next_capacity(capacity: usize) -> usize {
    capacity * 5 / 4 + CAPACITY_MIN
}

#[inline]
fn table_of(hash: u64) -> usize {
    (hash >> 58) as usize
}

/// The finaliser of SplitMix64. It costs a fifth of the standard hash, whose cost stood out in the
/// profile of a stream of inserts.
#[inline]
fn hash(seed: u64, id: u64) -> u64 {
    let mut z = seed ^ id;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests;
