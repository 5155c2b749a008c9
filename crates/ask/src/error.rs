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
    /// The job's collection is not the one that the question was made for: it has other attributes, say. Ask it what it
    /// is like ([`JobReader::collection`](crate::JobReader::collection)), and make the question again.
    Changed,
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::Refused(why) | AskError::Locked(why) | AskError::Unavailable(why) => {
                f.write_str(why)
            }
            AskError::Changed => f.write_str(
                "the collection of the job is not what it was, since the job was started again: connect again",
            ),
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
    /// The question is for another collection.
    Changed,
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
