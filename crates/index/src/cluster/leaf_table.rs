//! The leaves by id, for readers who know an address. It grows without moving what is there.
//!
//! A reader finds a leaf of the writer's tree, of now or of a moment ago, not one of its own root. What
//! a row says there holds for the reader's moment nevertheless (`find.rs`).

use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwapOption, Guard};

use super::leaf::{Leaf, LeafId};

/// Leaves of the first segment; each further one is as large as all before it.
const FIRST_SEGMENT: u64 = 64;
/// Enough for every id of a leaf.
const SEGMENTS: usize = 27;

/// The leaves of the writer's tree by id.
#[derive(Default)]
pub(super) struct LeafTable {
    segments: [OnceLock<Box<[ArcSwapOption<Leaf>]>>; SEGMENTS],
}

/// The segment of a leaf, and its position there.
fn split(id: LeafId) -> (usize, usize) {
    let at = u64::from(id) + FIRST_SEGMENT;
    let segment = (at / FIRST_SEGMENT).ilog2() as usize;
    (segment, (at - (FIRST_SEGMENT << segment)) as usize)
}

impl LeafTable {
    /// Sets the leaf of an id. Only the writer calls this.
    pub(super) fn set(&self, id: LeafId, leaf: Option<Arc<Leaf>>) {
        let (segment, at) = split(id);
        let make = || (0..FIRST_SEGMENT << segment).map(|_| ArcSwapOption::empty()).collect();
        self.segments[segment].get_or_init(make)[at].store(leaf);
    }

    /// The leaf that has an id now, if any has.
    pub(super) fn get(&self, id: LeafId) -> Guard<Option<Arc<Leaf>>> {
        let (segment, at) = split(id);
        let leaves = self.segments.get(segment).and_then(OnceLock::get);
        leaves.map_or_else(|| Guard::from_inner(None), |leaves| leaves[at].load())
    }

    /// Bytes held.
    pub(super) fn memory_bytes(&self) -> u64 {
        let segments = self.segments.iter().filter_map(OnceLock::get);
        segments.map(|leaves| size_of_val(&**leaves) as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{split, LeafTable, SEGMENTS};
    use crate::cluster::leaf::{Leaf, LeafId};

    #[test]
    fn leaves_are_found_by_id_until_they_go() {
        let table = LeafTable::default();
        let ids = [0, 63, 64, 191, 192, 70_000];
        for id in ids {
            table.set(id, Some(Arc::new(Leaf::new((id, id), Box::default(), Box::default()))));
        }
        for id in ids {
            assert_eq!(table.get(id).as_ref().map(|leaf| leaf.id), Some(id));
        }
        assert!(table.get(1).is_none() && table.get(4_000_000_000).is_none());
        table.set(64, None);
        assert!(table.get(64).is_none() && table.get(63).is_some());
        assert!(split(LeafId::MAX).0 < SEGMENTS);
    }
}
