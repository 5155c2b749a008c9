//! The k best rows, of which at most n have the same value.

use std::collections::HashMap;
use std::sync::Arc;

use vstream_attribute::{Value, ValueRef};

use super::best::AnswerRow;
use super::value_key::{read_key, write_key};

/// Keeps the rows that one gets who goes through all rows in the order of the answer, takes a row
/// unless n rows of its value were taken, and stops at k.
///
/// It is exact with memory for k rows, whatever the order of the offers: the sets of at most k rows
/// with at most n per value are the independent sets of a matroid, so a row that was dropped is
/// never missed. With n = 1 these are the k best values, each with its best row.
///
/// Rows without a value share the missing value. Rows with equal ids must not be offered. Cost of
/// an offer: one comparison for a row that is not kept once there are k, else O(k).
#[derive(Clone, Debug)]
pub struct Diversify<R: AnswerRow> {
    k: usize,
    per_value: usize,
    /// In the order of the answer.
    rows: Vec<(R, Arc<[u8]>)>,
    /// Number of rows by value, for values that have some.
    counts: HashMap<Arc<[u8]>, usize>,
    key: Vec<u8>,
}

impl<R: AnswerRow> Diversify<R> {
    /// A collector for `k` rows, at most `per_value` of them with one value.
    pub fn new(k: usize, per_value: usize) -> Diversify<R> {
        let (rows, counts) = (Vec::new(), HashMap::new());
        Diversify { k, per_value, rows, counts, key: Vec::new() }
    }

    /// Keeps the row if it belongs to the answer so far. True if it was kept.
    pub fn offer(&mut self, value: Option<&ValueRef<'_>>, row: R) -> bool {
        if self.bound().is_some_and(|worst| row.order(worst).is_ge()) {
            return false;
        }
        if self.k == 0 || self.per_value == 0 {
            return false;
        }
        write_key(value, &mut self.key);
        let (key, count) = match self.counts.get_key_value(&self.key[..]) {
            Some((key, count)) => (Arc::clone(key), *count),
            None => (Arc::from(&self.key[..]), 0),
        };
        if count == self.per_value {
            let worst = self.rows.iter().rposition(|(_, other)| *other == key);
            let worst = worst.expect("the counts are those of the rows");
            if row.order(&self.rows[worst].0).is_ge() {
                return false;
            }
            self.rows.remove(worst);
        } else {
            if self.rows.len() == self.k {
                self.drop_last();
            }
            *self.counts.entry(Arc::clone(&key)).or_insert(0) += 1;
        }
        let at = self.rows.partition_point(|(before, _)| before.order(&row).is_lt());
        self.rows.insert(at, (row, key));
        true
    }

    fn drop_last(&mut self) {
        let Some((_, key)) = self.rows.pop() else { return };
        if let Some(count) = self.counts.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&key);
            }
        }
    }

    /// Once there are k rows, the last of them: only rows before it are kept.
    pub fn bound(&self) -> Option<&R> {
        self.rows.last().filter(|_| self.rows.len() == self.k).map(|(row, _)| row)
    }

    /// The rows with their values, best first; `None` is the missing value.
    pub fn finish(self) -> Vec<(Option<Value>, R)> {
        self.rows.into_iter().map(|(row, key)| (read_key(&key), row)).collect()
    }
}
