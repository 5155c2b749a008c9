//! Why a call failed, by what the caller can do about it.

use std::fmt;

use vstream_attribute::Refused;
use vstream_rank::QueryError;

/// The error of every call of this crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A row, a filter or a group breaks a rule of the schema. Nothing was changed.
    Refused(Refused),
    /// A vector, a number or a setting is out of range. Nothing was changed.
    Invalid(String),
    /// A text query or a rank expression cannot be answered. Nothing was changed.
    Query(QueryError),
    /// A file cannot be read or written, or its bytes are not the ones that were written.
    Store(vstream_store::Error),
}

impl Error {
    pub(crate) fn invalid(what: impl Into<String>) -> Error {
        Error::Invalid(what.into())
    }

    /// True if bytes on the disk are not the ones that were written.
    pub fn is_corrupt(&self) -> bool {
        matches!(self, Error::Store(error) if error.kind() == vstream_store::ErrorKind::Corrupt)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused(refused) => refused.fmt(f),
            Error::Invalid(what) => f.write_str(what),
            Error::Query(error) => error.fmt(f),
            Error::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        Error::Refused(refused)
    }
}

impl From<QueryError> for Error {
    fn from(error: QueryError) -> Error {
        Error::Query(error)
    }
}

impl From<vstream_store::Error> for Error {
    fn from(error: vstream_store::Error) -> Error {
        Error::Store(error)
    }
}

/// The defect of bytes that are none of ours; the caller adds file and offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl From<vstream_vector::cursor::Truncated> for Malformed {
    fn from(_: vstream_vector::cursor::Truncated) -> Malformed {
        Malformed("a block is too short")
    }
}

impl From<vstream_attribute::Malformed> for Malformed {
    fn from(malformed: vstream_attribute::Malformed) -> Malformed {
        Malformed(malformed.0)
    }
}
