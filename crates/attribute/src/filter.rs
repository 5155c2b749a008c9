//! A filter: conditions on attributes and ids, joined by and, or, not.
//!
//! A filter holds for a row or does not; a condition on a missing value does not hold, so its
//! negation does. The readers of other languages compile what these mean by null into this tree:
//! SQL's `NOT price < 5` becomes "price exists and not price < 5".

mod bytes;
mod dict;
mod json;
mod leaf;
mod limits;
mod literal;
mod place;
mod simplify;
mod sql;
mod write;

pub use limits::{
    FILTER_BYTES_MAX, FILTER_DEPTH_MAX, FILTER_NODES_MAX, FILTER_TEXT_BYTES_MAX, FILTER_VALUES_MAX,
};

use std::ops::Bound;

use crate::record::Attributes;
use crate::value::ValueRef;

/// A range of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range<T> {
    /// Where it begins.
    pub from: Bound<T>,
    /// Where it ends.
    pub to: Bound<T>,
}

impl<T: PartialOrd> Range<T> {
    /// True if the value is in the range.
    #[inline]
    pub fn holds(&self, value: T) -> bool {
        let after = match &self.from {
            Bound::Unbounded => true,
            Bound::Included(from) => value >= *from,
            Bound::Excluded(from) => value > *from,
        };
        after
            && match &self.to {
                Bound::Unbounded => true,
                Bound::Included(to) => value <= *to,
                Bound::Excluded(to) => value < *to,
            }
    }
}

/// A condition on the value of one attribute. It does not hold for a missing value, nor for a value
/// of another kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// There is a value.
    Exists,
    /// The keyword is one of these, sorted.
    KeywordIn(Vec<String>),
    /// The keyword begins with this.
    KeywordPrefix(String),
    /// The list has one of these, sorted.
    AnyOf(Vec<String>),
    /// The list has all of these, sorted.
    AllOf(Vec<String>),
    /// The list has no entry.
    IsEmpty,
    /// The whole number or timestamp is one of these, sorted.
    I64In(Vec<i64>),
    /// The whole number or timestamp is in the range.
    I64Range(Range<i64>),
    /// The number is one of these.
    F64In(Vec<f64>),
    /// The number is in the range.
    F64Range(Range<f64>),
    /// The truth value.
    Bool(bool),
}

/// A tree of conditions.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// All of these hold; `And` of nothing holds for every row.
    And(Vec<Filter>),
    /// One of these holds; `Or` of nothing holds for no row.
    Or(Vec<Filter>),
    /// At least so many of these hold.
    AtLeast(usize, Vec<Filter>),
    /// This does not hold.
    Not(Box<Filter>),
    /// A condition on the attribute of a column.
    Attribute(u16, Test),
    /// The key's id is one of these, sorted; hashes in a collection of string ids.
    Ids(Vec<u64>),
}

impl Test {
    /// Whether the condition holds for a value.
    pub fn holds(&self, value: &ValueRef<'_>) -> bool {
        let has = |sorted: &[String], text: &str| {
            sorted.binary_search_by(|one| one.as_str().cmp(text)).is_ok()
        };
        match (self, value) {
            (Test::Exists, _) => true,
            (Test::KeywordIn(texts), ValueRef::Keyword(text)) => has(texts, text),
            (Test::KeywordPrefix(prefix), ValueRef::Keyword(text)) => {
                text.starts_with(prefix.as_str())
            }
            (Test::AnyOf(texts), ValueRef::Keywords(list)) => {
                list.iter().any(|text| has(texts, text))
            }
            (Test::AllOf(texts), ValueRef::Keywords(list)) => {
                texts.iter().all(|text| list.contains(&text.as_str()))
            }
            (Test::IsEmpty, ValueRef::Keywords(list)) => list.is_empty(),
            (Test::I64In(numbers), ValueRef::I64(number) | ValueRef::Timestamp(number)) => {
                numbers.binary_search(number).is_ok()
            }
            (Test::I64Range(range), ValueRef::I64(number) | ValueRef::Timestamp(number)) => {
                range.holds(*number)
            }
            (Test::F64In(numbers), ValueRef::F64(number)) => numbers.contains(number),
            (Test::F64Range(range), ValueRef::F64(number)) => range.holds(*number),
            (Test::Bool(wanted), ValueRef::Bool(is_true)) => wanted == is_true,
            _ => false,
        }
    }
}

impl Filter {
    /// Holds for every row.
    pub const ALL: Filter = Filter::And(Vec::new());
    /// Holds for no row.
    pub const NONE: Filter = Filter::Or(Vec::new());

    /// The filter that holds where this one does not.
    pub(crate) fn negated(self) -> Filter {
        Filter::Not(Box::new(self))
    }

    /// Whether the filter holds for a row. This is the definition: masks over columns give the same.
    pub fn holds(&self, id: u64, attributes: Attributes<'_>) -> bool {
        match self {
            Filter::And(all) => all.iter().all(|one| one.holds(id, attributes)),
            Filter::Or(any) => any.iter().any(|one| one.holds(id, attributes)),
            Filter::AtLeast(least, of) => {
                of.iter().filter(|one| one.holds(id, attributes)).count() >= *least
            }
            Filter::Not(one) => !one.holds(id, attributes),
            Filter::Attribute(column, test) => {
                attributes.get(*column).is_some_and(|value| test.holds(&value))
            }
            Filter::Ids(ids) => ids.binary_search(&id).is_ok(),
        }
    }
}
