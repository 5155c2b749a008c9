//! Where the rare keywords are: for each code the chunks that have had it.
//!
//! 1. When a row enters a chunk of a leaf, the writer adds an *entry* to the lists of the row's codes:
//!    the leaf's number here, and the chunk. An entry may be there twice.
//! 2. When a leaf leaves the tree, its number is *retired*, and its entries are *stale*: no search
//!    follows them. Until then a chunk stays listed even if its rows with the code die: readers of the
//!    moments before still see them.
//! 3. Each time a leaf leaves, the writer *sweeps* stale entries out of the next few lists, twice as many
//!    entries as the leaf had. When it has been through all lists, the numbers that were retired before
//!    it began are free again. A list is also rid of stale and double entries before it grows.
//! 4. A code in more chunks than [`COMMON`] is *common*: its list is dropped. Leaves with a common code
//!    are told apart by their summaries.
//!
//! A list is complete for a reader if no leaf has left the tree since the reader's root: the reader
//! compares sequences, and walks all leaves otherwise, which happens to long-lived snapshots and now
//! and then to a query beside a split. Chunks that were added since do no harm.

use std::sync::{Arc, PoisonError, RwLock};

use super::leaf::Leaf;
use crate::rows::Sequence;

/// Most entries of a listed code. An exact search of some 300 matches costs as much as one by codes, so
/// longer lists only say which leaves to leave out.
const LISTED_MAX: usize = 1024;

/// A list with so many different entries when it is full is dropped, so that the next entries do not
/// have it cleaned again.
const COMMON: usize = LISTED_MAX / 4 * 3;

/// Bits of an entry that say which chunk of the leaf it is.
const CHUNK_BITS: u32 = 12;

/// Numbers of leaves that an entry has room for.
const NUMBERS: usize = 1 << (u32::BITS - CHUNK_BITS);

/// Lists that are swept for each leaf that leaves, beside two for each of its entries.
const SWEPT_MIN: usize = 64;

/// A leaf without a number.
const NONE: u32 = u32::MAX;

/// The chunks of each code, and the leaves that they are in.
#[derive(Default)]
pub(super) struct Postings(RwLock<Listed>);

#[derive(Default)]
struct Listed {
    /// By code: entries, or `None` for a common code.
    lists: Vec<Option<Vec<u32>>>,
    /// By number.
    leaves: Vec<Numbered>,
    /// By id of the leaf: its number.
    numbers: Vec<u32>,
    /// Numbers that no entry has.
    free: Vec<u32>,
    /// Numbers that were retired before the sweep began, and since.
    retired: [Vec<u32>; 2],
    /// The list that is swept next.
    swept: usize,
    /// Sequence of the last batch that removed a leaf.
    removed: Sequence,
}

#[derive(Default)]
struct Numbered {
    /// `None` if the number is free or retired.
    leaf: Option<Arc<Leaf>>,
    entries: usize,
}

/// A leaf and those of its chunks that may hold a match, ascending.
pub(super) type ListedLeaf = (Arc<Leaf>, Vec<u16>);

impl Postings {
    /// Adds chunks of a leaf to the lists of codes. Only the writer calls this.
    ///
    /// * `found`: codes, and the chunks that rows with them entered. Cleared.
    pub(super) fn add(&self, leaf: &Arc<Leaf>, found: &mut Vec<(u32, u32)>) {
        if found.is_empty() {
            return;
        }
        let mut listed = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let listed = &mut *listed;
        let number = listed.number_of(leaf);
        let Listed { lists, leaves, .. } = listed;
        for (code, chunk) in found.drain(..) {
            let code = code as usize;
            if lists.len() <= code {
                lists.resize(code + 1, Some(Vec::new()));
            }
            let slot = &mut lists[code];
            let Some(list) = slot else { continue };
            let entry = number.filter(|_| chunk >> CHUNK_BITS == 0);
            let Some(entry) = entry.map(|number| number << CHUNK_BITS | chunk) else {
                *slot = None;
                continue;
            };
            if list.last() == Some(&entry) {
                continue;
            }
            if list.len() == list.capacity() && !make_room(list, leaves) {
                *slot = None;
                continue;
            }
            list.push(entry);
            leaves[(entry >> CHUNK_BITS) as usize].entries += 1;
        }
    }

    /// Removes a leaf that leaves the tree with the batch of sequence `placed`. Only the writer calls
    /// this. Cost: O(entries of the leaf).
    pub(super) fn remove(&self, leaf: &Leaf, placed: Sequence) {
        let mut listed = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let listed = &mut *listed;
        let Some(number) = listed.numbers.get_mut(leaf.id as usize) else { return };
        let number = std::mem::replace(number, NONE);
        if number == NONE {
            return;
        }
        listed.removed = placed;
        let entries = std::mem::take(&mut listed.leaves[number as usize]).entries;
        listed.retired[1].push(number);
        listed.sweep(2 * entries + SWEPT_MIN);
    }

