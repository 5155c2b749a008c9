//! The write-ahead log of a durable engine, and the files that make its state.
//!
//! 1. Every accepted write becomes a *record* and gets the next log sequence number (LSN). Records
//!    gather in a *group*, which is all or nothing.
//! 2. `commit` hands the group to the log: `sync` waits until it is on the disk, together with the
//!    groups of other threads; `async` and `none` do not wait.
//! 3. A *checkpoint* writes a base image of all rows beside the writer, then publishes a manifest
//!    that names it and the logs after it. That rename is the only commit point.
//! 4. Opening reads the manifest, the base and the logs, and stops at the first group that is not
//!    whole. If anything proves that more was on the disk, that is corruption, else a torn tail.
//!
//! The bytes are in `format.rs` and `manifest.rs`, and drawn in docs/design/format.md.

mod checkpoint;
mod files;
mod flusher;
mod format;
mod manifest;
mod recover;
mod settings;
mod state;
mod verify;
mod window;
mod writer;

use vstream_index::{RowKey, VectorRef};

pub(crate) use self::checkpoint::Image;
pub(crate) use self::files::{check_not_collection, Directory};
pub(crate) use self::manifest::Manifest;
pub(crate) use self::recover::{recover, Change, Replay};
pub use self::settings::{Durability, JournalStats, Journaling};
pub use self::verify::{verify, verify_store, Finding, Verified};

use self::checkpoint::Checkpoints;
use self::flusher::{Log, Ticket};
use self::format::Group;
use self::state::State;
use crate::defect::{self, Defect};
use crate::error::Error;

/// Records of a group are handed to the log when they take this many bytes.
const GROUP_BYTES: usize = 1 << 20;

/// What makes an engine durable. Lives with its one writer.
pub(crate) struct Journal {
    journaling: Journaling,
    /// After the last record, whether that is on the disk or not.
    state: State,
    group: Group,
    log: Log,
    checkpoints: Checkpoints,
    closed: bool,
}

/// A promise that what was written before is durable, or will be.
pub struct Commit(Option<Ticket>);

impl Commit {
    /// Waits until everything that was written before the commit is on the disk, if the
    /// collection's durability is `sync`; returns at once otherwise.
    ///
    /// Errors: `Io` if it cannot be written. When the disk was full, the rows are kept, and the
    /// next commit tries again; otherwise the engine takes no more writes and must be opened again.
    pub fn wait(self) -> Result<(), Error> {
        self.0.map_or(Ok(()), Ticket::wait)
    }

    /// Of an engine that keeps nothing on a disk.
    pub(crate) fn nothing() -> Commit {
        Commit(None)
    }
}

impl Journal {
    /// A journal that goes on where `recovered` ends.
    ///
    /// What was recovered is made sure first: the logs are synced, and a manifest is published that
    /// knows their end. Only then is removed what no manifest names: the one that was read may not
    /// have been on the disk itself.
    pub(crate) fn start(
        directory: Directory,
        mut manifest: Manifest,
        recovered: recover::Recovered,
    ) -> Result<Journal, Error> {
        let journaling = manifest.journaling;
        let writer = writer::LogWriter::reopen(&directory.store, &manifest, &recovered)?;
        let is_sure = manifest.known == recovered.state;
        if !is_sure || !directory.unnamed(Some(&manifest))?.is_empty() {
            manifest.known = recovered.state;
            manifest.publish(&directory.store)?;
        }
        directory.sweep(Some(&manifest))?;
        let state = recovered.state;
        Ok(Journal {
            journaling,
            state,
            group: Group::after(state),
            log: Log::start(writer, &journaling),
            checkpoints: Checkpoints::new(directory, manifest, recovered.log_bytes),
            closed: false,
        })
    }

    /// Adds an upsert that will replace a row of version `before`, if there is one.
    pub(crate) fn upsert(
        &mut self,
        key: &RowKey,
        vector: VectorRef<'_>,
        before: Option<u64>,
    ) -> Result<(), Error> {
        self.make_room()?;
        self.state.upsert(key.id, before, key.version);
        self.group.push_upsert(key, vector, self.state);
        Ok(())
    }

    /// Adds a delete that will remove a row of version `before`.
    pub(crate) fn delete(&mut self, id: u64, version: u64, before: u64) -> Result<(), Error> {
        self.make_room()?;
        self.state.delete(id, before);
        if defect::active(Defect::DeletesNotLogged) {
            return Ok(());
        }
        self.group.push_delete(id, version, self.state);
        Ok(())
    }

    fn make_room(&mut self) -> Result<(), Error> {
        if self.group.bytes() >= GROUP_BYTES {
            self.hand_over();
        }
        self.log.check()
    }

    /// Gives the records so far to the log.
    fn hand_over(&mut self) {
        if self.group.records() > 0 {
            let group = std::mem::replace(&mut self.group, Group::after(self.state));
            self.checkpoints.note_log_bytes(group.bytes() as u64);
            self.log.push(group);
        }
    }

    /// Ends the group. `pin` gives the rows of this moment, if a checkpoint wants them.
    pub(crate) fn commit(&mut self, pin: &dyn Fn() -> Image) -> Result<Commit, Error> {
        self.hand_over();
        let commit = Commit(self.log.commit(self.state.lsn)?);
        if self.journaling.background {
            self.checkpoints.advance(&self.log, self.state, pin);
        } else if self.checkpoints.is_due(&self.journaling) {
            // A checkpoint that fails leaves the logs; the writes themselves are safe.
            self.checkpoints.run_here(&self.log, self.state, pin);
        }
        Ok(commit)
    }

    /// Forces everything that was written to the disk, whatever the durability.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        self.hand_over();
        self.log.force();
        self.log.ticket(self.state.lsn).wait()
    }

    /// Writes a base image now and drops the logs that it covers.
    pub(crate) fn checkpoint(&mut self, pin: &dyn Fn() -> Image) -> Result<(), Error> {
        self.hand_over();
        self.checkpoints.finish_running();
        self.checkpoints.here(&self.log, self.state, pin)
    }

    /// Forces everything to the disk and notes in the manifest how much that is.
    pub(crate) fn close(&mut self) -> Result<(), Error> {
        if self.closed {
            return Ok(());
        }
        self.flush()?;
        self.checkpoints.finish_running();
        self.checkpoints.note_end(self.state)?;
        self.closed = true;
        Ok(())
    }

    pub(crate) fn stats(&self) -> JournalStats {
        self.checkpoints.stats(self.state.lsn)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // Whoever wants to know calls `close`.
        let _ = self.close();
    }
}
