//! The write-ahead log of a durable engine, and the files that make its state.
//!
//! 1. Every accepted write becomes a *record* and gets the next log sequence number (LSN). Records
//!    gather in a *group*, which is all or nothing.
//! 2. `commit` hands the group to the log: `sync` waits until it is on the disk, together with the
//!    groups of other threads; `async` and `none` do not wait.
//! 3. A *checkpoint* writes a base beside the writer: an image of all rows or, with a limit to
//!    memory, a segment of those in memory and the tombstones of older segments. Then it publishes a
//!    manifest that names it and the logs after it. That rename is the only commit point.
//! 4. A *compaction* publishes a segment in place of others in the same way.
//! 5. Opening reads the manifest, the base and the logs, and stops at the first group that is not
//!    whole. If anything proves that more was on the disk, that is corruption, else a torn tail.
//! 6. A *shared state* is the files of a moment, kept until their copies are made.
//!
//! The bytes are in `format.rs`, `entry.rs` and `manifest.rs`, and drawn in docs/design/format.md.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;

use vstream_index::{RowKey, VectorRef};

use crate::checkpoint::{Checkpoints, Rows, SharedState};
use crate::compaction::{Compactor, MergeBegun};
use crate::defect::{self, Defect};
use crate::durability::{JournalStats, Journaling};
use crate::error::Error;
use crate::priority::yield_to_others;
use crate::recovery::Recovered;
use crate::tree::Tree;
use crate::version::{Directory, Manifest};
use crate::wal::{Group, Log, LogWriter, State, Ticket, HEADER};

/// Merges at a time, and how many segments there are before a second one begins.
const COMPACTIONS_MAX: usize = 2;
const SEGMENTS_MANY: usize = 32;

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
    compactor: Arc<Compactor>,
    /// Beside the writer, at most [`COMPACTIONS_MAX`].
    compactions: Vec<Compaction>,
    /// Without threads: a merge that was written at the last checkpoint and ends at the next.
    begun: Option<MergeBegun>,
    /// Checkpoints after which it was asked whether a compaction pays.
    looked: u64,
    /// A merge left something to be merged.
    compact_again: bool,
    /// A group was handed over since the last step, or memory is full.
    is_step_due: bool,
    closed: bool,
}

