//! The error type of this crate: a kind, a file and, if known, an offset.

use std::fmt;
use std::io;

/// The kind of an error, by what the caller can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The call has an invalid name or range. It changed nothing.
    Invalid,
    /// The file does not exist.
    NotFound,
    /// The file exists already, and files are written once.
    Exists,
    /// The disk is full. Free space and repeat the call; nothing was lost.
    Full,
    /// The bytes are not the ones that were written.
    Corrupt,
    /// A newer version wrote the file, or this store cannot do it.
    Unsupported,
    /// An earlier sync failed, so nobody knows what is on the disk. Open the store again and
    /// recover.
    Poisoned,
    /// No answer in time, or the store is overloaded. Repeat the call later.
    Unavailable,
    /// The operating system or the remote store refused. The message has its reason.
    Io,
}

/// An error with a full sentence that names the file and, if known, the offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    file: String,
    offset: Option<u64>,
    what: String,
}

impl Error {
    /// An error of `kind` about `file`. The message is "FILE: `what`".
    pub fn new(kind: ErrorKind, file: impl Into<String>, what: impl fmt::Display) -> Error {
        Error { kind, file: file.into(), offset: None, what: what.to_string() }
    }

    /// A `Corrupt` error: the bytes at `offset` are not the ones that were written.
    pub fn corrupt(file: impl Into<String>, offset: u64, what: impl fmt::Display) -> Error {
        Error::new(ErrorKind::Corrupt, file, what).with_offset(offset)
    }

    /// An error of the operating system while `doing` something, such as "read".
    pub fn io(file: impl Into<String>, doing: &str, error: &io::Error) -> Error {
        // An error of a remote file already names the file and the reason.
        if let Some(inner_error) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
            return inner_error.clone();
        }
        let kind = match error.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::AlreadyExists => ErrorKind::Exists,
            // A limit on the size of a file has the same remedy as a full disk.
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => ErrorKind::Full,
            io::ErrorKind::TimedOut => ErrorKind::Unavailable,
            _ => ErrorKind::Io,
        };
        Error::new(kind, file, format!("cannot {doing}: {error}"))
    }

    /// Adds an offset to the error.
    pub fn with_offset(mut self, offset: u64) -> Error {
        self.offset = Some(offset);
        self
    }

    /// The kind of this error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The file, as its store describes it.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Offset in the file, if known.
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
