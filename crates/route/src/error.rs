//! The error type of this crate.

use std::fmt;

use vstream_vector::cursor::Truncated;

/// The kind of an error, by what the caller can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RouteErrorKind {
    /// An argument or a setting is wrong. The call changed nothing.
    Invalid,
    /// The serialised bytes are damaged, or they are not a template.
    Corrupt,
    /// A newer version of this program wrote the bytes.
    Unsupported,
}

/// An error with a sentence that tells the user what to change.
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

    /// The kind of this error.
    pub fn kind(&self) -> RouteErrorKind {
        self.kind
    }

    /// The sentence for the user.
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
