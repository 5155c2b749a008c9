//! One error type, its kinds named by what the caller can do about it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use vstream_attribute::{Refused, RefusedKind};
use vstream_vector::cursor::Truncated;

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

/// An error with a full sentence, which names the file and the offset where there are any.
///
/// One word: results that hold it stay small.
#[derive(Clone)]
pub struct Error(Box<Fields>);

#[derive(Clone, Debug)]
struct Fields {
    kind: ErrorKind,
    message: String,
    file: Option<String>,
    offset: Option<u64>,
    refused: Option<RefusedKind>,
    source: Option<Source>,
}

/// The error of a lower layer.
#[derive(Clone, Debug)]
enum Source {
    Store(vstream_store::Error),
    System(Arc<std::io::Error>),
}

impl Error {
    /// The kind, for the caller's decision.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The sentence, without the kind.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The file that the error is about, if it is about one.
    pub fn file(&self) -> Option<&str> {
        self.0.file.as_deref()
    }

    /// Where in the file, in bytes from its start, if that is known.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// Why attributes, payload, id or filter were refused, if that is the error: for counters by
    /// reason.
    pub fn refused(&self) -> Option<RefusedKind> {
        self.0.refused
    }

    /// True if a file that is asked for is not there.
    pub(crate) fn is_not_found(&self) -> bool {
        match &self.0.source {
            Some(Source::Store(error)) => error.kind() == vstream_store::ErrorKind::NotFound,
            Some(Source::System(error)) => error.kind() == std::io::ErrorKind::NotFound,
            None => false,
        }
    }

    fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        let message = message.into();
        let (file, offset, refused, source) = (None, None, None, None);
        Error(Box::new(Fields { kind, message, file, offset, refused, source }))
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Invalid, message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Unavailable, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Internal, message)
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Unsupported, message)
    }

    pub(crate) fn corrupt(path: &Path, what: impl fmt::Display) -> Error {
        let file = path.display().to_string();
        let mut error = Error::new(ErrorKind::Corrupt, format!("{file}: {what}"));
        error.0.file = Some(file);
        error
    }

    /// As [`Error::corrupt`] where the place is known.
    pub(crate) fn corrupt_at(path: &Path, offset: u64, what: impl fmt::Display) -> Error {
        let file = path.display().to_string();
        let mut error = Error::new(ErrorKind::Corrupt, format!("{file} at byte {offset}: {what}"));
        (error.0.file, error.0.offset) = (Some(file), Some(offset));
        error
    }

    /// A file that ends before what should be in it.
    pub(crate) fn truncated(path: &Path, at: Truncated) -> Error {
        Error::corrupt_at(path, at.offset as u64, "it ends before what should be there")
    }

    pub(crate) fn io(path: &Path, doing: &str, error: std::io::Error) -> Error {
        let message = format!("cannot {doing} {}: {error}", path.display());
        let mut io = Error::new(ErrorKind::Io, message);
        io.0.file = Some(path.display().to_string());
        io.0.source = Some(Source::System(Arc::new(error)));
        io
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
        Error(Box::new(Fields {
            kind,
            message: error.to_string(),
            file: Some(error.file().to_owned()),
            offset: error.offset(),
            refused: None,
            source: Some(Source::Store(error)),
        }))
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        let mut error = Error::invalid(refused.message);
        error.0.refused = Some(refused.kind);
        error
    }
}

/// Errors are equal if they say the same.
impl PartialEq for Error {
    fn eq(&self, other: &Error) -> bool {
        (self.0.kind, &self.0.message) == (other.0.kind, &other.0.message)
    }
}

impl Eq for Error {}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.source {
            Some(Source::Store(error)) => Some(error),
            Some(Source::System(error)) => Some(&**error),
            None => None,
        }
    }
}
