//! Values and comparisons as texts have them, before an attribute gives them a type.

use std::fmt;
use std::ops::Bound;

use serde_json::Value as Json;

use crate::error::shown;

/// A single value in a text, not typed by an attribute yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Literal<'a> {
    Null,
    Bool(bool),
    /// Wide enough for ids and for numbers that fit no attribute.
    Integer(i128),
    /// Finite.
    Number(f64),
    Text(&'a str),
    /// Milliseconds since 1970-01-01 UTC, from a bound parameter.
    Moment(i64),
}

impl fmt::Display for Literal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Null => f.write_str("null"),
            Literal::Bool(is_true) => write!(f, "{is_true}"),
            Literal::Integer(number) => write!(f, "{number}"),
            Literal::Number(number) => write!(f, "{number}"),
            Literal::Text(text) => write!(f, "'{}'", shown(text)),
            Literal::Moment(millis) => write!(f, "the timestamp {millis}"),
        }
    }
}

impl<'a> Literal<'a> {
    /// The value of a JSON that is no array and no object.
    pub(super) fn of_json(json: &'a Json) -> Option<Literal<'a>> {
        match json {
            Json::Null => Some(Literal::Null),
            Json::Bool(is_true) => Some(Literal::Bool(*is_true)),
            Json::Number(number) => {
                let integer = number.as_i64().map(i128::from).or(number.as_u64().map(i128::from));
                integer.map(Literal::Integer).or(number.as_f64().map(Literal::Number))
            }
            Json::String(text) => Some(Literal::Text(text)),
            Json::Array(_) | Json::Object(_) => None,
        }
    }

    /// A number without a fraction as an integer.
    pub(super) fn integral(self) -> Literal<'a> {
        match self {
            Literal::Number(number) if number.fract() == 0.0 => Literal::Integer(number as i128),
            other => other,
        }
    }

    /// The value of an attribute of type f64.
    pub(super) fn f64(self) -> Option<f64> {
        match self {
            Literal::Integer(number) => Some(number as f64),
            Literal::Number(number) => Some(number),
            _ => None,
        }
    }
}

/// A comparison by order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Order {
    pub(super) fn is_lower_bound(self) -> bool {
        matches!(self, Order::Greater | Order::GreaterOrEqual)
    }

    pub(super) fn bound<T>(self, value: T) -> Bound<T> {
        match self {
            Order::Less | Order::Greater => Bound::Excluded(value),
            Order::LessOrEqual | Order::GreaterOrEqual => Bound::Included(value),
        }
    }
}
