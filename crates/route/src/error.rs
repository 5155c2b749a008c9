//! The one error type of this crate.

use std::fmt;

use vstream_vector::cursor::Truncated;

/// What sort of thing went wrong, by what the caller can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RouteErrorKind {
    /// An argument or a setting is wrong; nothing was changed.
    Invalid,
    /// Serialised bytes are damaged or were never a template.
    Corrupt,
    /// The bytes were written by a newer version than this one.
    Unsupported,
}

/// A refusal, with a sentence that says what to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteError {
    kind: RouteErrorKind,
    message: String,
}

impl RouteError {
    pub(crate) fn invalid(message: impl Into<String>) -> RouteError {
        RouteError { kind: RouteErrorKind::Invalid, message: message.into() }
    }

    pub(crate) fn corrupt(message: impl Into<String>) -> RouteError {
        RouteError { kind: RouteErrorKind::Corrupt, message: message.into() }
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> RouteError {
        RouteError { kind: RouteErrorKind::Unsupported, message: message.into() }
    }

    /// What sort of error this is.
    pub fn kind(&self) -> RouteErrorKind {
        self.kind
    }

    /// The sentence for a person.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RouteError {}

impl From<Truncated> for RouteError {
    fn from(truncated: Truncated) -> RouteError {
        RouteError::corrupt(format!("The template ends too early: {truncated}."))
    }
}
