//! The attributes of one row as one byte string.
//!
//! ```text
//! nothing at all: no attribute has a value
//! values, ascending by column: u16 column | u8 kind | value
//! value    keyword, text: u32 bytes | UTF-8
//!          keywords: u16 texts | for each: u16 bytes | UTF-8
//!          i64, timestamp: i64      f64: f64, finite      bool: u8, 0 or 1
//! ```
//!
//! Little-endian. A missing value takes no bytes.

use vstream_vector::cursor::ByteReader;

use crate::error::{Malformed, Refused, RefusedKind};
use crate::schema::{AttributeKind, Schema, ATTRIBUTES_BYTES_MAX};
use crate::value::ValueRef;

/// Most bytes of a keyword.
const KEYWORD_BYTES_MAX: usize = 4 << 10;
/// Most keywords of a list.
const LIST_MAX: usize = 1 << 10;

/// The attributes of one row: bytes that were checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes<'a>(pub(crate) &'a [u8]);

impl<'a> Attributes<'a> {
    /// No attribute has a value.
    pub const NONE: Attributes<'static> = Attributes(&[]);

    /// Checks the bytes of attributes, from a file or a batch. Cost: one pass. Errors: `Malformed`
    /// if the bytes are no attributes, or too many.
    pub fn decode(bytes: &'a [u8]) -> Result<Attributes<'a>, Malformed> {
        if bytes.len() > ATTRIBUTES_BYTES_MAX {
            return Err(Malformed("the attributes of a row are too large"));
        }
        let (mut input, mut last) = (ByteReader::new(bytes), None);
        while !input.is_empty() {
            let (column, _) = take(&mut input)?;
            if last.is_some_and(|last| last >= column) {
                return Err(Malformed("the attributes of a row are not in order"));
            }
            last = Some(column);
        }
        Ok(Attributes(bytes))
    }

    /// The bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.0
    }

    /// True if no attribute has a value.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The values by column, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u16, ValueRef<'a>)> + 'a {
        let mut input = ByteReader::new(self.0);
        std::iter::from_fn(move || {
            (!input.is_empty()).then(|| take(&mut input).expect("attributes that were checked"))
        })
    }

    /// The columns that have a value, ascending.
    pub fn columns(&self) -> impl Iterator<Item = u16> + 'a {
        self.iter().map(|(column, _)| column)
    }

    /// The value of a column. Cost: a pass over the values before it.
    pub fn get(&self, column: u16) -> Option<ValueRef<'a>> {
        self.iter()
            .take_while(|(at, _)| *at <= column)
            .find(|(at, _)| *at == column)
            .map(|(_, value)| value)
    }
}

fn take<'a>(input: &mut ByteReader<'a>) -> Result<(u16, ValueRef<'a>), Malformed> {
    let column = input.u16()?;
    let kind = AttributeKind::from_tag(input.u8()?).ok_or(Malformed("an unknown kind"))?;
    let text = |bytes| std::str::from_utf8(bytes).map_err(|_| Malformed("a text is no UTF-8"));
    let value = match kind {
        AttributeKind::Keyword | AttributeKind::Text => {
            let bytes = input.u32()? as usize;
            let text = text(input.bytes(bytes)?)?;
            if kind == AttributeKind::Text {
                ValueRef::Text(text)
            } else {
                ValueRef::Keyword(text)
            }
        }
        AttributeKind::Keywords => {
            let count = usize::from(input.u16()?);
            input.require_items(count, 2)?;
            let mut texts = Vec::with_capacity(count);
            for _ in 0..count {
                let bytes = usize::from(input.u16()?);
                texts.push(text(input.bytes(bytes)?)?);
            }
            ValueRef::Keywords(texts)
        }
        AttributeKind::I64 => ValueRef::I64(i64::from_le_bytes(input.array()?)),
        AttributeKind::Timestamp => ValueRef::Timestamp(i64::from_le_bytes(input.array()?)),
        AttributeKind::F64 => {
            let number = f64::from_le_bytes(input.array()?);
            if !number.is_finite() {
                return Err(Malformed("a number that is not finite"));
            }
            ValueRef::F64(number)
        }
        AttributeKind::Bool => match input.u8()? {
            0 => ValueRef::Bool(false),
            1 => ValueRef::Bool(true),
            _ => return Err(Malformed("a truth value that is neither 0 nor 1")),
        },
    };
    Ok((column, value))
}

