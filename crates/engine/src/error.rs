//! One error type, its kinds named by what the caller can do about it.

use std::fmt;
use std::path::Path;

/// What went wrong, by remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Fix the call: nothing was changed.
    Invalid,
    /// Try again later.
    Unavailable,
    /// The bytes on disk are not what was written: restore from elsewhere.
    Corrupt,
    /// Written by a newer version, or not supported in this combination.
    Unsupported,
    /// The operating system refused; see the message.
    Io,
    /// A defect of the engine: report it.
    Internal,
}

/// An error with a full sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

impl Error {
    /// The kind, for the caller's decision.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The sentence, without the kind.
    pub fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error { kind: ErrorKind::Invalid, message: message.into() }
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Error {
        Error { kind: ErrorKind::Unsupported, message: message.into() }
    }

    pub(crate) fn corrupt(path: &Path, what: impl fmt::Display) -> Error {
        Error { kind: ErrorKind::Corrupt, message: format!("{}: {what}", path.display()) }
    }

    pub(crate) fn io(path: &Path, doing: &str, error: &std::io::Error) -> Error {
        let message = format!("cannot {doing} {}: {error}", path.display());
        Error { kind: ErrorKind::Io, message }
    }
}

impl From<vstream_store::Error> for Error {
    fn from(error: vstream_store::Error) -> Error {
        use vstream_store::ErrorKind as Kind;
        let kind = match error.kind() {
            Kind::Invalid | Kind::Exists => ErrorKind::Invalid,
            Kind::Corrupt => ErrorKind::Corrupt,
            Kind::Unsupported => ErrorKind::Unsupported,
            Kind::Unavailable => ErrorKind::Unavailable,
            Kind::NotFound | Kind::Full | Kind::Poisoned | Kind::Io => ErrorKind::Io,
        };
        Error { kind, message: error.to_string() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
