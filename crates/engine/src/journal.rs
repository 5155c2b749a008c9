//! The journal of a durable engine: its write-ahead log, checkpoints and compactions.
//!
//! 1. Every accepted write becomes a *record* and gets the next log sequence number (LSN). Records
//!    are gathered in a *group*, which survives whole or not at all.
//! 2. `commit` hands the group to the log: `sync` waits until the group is on the disk, together
//!    with the groups of other threads; `async` and `none` do not wait.
//! 3. A *checkpoint* writes a base while writes continue: an image of all rows or, with a limit to
//!    memory, a segment of the rows in memory and the tombstones of older segments. Then it
//!    publishes a manifest that names the base and the logs after it. That rename is the only
//!    commit point.
//! 4. A *compaction* publishes a segment in place of others in the same way.
//! 5. Opening reads the manifest, the base and the logs, and stops at the first group that is not
//!    whole. If anything proves that more was on the disk, the log is corrupt; otherwise it has a
//!    torn tail.
//! 6. A *shared state* is the files of one LSN, kept until they have been copied.
//!
//! The bytes are in `wal/format.rs`, `version/delete_bitmap.rs` and `version/manifest.rs`, and
//! drawn in docs/design/format.md.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use vstream_attribute::Schema;
use vstream_index::IndexRow;
use vstream_store::Syncing;

use crate::background::Background;
use crate::checkpoint::{Checkpoints, Rows, SharedState};
use crate::compaction::{Compactor, MergeBegun, Occasion};
use crate::defect::{self, Defect};
use crate::durability::{JournalStats, Journaling};
use crate::error::Error;
use crate::field_bytes;
use crate::priority::yield_to_others;
use crate::recovery::Recovered;
use crate::remote::{Mover, Placement, RemoteStats};
use crate::row::{PayloadChange, Update};
use crate::settings::DIMENSION_MAX;
use crate::tree::Tree;
use crate::version::{AdoptedSegment, Directory, Manifest, VersionSet};
use crate::wal::{Group, Log, LogWriter, State, Ticket, HEADER};

/// Merges at a time, if much waits to be merged.
const COMPACTIONS_MAX: usize = 2;
/// The [pile](crate::tree::Tree::pile) above which all of them begin at once.
const PILE_PRESSING: f64 = 2.0;

/// A group goes to the log when its records take this many bytes.
const GROUP_BYTES: usize = 1 << 20;
/// Most bytes of a record beside fields and changes: what every record has, and a vector.
const RECORD_PLAIN_MAX: usize = 64 + DIMENSION_MAX * size_of::<f32>();

/// Makes an engine durable. The one writer of the engine owns it.
pub(crate) struct Journal {
    journaling: Journaling,
    /// State after the last record, whether that record is on the disk or not.
    state: State,
    group: Group,
    log: Log,
    checkpoints: Checkpoints,
    compactor: Arc<Compactor>,
    /// Compactions on threads, at most [`COMPACTIONS_MAX`].
    compactions: Vec<Compaction>,
    /// Without threads: a merge that was written at the last checkpoint and is published at the
    /// next.
    begun: Option<MergeBegun>,
    placement: Arc<Placement>,
    /// Moves segments, if there is a remote level and the engine has threads.
    mover: Option<Mover>,
    /// Number of checkpoints when the journal last looked for a merge that pays.
    looked: u64,
    /// The last compaction made progress, so another merge may pay.
    compact_again: bool,
    /// A group went to the log since the last step, or memory is full.
    is_step_due: bool,
    closed: bool,
}

/// A compaction on its own thread.
struct Compaction {
    thread: Background<Result<bool, Error>>,
    stop: Arc<AtomicBool>,
}

/// Promises that all writes before the commit are or become durable.
pub struct Commit(Option<Ticket>);

impl Commit {
    /// Waits until all writes before the commit are on the disk, if the collection's durability is
    /// `sync`; returns at once otherwise.
    ///
    /// Errors: `Io` if they cannot be written. After a full disk the engine keeps the rows, and the
    /// next commit tries again. After any other error the engine takes no more writes and must be
    /// opened again.
    pub fn wait(self) -> Result<(), Error> {
        self.0.map_or(Ok(()), Ticket::wait)
    }

    /// Returns the commit of an engine in memory alone.
    pub(crate) fn nothing() -> Commit {
        Commit(None)
    }
}

