//! The next ids in order, gathered from rows that lie in any order.

use std::collections::BinaryHeap;

use crate::filter::{Compiled, Lanes};
use crate::rows::{RowChunk, Visible, WORD};

/// The least ids above a bound, at most so many. Memory: the ids.
///
/// Most rows are told apart by their ids alone: offer only what [`LeastIds::wants`].
#[derive(Clone, Debug)]
pub struct LeastIds {
    /// The least id that counts; `None` if none does.
    from: Option<u64>,
    limit: usize,
    ids: BinaryHeap<u64>,
    /// True if ids were left out.
    is_more: bool,
}

impl LeastIds {
    /// Nothing yet.
    ///
    /// * `after`: only larger ids count; all if it is `None`. `limit`: at least 1.
    pub fn new(after: Option<u64>, limit: usize) -> LeastIds {
        let from = after.map_or(Some(0), |after| after.checked_add(1));
        LeastIds { from, limit, ids: BinaryHeap::new(), is_more: false }
    }

    /// False if an offer of this id would change nothing.
    #[inline]
    pub fn wants(&self, id: u64) -> bool {
        self.bounds().is_some_and(|(from, to)| (from..=to).contains(&id))
    }

    /// Takes the id of a row, which must not be offered twice.
    pub fn offer(&mut self, id: u64) {
        if !self.wants(id) {
            return;
        }
        if self.ids.len() < self.limit {
            self.ids.push(id);
            return;
        }
        self.is_more = true;
        if self.ids.peek().is_some_and(|&last| id < last) {
            self.ids.pop();
            self.ids.push(id);
        }
    }

    /// The ids, ascending, and the last of them if there are more behind it.
    pub fn finish(self) -> (Vec<u64>, Option<u64>) {
        let ids = self.ids.into_sorted_vec();
        let next = ids.last().copied().filter(|_| self.is_more);
        (ids, next)
    }

    /// The least and the most id that change anything.
    fn bounds(&self) -> Option<(u64, u64)> {
        // Until one is left out, any id may be the first of those.
        let is_full = self.is_more && self.ids.len() == self.limit;
        let to = if is_full { *self.ids.peek()? } else { u64::MAX };
        self.from.map(|from| (from, to))
    }
}

impl RowChunk {
    /// Offers the ids of visible rows that match. Looks at more than the ids only where one is wanted.
    pub(crate) fn least_ids(
        &self,
        filter: Option<&Compiled>,
        visible: Visible,
        least: &mut LeastIds,
    ) {
        let len = self.len();
        for word in 0..len.div_ceil(WORD) {
            let Some((from, to)) = least.bounds() else { return };
            let lanes = word * WORD..len.min((word + 1) * WORD);
            let mut mask = lanes.rev().fold(0u32, |mask, lane| {
                mask << 1 | u32::from((from..=to).contains(&self.id(lane)))
            });
            if mask != 0 {
                mask &= filter.map_or(u32::MAX, |filter| filter.mask(Lanes::of(self, word)));
            }
            while mask != 0 {
                let lane = word * WORD + mask.trailing_zeros() as usize;
                mask &= mask - 1;
                if self.is_visible(lane, visible) {
                    least.offer(self.id(lane));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use vstream_vector::SplitMix;

    use super::LeastIds;

    #[test]
    fn pages_are_those_of_the_sorted_ids() {
        let seed = 3;
        println!("seed {seed}");
        let mut random = SplitMix(seed);
        let mut ids: Vec<u64> = (0..5_000).map(|_| random.next() % 1_000_000).collect();
        ids.extend([0, u64::MAX - 1, u64::MAX]);
        ids.sort_unstable();
        ids.dedup();
        let mut mixed = ids.clone();
        (1..mixed.len()).rev().for_each(|last| mixed.swap(last, random.below(last + 1)));
        for limit in [1, 7, 100, ids.len() - 1, ids.len(), ids.len() + 1] {
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let mut least = LeastIds::new(after, limit);
                for &id in &mixed {
                    if least.wants(id) {
                        least.offer(id);
                    }
                }
                let (page, next) = least.finish();
                assert!(page.len() == limit || next.is_none(), "limit {limit}");
                seen.extend(page);
                after = next;
                if next.is_none() || (limit == 1 && seen.len() > 50) {
                    break;
                }
            }
            assert_eq!(seen, ids[..seen.len()]);
            assert!(limit == 1 || seen.len() == ids.len(), "limit {limit}");
        }
        let mut none = LeastIds::new(Some(u64::MAX), 5);
        none.offer(u64::MAX);
        assert_eq!(none.finish(), (Vec::new(), None));
    }
}
