//! One row of an answer, and the collector that keeps the k nearest rows.

#[cfg(test)]
mod tests;

use std::cmp::Ordering;

/// A row of an answer: its distance to the query, its id and its version.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbor {
    /// Distance of the *stored* vector under the collection's metric; finite.
    pub distance: f32,
    /// The user's id.
    pub id: u64,
    /// Version of the record when it was found.
    pub version: u64,
}

impl Neighbor {
    /// The order of every answer: nearest first, and by id for equal distances.
    pub fn order(&self, other: &Neighbor) -> Ordering {
        self.distance.total_cmp(&other.distance).then(self.id.cmp(&other.id))
    }
}

/// Keeps the `k` nearest rows of all that were offered, in a bounded max-heap.
///
/// Cost: `offer` makes one comparison for a row that is too far, O(log k) otherwise.
/// [`TopK::reset`] keeps the buffer, so a query allocates nothing after warm-up.
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

    /// Number of rows to keep.
    pub fn k(&self) -> usize {
        self.k
    }

    /// A row must be nearer than this to be kept. Infinity until there are `k` rows.
    #[inline]
    pub fn bound(&self) -> f32 {
        if self.heap.len() < self.k {
            f32::INFINITY
        } else {
            self.heap.first().map_or(f32::NEG_INFINITY, |farthest| farthest.distance)
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// The rows, unsorted.
    pub fn rows(&self) -> &[Neighbor] {
        &self.heap
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Keeps `row` if it is among the `k` nearest so far. True if it was kept.
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

    /// Moves the rows to `out`, nearest first. The collector is then empty but keeps its buffer.
    pub fn drain_sorted(&mut self, out: &mut Vec<Neighbor>) {
        self.heap.sort_unstable_by(Neighbor::order);
        out.clear();
        out.append(&mut self.heap);
    }

    fn sift_up(&mut self, mut index: usize) {
        while index > 0 {
            let parent = (index - 1) / 2;
            if self.heap[index].order(&self.heap[parent]) != Ordering::Greater {
                break;
            }
            self.heap.swap(index, parent);
            index = parent;
        }
    }

    fn sift_down(&mut self) {
        let mut index = 0;
        loop {
            let left = 2 * index + 1;
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
            if self.heap[far].order(&self.heap[index]) != Ordering::Greater {
                break;
            }
            self.heap.swap(index, far);
            index = far;
        }
    }
}
