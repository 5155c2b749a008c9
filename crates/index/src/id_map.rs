//! The map from the user's id to the address of the living row. One writer changes it; readers may
//! look into it at any time.
//!
//! The map has 64 tables (`id_map/table.rs`). A table grows by a quarter instead of doubling, which
//! keeps 68 to 85 % of it in use, and it shrinks. Growth copies one table of the 64, in order, so no
//! insert waits until all ids have moved.
//!
//! # What does a reader learn?
//!
//! The map knows the present alone, and a reader wants the rows of its moment. So an address is a hint:
//! the reader looks at the row there, which says itself whether it is that of the id and visible.
//! An id that is not in the map is another matter, since nothing is there to look at. Each table knows
//! the sequence of the last write that removed an id from it. If that is not after the moment, no row
//! of the id was visible at the moment: had there been one, a later write would have removed it.
//!
//! A table has a turn, which is odd while entries move. A reader that finds it odd, or changed
//! meanwhile, has learnt nothing; it never waits for the writer. A new address of a known id moves no
//! entry and is stored in one step.

mod table;

use std::hash::BuildHasher;
use std::sync::atomic::{fence, AtomicU64, Ordering};
use std::sync::Arc;

use arc_swap::ArcSwap;

use self::table::{next_capacity, Entries, CAPACITY_MIN};
use crate::rows::Sequence;

const TABLES: usize = 64;

/// Times that a reader looks again while the writer is at work in the same table.
const LOOKS: usize = 4;

/// Two numbers that say where a row is. The index decides their meaning.
pub(crate) type AddressBits = (u32, u32);

/// Marks a free entry. No row has this address.
const FREE: AddressBits = (u32::MAX, u32::MAX);

/// A map from the user's ids to row addresses.
pub(crate) struct IdMap {
    ids: Arc<Ids>,
    /// The writer's tables, in the order of those of `ids`.
    tables: Vec<Table>,
    len: usize,
}

/// The map as readers see it.
pub(crate) struct Ids {
    /// Drawn at random per map, so that nobody can choose ids that collide.
    seed: u64,
    tables: Box<[Shown]>,
}

/// What a reader learns about an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    /// The row of the id is there, or was a moment ago.
    At(AddressBits),
    /// The id is not in the map, and no write after this sequence has removed it.
    Absent(Sequence),
    /// The writer was at work.
    Unknown,
}

/// A table as readers see it.
#[repr(align(64))]
struct Shown {
    /// Odd while entries move.
    turn: AtomicU64,
    /// Sequence of the last write that removed an id.
    removed: AtomicU64,
    entries: ArcSwap<Entries>,
}

/// A table as the writer has it.
struct Table {
    entries: Arc<Entries>,
    len: usize,
}

impl Default for IdMap {
    fn default() -> IdMap {
        IdMap::with_seed(std::hash::RandomState::new().hash_one(0u64))
    }
}

impl IdMap {
    fn with_seed(seed: u64) -> IdMap {
        let table = |_| Table { entries: Arc::new(Entries::new(CAPACITY_MIN)), len: 0 };
        let tables: Vec<Table> = (0..TABLES).map(table).collect();
        let shown = |table: &Table| Shown {
            turn: AtomicU64::new(0),
            removed: AtomicU64::new(0),
            entries: ArcSwap::new(table.entries.clone()),
        };
        let ids = Ids { seed, tables: tables.iter().map(shown).collect() };
        IdMap { ids: Arc::new(ids), tables, len: 0 }
    }

    /// The readers' side.
    pub(crate) fn ids(&self) -> &Arc<Ids> {
        &self.ids
    }

    /// Ids in the map.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The address of an id, if the map holds it.
    #[inline]
    pub(crate) fn get(&self, id: u64) -> Option<AddressBits> {
        let hash = hash(self.ids.seed, id);
        let entries = &self.tables[table_of(hash)].entries;
        entries.find(self.ids.seed, hash, id).ok().map(|slot| entries.address(slot))
    }

    /// Prefetches the home of an id for a later [`IdMap::insert`].
    #[inline]
    pub(crate) fn prefetch(&self, id: u64) {
        let hash = hash(self.ids.seed, id);
        self.tables[table_of(hash)].entries.prefetch(hash);
    }

