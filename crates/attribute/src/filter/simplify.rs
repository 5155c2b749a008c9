//! Simpler filters that hold for the same rows, so that masks are cheap.
//!
//! From the leaves up:
//! 1. Lists are sorted and lose repeated values; an empty list and an empty range hold for no row.
//! 2. A joint loses parts that hold for all rows or for none, or becomes one of these itself.
//! 3. An `And` in an `And` gives its parts to the outer one, and so for `Or`. A joint of one part
//!    becomes that part, and a double negation goes.
//! 4. Ranges of one attribute in an `And` become one range; lists of values of one attribute, and
//!    ids, in an `Or` become one list.

use std::cmp::Ordering;
use std::ops::Bound;

use crate::filter::leaf::{earlier, later};
use crate::filter::{Filter, Range, Test, FILTER_VALUES_MAX};

impl Filter {
    /// A filter that holds for the same rows, with fewer and cheaper nodes. For filters within the
    /// limits. Cost: O(n log n) in nodes and values, and in one `And` or `Or` its parts times the
    /// attributes that it names.
    pub fn simplify(self) -> Filter {
        match self {
            Filter::And(parts) => and(parts.into_iter().map(Filter::simplify)),
            Filter::Or(parts) => or(parts.into_iter().map(Filter::simplify)),
            Filter::AtLeast(least, parts) => at_least(least, parts),
            Filter::Not(part) => not(part.simplify()),
            Filter::Attribute(column, test) => attribute(column, test),
            Filter::Ids(mut ids) => {
                ids.sort_unstable();
                ids.dedup();
                if ids.is_empty() {
                    Filter::NONE
                } else {
                    Filter::Ids(ids)
                }
            }
        }
    }

    fn is_all(&self) -> bool {
        matches!(self, Filter::And(parts) if parts.is_empty())
    }

    fn is_none(&self) -> bool {
        matches!(self, Filter::Or(parts) if parts.is_empty())
    }
}

fn attribute(column: u16, mut test: Test) -> Filter {
    let is_none = match &mut test {
        Test::KeywordIn(list) | Test::AnyOf(list) => tidied(list),
        Test::AllOf(list) => {
            tidied(list);
            if list.len() == 1 {
                test = Test::AnyOf(std::mem::take(list));
            }
            false
        }
        Test::I64In(list) => tidied(list),
        Test::F64In(list) => {
            list.sort_by(f64::total_cmp);
            list.dedup();
            list.is_empty()
        }
        Test::I64Range(range) => is_empty(range),
        Test::F64Range(range) => is_empty(range),
        Test::Exists | Test::KeywordPrefix(_) | Test::IsEmpty | Test::Bool(_) => false,
    };
    if is_none {
        Filter::NONE
    } else {
        Filter::Attribute(column, test)
    }
}

/// Sorts a list and removes repeated values. True if it is empty.
fn tidied<T: Ord>(list: &mut Vec<T>) -> bool {
    list.sort_unstable();
    list.dedup();
    list.is_empty()
}

/// True if no value is in the range.
fn is_empty<T: PartialOrd>(range: &Range<T>) -> bool {
    let (from, to, both) = match (&range.from, &range.to) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => return false,
        (Bound::Included(from), Bound::Included(to)) => (from, to, true),
        (
            Bound::Included(from) | Bound::Excluded(from),
            Bound::Included(to) | Bound::Excluded(to),
        ) => (from, to, false),
    };
    match from.partial_cmp(to) {
        Some(Ordering::Less) => false,
        Some(Ordering::Equal) => !both,
        Some(Ordering::Greater) | None => true,
    }
}

fn not(part: Filter) -> Filter {
    match part {
        Filter::Not(inner) => *inner,
        part if part.is_all() => Filter::NONE,
        part if part.is_none() => Filter::ALL,
        part => part.negated(),
    }
}

