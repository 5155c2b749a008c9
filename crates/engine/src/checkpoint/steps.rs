//! Checkpoints, which replace old logs while writes continue.
//!
//! 1. *Prepare*: make the next log, and publish a manifest that names it too.
//! 2. *Switch*, by the writer, between two groups: continue in that log and capture the rows. For
//!    an image all rows are pinned; for a segment the memtable becomes immutable.
//! 3. *Write* the captured rows, of an image usually those of some shards (`snapshot/image.rs`);
//!    compare count and digest of all rows with the journal's.
//! 4. *Publish* a manifest with that base and the logs after it, or after the oldest part of an image;
//!    these must be on the disk before.
//! 5. *Remove* the files that no manifest names any more.
//!
//! Steps 1 and 3 to 5 run on a thread (`write.rs`), so the writer pays for step 2 alone. After a
//! crash in any step, all files that the manifest names are there. The next open removes the
//! engine's other files.

use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::logs::LogSizes;
use super::share::SharedState;
use super::write::{write, Capture, Taken};
use crate::background::{Background, Panicked};
use crate::durability::{JournalStats, Journaling};
use crate::error::Error;
use crate::priority::yield_to_others;
use crate::remembered::RememberedDelete;
use crate::version::{Directory, Manifest, VersionSet};
use crate::wal::{Log, Spare, State};

/// The rows of an engine, for its checkpoints.
pub(crate) trait Rows {
    /// True if the rows in memory must be written, however short the log is.
    fn is_due(&self) -> bool;

    /// True if memory accepts no row until some rows have left it.
    fn is_at_limit(&self) -> bool;

    /// Captures the present rows for the checkpoint to write.
    fn capture(&self) -> Capture;

    /// The deletes that are remembered now; none if the collection remembers none.
    fn remembered(&self) -> Vec<RememberedDelete>;
}

/// Number of logs since the last checkpoint above which another is due, however short they are: the
/// share of this number that the checkpoint writes of all rows. Each shared state begins a log, and
/// whoever keeps their files should not have to keep ever more of them.
const LOGS_MAX: u64 = 128;
/// Time between two attempts while the engine refuses writes.
const RETRY_AT_LIMIT: Duration = Duration::from_secs(1);

/// Takes checkpoints, one at a time.
pub(crate) struct Checkpoints {
    versions: Arc<VersionSet>,
    journaling: Journaling,
    running: Option<Running>,
    /// Captured rows that an earlier checkpoint could not write; the next attempt writes them.
    left: Option<Arc<Taken>>,
    /// Logs since the base, or since its oldest part.
    logs: LogSizes,
    /// Number of the first log after the newest rows of the base.
    newest: u64,
    /// Bytes of log since the engine was opened.
    log_written: u64,
    /// Bytes of log since the newest rows of the base at the last attempt that failed.
    failed_at: u64,
    failed_when: Instant,
    /// LSN before the first record of the newest log; unknown until the writer has switched to it.
    begun: Option<u64>,
    /// Number of the newest log that the writer has switched to.
    begun_log: u64,
    count: u64,
    failure: Option<String>,
    /// Rows came that no log has, and no image of them is published yet: until one is, the files are no
    /// state.
    is_owed: bool,
}

struct Running {
    prepared: Receiver<(Spare, u64)>,
    switched: Option<Sender<Arc<Taken>>>,
    /// The captured rows that the thread writes. Also held here: rows that left memory must be
    /// written in the end, whatever happens to the thread. It takes them out once they are written: to free a
    /// memtable of 48 MiB takes 0.1 s and more, which a commit would wait for.
    taken: Arc<Held>,
    /// Number of the first log after these rows.
    log: Option<u64>,
    thread: Background<Result<(), Error>>,
}

/// Rows that a checkpoint has not written yet.
#[derive(Default)]
struct Held(Mutex<Option<Arc<Taken>>>);

impl Held {
    fn set(&self, taken: Option<Arc<Taken>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = taken;
    }

