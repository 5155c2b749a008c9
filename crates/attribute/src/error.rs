//! Why a value, a row or a filter is refused.

use std::fmt;

use vstream_vector::cursor::Truncated;

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

/// The beginning of a text of a user, for a message of bounded size.
pub(crate) fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 64;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Bytes that are no attributes, no filter or no schema; the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Malformed {}

impl From<Truncated> for Malformed {
    fn from(_: Truncated) -> Malformed {
        Malformed("the bytes are too short")
    }
}
