//! One answer row, and the collector that keeps the nearest k of them.

#[cfg(test)]
mod tests;

use std::cmp::Ordering;

/// A vector that was found: its distance to the query, its id and the version that was seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbor {
    /// Distance of the *stored* vector under the collection's metric; finite.
    pub distance: f32,
    /// The user's id.
    pub id: u64,
    /// Version of the record that was seen.
    pub version: u64,
}

impl Neighbor {
    /// Nearest first, ties by id: the order of every answer.
    pub fn order(&self, other: &Neighbor) -> Ordering {
        self.distance.total_cmp(&other.distance).then(self.id.cmp(&other.id))
    }
}

/// Keeps the `k` nearest neighbours offered so far: a bounded max-heap.
///
/// Cost: `offer` is one comparison for a row that cannot enter, O(log k) otherwise. The buffer is
/// reused by [`TopK::reset`], so a query allocates nothing after warm-up.
#[derive(Clone, Debug, Default)]
pub struct TopK {
    k: usize,
    heap: Vec<Neighbor>,
}

impl TopK {
    /// A collector for `k` rows, `k ≥ 1`.
    pub fn new(k: usize) -> TopK {
        TopK { k, heap: Vec::with_capacity(k) }
    }

    /// Empties the collector and sets a new `k`.
    pub fn reset(&mut self, k: usize) {
        self.k = k;
        self.heap.clear();
        self.heap.reserve(k);
    }

    /// Rows wanted.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Distance that a row must beat to enter; infinity until `k` rows are held.
    #[inline]
    pub fn bound(&self) -> f32 {
        if self.heap.len() < self.k {
            f32::INFINITY
        } else {
            self.heap.first().map_or(f32::NEG_INFINITY, |farthest| farthest.distance)
        }
    }

    /// Rows held.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// The rows held, in no order.
    pub fn rows(&self) -> &[Neighbor] {
        &self.heap
    }

    /// True if no row is held.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Keeps `row` if it is among the k nearest so far; says whether it entered.
    #[inline]
    pub fn offer(&mut self, row: Neighbor) -> bool {
        if self.heap.len() < self.k {
            self.heap.push(row);
            self.sift_up(self.heap.len() - 1);
            return true;
        }
        if self.k == 0 || row.order(&self.heap[0]) != Ordering::Less {
            return false;
        }
        self.heap[0] = row;
        self.sift_down();
        true
    }

    /// The rows, nearest first; the collector is left empty, its buffer kept.
    pub fn drain_sorted(&mut self, out: &mut Vec<Neighbor>) {
        self.heap.sort_unstable_by(Neighbor::order);
        out.clear();
        out.append(&mut self.heap);
    }

    fn sift_up(&mut self, mut at: usize) {
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.heap[at].order(&self.heap[parent]) != Ordering::Greater {
                break;
            }
            self.heap.swap(at, parent);
            at = parent;
        }
    }

    fn sift_down(&mut self) {
        let mut at = 0;
        loop {
            let left = 2 * at + 1;
            if left >= self.heap.len() {
                break;
            }
            let right = left + 1;
            let far = if right < self.heap.len()
                && self.heap[right].order(&self.heap[left]) == Ordering::Greater
            {
                right
            } else {
                left
            };
            if self.heap[far].order(&self.heap[at]) != Ordering::Greater {
                break;
            }
            self.heap.swap(at, far);
            at = far;
        }
    }
}
