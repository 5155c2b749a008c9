//! Why a value, a row or a filter is refused.

use std::fmt;

/// The reason as a kind, for counters and for callers that act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusedKind {
    /// The schema has no attribute of this name, and is not open.
    UnknownAttribute,
    /// The value has another type than the attribute.
    WrongType,
    /// A text, a list, the attributes of a row or a payload are too large.
    TooLarge,
    /// A string id is empty or too long, or the id is of the other kind.
    BadId,
    /// A group is missing, or there is one where the collection has none.
    BadGroup,
    /// The schema itself is wrong: a name twice, too many attributes.
    BadSchema,
    /// A filter cannot be read, or is too deep or too large.
    BadFilter,
}

/// A refusal: nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What kind of refusal this is.
    pub kind: RefusedKind,
    /// A full sentence that names the attribute and says what is allowed.
    pub message: String,
}

impl Refused {
    /// A refusal with its sentence.
    pub fn new(kind: RefusedKind, message: impl Into<String>) -> Refused {
        Refused { kind, message: message.into() }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refused {}
