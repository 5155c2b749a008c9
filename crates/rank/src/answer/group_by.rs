//! The k best values, each with its n best rows.

use std::collections::HashMap;
use std::fmt;

use vstream_attribute::{Value, ValueRef};

use super::best::AnswerRow;
use super::value_key::{read_key, write_key};

/// A value with its best rows.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerGroup<R> {
    /// The value; `None` for rows without one.
    pub value: Option<Value>,
    /// Its best rows, best first; at least one.
    pub rows: Vec<R>,
}

/// There are more values than the collector may hold rows for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyRows {
    /// Rows that it may hold.
    pub rows_max: usize,
}

impl fmt::Display for TooManyRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows_max = self.rows_max;
        write!(f, "Grouping needs more than {rows_max} rows in memory; narrow the filter.")
    }
}

impl std::error::Error for TooManyRows {}

/// Keeps the n best rows of values, for the groups of an answer. A value stands in the answer where
/// its best row does.
///
/// In one pass it must keep rows of every value, because any value may still get a row that makes
/// it one of the best. Where that is too much, make two passes: [`super::Diversify`] with n = 1
/// finds the k best values, with a bound, and [`GroupBy::among`] then keeps rows of these alone.
///
/// Rows with equal ids must not be offered. Cost of an offer: a look-up and O(n).
#[derive(Clone, Debug)]
pub struct GroupBy<R: AnswerRow> {
    per_value: usize,
    rows_max: usize,
    rows: usize,
    is_closed: bool,
    groups: HashMap<Box<[u8]>, Vec<R>>,
    key: Vec<u8>,
}

impl<R: AnswerRow> GroupBy<R> {
    /// A collector for `per_value` rows of every value, at most `rows_max` together.
    pub fn new(per_value: usize, rows_max: usize) -> GroupBy<R> {
        GroupBy {
            per_value,
            rows_max,
            rows: 0,
            is_closed: false,
            groups: HashMap::new(),
            key: Vec::new(),
        }
    }

    /// A collector for `per_value` rows of each of these values; others are passed over. `None` is
    /// the missing value.
    pub fn among<'a>(
        values: impl IntoIterator<Item = Option<&'a Value>>,
        per_value: usize,
    ) -> GroupBy<R> {
        let mut collector = GroupBy::new(per_value, usize::MAX);
        for value in values {
            write_key(value.map(Value::as_ref).as_ref(), &mut collector.key);
            collector.groups.insert(collector.key.as_slice().into(), Vec::new());
        }
        collector.is_closed = true;
        collector
    }

    /// Keeps the row if it is one of the best of its value. True if it was kept. Errors:
    /// `TooManyRows` if it is to be kept and there are `rows_max`; the collector stays as it was.
    pub fn offer(&mut self, value: Option<&ValueRef<'_>>, row: R) -> Result<bool, TooManyRows> {
        write_key(value, &mut self.key);
        let there = self.groups.get_mut(&self.key[..]);
        if self.per_value == 0 || (self.is_closed && there.is_none()) {
            return Ok(false);
        }
        let is_full = |rows: &Vec<R>| rows.len() == self.per_value;
        if there.as_deref().is_some_and(is_full) {
            let rows = there.expect("it has rows");
            if row.order(&rows[rows.len() - 1]).is_ge() {
                return Ok(false);
            }
            rows.pop();
            insert(rows, row);
            return Ok(true);
        }
        if self.rows == self.rows_max {
            return Err(TooManyRows { rows_max: self.rows_max });
        }
        self.rows += 1;
        match there {
            Some(rows) => insert(rows, row),
            None => {
                self.groups.insert(self.key.as_slice().into(), vec![row]);
            }
        }
        Ok(true)
    }

    /// False if a row of this value would not be kept, whatever is offered before it. Cost: a look-up.
    pub fn may_keep(&mut self, value: Option<&ValueRef<'_>>, row: &R) -> bool {
        write_key(value, &mut self.key);
        match self.groups.get(&self.key[..]) {
            Some(rows) if rows.len() == self.per_value => {
                rows.last().is_some_and(|worst| row.order(worst).is_le())
            }
            Some(_) => true,
            None => !self.is_closed,
        }
    }

    /// The `k` best values with their rows, best first. Cost: O(v log v) for v values.
    pub fn finish(self, k: usize) -> Vec<AnswerGroup<R>> {
        let with_rows = self.groups.into_iter().filter(|(_, rows)| !rows.is_empty());
        let mut groups: Vec<_> = with_rows.collect();
        groups.sort_unstable_by(|(_, a), (_, b)| a[0].order(&b[0]));
        groups.truncate(k);
        groups.into_iter().map(|(key, rows)| AnswerGroup { value: read_key(&key), rows }).collect()
    }
}

fn insert<R: AnswerRow>(rows: &mut Vec<R>, row: R) {
    let at = rows.partition_point(|before| before.order(&row).is_lt());
    rows.insert(at, row);
}
