//! Checkpoints: what makes old logs superfluous, written beside the writer.
//!
//! 1. *Prepare*: make the next log and publish a manifest that names it too.
//! 2. *Switch*, by the writer, between two groups: go on in that log and capture the rows: all of
//!    them are pinned for an image, or those in memory are frozen for a segment.
//! 3. *Write* them; compare what was written with the journal's count.
//! 4. *Publish* a manifest with that base and the logs after it.
//! 5. *Remove* what no manifest names any more.
//!
//! Steps 1 and 3 to 5 run on a thread (`base.rs`), so the writer pays for step 2 alone. A crash
//! after any step leaves a manifest whose files are all there; what it does not name is swept at
//! the next open.

use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::sync::Arc;
use std::thread::JoinHandle;

use super::base::{Capture, Keeper, Taken};
use super::files::Directory;
use super::flusher::Log;
use super::manifest::Manifest;
use super::settings::{JournalStats, Journaling};
use super::share::SharedState;
use super::state::State;
use super::writer::Spare;
use crate::error::Error;

/// What a checkpoint asks of the rows.
pub(crate) trait Rows {
    /// True if the rows in memory are to be written, however long the log is.
    fn is_due(&self) -> bool;

    /// What the checkpoint writes, of this moment.
    fn capture(&self) -> Capture;
}

/// Logs after the base at which a base is written, however short they are: shared states begin one
/// each, and whoever keeps their files should not have to keep ever more of them.
const LOGS_MAX: u64 = 128;

/// Logs, or parts of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Logs {
    pub(super) count: u64,
    pub(super) bytes: u64,
}

/// Takes checkpoints, one at a time.
pub(super) struct Checkpoints {
    keeper: Arc<Keeper>,
    journaling: Journaling,
    running: Option<Running>,
    /// What could not be written, to be tried again.
    left: Option<Taken>,
    /// What was logged since the base.
    logs: Logs,
    /// Bytes of log ever.
    log_written: u64,
    /// Bytes of log at the last attempt that failed.
    failed_at: u64,
    /// LSN with which the newest log begins; unknown until it was switched to.
    begun: Option<u64>,
    count: u64,
    failure: Option<String>,
}

struct Running {
    prepared: Receiver<(Spare, u64)>,
    switched: Option<Sender<Taken>>,
    thread: JoinHandle<Done>,
}

/// What became of a checkpoint: what it was to write comes back if it did not.
struct Done {
    result: Result<(), Error>,
    left: Option<Taken>,
    /// What it made superfluous.
    covers: Logs,
}

impl Done {
    fn failed(error: Error) -> Done {
        Done { result: Err(error), left: None, covers: Logs::default() }
    }
}

impl Checkpoints {
    pub(super) fn new(
        directory: Directory,
        manifest: Manifest,
        log_bytes: u64,
        is_new: Option<u64>,
    ) -> Checkpoints {
        let logs = Logs { count: manifest.logs.len() as u64, bytes: log_bytes };
        Checkpoints {
            journaling: manifest.journaling,
            keeper: Arc::new(Keeper::new(directory, manifest)),
            running: None,
            left: None,
            logs,
            log_written: 0,
            failed_at: 0,
            begun: is_new,
            count: 0,
            failure: None,
        }
    }

    pub(super) fn note_log_bytes(&mut self, bytes: u64) {
        self.logs.bytes += bytes;
        self.log_written += bytes;
    }

    /// True if memory is full, or the log longer than its limit and than the base: so that what
    /// checkpoints write is at most about twice what the log is. Also if there are many logs.
    pub(super) fn is_due(&self, rows: &dyn Rows) -> bool {
        let since = self.logs.bytes - self.failed_at.min(self.logs.bytes);
        let limit = self.journaling.log_bytes_max.max(self.keeper.base_bytes());
        let is_retry = self.failed_at > 0 && since < self.journaling.log_bytes_max / 16;
        since > limit || ((rows.is_due() || self.logs.count > LOGS_MAX) && !is_retry)
    }

    /// Takes the next step of a checkpoint in the background, if one is due. Never waits.
    pub(super) fn advance(&mut self, log: &Log, state: State, rows: &dyn Rows) {
        let Some(running) = &mut self.running else {
            if self.is_due(rows) {
                self.running = Some(match self.left.take() {
                    Some(left) => Running::again(self.keeper.clone(), left),
                    None => Running::start(self.keeper.clone(), state),
                });
            }
            return;
        };
        if running.switched.is_some() {
            match running.prepared.try_recv() {
                Ok(spare) => self.switch(spare, log, state, rows),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => running.switched = None,
            }
        }
        if self.running.as_ref().is_some_and(|running| running.thread.is_finished()) {
            self.finish_running();
        }
    }

    /// Step 2.
    fn switch(&mut self, spare: (Spare, u64), log: &Log, state: State, rows: &dyn Rows) {
        let running = self.running.as_mut().expect("a checkpoint that prepared");
        let switched = running.switched.take().expect("not yet switched");
        let (spare, number) = spare;
        if log.rotate(spare).is_ok() {
            self.begun = Some(state.lsn);
            let (capture, covers) = (rows.capture(), self.logs);
            self.logs.count += 1;
            // The thread waits for this; if it is gone, its result says why.
            let _ = switched.send(Taken { capture, state, log: number, covers });
        }
    }

    /// Waits for a checkpoint in the background, if one runs; without its switch it gives up.
    pub(super) fn finish_running(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        let gave_up = running.switched.take().is_some();
        drop(running.prepared);
        let panicked = "the thread of the checkpoint panicked: report the defect";
        let done = running.thread.join();
        let done = done.unwrap_or_else(|_| Done::failed(Error::internal(panicked)));
        if !gave_up {
            self.note(done);
        }
    }

