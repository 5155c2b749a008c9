//! Base images, written beside the writer.
//!
//! 1. *Prepare*: make the next log and publish a manifest that names it too.
//! 2. *Switch*, by the writer, between two groups: go on in that log and pin the rows.
//! 3. *Write* the pinned rows as a base image; compare its digest with the journal's.
//! 4. *Publish* a manifest with that image and the logs after it.
//! 5. *Remove* the older image and logs.
//!
//! Steps 1 and 3 to 5 run on a thread, so the writer pays for step 2 alone. A crash after any step
//! leaves a manifest whose files are all there; what it does not name is swept at the next open.

use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use vstream_store::Store;

use super::files::{base_prefix, log_name, Directory};
use super::flusher::Log;
use super::format::LogIdentity;
use super::manifest::{Base, Manifest};
use super::settings::{JournalStats, Journaling};
use super::state::State;
use super::writer::Spare;
use crate::defect::{self, Defect};
use crate::error::Error;
use crate::snapshot::PinnedSnapshot;

/// The rows of the moment of the switch.
pub(crate) type Image = PinnedSnapshot;

/// Takes checkpoints, one at a time.
pub(super) struct Checkpoints {
    shared: Arc<Shared>,
    running: Option<Running>,
    /// Bytes of log since the base image.
    log_bytes: u64,
    /// Bytes of log at the last attempt that failed.
    failed_at: u64,
    count: u64,
    failure: Option<String>,
}

/// What the writer's side and the checkpoint's thread share.
struct Shared {
    directory: Directory,
    manifest: Mutex<Manifest>,
    /// Length of the base image.
    base_bytes: Mutex<u64>,
}

struct Running {
    prepared: Receiver<Spare>,
    switched: Option<Sender<(Image, State)>>,
    thread: JoinHandle<Result<(), Error>>,
    /// Bytes of log when it switched.
    covers: u64,
}

impl Checkpoints {
    pub(super) fn new(directory: Directory, manifest: Manifest, log_bytes: u64) -> Checkpoints {
        let prefix = manifest.base.map(|base| base_prefix(base.number));
        let listed = prefix.and_then(|prefix| directory.store.list(&prefix).ok());
        let base_bytes = listed.unwrap_or_default().iter().map(|entry| entry.bytes).sum();
        Checkpoints {
            shared: Arc::new(Shared {
                directory,
                manifest: Mutex::new(manifest),
                base_bytes: Mutex::new(base_bytes),
            }),
            running: None,
            log_bytes,
            failed_at: 0,
            count: 0,
            failure: None,
        }
    }

    pub(super) fn note_log_bytes(&mut self, bytes: u64) {
        self.log_bytes += bytes;
    }

    /// True if the log is longer than its limit and than the base image: so that what checkpoints
    /// write is at most about twice what the log is.
    pub(super) fn is_due(&self, journaling: &Journaling) -> bool {
        let limit = journaling.log_bytes_max.max(*lock(&self.shared.base_bytes));
        self.log_bytes - self.failed_at.min(self.log_bytes) > limit
    }

    /// Takes the next step of a checkpoint in the background, if one is due. Never waits.
    pub(super) fn advance(&mut self, log: &Log, state: State, pin: &dyn Fn() -> Image) {
        let Some(running) = &mut self.running else {
            let journaling = lock(&self.shared.manifest).journaling;
            if self.is_due(&journaling) {
                self.running = Some(Running::start(self.shared.clone(), state));
            }
            return;
        };
        if running.switched.is_some() {
            match running.prepared.try_recv() {
                Ok(spare) => {
                    let switched = running.switched.take().expect("not yet switched");
                    running.covers = self.log_bytes;
                    if log.rotate(spare).is_ok() {
                        // The thread waits for this; if it is gone, its result says why.
                        let _ = switched.send((pin(), state));
                    }
                }
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => running.switched = None,
            }
        }
        if self.running.as_ref().is_some_and(|running| running.thread.is_finished()) {
            self.finish_running();
        }
    }

    /// Waits for a checkpoint in the background, if one runs; without its switch it gives up.
    pub(super) fn finish_running(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        let gave_up = running.switched.take().is_some();
        drop(running.prepared);
        let done = running.thread.join().unwrap_or_else(|_| {
            Err(Error::internal("the thread of the checkpoint panicked: report the defect"))
        });
        if !gave_up {
            self.note(done, running.covers);
        }
    }

    fn note(&mut self, done: Result<(), Error>, covers: u64) {
        match done {
            Ok(()) => {
                self.count += 1;
                self.log_bytes -= covers;
                self.failed_at = 0;
                self.failure = None;
            }
            Err(error) => {
                self.failed_at = self.log_bytes;
                self.failure = Some(error.to_string());
            }
        }
    }

