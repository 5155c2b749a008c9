//! The error type of this crate.

use std::fmt;
use std::path::Path;

/// The kind of an error, by what the caller can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EmbedErrorKind {
    /// An argument or a setting is wrong.
    Invalid,
    /// The files are those of a model of a kind that is not built in.
    Unsupported,
    /// The files of the model are damaged.
    Corrupt,
    /// A file or the runtime of ONNX cannot be read.
    Io,
    /// The runtime of ONNX failed.
    Internal,
}

/// An error with a sentence that tells the user what to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbedError {
    kind: EmbedErrorKind,
    message: String,
}

impl EmbedError {
    pub(crate) fn new(kind: EmbedErrorKind, message: impl Into<String>) -> EmbedError {
        EmbedError { kind, message: message.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> EmbedError {
        EmbedError::new(EmbedErrorKind::Invalid, message)
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> EmbedError {
        EmbedError::new(EmbedErrorKind::Unsupported, message)
    }

    pub(crate) fn corrupt(path: &Path, what: impl fmt::Display) -> EmbedError {
        EmbedError::new(EmbedErrorKind::Corrupt, format!("{}: {what}.", path.display()))
    }

    pub(crate) fn io(path: &Path, error: impl fmt::Display) -> EmbedError {
        EmbedError::new(EmbedErrorKind::Io, format!("{}: {error}.", path.display()))
    }

    pub(crate) fn internal(message: impl Into<String>) -> EmbedError {
        EmbedError::new(EmbedErrorKind::Internal, message)
    }

    /// The kind of this error.
    pub fn kind(&self) -> EmbedErrorKind {
        self.kind
    }

    /// The sentence for the user.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for EmbedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for EmbedError {}