/// Appends a value to the bytes of attributes. The caller keeps columns ascending.
pub(crate) fn put(out: &mut Vec<u8>, column: u16, value: &ValueRef<'_>) {
    out.extend_from_slice(&column.to_le_bytes());
    out.push(value.kind().tag());
    match value {
        ValueRef::Keyword(text) | ValueRef::Text(text) => {
            out.extend_from_slice(&(text.len() as u32).to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        ValueRef::Keywords(texts) => {
            out.extend_from_slice(&(texts.len() as u16).to_le_bytes());
            for text in texts {
                out.extend_from_slice(&(text.len() as u16).to_le_bytes());
                out.extend_from_slice(text.as_bytes());
            }
        }
        ValueRef::I64(number) | ValueRef::Timestamp(number) => {
            out.extend_from_slice(&number.to_le_bytes());
        }
        ValueRef::F64(number) => out.extend_from_slice(&number.to_le_bytes()),
        ValueRef::Bool(is_true) => out.push(u8::from(*is_true)),
    }
}

/// Builds the attributes of a row. Reused from row to row.
#[derive(Clone, Debug, Default)]
pub struct AttributesBuilder {
    /// Column, and where its bytes are in `bytes`.
    values: Vec<(u16, std::ops::Range<usize>)>,
    bytes: Vec<u8>,
    sorted: Vec<u8>,
}

impl AttributesBuilder {
    /// Forgets all values.
    pub fn clear(&mut self) {
        self.values.clear();
        self.bytes.clear();
    }

    /// Sets the value of a column; a later value of the same column replaces an earlier one.
    ///
    /// Errors: `WrongType` if the column has another kind, `TooLarge` for a text, a list or a row
    /// that is too large, `WrongType` for a number that is not finite. Nothing is set then.
    pub fn set(
        &mut self,
        schema: &Schema,
        column: u16,
        value: &ValueRef<'_>,
    ) -> Result<(), Refused> {
        let Some(attribute) = schema.attributes.get(usize::from(column)) else {
            let what = format!("The collection has no column {column}.");
            return Err(Refused::new(RefusedKind::UnknownAttribute, what));
        };
        check(&attribute.name, attribute.kind, value)?;
        let from = self.bytes.len();
        put(&mut self.bytes, column, value);
        let others = self.values.iter().filter(|(at, _)| *at != column);
        let bytes: usize = others.map(|(_, range)| range.len()).sum();
        if bytes + (self.bytes.len() - from) > ATTRIBUTES_BYTES_MAX {
            self.bytes.truncate(from);
            let what =
                format!("The attributes of the row take more than {ATTRIBUTES_BYTES_MAX} bytes.");
            return Err(Refused::new(RefusedKind::TooLarge, what));
        }
        self.put_range(column, from..self.bytes.len());
        Ok(())
    }

    /// Removes the value of a column.
    pub fn unset(&mut self, column: u16) {
        self.values.retain(|(at, _)| *at != column);
    }

    /// Takes over all values of a row; later calls replace single ones.
    pub fn set_all(&mut self, attributes: Attributes<'_>) {
        for (column, value) in attributes.iter() {
            let from = self.bytes.len();
            put(&mut self.bytes, column, &value);
            self.put_range(column, from..self.bytes.len());
        }
    }

    fn put_range(&mut self, column: u16, range: std::ops::Range<usize>) {
        match self.values.binary_search_by_key(&column, |(at, _)| *at) {
            Ok(at) => self.values[at].1 = range,
            Err(at) => self.values.insert(at, (column, range)),
        }
    }

    /// The attributes that were set.
    pub fn build(&mut self) -> Attributes<'_> {
        self.sorted.clear();
        for (_, range) in &self.values {
            self.sorted.extend_from_slice(&self.bytes[range.clone()]);
        }
        Attributes(&self.sorted)
    }
}

/// Checks a value against its attribute.
fn check(name: &str, kind: AttributeKind, value: &ValueRef<'_>) -> Result<(), Refused> {
    if value.kind() != kind {
        let what = format!(
            "The attribute '{name}' is of type {}, the value of type {}.",
            kind.name(),
            value.kind().name()
        );
        return Err(Refused::new(RefusedKind::WrongType, what));
    }
    let too_large = |what: String| Err(Refused::new(RefusedKind::TooLarge, what));
    let fits = |text: &&str| text.len() <= KEYWORD_BYTES_MAX;
    match value {
        ValueRef::Keyword(text) if !fits(text) => too_large(format!(
            "A keyword of '{name}' has {} bytes; the limit is {KEYWORD_BYTES_MAX}.",
            text.len()
        )),
        ValueRef::Keywords(texts) if texts.len() > LIST_MAX || !texts.iter().all(fits) => {
            too_large(format!(
                "The list of '{name}' has more than {LIST_MAX} keywords, or one of more than \
                 {KEYWORD_BYTES_MAX} bytes."
            ))
        }
        ValueRef::F64(number) if !number.is_finite() => {
            let what = format!("The value of '{name}' is {number}: give a finite number.");
            Err(Refused::new(RefusedKind::WrongType, what))
        }
        _ => Ok(()),
    }
}