    fn take(&self) -> Option<Arc<Taken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Checkpoints {
    pub(crate) fn new(
        directory: Directory,
        manifest: Manifest,
        log_bytes: impl IntoIterator<Item = (u64, u64)>,
        is_new: Option<u64>,
    ) -> Checkpoints {
        let image = manifest.base.image.as_ref();
        let newest = image.map_or(0, |image| image.newest().number);
        let begun_log = manifest.last_log();
        Checkpoints {
            journaling: manifest.journaling,
            versions: Arc::new(VersionSet::new(directory, manifest)),
            running: None,
            left: None,
            logs: LogSizes::new(log_bytes),
            newest,
            log_written: 0,
            failed_at: 0,
            failed_when: Instant::now(),
            begun: is_new,
            begun_log,
            count: 0,
            failure: None,
            is_owed: false,
        }
    }

    pub(crate) fn note_log_bytes(&mut self, bytes: u64) {
        self.logs.grow(bytes);
        self.log_written += bytes;
    }

    /// True if a checkpoint is due: memory is full, there are many logs, or the log is longer than
    /// its limit and longer than the base image. A checkpoint that writes a part of an image is due
    /// after that part of so many logs and bytes. So images take about as many bytes as the log, and
    /// when all rows were written anew the logs are as long as the image.
    ///
    /// A failed checkpoint is tried again after some more log. While the engine refuses writes
    /// because memory is at its limit, it is tried again after a second.
    pub(crate) fn is_due(&self, rows: &dyn Rows) -> bool {
        let logs = self.logs.since(self.newest);
        let image = self.versions.image_bytes();
        let part_of = |whole: u64| match image.next < image.all {
            true => (u128::from(whole) * u128::from(image.next) / u128::from(image.all)) as u64,
            false => whole,
        };
        let since = logs.bytes - self.failed_at.min(logs.bytes);
        let limit = part_of(self.journaling.log_bytes_max.max(image.all));
        let is_retry = self.failed_at > 0
            && since < self.journaling.log_bytes_max / 16
            && !(rows.is_at_limit() && self.failed_when.elapsed() >= RETRY_AT_LIMIT);
        let are_many = logs.count > part_of(LOGS_MAX).max(1);
        since > limit || ((rows.is_due() || are_many) && !is_retry)
    }

    /// Takes the next step of a checkpoint in the background, if one is due. Never waits.
    pub(crate) fn advance(&mut self, log: &Log, state: State, rows: &dyn Rows) {
        let Some(running) = &mut self.running else {
            if self.is_due(rows) {
                let left = self.left.take();
                match Running::start(&self.versions, state, left.clone()) {
                    Ok(running) => self.running = Some(running),
                    Err(error) => self.note(Err(error), left, None),
                }
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
        if let Some(result) = self.running.as_ref().and_then(|running| running.thread.poll()) {
            let running = self.running.take().expect("a checkpoint that has ended");
            self.note_end((running.taken, running.log), result);
        }
    }

    /// Step 2.
    fn switch(&mut self, spare: (Spare, u64), log: &Log, state: State, rows: &dyn Rows) {
        let running = self.running.as_mut().expect("a checkpoint that prepared");
        let switched = running.switched.take().expect("not yet switched");
        let (spare, number) = spare;
        if log.rotate(spare).is_ok() {
            (self.begun, self.begun_log) = (Some(state.lsn), number);
            self.logs.begin(number);
            let (capture, remembered) = (rows.capture(), rows.remembered());
            let (is_whole, logged) = (false, log.ticket(state.lsn));
            let taken = Taken { capture, is_whole, remembered, state, logged, log: number };
            let taken = Arc::new(taken);
            running.taken.set(Some(taken.clone()));
            running.log = Some(number);
            // The thread waits for this message. If the thread is gone, its result says why.
            let _ = switched.send(taken);
        }
    }

    /// Waits for a checkpoint in the background, if one runs. A checkpoint before its switch gives
    /// up.
    pub(crate) fn finish_running(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        let gave_up = running.switched.take().is_some();
        let Running { prepared, taken, log, thread, .. } = running;
        drop(prepared);
        let result = thread.wait();
        if !gave_up {
            self.note_end((taken, log), result);
        }
    }

    /// Notes the end of the thread of a checkpoint that was not given up.
    fn note_end(
        &mut self,
        (taken, log): (Arc<Held>, Option<u64>),
        result: Result<Result<(), Error>, Panicked>,
    ) {
        let panicked = "the thread of the checkpoint panicked: report the defect";
        let result = result.unwrap_or_else(|Panicked| Err(Error::internal(panicked)));
        self.note(result, taken.take(), log);
    }

    /// Notes the result of a checkpoint. Rows that left memory and were not written are kept for
    /// the next attempt; rows that are still in memory are captured anew.
    ///
    /// * `log`: number of the first log after its rows, if it had any.
    fn note(&mut self, result: Result<(), Error>, taken: Option<Arc<Taken>>, log: Option<u64>) {
        self.left = None;
        match result {
            Ok(()) => {
                self.count += 1;
                self.is_owed = false;
                self.newest = log.unwrap_or(self.newest);
                self.logs.drop_before(self.versions.oldest_log());
                self.failed_at = 0;
                self.failure = None;
            }
            Err(error) => {
                self.left = taken.filter(|taken| matches!(taken.capture, Capture::Memtable(_)));
                self.failed_when = Instant::now();
                self.failed_at = self.logs.since(self.newest).bytes.max(1);
                self.failure = Some(error.to_string());
            }
        }
    }

    /// Works like [`Checkpoints::advance`] without a thread. Switches in one call and writes in the
    /// next, so that writes come between the two here too. Returns true when a checkpoint is
    /// complete.
    pub(crate) fn advance_here(&mut self, log: &Log, state: State, rows: &dyn Rows) -> bool {
        // `note` keeps a failure, and the logs stay; the writes themselves are safe.
        if let Some(left) = self.left.take() {
            let done = write(&self.versions, &left);
            let log = Some(left.log);
            self.note(done, Some(left), log);
            return self.failure.is_none();
        }
        if self.is_due(rows) {
            match self.take(log, state, rows, false) {
                Ok(taken) => self.left = Some(Arc::new(taken)),
                Err(error) => self.note(Err(error), None, None),
            }
        }
        false
    }

    /// Takes a whole checkpoint inside this call, which leaves no log with a record.
    pub(crate) fn here(&mut self, log: &Log, state: State, rows: &dyn Rows) -> Result<(), Error> {
        // The immutable memtable must become a segment before the next memtable becomes immutable.
        if let Some(left) = self.left.take() {
            self.write_here(left)?;
        }
        let taken = self.take(log, state, rows, true).inspect_err(|error| {
            self.failure = Some(error.to_string());
        })?;
        self.write_here(Arc::new(taken))
    }

    /// Begins the checkpoint of rows that no log has, and returns while it is written. The next state, or
    /// the end of the engine, waits for it. Errors: those of the next log, and of the image if it could not
    /// begin beside the caller.
    pub(crate) fn owe(&mut self, log: &Log, state: State, rows: &dyn Rows) -> Result<(), Error> {
        self.is_owed = true;
        let running = Running::start(&self.versions, state, None)?;
        let prepared = running.prepared.recv();
        self.running = Some(running);
        if let Ok(spare) = prepared {
            self.switch(spare, log, state, rows);
        }
        if self.running.as_ref().is_some_and(|running| running.log.is_some()) {
            return Ok(());
        }
        self.finish_running();
        self.here(log, state, rows)
    }

    /// Waits for the checkpoint that was owed, if one was. Errors: why it could not be written.
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        if self.is_owed {
            self.finish_running();
        }
        if !self.is_owed {
            return Ok(());
        }
        let why = self.failure.as_deref().unwrap_or("the engine gave it up");
        Err(Error::unavailable(format!("the image of rows that no log has was not written: {why}")))
    }

    fn write_here(&mut self, taken: Arc<Taken>) -> Result<(), Error> {
        let result = write(&self.versions, &taken);
        let log = Some(taken.log);
        self.note(result.clone(), Some(taken), log);
        result
    }

    /// Steps 1 and 2 inside this call.
    fn take(
        &mut self,
        log: &Log,
        state: State,
        rows: &dyn Rows,
        is_whole: bool,
    ) -> Result<Taken, Error> {
        let number = self.rotate(log, state)?;
        let (capture, remembered) = (rows.capture(), rows.remembered());
        let logged = log.ticket(state.lsn);
        Ok(Taken { capture, is_whole, remembered, state, logged, log: number })
    }

    /// Makes the next log and continues in it; returns its number.
    fn rotate(&mut self, log: &Log, state: State) -> Result<u64, Error> {
        let (spare, number) = self.versions.prepare(state)?;
        log.rotate(spare)?;
        (self.begun, self.begun_log) = (Some(state.lsn), number);
        self.logs.begin(number);
        Ok(number)
    }

    /// Returns the state after `state.lsn` as files. The log already has all records up to there.
    pub(crate) fn share(
        &mut self,
        log: &Log,
        state: State,
        rows: &dyn Rows,
    ) -> Result<SharedState, Error> {
        if self.settle().is_err() {
            self.here(log, state, rows)?;
        }
        if self.running.as_ref().is_some_and(|running| running.switched.is_some()) {
            // The log that the checkpoint prepared is the next one; wait for it, so that logs stay
            // in order.
            let running = self.running.as_mut().expect("a checkpoint");
            match running.prepared.recv() {
                Ok(spare) => self.switch(spare, log, state, rows),
                Err(_) => running.switched = None,
            }
        }
        // A checkpoint that was given up may have left a log that the manifest names and nobody writes.
        let is_newest = self.begun_log == self.versions.manifest().last_log();
        if self.begun != Some(state.lsn) || !is_newest {
            self.rotate(log, state)?;
        }
        log.force();
        SharedState::of(&self.versions, state, log.ticket(state.lsn))
    }

    /// Returns the version set, which keeps the files.
    pub(crate) fn versions(&self) -> &Arc<VersionSet> {
        &self.versions
    }

    /// Returns the number of checkpoints so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns all counts but those of compactions.
    pub(crate) fn stats(&self, lsn: u64) -> JournalStats {
        JournalStats {
            lsn,
            log_bytes: self.logs.bytes(),
            base_parts: self.versions.parts(),
            log_bytes_written: self.log_written,
            base_bytes_written: self.versions.written(),
            checkpoints: self.count,
            checkpoint_failure: self.failure.clone(),
            files_stuck: self.versions.stuck(),
            ..JournalStats::default()
        }
    }
}

impl Running {
    /// Starts the thread of a checkpoint.
    ///
    /// * `left`: captured rows that an earlier checkpoint could not write. If given, the thread
    ///   writes them and captures nothing new.
    ///
    /// Errors: `Unavailable` if the system has no thread left.
    fn start(
        versions: &Arc<VersionSet>,
        state: State,
        left: Option<Arc<Taken>>,
    ) -> Result<Running, Error> {
        let (give_spare, prepared) = mpsc::channel();
        let (switched, take) = mpsc::channel::<Arc<Taken>>();
        let switched = left.is_none().then_some(switched);
        let (versions, log) = (versions.clone(), left.as_ref().map(|left| left.log));
        let taken = Arc::new(Held::default());
        taken.set(left.clone());
        let held = taken.clone();
        let work = move || {
            let gone = || Error::internal("the checkpoint was given up");
            let taken = match left {
                Some(left) => left,
                None => {
                    give_spare.send(versions.prepare(state)?).map_err(|_| gone())?;
                    take.recv().map_err(|_| gone())?
                }
            };
            // A writer may wait for a memtable to leave memory; for an image only whoever shares a state
            // just after rows were taken.
            if matches!(taken.capture, Capture::Image(_)) {
                yield_to_others();
            }
            let done = write(&versions, &taken);
            if done.is_ok() {
                held.set(None);
            }
            drop(taken);
            vstream_index::give_back_heap();
            done
        };
        let thread = Background::begin("vstream-checkpoint", work).map_err(|error| {
            Error::unavailable(format!("there is no thread for the checkpoint: {error}"))
        })?;
        Ok(Running { prepared, switched, taken, log, thread })
    }
}
