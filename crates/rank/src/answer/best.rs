//! Rows in the order of an answer, and the collector of the k best.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use vstream_vector::Neighbor;

/// A row that has a place in an answer.
pub trait AnswerRow: Clone {
    /// `Less` if this row stands before the other. A total order: rows with different ids are never
    /// equal.
    fn order(&self, other: &Self) -> Ordering;
}

impl AnswerRow for Neighbor {
    fn order(&self, other: &Neighbor) -> Ordering {
        Neighbor::order(self, other)
    }
}

/// A row with a rank score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked {
    /// Larger is better; not a number is worst.
    pub score: f64,
    /// The user's id.
    pub id: u64,
    /// Version of the record when it was found.
    pub version: u64,
    /// Distance to the query vector; `None` if the query has none.
    pub distance: Option<f32>,
}

impl AnswerRow for Ranked {
    /// By score, descending, what is no number last; then by id. 0 and −0 are equal.
    fn order(&self, other: &Ranked) -> Ordering {
        by_score(self.score, other.score).then(self.id.cmp(&other.id))
    }
}

/// The order of scores in answers: `Less` if the first one is better. What is no number is worst.
pub fn by_score(a: f64, b: f64) -> Ordering {
    b.partial_cmp(&a).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// Keeps the k best rows of all that were offered.
///
/// Cost of an offer: one comparison for a row that is not kept, O(log k) otherwise.
#[derive(Clone, Debug)]
pub struct Best<R: AnswerRow> {
    k: usize,
    heap: BinaryHeap<Kept<R>>,
}

/// A row under the `Ord` that its heap needs; the greatest is the worst.
#[derive(Clone, Debug)]
struct Kept<R>(R);

impl<R: AnswerRow> Ord for Kept<R> {
    fn cmp(&self, other: &Kept<R>) -> Ordering {
        self.0.order(&other.0)
    }
}

impl<R: AnswerRow> PartialOrd for Kept<R> {
    fn partial_cmp(&self, other: &Kept<R>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<R: AnswerRow> PartialEq for Kept<R> {
    fn eq(&self, other: &Kept<R>) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<R: AnswerRow> Eq for Kept<R> {}

impl<R: AnswerRow> Best<R> {
    /// A collector for `k` rows.
    pub fn new(k: usize) -> Best<R> {
        Best { k, heap: BinaryHeap::new() }
    }

    /// Keeps the row if it is among the k best so far. True if it was kept.
    pub fn offer(&mut self, row: R) -> bool {
        if self.heap.len() < self.k {
            self.heap.push(Kept(row));
            return true;
        }
        match self.heap.peek_mut() {
            Some(mut worst) if row.order(&worst.0).is_lt() => {
                worst.0 = row;
                true
            }
            _ => false,
        }
    }

    /// Once there are k rows, the worst of them: only rows before it are kept.
    pub fn bound(&self) -> Option<&R> {
        self.heap.peek().filter(|_| self.heap.len() == self.k).map(|worst| &worst.0)
    }

    /// The rows, best first.
    pub fn finish(self) -> Vec<R> {
        self.heap.into_sorted_vec().into_iter().map(|kept| kept.0).collect()
    }
}
