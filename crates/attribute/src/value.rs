//! The value of an attribute.

use crate::schema::AttributeKind;

/// A value that owns its texts.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A word that is compared as a whole.
    Keyword(String),
    /// A list of such words, in the order in which they were given.
    Keywords(Vec<String>),
    /// A whole number.
    I64(i64),
    /// A number; finite.
    F64(f64),
    /// Yes or no.
    Bool(bool),
    /// A moment in milliseconds since 1970-01-01 UTC.
    Timestamp(i64),
    /// A text that is searched by words, in isolated groups.
    Text(String),
}

/// A value that borrows its texts.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueRef<'a> {
    /// See [`Value::Keyword`].
    Keyword(&'a str),
    /// See [`Value::Keywords`].
    Keywords(Vec<&'a str>),
    /// See [`Value::I64`].
    I64(i64),
    /// See [`Value::F64`].
    F64(f64),
    /// See [`Value::Bool`].
    Bool(bool),
    /// See [`Value::Timestamp`].
    Timestamp(i64),
    /// See [`Value::Text`].
    Text(&'a str),
}

impl ValueRef<'_> {
    /// The kind of attribute that has such values.
    pub fn kind(&self) -> AttributeKind {
        match self {
            ValueRef::Keyword(_) => AttributeKind::Keyword,
            ValueRef::Keywords(_) => AttributeKind::Keywords,
            ValueRef::I64(_) => AttributeKind::I64,
            ValueRef::F64(_) => AttributeKind::F64,
            ValueRef::Bool(_) => AttributeKind::Bool,
            ValueRef::Timestamp(_) => AttributeKind::Timestamp,
            ValueRef::Text(_) => AttributeKind::Text,
        }
    }

    /// A copy that owns its texts.
    pub fn to_value(&self) -> Value {
        match self {
            ValueRef::Keyword(text) => Value::Keyword((*text).to_owned()),
            ValueRef::Keywords(texts) => {
                Value::Keywords(texts.iter().map(|text| (*text).to_owned()).collect())
            }
            ValueRef::I64(number) => Value::I64(*number),
            ValueRef::F64(number) => Value::F64(*number),
            ValueRef::Bool(is_true) => Value::Bool(*is_true),
            ValueRef::Timestamp(millis) => Value::Timestamp(*millis),
            ValueRef::Text(text) => Value::Text((*text).to_owned()),
        }
    }
}

impl Value {
    /// The value, borrowed.
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Value::Keyword(text) => ValueRef::Keyword(text),
            Value::Keywords(texts) => {
                ValueRef::Keywords(texts.iter().map(String::as_str).collect())
            }
            Value::I64(number) => ValueRef::I64(*number),
            Value::F64(number) => ValueRef::F64(*number),
            Value::Bool(is_true) => ValueRef::Bool(*is_true),
            Value::Timestamp(millis) => ValueRef::Timestamp(*millis),
            Value::Text(text) => ValueRef::Text(text),
        }
    }
}