    /// A checkpoint inside this call, whose failure is noted.
    pub(super) fn run_here(&mut self, log: &Log, state: State, pin: &dyn Fn() -> Image) {
        // `here` has noted it.
        let _ = self.here(log, state, pin);
    }

    /// A checkpoint inside this call.
    pub(super) fn here(
        &mut self,
        log: &Log,
        state: State,
        pin: &dyn Fn() -> Image,
    ) -> Result<(), Error> {
        let covers = self.log_bytes;
        let done = self.shared.prepare(state).and_then(|spare| {
            log.rotate(spare)?;
            self.shared.write(&pin(), state)
        });
        self.note(done.clone(), covers);
        done
    }

    /// Notes in the manifest that everything up to `state` is on the disk.
    pub(super) fn note_end(&mut self, state: State) -> Result<(), Error> {
        let mut manifest = lock(&self.shared.manifest);
        if manifest.known == state {
            return Ok(());
        }
        let mut next = manifest.clone();
        next.known = state;
        next.publish(&self.shared.directory.store)?;
        *manifest = next;
        Ok(())
    }

    pub(super) fn stats(&self, lsn: u64) -> JournalStats {
        JournalStats {
            lsn,
            log_bytes: self.log_bytes,
            checkpoints: self.count,
            checkpoint_failure: self.failure.clone(),
        }
    }
}

impl Running {
    fn start(shared: Arc<Shared>, state: State) -> Running {
        let (give_spare, prepared) = mpsc::channel();
        let (switched, take_image) = mpsc::channel();
        let thread = std::thread::Builder::new().name("vstream-checkpoint".to_owned());
        let work = move || {
            let spare = shared.prepare(state)?;
            let gone = || Error::internal("the checkpoint was given up");
            give_spare.send(spare).map_err(|_| gone())?;
            let (image, state) = take_image.recv().map_err(|_| gone())?;
            shared.write(&image, state)
        };
        let thread = thread.spawn(work).expect("a thread for the checkpoint");
        Running { prepared, switched: Some(switched), thread, covers: 0 }
    }
}

impl Shared {
    /// Step 1. `state` is at or before that of the switch.
    fn prepare(&self, state: State) -> Result<Spare, Error> {
        let mut manifest = lock(&self.manifest);
        let number = manifest.last_log() + 1;
        let log = LogIdentity { collection: manifest.collection, number };
        let spare = Spare::create(&self.directory.store, log, state.lsn)?;
        let mut next = manifest.clone();
        next.logs.push(number);
        next.publish(&self.directory.store)?;
        *manifest = next;
        Ok(spare)
    }

    /// Steps 3 to 5.
    fn write(&self, image: &Image, state: State) -> Result<(), Error> {
        let store = &self.directory.store;
        // The switch went to the newest log: only the writer makes another.
        let (number, old) = {
            let manifest = lock(&self.manifest);
            (manifest.last_log(), manifest.clone())
        };
        let prefix = base_prefix(number);
        for left in store.list(&prefix)? {
            store.delete(&left.name)?;
        }
        if defect::active(Defect::LogsRemovedEarly) {
            self.remove(&old, number)?;
        }
        if defect::active(Defect::ManifestBeforeBase) {
            self.publish(Base { number, state, checksum: 0 })?;
        }
        let written = image.write_in(store, &prefix);
        if written.is_err() {
            // The disk may be full: what was written so far must not keep it so.
            for left in store.list(&prefix)? {
                store.delete(&left.name)?;
            }
        }
        let summary = written?;
        if (summary.rows, summary.digest) != (state.live, state.digest) {
            return Err(Error::internal(format!(
                "the rows of write {} are not those that were logged: report the defect",
                state.lsn
            )));
        }
        *lock(&self.base_bytes) = summary.files.iter().map(|file| file.bytes).sum();
        self.publish(Base { number, state, checksum: summary.checksum() })?;
        self.remove(&old, number)
    }

    /// Step 4.
    fn publish(&self, base: Base) -> Result<(), Error> {
        let mut manifest = lock(&self.manifest);
        let mut next = manifest.clone();
        next.logs.retain(|&log| log >= base.number);
        next.base = Some(base);
        if next.known.lsn < base.state.lsn {
            next.known = base.state;
        }
        next.publish(&self.directory.store)?;
        *manifest = next;
        Ok(())
    }

    /// Step 5: what `old` named and nothing names any more.
    fn remove(&self, old: &Manifest, number: u64) -> Result<(), Error> {
        let store = &self.directory.store;
        for &log in old.logs.iter().filter(|&&log| log < number) {
            store.delete(&log_name(log))?;
        }
        if let Some(base) = old.base {
            for entry in store.list(&base_prefix(base.number))? {
                store.delete(&entry.name)?;
            }
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
