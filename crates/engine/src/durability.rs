//! What a user decides about durability.

use std::time::Duration;

use crate::error::Error;

/// When a write outlives a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When `commit` has returned.
    Sync,
    /// At most this long after it was committed; a crash loses a suffix of the writes, no more.
    Async {
        /// 1 ms to 60 s.
        interval: Duration,
    },
    /// When the operating system writes it; a loss of power may lose everything since the last
    /// checkpoint, flush or close.
    None,
}

impl Durability {
    /// `Async` with its default interval of 100 ms.
    pub const ASYNC: Durability = Durability::Async { interval: Duration::from_millis(100) };

    /// Name used in settings: `sync`, `async`, `none`.
    pub fn name(self) -> &'static str {
        match self {
            Durability::Sync => "sync",
            Durability::Async { .. } => "async",
            Durability::None => "none",
        }
    }

    /// The durability of a name, `async` with its default interval. Errors: `Invalid`.
    pub fn from_name(name: &str) -> Result<Durability, Error> {
        match name {
            "sync" => Ok(Durability::Sync),
            "async" => Ok(Durability::ASYNC),
            "none" => Ok(Durability::None),
            _ => Err(Error::invalid(format!("durability is '{name}': choose sync, async or none"))),
        }
    }
}

/// How a durable engine keeps its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Journaling {
    /// When a write outlives a crash.
    pub durability: Durability,
    /// A checkpoint begins when the log is longer than this and than the base image, or when shared
    /// states have made 128 logs of it.
    pub log_bytes_max: u64,
    /// The log and checkpoints have threads of their own. Without, every step is taken inside the
    /// call that needs it: for simulations, which must be a function of their seed.
    pub background: bool,
}

impl Default for Journaling {
    fn default() -> Journaling {
        Journaling { durability: Durability::Sync, log_bytes_max: 64 << 20, background: true }
    }
}

impl Journaling {
    /// Checks every field.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        if let Durability::Async { interval } = self.durability {
            if !(1..=60_000).contains(&interval.as_millis()) {
                return Err(Error::invalid(format!(
                    "the interval of durability async is {interval:?}: choose 1 ms to 60 s"
                )));
            }
        }
        Ok(())
    }
}

/// Counts of a durable engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalStats {
    /// Writes that were accepted, ever.
    pub lsn: u64,
    /// Bytes of log since the base.
    pub log_bytes: u64,
    /// Bytes of log since the engine was opened.
    pub log_bytes_written: u64,
    /// Bytes of base images, segments and tombstones since then, those of compactions among them.
    pub base_bytes_written: u64,
    /// Images or segments written by checkpoints since then.
    pub checkpoints: u64,
    /// Why the last checkpoint failed, if it did; the logs are kept and it is tried again.
    pub checkpoint_failure: Option<String>,
    /// Merges of segments since the engine was opened.
    pub compactions: u64,
    /// Bytes that they wrote.
    pub compaction_bytes_written: u64,
    /// Segments dropped whole since then: all their rows were gone, so nothing was read or written.
    pub segments_dropped: u64,
    /// Why the last one failed, if it did; it is tried again after the next checkpoint.
    pub compaction_failure: Option<String>,
    /// Files that nothing needs any more and that could not be removed yet.
    pub files_stuck: u64,
}