/// A compaction beside the writer.
struct Compaction {
    thread: JoinHandle<Result<bool, Error>>,
    stop: Arc<AtomicBool>,
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
    /// knows their end, or the names of files are, as the manifest that was read may have got its
    /// name from a process that did not live to sync it. Only then is removed what no manifest names: the one that was read may not
    /// have been on the disk itself.
    pub(crate) fn start(
        directory: Directory,
        mut manifest: Manifest,
        recovered: Recovered,
        tree: &Arc<Tree>,
    ) -> Result<Journal, Error> {
        let journaling = manifest.journaling;
        let state = recovered.state;
        let (known, store) = (manifest.known.lsn, &directory.store);
        let writer =
            LogWriter::reopen(store, manifest.collection, known, state.lsn, &recovered.logs)?;
        let is_sure = manifest.known == recovered.state;
        if !is_sure || !directory.unnamed(Some(&manifest))?.is_empty() {
            manifest.known = recovered.state;
            manifest.publish(&directory.store)?;
        } else {
            directory.store.sync_names()?;
        }
        directory.sweep(Some(&manifest))?;
        let is_empty = recovered.logs.last().is_some_and(|log| log.bytes == HEADER as u64);
        let begun = is_empty.then_some(state.lsn);
        let checkpoints = Checkpoints::new(directory, manifest, recovered.log_bytes, begun);
        checkpoints.versions().serve(tree.clone());
        let compactor = Arc::new(Compactor::new(checkpoints.versions().clone()));
        Ok(Journal {
            journaling,
            state,
            group: Group::after(state),
            log: Log::start(writer, &journaling)?,
            checkpoints,
            compactor,
            compactions: Vec::new(),
            begun: None,
            looked: 0,
            compact_again: false,
            is_step_due: false,
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
            self.is_step_due = true;
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

    /// Ends the group. `rows` are those of this moment, if a checkpoint wants them.
    pub(crate) fn commit(&mut self, rows: &dyn Rows) -> Result<Commit, Error> {
        self.hand_over();
        let commit = Commit(self.log.commit(self.state.lsn)?);
        self.advance(rows);
        Ok(commit)
    }

    /// Says that a step of what is done beside the writer is worth taking.
    pub(crate) fn want_step(&mut self) {
        self.is_step_due = true;
    }

    /// Takes a step of what is done beside the writer, if groups were handed over without a commit.
    pub(crate) fn step(&mut self, rows: &dyn Rows) {
        if std::mem::take(&mut self.is_step_due) {
            self.hand_over();
            self.advance(rows);
        }
    }

    /// True if there are threads beside the writer.
    pub(crate) fn is_background(&self) -> bool {
        self.journaling.background
    }

    /// A step of a checkpoint or compaction, between two groups.
    fn advance(&mut self, rows: &dyn Rows) {
        if self.journaling.background {
            self.checkpoints.advance(&self.log, self.state, rows);
            self.advance_compaction();
        } else if self.checkpoints.advance_here(&self.log, self.state, rows) {
            self.compact_here();
        }
    }

    fn advance_compaction(&mut self) {
        let (done, running): (Vec<_>, Vec<_>) =
            self.compactions.drain(..).partition(|running| running.thread.is_finished());
        self.compactions = running;
        for done in done {
            self.compact_again |= matches!(done.thread.join(), Ok(Ok(true)));
        }
        let count = self.checkpoints.count();
        // Small segments do not wait until a large merge has ended.
        let most = if self.checkpoints.versions().segments() > SEGMENTS_MANY {
            COMPACTIONS_MAX
        } else {
            1
        };
        if self.compactions.len() >= most || !(self.compact_again || self.looked != count) {
            return;
        }
        (self.looked, self.compact_again) = (count, false);
        let (compactor, stop) = (self.compactor.clone(), Arc::<AtomicBool>::default());
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("vstream-compaction".to_owned());
        let thread = thread.spawn(move || {
            yield_to_others();
            compactor.compact(&stopped)
        });
        match thread {
            Ok(thread) => self.compactions.push(Compaction { thread, stop }),
            Err(error) => self.compactor.note_no_thread(&error),
        }
    }

    /// True if merges are under way that will leave fewer segments.
    pub(crate) fn is_compacting(&self) -> bool {
        !self.compactions.is_empty()
    }

    /// Inside this call: ends the merge of the last checkpoint, and begins another. So writes and a
    /// checkpoint come between the two, as they do where merges have a thread.
    fn compact_here(&mut self) {
        self.finish_compaction();
        // A failure is noted by the compactor.
        let begun = self.compactor.begin_merge(&AtomicBool::new(false));
        self.begun = begun.unwrap_or(None);
    }

    /// Ends a compaction that runs, whether it is done or not.
    fn finish_compaction(&mut self) {
        if let Some(begun) = self.begun.take() {
            // A failure is noted by the compactor.
            let _ = self.compactor.end_merge(begun);
        }
        for running in &self.compactions {
            running.stop.store(true, Ordering::Relaxed);
        }
        for running in self.compactions.drain(..) {
            // A panic there was reported by its own message, a failure is noted.
            let _ = running.thread.join();
        }
    }

    /// Merges segments until that does not pay any more, without those that cannot be read.
    /// Errors: `Corrupt`, `Io`; nothing is lost then.
    pub(crate) fn compact(&mut self) -> Result<(), Error> {
        self.finish_compaction();
        let never = AtomicBool::new(false);
        let compactor = &self.compactor;
        let mut failed = None;
        loop {
            let unreadable = compactor.unreadable();
            match compactor.compact(&never) {
                Ok(true) => {}
                Ok(false) => return failed.map_or(Ok(()), Err),
                // The others are merged all the same.
                Err(error) if compactor.unreadable() > unreadable => {
                    failed.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The state of this moment as files.
    pub(crate) fn share(&mut self, rows: &dyn Rows) -> Result<SharedState, Error> {
        self.hand_over();
        self.log.check()?;
        // Whoever shares need not commit: what is due is begun here too.
        self.advance(rows);
        self.checkpoints.share(&self.log, self.state, rows)
    }

    /// Forces everything that was written to the disk, whatever the durability.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        self.hand_over();
        self.log.force();
        self.log.ticket(self.state.lsn).wait()
    }

    /// Writes a base now and drops the logs that it covers.
    pub(crate) fn checkpoint(&mut self, rows: &dyn Rows) -> Result<(), Error> {
        self.hand_over();
        self.checkpoints.finish_running();
        self.checkpoints.here(&self.log, self.state, rows)?;
        if !self.journaling.background {
            self.compact_here();
        }
        Ok(())
    }

    /// Forces everything to the disk and notes in the manifest how much that is.
    pub(crate) fn close(&mut self) -> Result<(), Error> {
        if self.closed {
            return Ok(());
        }
        self.flush()?;
        self.finish_compaction();
        self.checkpoints.finish_running();
        self.checkpoints.versions().note_end(self.state)?;
        self.closed = true;
        Ok(())
    }

    pub(crate) fn stats(&self) -> JournalStats {
        let merged = self.compactor.merged();
        JournalStats {
            compactions: merged.count,
            compaction_bytes_written: merged.bytes,
            segments_dropped: merged.dropped,
            compaction_failure: merged.failure,
            ..self.checkpoints.stats(self.state.lsn)
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // Whoever wants to know calls `close`.
        let _ = self.close();
    }
}
