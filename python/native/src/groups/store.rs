//! The store behind a collection of groups: one writer, readers, and threads beside them.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use vstream_engine::{Durability, Settings};
use vstream_group::{Error, GroupReader, GroupSettings, GroupStore};

use crate::failure::Failure;
use crate::ids::IdForm;

/// How far the clock of files may be behind that of versions.
const FILE_CLOCK: u64 = 1_000_000_000;

/// A store that may be written, and the next version.
pub(super) struct Writer {
    store: GroupStore,
    version: u64,
    /// A merge or commit beside the calls failed; the next write says so.
    failed: Option<Error>,
}

impl Writer {
    /// The store.
    pub(super) fn store(&mut self) -> &mut GroupStore {
        &mut self.store
    }

    /// The version that a caller gave; else one above all before it: nanoseconds since 1970, or one more than the last.
    pub(super) fn version(&mut self, given: Option<u64>) -> u64 {
        let version = given.unwrap_or_else(|| now().max(self.version.saturating_add(1)));
        self.version = self.version.max(version);
        version
    }
}

/// What a collection of groups and its groups share.
pub(super) struct Shared {
    pub(super) settings: GroupSettings,
    /// The same settings as the checks of rows take them.
    pub(super) form: Settings,
    pub(super) ids: IdForm,
    pub(super) reader: GroupReader,
    durability: Durability,
    /// None once it is closed.
    writer: Mutex<Option<Writer>>,
    is_closed: AtomicBool,
    merges: Arc<Signal>,
    /// Of an asynchronous collection. A merge takes minutes, and a commit does not wait for it.
    commits: Option<Arc<Signal>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Tells a thread that there may be work, or that it is to end.
#[derive(Default)]
struct Signal {
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Signal {
    fn work(&self) {
        self.lock().0 = true;
        self.changed.notify_one();
    }

    fn end(&self) {
        self.lock().1 = true;
        self.changed.notify_one();
    }

    /// Waits for work, and then for a pause in which more of it may come. False at the end.
    fn wait(&self, pause: Option<Duration>) -> bool {
        let state = self.lock();
        let waited = self.changed.wait_while(state, |(work, end)| !*work && !*end);
        let mut state = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(pause) = pause {
            let waited = self.changed.wait_timeout_while(state, pause, |(_, end)| !*end);
            (state, _) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        state.0 = false;
        !state.1
    }

    fn lock(&self) -> MutexGuard<'_, (bool, bool)> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Shared {
    /// Takes over a store and begins its threads.
    ///
    /// * `directory`: where its files are, whose times say which versions are taken.
    pub(super) fn start(
        store: GroupStore,
        directory: Option<&Path>,
        durability: Durability,
    ) -> Result<Arc<Shared>, Failure> {
        let settings = store.settings().clone();
        let form = Settings::new(settings.dimension, settings.metric, settings.element);
        let ids = IdForm { kind: settings.schema.id, hash: settings.name_hash() };
        let (reader, merges) = (store.reader(), Arc::new(Signal::default()));
        let interval = match durability {
            Durability::Async { interval } => Some(interval),
            Durability::Sync | Durability::None => None,
        };
        let commits = interval.map(|_| Arc::new(Signal::default()));
        let version = directory.map_or(0, newest_time).saturating_add(FILE_CLOCK);
        let writer = Mutex::new(Some(Writer { store, version, failed: None }));
        let shared = Arc::new(Shared {
            settings,
            form,
            ids,
            reader,
            durability,
            writer,
            is_closed: AtomicBool::new(false),
            merges: merges.clone(),
            commits: commits.clone(),
            threads: Mutex::new(Vec::new()),
        });
        shared.begin(merges, interval, Shared::merge)?;
        if let Some(commits) = commits {
            shared.begin(commits, interval, Shared::commit_behind)?;
        }
        shared.merges.work();
        Ok(shared)
    }

    /// Begins a thread, which ends with the collection.
    ///
    /// * `pause`: from when there is work until it is done.
    fn begin(
        self: &Arc<Shared>,
        signal: Arc<Signal>,
        pause: Option<Duration>,
        work: fn(&Shared) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let weak = Arc::downgrade(self);
        let thread = thread::Builder::new()
            .name("vstream-groups".to_owned())
            .spawn(move || tend(&weak, &signal, pause, work))
            .map_err(|error| Failure::internal(format!("no thread: {error}")))?;
        self.threads.lock().unwrap_or_else(|e| e.into_inner()).push(thread);
        Ok(())
    }

    /// Errors: `Closed` once it is closed.
    pub(super) fn check_open(&self) -> Result<(), Failure> {
        match self.is_closed.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(Failure::closed()),
        }
    }

    fn lock(&self) -> Result<MutexGuard<'_, Option<Writer>>, Failure> {
        self.writer.lock().map_err(|_| {
            Failure::internal("a defect stopped an earlier write half-way: open it again")
        })
    }

