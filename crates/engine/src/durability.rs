//! Settings and counts of durability.

use std::time::Duration;

use crate::error::Error;

/// When a write survives a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Once `commit` has returned.
    Sync,
    /// At most this long after its commit. A crash loses only a suffix of the writes.
    Async {
        /// Most time between commit and sync, 1 ms to 60 s.
        interval: Duration,
    },
    /// Once the operating system writes it to the disk. A loss of power may lose everything since
    /// the last checkpoint, flush or close.
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

    /// Returns the durability with this name; `async` has its default interval. Errors: `Invalid`.
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
    /// When a write survives a crash.
    pub durability: Durability,
    /// Bytes of log. A checkpoint begins when the log is longer than this and longer than the base
    /// image, or when shared states have split the log into more than 128 files. If it writes only a part
    /// of the image ([`crate::Settings::image_part_bytes`]), it begins after that part of these.
    pub log_bytes_max: u64,
    /// True if the log, checkpoints and compactions have threads of their own. Otherwise the engine
    /// takes every step inside the call that needs it: simulations need this, because they must be
    /// a function of their seed.
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
    /// Writes that the engine has ever accepted.
    pub lsn: u64,
    /// Bytes of log since the base, or since the oldest part of it.
    pub log_bytes: u64,
    /// Parts of the base image, which were written at different moments; 0 without an image.
    pub base_parts: u64,
    /// Bytes of log since the engine was opened.
    pub log_bytes_written: u64,
    /// Bytes of base images, segments and delete bitmaps since the engine was opened, including
    /// those that compactions wrote.
    pub base_bytes_written: u64,
    /// Images or segments that checkpoints wrote since the engine was opened.
    pub checkpoints: u64,
    /// Why the last checkpoint failed, if it failed. The engine keeps the logs and tries again.
    pub checkpoint_failure: Option<String>,
    /// Merges of segments since the engine was opened.
    pub compactions: u64,
    /// Bytes that these merges wrote.
    pub compaction_bytes_written: u64,
    /// Segments dropped whole since the engine was opened. All their rows were gone, so the engine
    /// read and wrote nothing.
    pub segments_dropped: u64,
    /// Why the last compaction failed, if it failed. The engine tries again after the next
    /// checkpoint.
    pub compaction_failure: Option<String>,
    /// Files that are no longer needed and could not be removed yet.
    pub files_stuck: u64,
}
