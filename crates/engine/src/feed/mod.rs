//! The feed: what an engine wrote after a sequence, for followers.
//!
//! 1. A follower asks for the writes after a sequence. They are read from the files of the log, up to
//!    the record that is on the disk: nothing that a crash could still take back is given away.
//! 2. So the writer does nothing for a follower but keep its newest logs for a while, and a follower that
//!    lags costs no memory. One that lags behind the oldest log begins again from files
//!    ([`Engine::share`]).
//! 3. A group of the log travels with its count of rows and their digest, and with a checksum of its own
//!    (`group.rs`). The follower applies it whole, and compares both ([`Engine::apply_group`]). So two
//!    histories of one collection, such as that of a backup and of what was written since, part at the
//!    first group.

mod changes;
mod follow;
mod group;

use std::sync::Arc;

use vstream_attribute::Schema;
use vstream_store::{Access, ReadAt, Store};

pub use self::changes::read_changes;
use crate::engine::Engine;
use crate::error::Error;
use crate::layout::log_name;
use crate::recovery::{first_lsn, whole_group};
use crate::version::VersionSet;
use crate::wal::{GroupHeader, LogIdentity, Ticket, Window, HEADER};

/// What an engine wrote, for followers. Any thread may hold it. It keeps the directory locked.
#[derive(Clone)]
pub struct Feed {
    versions: Arc<VersionSet>,
    progress: Ticket,
    collection: u64,
}

/// Reads a feed from some sequence on.
pub struct FeedReader {
    feed: Feed,
    /// Sequence of the next record.
    next: u64,
    log: Option<OpenLog>,
}

/// A log, and the position of the next group in it.
struct OpenLog {
    number: u64,
    offset: u64,
}

/// What a read of a feed found.
#[derive(Debug, PartialEq, Eq)]
pub enum FeedRead {
    /// Groups, the oldest first, each as [`Engine::apply_group`] takes it; none if there is nothing new.
    Groups(Vec<Vec<u8>>),
    /// The log does not have the next record any more, or never had it: begin again from files.
    Gone,
}

impl Engine {
    /// Returns the feed of this engine, which keeps logs for followers from now on: those since the last
    /// checkpoint, and older ones up to `bytes_max` bytes.
    ///
    /// Errors: `Invalid` for an engine in memory alone.
    pub fn feed(&self, bytes_max: u64) -> Result<Feed, Error> {
        let Some(journal) = &self.journal else {
            return Err(Error::invalid("the engine keeps no log: create it in a directory"));
        };
        let versions = journal.versions().clone();
        versions.retain_logs(bytes_max);
        let collection = versions.manifest().collection;
        Ok(Feed { versions, progress: journal.progress(), collection })
    }
}

impl Feed {
    /// The number of the collection, which no other collection has.
    pub fn collection(&self) -> u64 {
        self.collection
    }

    /// Sequence of the last write that is on the disk.
    pub fn sequence(&self) -> u64 {
        self.progress.synced()
    }

    /// What rows carry, now. A follower needs it before the groups that were read before this call.
    pub fn schema(&self) -> Arc<Schema> {
        self.versions.manifest().settings.schema.clone()
    }

    /// Reads what was written after `sequence`.
    pub fn after(&self, sequence: u64) -> FeedReader {
        FeedReader { feed: self.clone(), next: sequence + 1, log: None }
    }

    fn open(&self, number: u64) -> Result<Option<Arc<dyn ReadAt>>, Error> {
        match self.versions.directory().store.open(&log_name(number), Access::Cached) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == vstream_store::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn identity(&self, number: u64) -> LogIdentity {
        LogIdentity { collection: self.collection, number }
    }

    /// The log with the record `next`, which is on the disk.
    fn find(&self, next: u64) -> Result<Option<OpenLog>, Error> {
        for number in self.versions.retained_logs().into_iter().rev() {
            let Some(file) = self.open(number)? else { continue };
            if first_lsn(&*file)? > next {
                continue;
            }
            // The header may name a record before its first one, which is in the log before.
            let mut window = Window::new(&*file);
            let offset = HEADER as u64;
            let first = whole_group(&mut window, &*file, self.identity(number), offset)?;
            if first.is_some_and(|(header, _)| header.first_lsn <= next) {
                return Ok(Some(OpenLog { number, offset }));
            }
        }
        Ok(None)
    }

    /// The log that was begun after this one.
    fn after_log(&self, number: u64) -> Option<OpenLog> {
        let next = self.versions.retained_logs().into_iter().find(|&other| other > number)?;
        Some(OpenLog { number: next, offset: HEADER as u64 })
    }
}

impl FeedReader {
    /// The sequence of the last record that was read, or from which this began.
    pub fn sequence(&self) -> u64 {
        self.next - 1
    }

    /// Reads the next groups, until they take `bytes` bytes or there is none. The first may have records
    /// that are not after the sequence; followers pass over them.
    ///
    /// Cost: a read of those bytes, as a rule from the page cache; of the log before them the first time.
    /// Errors: `Io`, `Corrupt`.
    pub fn read(&mut self, bytes: usize) -> Result<FeedRead, Error> {
        let durable = self.feed.sequence();
        if durable + 1 < self.next {
            return Ok(FeedRead::Gone);
        }
        let (mut groups, mut taken) = (Vec::new(), 0);
        while self.next <= durable && taken < bytes {
            let log = match self.log.take() {
                Some(log) => log,
                None => match self.feed.find(self.next)? {
                    Some(log) => log,
                    None => return Ok(FeedRead::Gone),
                },
            };
            let Some(mut log) = self.read_log(log, durable, bytes, &mut groups)? else {
                return Ok(FeedRead::Gone);
            };
            taken = groups.iter().map(Vec::len).sum();
            if self.next <= durable && taken < bytes {
                // The record is on the disk and not here, so it is in the next log.
                match self.feed.after_log(log.number) {
                    Some(next) => log = next,
                    None => return Ok(FeedRead::Gone),
                }
            }
            self.log = Some(log);
        }
        Ok(FeedRead::Groups(groups))
    }

    /// Reads the groups of one log up to the record `durable`; `None` if the log is gone, or if it does not
    /// continue where the one before ended.
    fn read_log(
        &mut self,
        mut log: OpenLog,
        durable: u64,
        bytes: usize,
        groups: &mut Vec<Vec<u8>>,
    ) -> Result<Option<OpenLog>, Error> {
        let Some(file) = self.feed.open(log.number)? else { return Ok(None) };
        let mut window = Window::new(&*file);
        let identity = self.feed.identity(log.number);
        let mut taken: usize = groups.iter().map(Vec::len).sum();
        while taken < bytes && self.next <= durable {
            let Some((header, _)) = whole_group(&mut window, &*file, identity, log.offset)? else {
                break;
            };
            let last = last_of(&header);
            if header.first_lsn > self.next {
                return Ok(None);
            }
            if last >= self.next {
                let group = group::seal(window.get(log.offset, header.bytes())?);
                taken += group.len();
                groups.push(group);
                self.next = last + 1;
            }
            log.offset += header.bytes() as u64;
        }
        Ok(Some(log))
    }
}

fn last_of(header: &GroupHeader) -> u64 {
    header.first_lsn + u64::from(header.records) - 1
}