fn and(parts: impl Iterator<Item = Filter>) -> Filter {
    let mut kept: Vec<Filter> = Vec::new();
    for part in parts {
        let inner = match part {
            Filter::And(inner) => inner,
            part => vec![part],
        };
        for part in inner {
            if !kept.iter_mut().any(|other| met(other, &part)) {
                kept.push(part);
            }
        }
    }
    let is_none = |part: &Filter| {
        part.is_none()
            || match part {
                Filter::Attribute(_, Test::I64Range(range)) => is_empty(range),
                Filter::Attribute(_, Test::F64Range(range)) => is_empty(range),
                _ => false,
            }
    };
    match kept.len() {
        _ if kept.iter().any(is_none) => Filter::NONE,
        1 => kept.remove(0),
        _ => Filter::And(kept),
    }
}

/// Narrows `range` to where both hold, if both are ranges of one attribute.
fn met(range: &mut Filter, other: &Filter) -> bool {
    match (range, other) {
        (Filter::Attribute(a, Test::I64Range(x)), Filter::Attribute(b, Test::I64Range(y)))
            if a == b =>
        {
            *x = Range { from: later(x.from, y.from), to: earlier(x.to, y.to) };
            true
        }
        (Filter::Attribute(a, Test::F64Range(x)), Filter::Attribute(b, Test::F64Range(y)))
            if a == b =>
        {
            *x = Range { from: later(x.from, y.from), to: earlier(x.to, y.to) };
            true
        }
        _ => false,
    }
}

fn or(parts: impl Iterator<Item = Filter>) -> Filter {
    let mut kept: Vec<Filter> = Vec::new();
    for part in parts {
        let inner = match part {
            Filter::Or(inner) => inner,
            part => vec![part],
        };
        for mut part in inner {
            if !kept.iter_mut().any(|other| joined(other, &mut part)) {
                kept.push(part);
            }
        }
    }
    // Joined lists are sorted once, at the end.
    let sorted = |part| match part {
        Filter::Attribute(column, test) => attribute(column, test),
        Filter::Ids(mut ids) => {
            ids.sort_unstable();
            ids.dedup();
            Filter::Ids(ids)
        }
        other => other,
    };
    let mut kept: Vec<Filter> = kept.into_iter().map(sorted).collect();
    match kept.len() {
        _ if kept.iter().any(Filter::is_all) => Filter::ALL,
        1 => kept.remove(0),
        _ => Filter::Or(kept),
    }
}

/// Moves the values of `other` to `list`, if both are lists of one attribute or of ids.
fn joined(list: &mut Filter, other: &mut Filter) -> bool {
    fn moved<T>(list: &mut Vec<T>, other: &mut Vec<T>) -> bool {
        let fits = list.len() + other.len() <= FILTER_VALUES_MAX;
        if fits {
            list.append(other);
        }
        fits
    }
    match (list, other) {
        (Filter::Ids(x), Filter::Ids(y)) => moved(x, y),
        (Filter::Attribute(a, x), Filter::Attribute(b, y)) if a == b => match (x, y) {
            (Test::KeywordIn(x), Test::KeywordIn(y)) | (Test::AnyOf(x), Test::AnyOf(y)) => {
                moved(x, y)
            }
            (Test::I64In(x), Test::I64In(y)) => moved(x, y),
            (Test::F64In(x), Test::F64In(y)) => moved(x, y),
            _ => false,
        },
        _ => false,
    }
}

fn at_least(least: usize, parts: Vec<Filter>) -> Filter {
    let mut least = least;
    let mut kept = Vec::new();
    for part in parts.into_iter().map(Filter::simplify) {
        if part.is_all() {
            least = least.saturating_sub(1);
        } else if !part.is_none() {
            kept.push(part);
        }
    }
    match least {
        0 => Filter::ALL,
        _ if least > kept.len() => Filter::NONE,
        1 => or(kept.into_iter()),
        _ if least == kept.len() => and(kept.into_iter()),
        _ => Filter::AtLeast(least, kept),
    }
}