    /// Runs `work` as the writer. Never called with the interpreter lock: its holder may be waiting
    /// for this one.
    pub(super) fn write<T>(
        &self,
        work: impl FnOnce(&mut Writer) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut writer = self.lock()?;
        let writer = writer.as_mut().ok_or_else(Failure::closed)?;
        match writer.failed.take() {
            Some(error) => Err(error.into()),
            None => work(writer),
        }
    }

    /// Ends a call that wrote: makes its rows as durable as the collection promises, and lets the
    /// thread look for merges.
    pub(super) fn written(&self) -> Result<(), Failure> {
        self.merges.work();
        if let Some(commits) = &self.commits {
            commits.work();
        }
        match self.durability {
            Durability::Sync => self.commit(),
            Durability::Async { .. } | Durability::None => Ok(()),
        }
    }

    /// Makes every write so far durable.
    pub(super) fn commit(&self) -> Result<(), Failure> {
        self.write(|writer| Ok(writer.store.commit()?))
    }

    /// Commits and gives the directory back; waits for a merge that is under way. After an error the
    /// collection stays open.
    pub(super) fn close(&self) -> Result<(), Failure> {
        let mut writer = self.lock()?;
        if let Some(writer) = writer.as_mut() {
            writer.store.commit()?;
        }
        self.is_closed.store(true, Ordering::Release);
        let closed = writer.take();
        drop(writer);
        self.end();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(|e| e.into_inner()));
        for thread in threads {
            let _ = thread.join();
        }
        drop(closed);
        Ok(())
    }

    /// Tells the threads to end.
    fn end(&self) {
        self.merges.end();
        if let Some(commits) = &self.commits {
            commits.end();
        }
    }

    /// Makes what was written durable, beside the calls.
    fn commit_behind(&self) -> Result<(), Failure> {
        let mut writer = self.lock()?;
        let Some(writer) = writer.as_mut() else { return Ok(()) };
        if let Err(error) = writer.store.commit() {
            writer.failed = Some(error);
        }
        Ok(())
    }

    /// Merges runs until there are none to merge.
    fn merge(&self) -> Result<(), Failure> {
        loop {
            let next = {
                let mut writer = self.lock()?;
                let Some(writer) = writer.as_mut() else { return Ok(()) };
                writer.store.begin_compaction()
            };
            let Some(compaction) = next else { return Ok(()) };
            let merged = compaction.run();
            let mut writer = self.lock()?;
            let Some(writer) = writer.as_mut() else { return Ok(()) };
            let done = merged.and_then(|merged| writer.store.finish_compaction(merged));
            if let Err(error) = done {
                writer.failed = Some(error);
                return Ok(());
            }
        }
    }
}

impl Drop for Shared {
    /// A collection that was not closed loses nothing either, as far as the disk allows.
    fn drop(&mut self) {
        self.end();
        if let Ok(Some(writer)) = self.writer.get_mut() {
            let _ = writer.store.commit();
        }
    }
}

/// A thread: does what there is to do, until the collection ends.
fn tend(
    shared: &Weak<Shared>,
    signal: &Signal,
    pause: Option<Duration>,
    work: fn(&Shared) -> Result<(), Failure>,
) {
    while signal.wait(pause) {
        let Some(shared) = shared.upgrade() else { return };
        if work(&shared).is_err() {
            return;
        }
    }
}

/// Nanoseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// When a file of a directory was last written, in nanoseconds since 1970: rows were written before
/// it, under the clock of that time. So a clock that was set back hides no new row.
fn newest_time(directory: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let time = |entry: std::io::Result<std::fs::DirEntry>| {
        let changed = entry.ok()?.metadata().ok()?.modified().ok()?;
        u64::try_from(changed.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok()
    };
    entries.filter_map(time).max().unwrap_or(0)
}
