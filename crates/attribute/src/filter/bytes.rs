//! A filter as bytes, so that a record of a query can carry it.
//!
//! ```text
//! u8 version = 1 | node
//! node   0 and, 1 or:  u8 tag | u32 nodes | nodes
//!        2 at least:   u8 tag | u32 least | u32 nodes | nodes
//!        3 not:        u8 tag | node
//!        4 attribute:  u8 tag | u16 column | test
//!        5 ids:        u8 tag | u32 ids | u64 …, ascending
//! test   0 exists, 5 is empty:                          u8 tag
//!        1 keyword in, 3 any of, 4 all of:              u8 tag | u32 texts | texts, ascending
//!        2 keyword prefix:                              u8 tag | text
//!        6 i64 in, ascending; 8 f64 in:                 u8 tag | u32 numbers | 8 bytes each
//!        7 i64 range, 9 f64 range:                      u8 tag | bound | bound
//!        10 bool:                                       u8 tag | u8 0 or 1
//! bound  0 none: u8 | 1 included, 2 excluded: u8 | 8 bytes
//! text   u32 bytes | UTF-8
//! ```
//!
//! Little-endian. A filter has one such form, and equal filters have equal bytes.

use std::ops::Bound;

use vstream_vector::cursor::ByteReader;

use crate::error::Malformed;
use crate::filter::limits::{
    is_finite, is_sorted, FILTER_BYTES_MAX, FILTER_DEPTH_MAX, FILTER_NODES_MAX, FILTER_VALUES_MAX,
};
use crate::filter::{Filter, Range, Test};

/// The version of this format.
const VERSION: u8 = 1;

impl Filter {
    /// Appends the filter's bytes. The filter came from a reader, or [`Filter::check`] accepted it:
    /// [`Filter::decode`] refuses others. Cost: one pass.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        put(out, self);
    }

    /// Reads a filter's bytes, all of them. The columns are not checked, because no schema is at
    /// hand: see [`Filter::check`]. Cost: one pass; memory in proportion to the bytes.
    ///
    /// Errors: `Malformed` if the bytes are no filter, or one beyond the limits.
    pub fn decode(bytes: &[u8]) -> Result<Filter, Malformed> {
        if bytes.len() > FILTER_BYTES_MAX {
            return Err(Malformed("a filter is too large"));
        }
        let mut input = ByteReader::new(bytes);
        if input.u8()? != VERSION {
            return Err(Malformed("a filter of an unknown version"));
        }
        let filter = Nodes { input: &mut input, left: FILTER_NODES_MAX }.node(1)?;
        if !input.is_empty() {
            return Err(Malformed("bytes follow a filter"));
        }
        Ok(filter)
    }
}

fn put(out: &mut Vec<u8>, filter: &Filter) {
    let put_all = |out: &mut Vec<u8>, parts: &[Filter]| {
        out.extend_from_slice(&(parts.len() as u32).to_le_bytes());
        parts.iter().for_each(|part| put(out, part));
    };
    match filter {
        Filter::And(parts) => {
            out.push(0);
            put_all(out, parts);
        }
        Filter::Or(parts) => {
            out.push(1);
            put_all(out, parts);
        }
        Filter::AtLeast(least, parts) => {
            out.push(2);
            // A filter has fewer parts than that, so a larger number means the same.
            out.extend_from_slice(&u32::try_from(*least).unwrap_or(u32::MAX).to_le_bytes());
            put_all(out, parts);
        }
        Filter::Not(part) => {
            out.push(3);
            put(out, part);
        }
        Filter::Attribute(column, test) => {
            out.push(4);
            out.extend_from_slice(&column.to_le_bytes());
            put_test(out, test);
        }
        Filter::Ids(ids) => {
            out.push(5);
            put_numbers(out, ids, |id| id.to_le_bytes());
        }
    }
}