    /// Sets the address of an id. `(u32::MAX, u32::MAX)` is not a valid address.
    #[inline]
    pub(crate) fn insert(&mut self, id: u64, address: AddressBits) {
        debug_assert!(address != FREE, "the address that marks a free entry");
        let seed = self.ids.seed;
        let hash = hash(seed, id);
        let number = table_of(hash);
        let (table, shown) = (&mut self.tables[number], &self.ids.tables[number]);
        match table.entries.find(seed, hash, id) {
            Ok(slot) => table.entries.set_address(slot, address),
            Err(slot) => {
                shown.change(|| table.add(seed, shown, slot, (id, address)));
                self.len += 1;
            }
        }
    }

    /// Removes an id by the write of `sequence`; does nothing if the map does not hold it.
    pub(crate) fn remove(&mut self, id: u64, sequence: Sequence) {
        let seed = self.ids.seed;
        let hash = hash(seed, id);
        let number = table_of(hash);
        let (table, shown) = (&mut self.tables[number], &self.ids.tables[number]);
        if let Ok(slot) = table.entries.find(seed, hash, id) {
            shown.change(|| {
                shown.removed.store(sequence, Ordering::Relaxed);
                table.take(seed, shown, slot);
            });
            self.len -= 1;
        }
    }

    /// Bytes held.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let entries: usize = self.tables.iter().map(|table| table.entries.bytes()).sum();
        (entries + TABLES * (size_of::<Table>() + size_of::<Shown>())) as u64
    }
}

impl Ids {
    /// What is known of an id now. Never waits.
    ///
    /// The caller has pinned its moment before: then the map has at least the writes up to it.
    pub(crate) fn find(&self, id: u64) -> Hint {
        let hash = hash(self.seed, id);
        let shown = &self.tables[table_of(hash)];
        for _ in 0..LOOKS {
            let turn = shown.turn.load(Ordering::Acquire);
            if turn.is_multiple_of(2) {
                let entries = shown.entries.load();
                let slot = entries.find(self.seed, hash, id).ok();
                let hint = match slot.map(|slot| entries.address(slot)) {
                    Some(address) => Hint::At(address),
                    None => Hint::Absent(shown.removed.load(Ordering::Relaxed)),
                };
                // The loads above come before the second load of the turn.
                fence(Ordering::Acquire);
                if shown.turn.load(Ordering::Relaxed) == turn {
                    return hint;
                }
            }
            std::hint::spin_loop();
        }
        Hint::Unknown
    }
}

impl Shown {
    /// Moves entries: what readers see meanwhile tells them nothing. Only the writer calls this.
    fn change(&self, work: impl FnOnce()) {
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn + 1, Ordering::Relaxed);
        // The odd turn comes before the stores of `work`.
        fence(Ordering::Release);
        work();
        self.turn.store(turn + 2, Ordering::Release);
    }
}

impl Table {
    fn replace(&mut self, shown: &Shown, entries: Entries) {
        self.entries = Arc::new(entries);
        shown.entries.store(self.entries.clone());
    }

    /// Inserts an entry at `slot`, as [`Entries::find`] returned it, and shifts the entries behind it.
    fn add(
        &mut self,
        seed: u64,
        shown: &Shown,
        mut slot: usize,
        (id, address): (u64, AddressBits),
    ) {
        let is_full = (self.len + 1) * 20 > self.entries.capacity() * 17;
        let mut free = if is_full { None } else { self.entries.free_from(slot) };
        let mut capacity = self.entries.capacity();
        while free.is_none() {
            capacity = next_capacity(capacity);
            // The copy fails only if entries crowd at its end. Then the next capacity is tried.
            let Some(larger) = self.entries.copy(seed, capacity) else { continue };
            self.replace(shown, larger);
            slot = match self.entries.find(seed, hash(seed, id), id) {
                Ok(slot) | Err(slot) => slot,
            };
            free = self.entries.free_from(slot);
        }
        let free = free.expect("a free entry");
        self.entries.shift_up(slot..free);
        self.entries.set(slot, id, address);
        self.len += 1;
    }

    /// Removes the entry at `slot` and closes the gap.
    fn take(&mut self, seed: u64, shown: &Shown, slot: usize) {
        self.entries.close(seed, slot);
        self.len -= 1;
        if self.entries.capacity() > CAPACITY_MIN && self.len * 3 < self.entries.capacity() {
            let mut capacity = CAPACITY_MIN;
            while capacity * 3 < self.len * 4 {
                capacity = next_capacity(capacity);
            }
            if let Some(smaller) = self.entries.copy(seed, capacity) {
                self.replace(shown, smaller);
            }
        }
    }
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
