//! Limits on filters, the same in all forms.

use std::ops::Bound;

use crate::error::{shown, Refused, RefusedKind};
use crate::filter::{Filter, Range, Test};
use crate::schema::{AttributeKind, Schema};

/// Most levels of a filter; a condition alone has one.
pub const FILTER_DEPTH_MAX: usize = 16;
/// Most nodes of a filter: conditions, and the joints between them.
pub const FILTER_NODES_MAX: usize = 4096;
/// Most values of one condition, such as the ids of a list.
pub const FILTER_VALUES_MAX: usize = 65_536;
/// Most bytes of the text of a filter.
pub const FILTER_TEXT_BYTES_MAX: usize = 1 << 20;
/// Most bytes of a filter that [`Filter::encode`] wrote. A text within its limit stays below.
pub const FILTER_BYTES_MAX: usize = 8 << 20;

/// Refuses a text that is too long to be read.
pub(super) fn check_text(text: &str) -> Result<(), Refused> {
    if text.len() > FILTER_TEXT_BYTES_MAX {
        let bytes = text.len();
        return Err(bad(format!(
            "The filter has {bytes} bytes; the limit is {FILTER_TEXT_BYTES_MAX}."
        )));
    }
    Ok(())
}

pub(super) fn bad(what: impl Into<String>) -> Refused {
    Refused::new(RefusedKind::BadFilter, what)
}

/// Calls `visit` with every node and its level, without recursion. Stops at the first error.
fn walk(
    filter: &Filter,
    mut visit: impl FnMut(&Filter, usize) -> Result<(), Refused>,
) -> Result<(), Refused> {
    let mut stack = vec![(filter, 1)];
    while let Some((node, level)) = stack.pop() {
        visit(node, level)?;
        match node {
            Filter::And(parts) | Filter::Or(parts) | Filter::AtLeast(_, parts) => {
                stack.extend(parts.iter().map(|part| (part, level + 1)));
            }
            Filter::Not(part) => stack.push((part, level + 1)),
            Filter::Attribute(..) | Filter::Ids(_) => {}
        }
    }
    Ok(())
}

impl Filter {
    /// Checks a filter that was not read by one of the readers: that it is within the limits, that
    /// each condition fits the kind of its attribute, that lists are sorted and numbers finite.
    ///
    /// Cost: one pass, no recursion. Errors: `BadFilter`, `UnknownAttribute` or `WrongType`.
    pub fn check(&self, schema: &Schema) -> Result<(), Refused> {
        self.check_limits()?;
        walk(self, |node, _| match node {
            Filter::Attribute(column, test) => check_test(schema, *column, test),
            Filter::Ids(ids) if !ids.is_sorted() => Err(bad("The ids of a filter are not sorted.")),
            _ => Ok(()),
        })
    }

    /// Checks depth, nodes, values and bytes.
    pub(super) fn check_limits(&self) -> Result<(), Refused> {
        let (mut nodes, mut bytes) = (0, 0);
        walk(self, |node, level| {
            nodes += 1;
            let (values, node_bytes) = size(node);
            bytes += node_bytes;
            if level > FILTER_DEPTH_MAX {
                return Err(bad(format!("A filter has at most {FILTER_DEPTH_MAX} levels.")));
            }
            if nodes > FILTER_NODES_MAX {
                return Err(bad(format!(
                    "A filter has at most {FILTER_NODES_MAX} conditions and joints."
                )));
            }
            if values > FILTER_VALUES_MAX {
                return Err(bad(format!("A condition has at most {FILTER_VALUES_MAX} values.")));
            }
            if bytes > FILTER_BYTES_MAX {
                return Err(bad(format!("A filter has at most {FILTER_BYTES_MAX} bytes.")));
            }
            Ok(())
        })
    }
}

/// The values of a node, and its encoded bytes or a few more.
fn size(node: &Filter) -> (usize, usize) {
    const HEAD_BYTES: usize = 32;
    let texts = |texts: &[String]| texts.iter().map(|text| text.len() + 4).sum::<usize>();
    let (values, bytes) = match node {
        Filter::Ids(ids) => (ids.len(), ids.len() * 8),
        Filter::Attribute(_, test) => match test {
            Test::KeywordIn(list) | Test::AnyOf(list) | Test::AllOf(list) => {
                (list.len(), texts(list))
            }
            Test::KeywordPrefix(prefix) => (1, prefix.len()),
            Test::I64In(list) => (list.len(), list.len() * 8),
            Test::F64In(list) => (list.len(), list.len() * 8),
            Test::Exists
            | Test::IsEmpty
            | Test::I64Range(_)
            | Test::F64Range(_)
            | Test::Bool(_) => (1, 0),
        },
        Filter::And(_) | Filter::Or(_) | Filter::AtLeast(..) | Filter::Not(_) => (0, 0),
    };
    (values, bytes + HEAD_BYTES)
}

fn check_test(schema: &Schema, column: u16, test: &Test) -> Result<(), Refused> {
    let Some(attribute) = schema.attributes.get(usize::from(column)) else {
        let what = format!("The collection has no column {column}.");
        return Err(Refused::new(RefusedKind::UnknownAttribute, what));
    };
    let fits = match test {
        Test::Exists => true,
        Test::KeywordIn(_) | Test::KeywordPrefix(_) => attribute.kind == AttributeKind::Keyword,
        Test::AnyOf(_) | Test::AllOf(_) | Test::IsEmpty => {
            attribute.kind == AttributeKind::Keywords
        }
        Test::I64In(_) | Test::I64Range(_) => {
            matches!(attribute.kind, AttributeKind::I64 | AttributeKind::Timestamp)
        }
        Test::F64In(_) | Test::F64Range(_) => attribute.kind == AttributeKind::F64,
        Test::Bool(_) => attribute.kind == AttributeKind::Bool,
    };
    let name = shown(&attribute.name);
    if !fits {
        let kind = attribute.kind.name();
        let what = format!("The attribute '{name}' is of type {kind}, its condition of another.");
        return Err(Refused::new(RefusedKind::WrongType, what));
    }
    if !is_sorted(test) {
        return Err(bad(format!("The values for '{name}' are not sorted.")));
    }
    if !is_finite(test) {
        return Err(bad(format!("A number for '{name}' is not finite.")));
    }
    Ok(())
}

/// True unless the test has a list that must be sorted and is not.
pub(super) fn is_sorted(test: &Test) -> bool {
    match test {
        Test::KeywordIn(list) | Test::AnyOf(list) | Test::AllOf(list) => list.is_sorted(),
        Test::I64In(list) => list.is_sorted(),
        _ => true,
    }
}

/// True if all floats of the test are finite.
pub(super) fn is_finite(test: &Test) -> bool {
    let finite = |bound: &Bound<f64>| match bound {
        Bound::Unbounded => true,
        Bound::Included(number) | Bound::Excluded(number) => number.is_finite(),
    };
    match test {
        Test::F64In(list) => list.iter().all(|number| number.is_finite()),
        Test::F64Range(Range { from, to }) => finite(from) && finite(to),
        _ => true,
    }
}