    /// The chunks of a root that may have one of these codes, leaf by leaf; `None` if nobody knows.
    ///
    /// * `placed`: the root's.
    pub(super) fn find(&self, codes: &[u32], placed: Sequence) -> Option<Vec<ListedLeaf>> {
        let mut entries = Vec::new();
        let listed = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if listed.removed > placed {
            return None;
        }
        for &code in codes {
            match listed.lists.get(code as usize) {
                None => {}
                Some(Some(list)) if entries.len() + list.len() <= 4 * LISTED_MAX => {
                    entries.extend_from_slice(list);
                }
                Some(_) => return None,
            }
        }
        entries.sort_unstable();
        entries.dedup();
        let number = |entry: u32| (entry >> CHUNK_BITS) as usize;
        let groups = entries.chunk_by(|&a, &b| number(a) == number(b));
        let mut leaves = Vec::new();
        for group in groups {
            // Without a leaf the entries are stale.
            let Some(leaf) = &listed.leaves[number(group[0])].leaf else { continue };
            let chunk = |entry: &u32| (entry & ((1 << CHUNK_BITS) - 1)) as u16;
            leaves.push((leaf.clone(), group.iter().map(chunk).collect()));
        }
        Some(leaves)
    }

    /// Sets the bits of the leaves of a root that may have one of these codes, by id, and clears all
    /// others; false if nobody knows them.
    ///
    /// * `placed`: the root's.
    pub(super) fn mark(&self, codes: &[u32], placed: Sequence, leaves: &mut Vec<u64>) -> bool {
        leaves.clear();
        let listed = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if listed.removed > placed {
            return false;
        }
        let lists = codes.iter().filter_map(|&code| listed.lists.get(code as usize));
        if lists.clone().any(Option::is_none) {
            return false;
        }
        leaves.resize(listed.numbers.len().div_ceil(64), 0);
        for entry in lists.flatten().flatten() {
            // Without a leaf the entry is stale.
            if let Some(leaf) = &listed.leaves[(entry >> CHUNK_BITS) as usize].leaf {
                let id = leaf.id as usize;
                leaves[id / 64] |= 1 << (id % 64);
            }
        }
        true
    }

    /// Bytes held.
    pub(super) fn memory_bytes(&self) -> u64 {
        let listed = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let lists: usize = listed.lists.iter().flatten().map(|list| list.capacity() * 4).sum();
        let slots = listed.lists.len() * size_of::<Option<Vec<u32>>>();
        let numbers = listed.leaves.len() * (size_of::<Numbered>() + 2 * size_of::<u32>());
        (lists + slots + numbers) as u64
    }
}

impl Listed {
    /// The number of a leaf in the tree; `None` if all numbers are taken.
    fn number_of(&mut self, leaf: &Arc<Leaf>) -> Option<u32> {
        let id = leaf.id as usize;
        if self.numbers.len() <= id {
            self.numbers.resize(id + 1, NONE);
        }
        if self.numbers[id] != NONE {
            return Some(self.numbers[id]);
        }
        let number = self.free.pop().or_else(|| {
            let next = self.leaves.len();
            (next < NUMBERS).then(|| {
                self.leaves.push(Numbered::default());
                next as u32
            })
        })?;
        self.numbers[id] = number;
        self.leaves[number as usize] = Numbered { leaf: Some(leaf.clone()), entries: 0 };
        Some(number)
    }

    /// Drops the stale entries of the next lists, until so many lists and entries were looked at.
    fn sweep(&mut self, looked_max: usize) {
        let mut looked = 0;
        while looked < looked_max {
            let Some(slot) = self.lists.get_mut(self.swept) else {
                // No entry has a number that was retired before this sweep began.
                let [before, since] = &mut self.retired;
                self.free.append(before);
                std::mem::swap(before, since);
                self.swept = 0;
                return;
            };
            self.swept += 1;
            looked += 1;
            if let Some(list) = slot {
                looked += list.len();
                list.retain(|&entry| is_live(entry, &self.leaves));
            }
        }
    }
}

fn is_live(entry: u32, leaves: &[Numbered]) -> bool {
    leaves[(entry >> CHUNK_BITS) as usize].leaf.is_some()
}

/// Makes room for another entry in a full list; false if the code is common.
fn make_room(list: &mut Vec<u32>, leaves: &[Numbered]) -> bool {
    // Short lists grow at once: they have few stale entries.
    if list.len() >= 8 {
        list.retain(|&entry| is_live(entry, leaves));
        list.sort_unstable();
        list.dedup();
        if list.capacity() >= LISTED_MAX {
            return list.len() <= COMMON;
        }
    }
    if list.len() * 2 > list.capacity() {
        // Doubled, so that a list is cleaned again only after as many entries as it has.
        list.reserve_exact(list.capacity().max(2) * 2 - list.len());
    }
    true
}

#[cfg(test)]
mod tests;
