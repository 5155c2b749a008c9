//! Why a question has no answer.

use std::fmt;
use std::io::ErrorKind;

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskError {
    /// The question or a file of settings is wrong: it would have no answer another time either.
    Refused(String),
    /// The job's partitions do not take the key.
    Locked(String),
    /// No answer came until the deadline; a later question may have one.
    Unavailable(String),
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::Refused(why) | AskError::Locked(why) | AskError::Unavailable(why) => {
                f.write_str(why)
            }
        }
    }
}

impl std::error::Error for AskError {}

/// Why one attempt had no answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// Nobody would answer this.
    Refused(String),
    /// A partition does not take the key.
    Locked,
    /// Another attempt may have an answer.
    Again(String),
    /// A partition did not answer in time.
    Late,
}

impl Attempt {
    pub(crate) fn again(what: impl fmt::Display) -> Attempt {
        Attempt::Again(what.to_string())
    }
}

impl From<std::io::Error> for Attempt {
    fn from(error: std::io::Error) -> Attempt {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Attempt::Late,
            _ => Attempt::again(error),
        }
    }
}
