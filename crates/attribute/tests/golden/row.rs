//! The row that golden files of several crates hold, which include this file. It never changes:
//! the committed bytes say what it is.

use vstream_attribute::{FieldsBuffer, ValueRef};

/// A name, columns 0 to 5 with an attribute of every kind but text, and a payload; some rows lack
/// some.
pub(crate) fn row(id: u64) -> FieldsBuffer {
    let mut out = FieldsBuffer::default();
    out.set_name(&format!("naïve-{id}"), id << 40 | 1);
    if !id.is_multiple_of(3) {
        out.push(0, &ValueRef::Keyword(["", "red", "grün"][id as usize % 3]));
    }
    let words: Vec<String> = (0..id % 4).map(|at| format!("word {}", (id + at) % 9)).collect();
    out.push(1, &ValueRef::Keywords(words.iter().map(String::as_str).collect()));
    out.push(2, &ValueRef::I64(id as i64 * 1000 - 20_000));
    out.push(3, &ValueRef::F64(id as f64 / 8.0 - 2.0));
    if id.is_multiple_of(2) {
        out.push(4, &ValueRef::Bool(id.is_multiple_of(4)));
    }
    out.push(5, &ValueRef::Timestamp(1_790_000_000_000 + id as i64));
    if id.is_multiple_of(5) {
        out.set_payload(Some(format!("{{\"id\":{id}}}").as_bytes()));
    }
    out
}