    fn note(&mut self, done: Done) {
        self.left = done.left;
        match done.result {
            Ok(()) => {
                self.count += 1;
                self.logs.bytes -= done.covers.bytes;
                self.logs.count -= done.covers.count;
                self.failed_at = 0;
                self.failure = None;
            }
            Err(error) => {
                self.failed_at = self.logs.bytes;
                self.failure = Some(error.to_string());
            }
        }
    }

    /// As [`Checkpoints::advance`] without a thread: switches in one call and writes in the next, so
    /// that writes come between the two here too.
    pub(super) fn advance_here(&mut self, log: &Log, state: State, rows: &dyn Rows) -> bool {
        // A failure is noted and leaves the logs; the writes themselves are safe.
        if let Some(left) = self.left.take() {
            let done = write(&self.keeper, left);
            self.note(done);
            return self.failure.is_none();
        }
        if self.is_due(rows) {
            match self.take(log, state, rows) {
                Ok(taken) => self.left = Some(taken),
                Err(error) => self.note(Done::failed(error)),
            }
        }
        false
    }

    /// A checkpoint inside this call.
    pub(super) fn here(&mut self, log: &Log, state: State, rows: &dyn Rows) -> Result<(), Error> {
        // What was frozen must become a segment before anything else is frozen.
        if let Some(left) = self.left.take() {
            self.write_here(left)?;
        }
        let taken = self.take(log, state, rows).inspect_err(|error| {
            self.failure = Some(error.to_string());
        })?;
        self.write_here(taken)
    }

    fn write_here(&mut self, taken: Taken) -> Result<(), Error> {
        let done = write(&self.keeper, taken);
        let result = done.result.clone();
        self.note(done);
        result
    }

    /// Steps 1 and 2 inside this call.
    fn take(&mut self, log: &Log, state: State, rows: &dyn Rows) -> Result<Taken, Error> {
        let covers = self.logs;
        let number = self.rotate(log, state)?;
        Ok(Taken { capture: rows.capture(), state, log: number, covers })
    }

    /// Makes the next log and goes on in it; returns its number.
    fn rotate(&mut self, log: &Log, state: State) -> Result<u64, Error> {
        let (spare, number) = self.keeper.prepare(state)?;
        log.rotate(spare)?;
        self.begun = Some(state.lsn);
        self.logs.count += 1;
        Ok(number)
    }

    /// The state after `state.lsn`, whose records were all given to the log, as files.
    pub(super) fn share(
        &mut self,
        log: &Log,
        state: State,
        rows: &dyn Rows,
    ) -> Result<SharedState, Error> {
        if self.running.as_ref().is_some_and(|running| running.switched.is_some()) {
            // Its log is the next one: it is waited for, so that logs stay in order.
            let running = self.running.as_mut().expect("a checkpoint");
            match running.prepared.recv() {
                Ok(spare) => self.switch(spare, log, state, rows),
                Err(_) => running.switched = None,
            }
        }
        if self.begun != Some(state.lsn) {
            self.rotate(log, state)?;
        }
        log.force();
        SharedState::of(&self.keeper, state, log.ticket(state.lsn))
    }

    /// Who keeps the files.
    pub(super) fn keeper(&self) -> &Arc<Keeper> {
        &self.keeper
    }

    /// Checkpoints so far.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn stats(&self, lsn: u64) -> JournalStats {
        let merged = self.keeper.merged();
        JournalStats {
            lsn,
            log_bytes: self.logs.bytes,
            log_bytes_written: self.log_written,
            base_bytes_written: self.keeper.written(),
            checkpoints: self.count,
            compactions: merged.count,
            compaction_bytes_written: merged.bytes,
            segments_dropped: merged.dropped,
            compaction_failure: merged.failure,
            checkpoint_failure: self.failure.clone(),
        }
    }
}

impl Running {
    fn start(keeper: Arc<Keeper>, state: State) -> Running {
        let (give_spare, prepared) = mpsc::channel();
        let (switched, take) = mpsc::channel();
        let work = move || {
            let gone = || Error::internal("the checkpoint was given up");
            let taken = (|| {
                give_spare.send(keeper.prepare(state)?).map_err(|_| gone())?;
                take.recv().map_err(|_| gone())
            })();
            match taken {
                Ok(taken) => write(&keeper, taken),
                Err(error) => Done::failed(error),
            }
        };
        Running { prepared, switched: Some(switched), thread: spawn(work) }
    }

    /// Writes what an earlier checkpoint could not.
    fn again(keeper: Arc<Keeper>, left: Taken) -> Running {
        let (_, prepared) = mpsc::channel();
        Running { prepared, switched: None, thread: spawn(move || write(&keeper, left)) }
    }
}

fn spawn(work: impl FnOnce() -> Done + Send + 'static) -> JoinHandle<Done> {
    let thread = std::thread::Builder::new().name("vstream-checkpoint".to_owned());
    thread.spawn(work).expect("a thread for the checkpoint")
}

/// Steps 3 to 5. What was captured by freezing must be written some time: it comes back.
fn write(keeper: &Keeper, taken: Taken) -> Done {
    let result = keeper.write(&taken);
    let is_frozen = matches!(taken.capture, Capture::Frozen(_));
    let covers = taken.covers;
    let left = (result.is_err() && is_frozen).then_some(taken);
    Done { result, left, covers }
}
