//! Values of an attribute as keys of a map.

use vstream_attribute::{AttributeKind, Schema, Value, ValueRef};

use crate::error::{QueryError, QueryErrorKind};

/// The column of an attribute by which answers are grouped or made diverse. Errors:
/// `UnknownAttribute`; `WrongType` for lists and texts.
pub fn grouping_column(schema: &Schema, name: &str) -> Result<u16, QueryError> {
    let Some(column) = schema.column(name) else {
        let what = format!("There is no attribute '{name}'.");
        return Err(QueryError::new(QueryErrorKind::UnknownAttribute, 0, what));
    };
    match schema.kind(column) {
        Some(kind @ (AttributeKind::Keywords | AttributeKind::Text)) => {
            let kind = kind.name();
            let what = format!("'{name}' is of type {kind}; answers are grouped by single values.");
            Err(QueryError::new(QueryErrorKind::WrongType, 0, what))
        }
        _ => Ok(column),
    }
}

/// Writes a value as a key: nothing for a missing one, else its kind and its bytes. 0 and −0 are
/// one value. Lists and texts, which [`grouping_column`] refuses, count as missing.
pub(super) fn write_key(value: Option<&ValueRef<'_>>, key: &mut Vec<u8>) {
    key.clear();
    let Some(value) = value else { return };
    let tag = value.kind().tag();
    match value {
        ValueRef::Keyword(text) => {
            key.push(tag);
            key.extend_from_slice(text.as_bytes());
        }
        ValueRef::I64(number) | ValueRef::Timestamp(number) => {
            key.push(tag);
            key.extend_from_slice(&number.to_le_bytes());
        }
        ValueRef::F64(number) => {
            key.push(tag);
            key.extend_from_slice(&(number + 0.0).to_le_bytes());
        }
        ValueRef::Bool(is_true) => key.extend_from_slice(&[tag, u8::from(*is_true)]),
        ValueRef::Keywords(_) | ValueRef::Text(_) => {}
    }
}

/// The value of a key that [`write_key`] wrote; `None` for the missing value.
pub(super) fn read_key(key: &[u8]) -> Option<Value> {
    let (tag, bytes) = key.split_first()?;
    let number = || bytes.try_into().expect("a key of 8 bytes");
    Some(match AttributeKind::from_tag(*tag)? {
        AttributeKind::I64 => Value::I64(i64::from_le_bytes(number())),
        AttributeKind::Timestamp => Value::Timestamp(i64::from_le_bytes(number())),
        AttributeKind::F64 => Value::F64(f64::from_le_bytes(number())),
        AttributeKind::Bool => Value::Bool(bytes == [1]),
        AttributeKind::Keyword | AttributeKind::Keywords | AttributeKind::Text => {
            Value::Keyword(String::from_utf8_lossy(bytes).into_owned())
        }
    })
}