impl Journal {
    /// Starts a journal that continues after `recovered`.
    ///
    /// First makes the recovered state durable: syncs the logs, and publishes a manifest that knows
    /// their end. If the present manifest knows that end already and no file is left over, it syncs
    /// the names of files instead: the process that renamed this manifest may have died before it
    /// synced the name. Only then removes files that no manifest names, because the manifest that
    /// was read may not have been on the disk itself.
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
        let log_bytes = recovered.logs.iter().map(|log| (log.number, log.bytes - HEADER as u64));
        let compact_again = manifest.base.segments.len() > 1;
        let checkpoints = Checkpoints::new(directory, manifest, log_bytes, begun);
        checkpoints.versions().serve(tree.clone());
        let compactor = Arc::new(Compactor::new(checkpoints.versions().clone()));
        let placement = Arc::new(Placement::new(checkpoints.versions().clone()));
        let mover = journaling.background.then(|| Mover::start(&placement)).flatten();
        Ok(Journal {
            journaling,
            state,
            group: Group::after(state),
            log: Log::start(writer, &journaling)?,
            checkpoints,
            compactor,
            compactions: Vec::new(),
            begun: None,
            placement,
            mover,
            looked: 0,
            // The engine before this one may have closed while merges were due.
            compact_again,
            is_step_due: false,
            closed: false,
        })
    }

    /// Logs an upsert that will replace the row of version `before`, if there is one.
    pub(crate) fn upsert(&mut self, row: &IndexRow<'_>, before: Option<u64>) -> Result<(), Error> {
        self.make_room(field_bytes::bytes_of(&row.fields))?;
        self.state.upsert(row.key.id, before, row.key.version);
        self.group.push_upsert(row, self.state);
        Ok(())
    }

    /// Logs an update of the row of version `before`, which was checked.
    pub(crate) fn update(
        &mut self,
        id: u64,
        version: u64,
        before: u64,
        update: &Update<'_>,
    ) -> Result<(), Error> {
        let payload = match update.payload {
            PayloadChange::Set(payload) => payload.len(),
            PayloadChange::Keep | PayloadChange::Remove => 0,
        };
        self.make_room(update.set.bytes().len() + 2 * update.unset.len() + payload)?;
        self.state.upsert(id, Some(before), version);
        if defect::active(Defect::UpdatesNotLogged) {
            return Ok(());
        }
        self.group.push_update(id, version, update, self.state);
        Ok(())
    }

    /// Publishes a schema with more attributes; later records may have values of them.
    pub(crate) fn publish_schema(&mut self, schema: &Arc<Schema>) -> Result<(), Error> {
        self.log.check()?;
        self.checkpoints.versions().publish_schema(schema)
    }

    /// Logs a delete of a row that is not there, so that it is remembered.
    pub(crate) fn remember(&mut self, id: u64, version: u64) -> Result<(), Error> {
        self.make_room(0)?;
        self.state.pass_over();
        self.group.push_delete(id, version, false, self.state);
        Ok(())
    }

    /// Logs a delete that will remove the row of version `before`.
    pub(crate) fn delete(&mut self, id: u64, version: u64, before: u64) -> Result<(), Error> {
        self.make_room(0)?;
        self.state.delete(id, before);
        let removes = !defect::active(Defect::DeletesNotLogged);
        self.group.push_delete(id, version, removes, self.state);
        Ok(())
    }

    /// Ends the group if it is long enough, or if the next record would not fit.
    ///
    /// * `bytes`: of that record, without what every record has and without a vector.
    fn make_room(&mut self, bytes: usize) -> Result<(), Error> {
        if self.group.bytes() >= GROUP_BYTES || !self.group.fits(bytes + RECORD_PLAIN_MAX) {
            self.hand_over();
            self.is_step_due = true;
        }
        self.log.check()
    }

    /// Hands the records so far to the log.
    fn hand_over(&mut self) {
        if self.group.records() > 0 {
            let group = std::mem::replace(&mut self.group, Group::after(self.state));
            self.checkpoints.note_log_bytes(group.bytes() as u64);
            self.log.push(group);
        }
    }

    /// Ends the group. A checkpoint that is due captures `rows`, the present ones.
    pub(crate) fn commit(&mut self, rows: &dyn Rows) -> Result<Commit, Error> {
        self.hand_over();
        let commit = Commit(self.log.commit(self.state.lsn)?);
        self.advance(rows);
        Ok(commit)
    }

    /// Asks for a step of checkpoint and compaction.
    pub(crate) fn want_step(&mut self) {
        self.is_step_due = true;
    }

    /// Takes a step of checkpoint and compaction, if groups went to the log without a commit.
    pub(crate) fn step(&mut self, rows: &dyn Rows) {
        if std::mem::take(&mut self.is_step_due) {
            self.hand_over();
            self.advance(rows);
        }
    }

    /// True if the log, checkpoints and compactions have threads of their own.
    pub(crate) fn is_background(&self) -> bool {
        self.journaling.background
    }

    /// Takes a step of a checkpoint or compaction, between two groups.
    fn advance(&mut self, rows: &dyn Rows) {
        if self.journaling.background {
            self.checkpoints.advance(&self.log, self.state, rows);
            self.advance_compaction();
        } else if self.checkpoints.advance_here(&self.log, self.state, rows) {
            self.compact_here();
        }
    }

    fn advance_compaction(&mut self) {
        let again = &mut self.compact_again;
        self.compactions.retain(|running| {
            let done = running.thread.poll();
            *again |= matches!(done, Some(Ok(Ok(true))));
            done.is_none()
        });
        let count = self.checkpoints.count();
        // A second thread merges small segments while a large merge runs. It begins with the first where the
        // writer soon has to wait for merges, and else with the next flush.
        let pile = self.checkpoints.versions().tree().pile();
        let most = if pile > 1.0 { COMPACTIONS_MAX } else { 1 };
        let is_due = self.compact_again || self.looked != count;
        if self.compactions.len() >= most || !is_due {
            return;
        }
        (self.looked, self.compact_again) = (count, false);
        let until = if pile > PILE_PRESSING { most } else { self.compactions.len() + 1 };
        while self.compactions.len() < until {
            match self.begin_compaction() {
                Ok(begun) => self.compactions.push(begun),
                Err(error) => return self.compactor.note_no_thread(&error),
            }
        }
    }

    fn begin_compaction(&self) -> std::io::Result<Compaction> {
        let (compactor, stop) = (self.compactor.clone(), Arc::<AtomicBool>::default());
        let stopped = stop.clone();
        let thread = Background::begin("vstream-compaction", move || {
            yield_to_others();
            let done = compactor.compact(Occasion::Flushed, &stopped);
            vstream_index::give_back_heap();
            done
        })?;
        Ok(Compaction { thread, stop })
    }

    /// True while merges run that will leave fewer segments.
    pub(crate) fn is_compacting(&self) -> bool {
        !self.compactions.is_empty()
    }

    /// Ends the merge that began at the last checkpoint, and begins another, inside this call. So
    /// writes and a checkpoint come between the two, just as they do where merges have a thread.
    fn compact_here(&mut self) {
        self.finish_compaction();
        // The compactor notes a failure.
        let begun = self.compactor.begin_merge(Occasion::Flushed, &AtomicBool::new(false));
        self.begun = begun.unwrap_or(None);
    }

    /// Ends a merge that began without threads, stops the compactions on threads, and waits for
    /// them.
    fn finish_compaction(&mut self) {
        if let Some(begun) = self.begun.take() {
            // The compactor notes a failure.
            let _ = self.compactor.end_merge(begun);
        }
        for running in &self.compactions {
            running.stop.store(true, Ordering::Relaxed);
        }
        for running in self.compactions.drain(..) {
            // A panic of that thread printed its own message; the compactor notes a failure.
            let _ = running.thread.wait();
        }
    }

    /// Merges segments until no merge pays, and leaves out segments that cannot be read. Errors:
    /// `Corrupt`, `Io`; no row is lost then.
    pub(crate) fn compact(&mut self) -> Result<(), Error> {
        self.finish_compaction();
        let compactor = &self.compactor;
        let stop = AtomicBool::new(false);
        if !self.journaling.background {
            return compact_all(compactor, &stop);
        }
        std::thread::scope(|scope| {
            let other = |_| {
                let named = std::thread::Builder::new().name("vstream-compaction".to_owned());
                // Without a thread the others do its part.
                let merge = || {
                    yield_to_others();
                    compact_all(compactor, &stop)
                };
                named.spawn_scoped(scope, merge).ok()
            };
            let others: Vec<_> = (1..COMPACTIONS_MAX).filter_map(other).collect();
            let own = compact_all(compactor, &stop);
            let ended = |one: std::thread::ScopedJoinHandle<'_, _>| match one.join() {
                Ok(done) => done,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            others.into_iter().map(ended).fold(own, Result::and)
        })
    }

    /// Moves segments to and from the remote level; returns the bytes that were copied.
    pub(crate) fn place_segments(&self) -> Result<u64, Error> {
        self.placement.place(&|| true)
    }

    /// Makes the far copies of the engine before this one its own.
    pub(crate) fn inherit_remote(&self) {
        self.placement.inherit();
    }

    pub(crate) fn remote_stats(&self) -> Option<RemoteStats> {
        self.placement.stats()
    }

    /// Returns the present state as files.
    pub(crate) fn share(&mut self, rows: &dyn Rows) -> Result<SharedState, Error> {
        self.hand_over();
        self.log.check()?;
        // A caller that shares need not commit, so a due step begins in this call too.
        self.advance(rows);
        self.checkpoints.share(&self.log, self.state, rows)
    }

    /// Forces all writes so far to the disk, whatever the durability.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        self.hand_over();
        self.log.force();
        self.log.ticket(self.state.lsn).wait()
    }

    /// Writes a base now, and drops the logs that it replaces.
    pub(crate) fn checkpoint(&mut self, rows: &dyn Rows) -> Result<(), Error> {
        self.hand_over();
        self.checkpoints.finish_running();
        self.checkpoints.here(&self.log, self.state, rows)?;
        if !self.journaling.background {
            self.compact_here();
        }
        Ok(())
    }

    /// True if every row is in a segment that the manifest names, and no log has a record.
    pub(crate) fn is_flushed(&self) -> bool {
        let base = &self.checkpoints.versions().manifest().base;
        let is_flushed = self.checkpoints.versions().tree().is_flushed();
        base.image.is_none() && base.state == self.state && is_flushed
    }

    /// Serves segments of other collections, whose ids have no living row here. See
    /// [`VersionSet::adopt`]. The journal must be flushed.
    pub(crate) fn adopt(&mut self, adopted: Vec<AdoptedSegment>) -> Result<(), Error> {
        debug_assert!(self.is_flushed(), "the logs continue from the segments");
        self.hand_over();
        self.state = self.checkpoints.versions().adopt(adopted)?;
        self.group = Group::after(self.state);
        Ok(())
    }

    /// Notes the rows that are in memory now, some of which no log has. A checkpoint, or the begin of one
    /// ([`Journal::owe`]), must follow before any other write.
    pub(crate) fn note_loaded(&mut self, live: u64, digest: u128) {
        self.hand_over();
        self.state = State { live, digest, ..self.state };
        self.group = Group::after(self.state);
    }

    /// Writes a base, if the directory outlives the process; otherwise begins it, and the next shared state
    /// waits for it.
    pub(crate) fn owe(&mut self, rows: &dyn Rows) -> Result<(), Error> {
        let is_scratch = self.versions().directory().store.syncing() == Syncing::Off;
        if !(is_scratch && self.journaling.background) {
            return self.checkpoint(rows);
        }
        self.hand_over();
        self.checkpoints.finish_running();
        self.checkpoints.owe(&self.log, self.state, rows)
    }

    /// State after the last record.
    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// Says how far the log is on the disk.
    pub(crate) fn progress(&self) -> Ticket {
        self.log.ticket(self.state.lsn)
    }

    /// Keeps the versions of the collection.
    pub(crate) fn versions(&self) -> &Arc<VersionSet> {
        self.checkpoints.versions()
    }

    /// Forces everything to the disk, and notes in the manifest the state that is on it.
    pub(crate) fn close(&mut self) -> Result<(), Error> {
        if self.closed {
            return Ok(());
        }
        self.flush()?;
        self.mover = None;
        self.finish_compaction();
        self.checkpoints.finish_running();
        self.checkpoints.settle()?;
        let versions = self.checkpoints.versions();
        versions.note_end(self.state)?;
        versions.release_logs();
        if let Some(tiers) = versions.directory().tiers() {
            // Far copies of segments that were merged since the last round. The next open removes what
            // stays, for example because the far store gives no answer.
            let _ = tiers.files.settle();
        }
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
        // A caller that needs the error calls `close`.
        let _ = self.close();
        // A log that cannot be written ends `close` before the threads. These must not outlive the
        // lock of the directory, nor keep it locked.
        self.mover = None;
        self.finish_compaction();
        self.checkpoints.finish_running();
    }
}

/// Merges segments until no merge pays, as far as no other thread merges them.
///
/// * `stop`: set by the first thread that cannot go on; the others give up then.
fn compact_all(compactor: &Compactor, stop: &AtomicBool) -> Result<(), Error> {
    let mut failed = None;
    loop {
        let unreadable = compactor.unreadable();
        match compactor.compact(Occasion::Asked, stop) {
            Ok(true) => vstream_index::give_back_heap(),
            Ok(false) => return failed.map_or(Ok(()), Err),
            // Merges the readable segments in spite of this error.
            Err(error) if compactor.unreadable() > unreadable => {
                failed.get_or_insert(error);
            }
            // The thread that stopped the others returns why.
            Err(_) if stop.swap(true, Ordering::Relaxed) => return failed.map_or(Ok(()), Err),
            Err(error) => return Err(error),
        }
    }
}
