//! Why a text query or an expression is refused.

use std::fmt;

use vstream_attribute::{Refused, RefusedKind};

/// The reason as a kind, for callers that act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueryErrorKind {
    /// The text does not follow the grammar.
    Syntax,
    /// There is no feature or function of this name, or it takes another number of arguments.
    UnknownFunction,
    /// The schema has no attribute of this name.
    UnknownAttribute,
    /// The attribute has a type that does not fit here, or a setting is out of its range.
    WrongType,
    /// A parameter has no value, two values, or a value that is not finite; or a value has no
    /// parameter.
    BadParameter,
    /// The text, its depth or its number of parts is above a limit.
    TooLarge,
    /// A text query, or a part of one, has no word.
    NoWords,
}

/// A refused text query or expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryError {
    /// What kind of error this is.
    pub kind: QueryErrorKind,
    /// Where it is, in bytes from the start of the text; 0 if there is no text.
    pub at: usize,
    /// A full sentence that says what is wrong or what is allowed.
    pub message: String,
}

impl QueryError {
    /// An error with its sentence.
    pub fn new(kind: QueryErrorKind, at: usize, message: impl Into<String>) -> QueryError {
        QueryError { kind, at, message: message.into() }
    }

    pub(crate) fn syntax(at: usize, message: impl Into<String>) -> QueryError {
        QueryError::new(QueryErrorKind::Syntax, at, message)
    }

    pub(crate) fn too_large(at: usize, message: impl Into<String>) -> QueryError {
        QueryError::new(QueryErrorKind::TooLarge, at, message)
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {})", self.message, self.at)
    }
}

impl std::error::Error for QueryError {}

impl From<QueryError> for Refused {
    /// The refusal of the query that carries the text or the expression.
    fn from(error: QueryError) -> Refused {
        let kind = match error.kind {
            QueryErrorKind::UnknownAttribute => RefusedKind::UnknownAttribute,
            QueryErrorKind::WrongType => RefusedKind::WrongType,
            QueryErrorKind::TooLarge => RefusedKind::TooLarge,
            QueryErrorKind::Syntax
            | QueryErrorKind::UnknownFunction
            | QueryErrorKind::BadParameter
            | QueryErrorKind::NoWords => RefusedKind::BadFilter,
        };
        Refused::new(kind, error.to_string())
    }
}