fn put_test(out: &mut Vec<u8>, test: &Test) {
    match test {
        Test::Exists => out.push(0),
        Test::KeywordIn(texts) => put_texts(out, 1, texts),
        Test::KeywordPrefix(prefix) => {
            out.push(2);
            put_text(out, prefix);
        }
        Test::AnyOf(texts) => put_texts(out, 3, texts),
        Test::AllOf(texts) => put_texts(out, 4, texts),
        Test::IsEmpty => out.push(5),
        Test::I64In(numbers) => {
            out.push(6);
            put_numbers(out, numbers, |number| number.to_le_bytes());
        }
        Test::I64Range(range) => {
            out.push(7);
            put_bound(out, &range.from, |number| number.to_le_bytes());
            put_bound(out, &range.to, |number| number.to_le_bytes());
        }
        Test::F64In(numbers) => {
            out.push(8);
            put_numbers(out, numbers, |number| number.to_le_bytes());
        }
        Test::F64Range(range) => {
            out.push(9);
            put_bound(out, &range.from, |number| number.to_le_bytes());
            put_bound(out, &range.to, |number| number.to_le_bytes());
        }
        Test::Bool(is_true) => out.extend_from_slice(&[10, u8::from(*is_true)]),
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn put_texts(out: &mut Vec<u8>, tag: u8, texts: &[String]) {
    out.push(tag);
    out.extend_from_slice(&(texts.len() as u32).to_le_bytes());
    texts.iter().for_each(|text| put_text(out, text));
}

fn put_numbers<T>(out: &mut Vec<u8>, numbers: &[T], bytes: impl Fn(&T) -> [u8; 8]) {
    out.extend_from_slice(&(numbers.len() as u32).to_le_bytes());
    numbers.iter().for_each(|number| out.extend_from_slice(&bytes(number)));
}

fn put_bound<T>(out: &mut Vec<u8>, bound: &Bound<T>, bytes: impl Fn(&T) -> [u8; 8]) {
    let (tag, number) = match bound {
        Bound::Unbounded => (0, None),
        Bound::Included(number) => (1, Some(number)),
        Bound::Excluded(number) => (2, Some(number)),
    };
    out.push(tag);
    out.extend(number.into_iter().flat_map(bytes));
}

/// Reads nodes, and counts those that it may still read.
struct Nodes<'a, 'b> {
    input: &'b mut ByteReader<'a>,
    left: usize,
}

impl Nodes<'_, '_> {
    fn node(&mut self, level: usize) -> Result<Filter, Malformed> {
        if level > FILTER_DEPTH_MAX {
            return Err(Malformed("a filter has too many levels"));
        }
        self.left = self.left.checked_sub(1).ok_or(Malformed("a filter has too many nodes"))?;
        match self.input.u8()? {
            0 => Ok(Filter::And(self.parts(level)?)),
            1 => Ok(Filter::Or(self.parts(level)?)),
            2 => {
                let least = self.input.u32()? as usize;
                Ok(Filter::AtLeast(least, self.parts(level)?))
            }
            3 => Ok(self.node(level + 1)?.negated()),
            4 => {
                let column = self.input.u16()?;
                let test = take_test(self.input)?;
                if !is_sorted(&test) || !is_finite(&test) {
                    return Err(Malformed("the values of a filter are not sorted or not finite"));
                }
                Ok(Filter::Attribute(column, test))
            }
            5 => {
                let ids = take_numbers(self.input, u64::from_le_bytes)?;
                if !ids.is_sorted() {
                    return Err(Malformed("the ids of a filter are not sorted"));
                }
                Ok(Filter::Ids(ids))
            }
            _ => Err(Malformed("a filter has an unknown node")),
        }
    }

    fn parts(&mut self, level: usize) -> Result<Vec<Filter>, Malformed> {
        let count = self.input.u32()? as usize;
        if count > self.left {
            return Err(Malformed("a filter has too many nodes"));
        }
        // The smallest node, an attribute that exists, takes four bytes.
        self.input.require_items(count, 4)?;
        (0..count).map(|_| self.node(level + 1)).collect()
    }
}

fn take_test(input: &mut ByteReader<'_>) -> Result<Test, Malformed> {
    Ok(match input.u8()? {
        0 => Test::Exists,
        1 => Test::KeywordIn(take_texts(input)?),
        2 => Test::KeywordPrefix(take_text(input)?),
        3 => Test::AnyOf(take_texts(input)?),
        4 => Test::AllOf(take_texts(input)?),
        5 => Test::IsEmpty,
        6 => Test::I64In(take_numbers(input, i64::from_le_bytes)?),
        7 => Test::I64Range(Range {
            from: take_bound(input, i64::from_le_bytes)?,
            to: take_bound(input, i64::from_le_bytes)?,
        }),
        8 => Test::F64In(take_numbers(input, f64::from_le_bytes)?),
        9 => Test::F64Range(Range {
            from: take_bound(input, f64::from_le_bytes)?,
            to: take_bound(input, f64::from_le_bytes)?,
        }),
        10 => match input.u8()? {
            0 => Test::Bool(false),
            1 => Test::Bool(true),
            _ => return Err(Malformed("a truth value that is neither 0 nor 1")),
        },
        _ => return Err(Malformed("a filter has an unknown condition")),
    })
}

fn take_text(input: &mut ByteReader<'_>) -> Result<String, Malformed> {
    let bytes = input.u32()? as usize;
    let text = std::str::from_utf8(input.bytes(bytes)?);
    text.map(str::to_owned).map_err(|_| Malformed("a text is no UTF-8"))
}

/// A count of items of at least `item_bytes`, none of which is read yet.
fn take_count(input: &mut ByteReader<'_>, item_bytes: usize) -> Result<usize, Malformed> {
    let count = input.u32()? as usize;
    if count > FILTER_VALUES_MAX {
        return Err(Malformed("a condition has too many values"));
    }
    input.require_items(count, item_bytes)?;
    Ok(count)
}

fn take_texts(input: &mut ByteReader<'_>) -> Result<Vec<String>, Malformed> {
    let count = take_count(input, 4)?;
    (0..count).map(|_| take_text(input)).collect()
}

fn take_numbers<T>(
    input: &mut ByteReader<'_>,
    number: impl Fn([u8; 8]) -> T,
) -> Result<Vec<T>, Malformed> {
    let count = take_count(input, 8)?;
    (0..count).map(|_| Ok(number(input.array()?))).collect()
}

fn take_bound<T>(
    input: &mut ByteReader<'_>,
    number: impl Fn([u8; 8]) -> T,
) -> Result<Bound<T>, Malformed> {
    match input.u8()? {
        0 => Ok(Bound::Unbounded),
        1 => Ok(Bound::Included(number(input.array()?))),
        2 => Ok(Bound::Excluded(number(input.array()?))),
        _ => Err(Malformed("a range has an unknown bound")),
    }
}
