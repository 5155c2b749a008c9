//! Where the rare keywords are: for each code the chunks that have had it.
//!
//! 1. When a row enters a chunk of a leaf, the writer adds the chunk to the lists of the row's codes.
//! 2. When a leaf leaves the tree, the writer removes its chunks. Until then a chunk stays listed even
//!    if its rows with the code die: readers of the moments before still see them.
//! 3. A code in more than [`LISTED_MAX`] chunks is *common*: its list is dropped. Leaves with a common
//!    code are told apart by their summaries.
//!
//! A list is complete for a reader if no leaf has left the tree since the reader's root: the reader
//! compares sequences, and walks all leaves otherwise, which happens to long-lived snapshots and now
//! and then to a query beside a split. Chunks that were added since do no harm.

use std::sync::{Arc, PoisonError, RwLock};

use super::leaf::{Leaf, LeafId};
use crate::rows::Sequence;

/// Most chunks of a listed code. An exact search of some 300 matches costs as much as one by codes, so
/// longer lists only say which leaves to leave out.
const LISTED_MAX: usize = 1024;

/// Bits of an entry that say which chunk of the leaf it is.
const CHUNK_BITS: u32 = 12;

/// The chunks of each code, and the leaves that they are in.
#[derive(Default)]
pub(super) struct Postings(RwLock<Listed>);

#[derive(Default)]
struct Listed {
    /// By code: leaf and chunk of each entry, or `None` for a common code.
    lists: Vec<Option<Vec<u32>>>,
    leaves: Vec<Option<Arc<Leaf>>>,
    /// Sequence of the last batch that removed a leaf.
    removed: Sequence,
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
        let at = leaf.id as usize;
        if listed.leaves.len() <= at {
            listed.leaves.resize(at + 1, None);
        }
        listed.leaves[at].get_or_insert_with(|| leaf.clone());
        for (code, chunk) in found.drain(..) {
            let code = code as usize;
            if listed.lists.len() <= code {
                listed.lists.resize(code + 1, Some(Vec::new()));
            }
            let slot = &mut listed.lists[code];
            let Some(list) = slot else { continue };
            let fits = leaf.id >> (u32::BITS - CHUNK_BITS) == 0 && chunk >> CHUNK_BITS == 0;
            let entry = leaf.id << CHUNK_BITS | chunk;
            if fits && (list.last() == Some(&entry) || list.contains(&entry)) {
                continue;
            }
            if fits && list.len() < LISTED_MAX {
                list.push(entry);
            } else {
                *slot = None;
            }
        }
    }

    /// Removes a leaf that leaves the tree with the batch of sequence `placed`. Only the writer calls
    /// this.
    pub(super) fn remove(&self, leaf: &Leaf, placed: Sequence) {
        let mut codes = Vec::new();
        for chunk in leaf.chunks() {
            (0..chunk.rows.len()).for_each(|lane| {
                chunk.rows.for_each_code(lane, |code| codes.push(code));
            });
        }
        codes.sort_unstable();
        codes.dedup();
        let mut listed = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let Some(slot) = listed.leaves.get_mut(leaf.id as usize) else { return };
        if slot.take().is_none() {
            return;
        }
        listed.removed = placed;
        for code in codes {
            if let Some(Some(list)) = listed.lists.get_mut(code as usize) {
                list.retain(|entry| entry >> CHUNK_BITS != leaf.id);
            }
        }
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
        let leaf_of = |entry: u32| (entry >> CHUNK_BITS) as LeafId;
        let groups = entries.chunk_by(|&a, &b| leaf_of(a) == leaf_of(b));
        let mut leaves = Vec::new();
        for group in groups {
            let leaf = listed.leaves.get(leaf_of(group[0]) as usize).and_then(Option::as_ref)?;
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
        leaves.resize(listed.leaves.len().div_ceil(64), 0);
        for entry in lists.flatten().flatten() {
            let leaf = (entry >> CHUNK_BITS) as usize;
            leaves[leaf / 64] |= 1 << (leaf % 64);
        }
        true
    }

    /// Bytes held.
    pub(super) fn memory_bytes(&self) -> u64 {
        let listed = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let lists: usize = listed.lists.iter().flatten().map(|list| list.capacity() * 4).sum();
        let slots = listed.lists.len() * size_of::<Option<Vec<u32>>>();
        (lists + slots + listed.leaves.len() * size_of::<Option<Arc<Leaf>>>()) as u64
    }
}
