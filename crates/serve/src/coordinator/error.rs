//! Why the coordinator refuses.

use std::fmt;

use super::fleet::ReplicaId;

/// Why the coordinator refuses.
#[derive(Debug)]
#[non_exhaustive]
pub enum CoordinatorError {
    /// A setting is out of its range. Remedy: change it.
    Setting {
        /// Its name.
        name: &'static str,
        /// What it must be.
        must: &'static str,
        /// What it is.
        is: f64,
    },
    /// An observation has a number that no clock and no counter gives. Remedy: mend the caller.
    Observation {
        /// Its name.
        name: &'static str,
        /// What it must be.
        must: &'static str,
        /// What it is.
        is: f64,
    },
    /// There are as many replicas as there may be. Remedy: stop one, or raise the limit.
    Full {
        /// The limit.
        cap: u32,
    },
    /// The last replicas ended before they answered. Remedy: wait, and read what they printed.
    Failing {
        /// How many in a row.
        tries: u32,
        /// Seconds until the next one may be started.
        wait_s: f64,
    },
    /// There is no such replica: it has ended.
    Unknown(ReplicaId),
    /// A process cannot be started or signalled.
    Process {
        /// What was tried.
        what: String,
        /// What the system said.
        error: std::io::Error,
    },
}

impl fmt::Display for CoordinatorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting { name, must, is } => write!(f, "{name} is {is}: it must be {must}"),
            Self::Observation { name, must, is } => {
                write!(f, "{name} was seen as {is}: it must be {must}")
            }
            Self::Full { cap } => write!(f, "there are {cap} replicas, which is the limit"),
            Self::Failing { tries, wait_s } => write!(
                f,
                "the last {tries} replicas ended before they answered: the next one may start in \
                 {wait_s:.1} s"
            ),
            Self::Unknown(id) => write!(f, "there is no replica {id}"),
            Self::Process { what, error } => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for CoordinatorError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Process { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// Refuses a setting that is not in a range.
///
/// * `is_right`: whether `is` is what it `must` be.
pub(super) fn setting(
    name: &'static str,
    must: &'static str,
    is: f64,
    is_right: bool,
) -> Result<(), CoordinatorError> {
    if is_right && is.is_finite() {
        return Ok(());
    }
    Err(CoordinatorError::Setting { name, must, is })
}

/// Refuses seconds that are not above 0 or that are more than a day.
pub(super) fn seconds(name: &'static str, is: f64) -> Result<(), CoordinatorError> {
    setting(name, "seconds above 0, a day at most", is, is > 0.0 && is <= 86_400.0)
}
