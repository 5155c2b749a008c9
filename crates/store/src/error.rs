//! One error type: what kind, which file, where in it.

use std::fmt;
use std::io;

/// What went wrong, by remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Fix the call: a name or a range that cannot be. Nothing was changed.
    Invalid,
    /// There is no such file.
    NotFound,
    /// There is such a file already, and files are written once.
    Exists,
    /// No space is left: free some and repeat the call. What was there before is whole.
    Full,
    /// The bytes are not those that were written.
    Corrupt,
    /// Written by a newer version, or not possible with this store.
    Unsupported,
    /// A sync failed before, so nobody knows what the disk holds: open again and recover.
    Poisoned,
    /// No answer in time, or overload: repeat the call later.
    Unavailable,
    /// The operating system or the remote store refused; see the message.
    Io,
}

/// An error with a full sentence that names the file and, where there is one, the offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    file: String,
    offset: Option<u64>,
    what: String,
}

impl Error {
    /// An error of `kind` about `file`; `what` completes "FILE: …".
    pub fn new(kind: ErrorKind, file: impl Into<String>, what: impl fmt::Display) -> Error {
        Error { kind, file: file.into(), offset: None, what: what.to_string() }
    }

    /// Bytes that are not those that were written.
    pub fn corrupt(file: impl Into<String>, offset: u64, what: impl fmt::Display) -> Error {
        Error::new(ErrorKind::Corrupt, file, what).at(offset)
    }

    /// What the operating system said while `doing` something, such as "read".
    pub fn io(file: impl Into<String>, doing: &str, error: &io::Error) -> Error {
        // A file that is elsewhere has said it in full already.
        if let Some(inner_error) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
            return inner_error.clone();
        }
        let kind = match error.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::AlreadyExists => ErrorKind::Exists,
            // A limit on the size of a file is as good as a full disk.
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => ErrorKind::Full,
            io::ErrorKind::TimedOut => ErrorKind::Unavailable,
            _ => ErrorKind::Io,
        };
        Error::new(kind, file, format!("cannot {doing}: {error}"))
    }

    /// The same error at an offset of its file.
    pub fn at(mut self, offset: u64) -> Error {
        self.offset = Some(offset);
        self
    }

    /// What can be done about it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The file, as its store describes it.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Where in the file, if that is known.
    pub fn offset(&self) -> Option<u64> {
        self.offset
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.offset {
            Some(offset) => write!(f, "{} at byte {offset}: {}", self.file, self.what),
            None => write!(f, "{}: {}", self.file, self.what),
        }
    }
}

impl std::error::Error for Error {}
