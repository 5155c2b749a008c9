//! The writer's map from id to place.
//!
//! 64 tables, each an array of entries in the order of their hashes with gaps between: a lookup
//! starts where the hash belongs and stops at the first entry beyond it. Compared with the standard
//! map it is fuller (growing by a quarter instead of doubling keeps 68 to 85 % in use), it shrinks,
//! and growing copies one table of the 64, in order, so that no insert waits for all ids to move.

use std::hash::BuildHasher;

use vstream_vector::kernels;

use crate::slab::Slots;

const TABLES: usize = 64;
/// Entries of a table at first.
const CAPACITY_MIN: usize = 16;
/// Room behind the last home for entries that were pushed there.
const OVERHANG: usize = 16;

/// Two numbers that say where a row is; what they mean is the index's matter.
pub(crate) type PlaceBits = (u32, u32);

/// What no place looks like.
const FREE: PlaceBits = (u32::MAX, u32::MAX);

/// A map from the user's ids to places.
pub(crate) struct ById {
    /// Drawn per map, so that ids cannot be chosen to collide.
    seed: u64,
    tables: Vec<Table>,
    len: usize,
}

#[derive(Clone, Copy)]
struct Entry {
    id: u64,
    place: PlaceBits,
}

struct Table {
    entries: Slots<Entry>,
    /// Homes; `entries` has [`OVERHANG`] more.
    capacity: usize,
    len: usize,
}

impl Default for ById {
    fn default() -> ById {
        let seed = std::hash::RandomState::new().hash_one(0u64);
        ById { seed, tables: (0..TABLES).map(|_| Table::new(CAPACITY_MIN)).collect(), len: 0 }
    }
}

impl ById {
    /// Ids in the map.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The place of an id.
    #[inline]
    pub(crate) fn get(&self, id: u64) -> Option<PlaceBits> {
        let hash = hash(self.seed, id);
        let table = &self.tables[table_of(hash)];
        let at = table.find(self.seed, hash, id).ok()?;
        Some(table.entries[at].place)
    }

    /// Starts loading what [`ById::insert`] will look at.
    #[inline]
    pub(crate) fn prefetch(&self, id: u64) {
        let hash = hash(self.seed, id);
        let table = &self.tables[table_of(hash)];
        let home = table.home(hash);
        kernels::prefetch(&table.entries[home..home + 1]);
    }

    /// Sets the place of an id, which is not `(u32::MAX, u32::MAX)`.
    #[inline]
    pub(crate) fn insert(&mut self, id: u64, place: PlaceBits) {
        debug_assert!(place != FREE, "a place that means none");
        let hash = hash(self.seed, id);
        let table = &mut self.tables[table_of(hash)];
        match table.find(self.seed, hash, id) {
            Ok(at) => table.entries[at].place = place,
            Err(at) => {
                table.add(self.seed, at, Entry { id, place });
                self.len += 1;
            }
        }
    }

    /// Forgets an id.
    pub(crate) fn remove(&mut self, id: u64) {
        let hash = hash(self.seed, id);
        let table = &mut self.tables[table_of(hash)];
        if let Ok(at) = table.find(self.seed, hash, id) {
            table.take(self.seed, at);
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
        let free = Entry { id: 0, place: FREE };
        Table { entries: Slots::new(capacity + OVERHANG, || free), capacity, len: 0 }
    }

    /// Where a hash belongs. Homes are in the order of hashes.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        (((hash & 0xffff_ffff) * self.capacity as u64) >> 32) as usize
    }

    /// Where the id is, or where it is to be put.
    #[inline]
    fn find(&self, seed: u64, hash: u64, id: u64) -> Result<usize, usize> {
        let key = hash & 0xffff_ffff;
        let mut at = self.home(hash);
        while let Some(entry) = self.entries.get(at).filter(|entry| entry.place != FREE) {
            if entry.id == id {
                return Ok(at);
            }
            if self::hash(seed, entry.id) & 0xffff_ffff > key {
                break;
            }
            at += 1;
        }
        Err(at)
    }

    /// Puts an entry at `at`, where [`Table::find`] said, and moves what is there up.
    fn add(&mut self, seed: u64, mut at: usize, entry: Entry) {
        let room = |table: &Table| {
            let tail = table.entries.get(at..)?;
            tail.iter().position(|entry| entry.place == FREE).map(|free| at + free)
        };
        let is_full = (self.len + 1) * 20 > self.capacity * 17;
        let mut free = if is_full { None } else { room(self) };
        let mut capacity = self.capacity;
        while free.is_none() {
            capacity = next_capacity(capacity);
            // Fails only if entries crowd at the end, and then a larger table is tried.
            let Some(larger) = self.copy(seed, capacity) else { continue };
            *self = larger;
            at = match self.find(seed, hash(seed, entry.id), entry.id) {
                Ok(at) | Err(at) => at,
            };
            let tail = self.entries.get(at..).unwrap_or_default();
            free = tail.iter().position(|entry| entry.place == FREE).map(|free| at + free);
        }
        let free = free.expect("a free entry");
        self.entries.copy_within(at..free, at + 1);
        self.entries[at] = entry;
        self.len += 1;
    }

    /// Removes the entry at `at` and closes the gap.
    fn take(&mut self, seed: u64, at: usize) {
        let mut end = at + 1;
        while let Some(entry) = self.entries.get(end).filter(|entry| entry.place != FREE) {
            if self.home(hash(seed, entry.id)) == end {
                break;
            }
            end += 1;
        }
        self.entries.copy_within(at + 1..end, at);
        self.entries[end - 1].place = FREE;
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

    /// The same entries in a table of another capacity; `None` if they do not fit behind its end.
    fn copy(&self, seed: u64, capacity: usize) -> Option<Table> {
        let mut copy = Table::new(capacity);
        let mut next = 0;
        for entry in self.entries.iter().filter(|entry| entry.place != FREE) {
            let at = next.max(copy.home(hash(seed, entry.id)));
            *copy.entries.get_mut(at)? = *entry;
            next = at + 1;
        }
        copy.len = self.len;
        Some(copy)
    }
}

/// All tables take the same steps, so that their memory comes in few sizes.
fn next_capacity(capacity: usize) -> usize {
    capacity * 5 / 4 + CAPACITY_MIN
}

#[inline]
fn table_of(hash: u64) -> usize {
    (hash >> 58) as usize
}

/// The finaliser of SplitMix64: a fifth of the cost of the standard hash, which the profile of a
/// stream of inserts showed.
#[inline]
fn hash(seed: u64, id: u64) -> u64 {
    let mut z = seed ^ id;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests;
