//! The store of groups: the one writer, its files, and what readers see.
//!
//! 1. A write goes to the memtable, where every query finds it, and to the log.
//! 2. `commit` syncs the log.
//! 3. A full memtable becomes a run. The manifest is replaced, then the view, then the log is
//!    removed.
//! 4. Compaction makes one run of several, on the caller's thread or on another one.

#[cfg(test)]
mod golden;
#[cfg(test)]
mod merges;
mod write;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use vstream_store::blocks::Block;
use vstream_store::{
    Access, Cache, DirectoryLock, Error as StoreError, ErrorKind, FileStore, Store, Syncing,
};

use crate::accept::group_hash;
use crate::code::CodeKind;
use crate::compaction::{merge, plan};
use crate::error::Error;
use crate::log::{replay, Log, Record, LOG_HEADER_BYTES};
use crate::manifest::{log_name, run_name, Manifest, RunEntry};
use crate::memtable::Memtable;
use crate::query::{GroupReader, OpenedGroups};
use crate::run::{Header, Run, RunSummary, RunWriter, Shape, Thresholds};
use crate::settings::{Bound, GroupSettings};
use crate::view::View;

pub use write::{Applied, Condition, IfVersion};

/// The log may be longer than the memory for new rows by this factor, when ids repeat.
const LOG_FACTOR: u64 = 4;

/// Counts of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupStats {
    /// Rows in runs, hidden ones included.
    pub rows: u64,
    /// Tombstones in runs.
    pub tombstones: u64,
    /// Groups of each run, added up.
    pub groups: u64,
    /// Runs.
    pub runs: u64,
    /// Bytes of the runs' files.
    pub run_bytes: u64,
    /// Bytes of memory of open runs, beside the cache.
    pub run_memory: u64,
    /// New rows in memory; they may hide rows of runs.
    pub memtable_rows: u64,
    /// Bytes of new rows in memory.
    pub memtable_bytes: u64,
    /// Bytes in the block cache.
    pub cache_bytes: u64,
    /// Bytes of runs that flushes wrote since the store was opened.
    pub flushed_bytes: u64,
    /// Bytes of runs that merges wrote since the store was opened.
    pub merged_bytes: u64,
}

/// Isolated groups of rows in a directory: the writer. [`GroupStore::reader`] makes readers.
pub struct GroupStore {
    pub(crate) store: Arc<FileStore>,
    pub(crate) settings: Arc<GroupSettings>,
    pub(crate) manifest: Manifest,
    pub(crate) seed: u64,
    pub(crate) view: Arc<ArcSwap<View>>,
    pub(crate) cache: Arc<Cache<Block>>,
    log: Log,
    flushed_bytes: u64,
    merged_bytes: u64,
    /// Where writes look ids up, if they do.
    opened: OpenedGroups,
    /// The merge under way, and whether it was given up.
    merging: Weak<AtomicBool>,
    /// The merge that began last forgets deletes.
    is_forgetting: bool,
    /// Held until the store is dropped.
    _lock: Option<DirectoryLock>,
}

impl GroupStore {
    /// Opens the store in a directory, or creates it there. One process has it open at a time.
    ///
    /// Cost: the ends of the runs, and the log. Errors: `Invalid` if a fixed setting is another one
    /// than at creation, `Corrupt`, those of the operating system.
    pub fn open_dir(path: &Path, settings: GroupSettings) -> Result<GroupStore, Error> {
        let store = FileStore::create_dir(path, Syncing::Full)?;
        let lock = lock(path)?;
        let mut opened = GroupStore::open(store, settings)?;
        opened._lock = Some(lock);
        Ok(opened)
    }

    /// Opens the store over any directory. The caller sees to it that only one has it open.
    pub fn open(store: FileStore, settings: GroupSettings) -> Result<GroupStore, Error> {
        settings.validate()?;
        let (mut manifest, is_new) = match Manifest::read(&store)? {
            Some(manifest) => (manifest, false),
            None => (created(&settings), true),
        };
        match is_new {
            true => check_empty(&store)?,
            // The process that renamed the manifest may have died before it synced the name. Until
            // that is done, the files that only the manifest before it names must stay.
            false => store.sync_names()?,
        }
        let stored = &manifest.settings;
        let grown = check_settings(stored, &settings)?;
        let settings = GroupSettings { seed: Some(manifest.seed), ..settings };
        manifest.settings = settings.clone();
        let cache = Arc::new(Cache::new(settings.cache));
        let shape = shape(&settings, manifest.seed);
        let mut runs = Vec::with_capacity(manifest.runs.len());
        for entry in &manifest.runs {
            runs.push(open_run(&store, *entry, &shape, &cache)?);
        }
        let memtable = Arc::new(Memtable::new());
        let view = View { memtable, element: settings.element, runs };
        let log = if is_new {
            Log::create(&store, &log_name(manifest.log), manifest.file_identity(manifest.log))?
        } else {
            recover(&store, &manifest, &view)?
        };
        if is_new || grown {
            manifest.publish(&store)?;
        }
        sweep(&store, &manifest)?;
        Ok(GroupStore {
            store: Arc::new(store),
            seed: manifest.seed,
            settings: Arc::new(settings),
            manifest,
            view: Arc::new(ArcSwap::from_pointee(view)),
            cache,
            log,
            flushed_bytes: 0,
            merged_bytes: 0,
            opened: OpenedGroups::default(),
            merging: Weak::new(),
            is_forgetting: false,
            _lock: None,
        })
    }

    /// A reader, for any thread. It sees every write that has returned.
    pub fn reader(&self) -> GroupReader {
        GroupReader::new(self.settings.clone(), self.seed, self.view.clone())
    }

    /// The settings, with the seed.
    pub fn settings(&self) -> &GroupSettings {
        &self.settings
    }

    fn make_room(&mut self) -> Result<(), Error> {
        let full = self.view.load().memtable.bytes() >= self.settings.memory
            || self.log.bytes() >= LOG_FACTOR * self.settings.memory as u64;
        if full {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes the new rows as a run, which makes them durable. Errors: those of the files; the rows
    /// stay in memory and in the log.
    pub fn flush(&mut self) -> Result<(), Error> {
        let view = self.view.load_full();
        let groups = view.memtable.groups();
        if groups.is_empty() {
            return Ok(());
        }
        let numbers = (self.take_number(), self.take_number());
        let thresholds = Thresholds { coded: self.settings.coded_rows, clustered: usize::MAX };
        let header = self.header(numbers.0);
        let name = run_name(numbers.0);
        let count = groups.len() as u64;
        let mut writer = RunWriter::create(&*self.store, &name, header, count, thresholds)?;
        for hash in groups {
            let written = view.memtable.visit_any(hash, |name, group| {
                writer.begin(hash, name, group.drops)?;
                group.rows_from(0).try_for_each(|row| writer.push(row))
            });
            written.transpose()?;
        }
        let summary = writer.finish()?;
        let entry = self.manifest.own_run(numbers.0, summary.bytes);
        let shape = shape(&self.settings, self.seed);
        let run = open_run(&self.store, entry, &shape, &self.cache)?;
        let identity = self.manifest.file_identity(numbers.1);
        let log = Log::create(&self.store, &log_name(numbers.1), identity)?;
        let old_log = self.manifest.log;
        let mut manifest = self.manifest.clone();
        manifest.log = numbers.1;
        manifest.runs.insert(0, entry);
        self.publish(manifest)?;
        self.log = log;
        let mut runs = view.runs.clone();
        runs.insert(0, run);
        let memtable = Arc::new(Memtable::new());
        self.view.store(Arc::new(View { memtable, runs, ..(*view).clone() }));
        self.flushed_bytes += summary.bytes;
        // The next opening removes it if this fails.
        let _ = self.store.delete(&log_name(old_log));
        Ok(())
    }

    pub(crate) fn take_number(&mut self) -> u64 {
        self.manifest.next += 1;
        self.manifest.next - 1
    }

    pub(crate) fn publish(&mut self, manifest: Manifest) -> Result<(), Error> {
        manifest.publish(&*self.store)?;
        self.manifest = manifest;
        // It holds runs open, whose files may go now.
        self.opened.clear();
        Ok(())
    }

    fn header(&self, number: u64) -> Header {
        Header {
            shape: shape(&self.settings, self.seed),
            identity: self.manifest.file_identity(number),
        }
    }

    /// Merges runs while there are some to merge, on this thread. True if there were any.
    pub fn compact(&mut self) -> Result<bool, Error> {
        let mut any = false;
        while let Some(compaction) = self.begin_compaction() {
            let compacted = compaction.run()?;
            self.finish_compaction(compacted)?;
            any = true;
        }
        Ok(any)
    }

    /// Merges all runs into one, which forgets tombstones and dropped groups.
    pub fn compact_all(&mut self) -> Result<(), Error> {
        self.flush()?;
        let count = self.manifest.runs.len();
        if count > 0 && self.merging.strong_count() == 0 {
            let compacted = self.compaction_of(0..count).run()?;
            self.finish_compaction(compacted)?;
        }
        Ok(())
    }

    /// The next merge, to be run on any thread while writes go on; `None` if there is none, or if
    /// one is under way.
    pub fn begin_compaction(&mut self) -> Option<Compaction> {
        if self.merging.strong_count() > 0 {
            return None;
        }
        let bytes: Vec<u64> = self.manifest.runs.iter().map(|run| run.bytes).collect();
        let range = plan(&bytes, self.settings.fanout)?;
        if range.end < bytes.len() {
            return Some(self.compaction_of(range));
        }
        // It reaches the oldest run, so it takes all rows there are: else it could forget no delete. Where memory does
        // not become a run it forgets none.
        let _ = self.flush();
        Some(self.compaction_of(0..self.manifest.runs.len()))
    }

    fn compaction_of(&mut self, range: std::ops::Range<usize>) -> Compaction {
        let number = self.take_number();
        let token = Arc::new(AtomicBool::new(false));
        self.merging = Arc::downgrade(&token);
        let view = self.view.load_full();
        // A newer place may have an older row of a deleted id, which came late.
        let is_all = range == (0..view.runs.len()) && view.memtable.groups().is_empty();
        let is_bottom = range.end == view.runs.len();
        let inputs = view.runs[range].to_vec();
        let forget_before = self.forget_before(is_all);
        self.is_forgetting = forget_before > 0 && inputs.iter().any(|run| run.tombstones() > 0);
        Compaction {
            store: self.store.clone(),
            is_bottom,
            forget_before,
            inputs,
            number,
            header: self.header(number),
            thresholds: Thresholds {
                coded: self.settings.coded_rows,
                clustered: self.settings.clustered_rows,
            },
            given_up: token,
        }
    }

    /// True while a merge forgets deletes.
    fn forgets(&self) -> bool {
        self.is_forgetting && self.merging.strong_count() > 0
    }

    /// * `is_all`: the merge has every row there is.
    fn forget_before(&self, is_all: bool) -> u32 {
        match self.settings.deletes_remembered {
            _ if !is_all => 0,
            // Also those of this second.
            None => u32::MAX,
            // A delete of second s is older than n - s - 1 seconds in second n.
            Some(kept) => now_s().saturating_sub(kept.as_millis().div_ceil(1000) as u32),
        }
    }

    /// Gives up the merge under way, if there is one: it soon fails with `Unavailable` and changes
    /// nothing.
    pub fn give_up_compaction(&self) {
        if let Some(merging) = self.merging.upgrade() {
            merging.store(true, Ordering::Relaxed);
        }
    }

    /// Publishes a merge that was run.
    pub fn finish_compaction(&mut self, compacted: Compacted) -> Result<(), Error> {
        let Compacted { compaction, summary } = compacted;
        let numbers: Vec<u64> = compaction.inputs.iter().map(|run| run.number).collect();
        let view = self.view.load_full();
        let from = view.runs.iter().position(|run| run.number == numbers[0]);
        let from = from.ok_or_else(|| Error::invalid("The merge is of another store."))?;
        let range = from..from + numbers.len();
        let entry = self.manifest.own_run(compaction.number, summary.bytes);
        let shape = shape(&self.settings, self.seed);
        let run = open_run(&self.store, entry, &shape, &self.cache)?;
        let mut manifest = self.manifest.clone();
        let mut runs = view.runs.clone();
        manifest.runs.splice(range.clone(), [entry]);
        runs.splice(range, [run]);
        self.publish(manifest)?;
        self.view.store(Arc::new(View { runs, ..(*view).clone() }));
        self.merged_bytes += summary.bytes;
        for run in &compaction.inputs {
            self.cache.forget_file(run.identity());
            run.delete_when_unused(self.store.clone(), run_name(run.number));
        }
        Ok(())
    }

    /// The present counts.
    pub fn stats(&self) -> GroupStats {
        let view = self.view.load();
        let sum = |count: fn(&Run) -> u64| view.runs.iter().map(|run| count(run)).sum();
        GroupStats {
            rows: sum(Run::rows),
            tombstones: sum(Run::tombstones),
            groups: sum(Run::groups),
            runs: view.runs.len() as u64,
            run_bytes: sum(Run::bytes),
            run_memory: sum(Run::memory),
            memtable_rows: view.memtable.rows(),
            memtable_bytes: view.memtable.bytes() as u64,
            cache_bytes: self.cache.stats().bytes,
            flushed_bytes: self.flushed_bytes,
            merged_bytes: self.merged_bytes,
        }
    }
}

/// A merge of runs, to be run on any thread. Dropped before it is finished, it changes nothing.
pub struct Compaction {
    store: Arc<FileStore>,
    inputs: Vec<Arc<Run>>,
    is_bottom: bool,
    /// Tombstones that were made before this second have done their work.
    forget_before: u32,
    number: u64,
    header: Header,
    thresholds: Thresholds,
    /// True once nobody wants the merge any more. While it lives, no other merge begins.
    given_up: Arc<AtomicBool>,
}

impl Compaction {
    /// Runs the merge: one pass over its runs, with a part of each in memory.
    pub fn run(self) -> Result<Compacted, Error> {
        let groups = self.inputs.iter().map(|run| run.groups()).sum();
        let (name, header) = (run_name(self.number), self.header);
        let writer = RunWriter::create(&*self.store, &name, header, groups, self.thresholds)?;
        let summary =
            merge(&self.inputs, self.is_bottom, self.forget_before, writer, &self.given_up)?;
        Ok(Compacted { compaction: self, summary })
    }
}

/// A merge that was run, for [`GroupStore::finish_compaction`].
pub struct Compacted {
    compaction: Compaction,
    summary: RunSummary,
}

pub(crate) fn shape(settings: &GroupSettings, seed: u64) -> Shape {
    let codes = match settings.bound {
        Bound::Proven => CodeKind::Nibbles,
        Bound::Deviations(_) => CodeKind::Signs,
    };
    let GroupSettings { dimension, metric, element, .. } = *settings;
    Shape { dimension, metric, element, codes, seed }
}

/// Seconds since 1970-01-01 UTC, until 2106.
fn now_s() -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u32::try_from(now.as_secs()).unwrap_or(u32::MAX)
}

/// A random number.
pub(crate) fn drawn() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    // The keys of these hashers come from the operating system's random numbers.
    RandomState::new().build_hasher().finish()
}

/// Errors: `Corrupt` if there are files of a store whose manifest is gone. A crash while a store is
/// created leaves an empty log at most.
fn check_empty(store: &FileStore) -> Result<(), Error> {
    let runs = store.list("run-")?;
    let logs = store
        .list("log-")?
        .into_iter()
        .filter(|log| log.name != log_name(0) || log.bytes > LOG_HEADER_BYTES);
    match runs.into_iter().chain(logs).next() {
        None => Ok(()),
        Some(entry) => {
            let what = "there is no manifest, and this file is of a store that had one";
            Err(StoreError::corrupt(store.describe(&entry.name), 0, what).into())
        }
    }
}

/// The manifest of a new store.
fn created(settings: &GroupSettings) -> Manifest {
    Manifest {
        identity: drawn(),
        seed: settings.seed.unwrap_or_else(drawn),
        next: 1,
        log: 0,
        settings: settings.clone(),
        runs: Vec::new(),
    }
}

/// Checks settings against those of the creation. True if the manifest must note a change.
pub(crate) fn check_settings(
    stored: &GroupSettings,
    settings: &GroupSettings,
) -> Result<bool, Error> {
    let fixed = |s: &GroupSettings| {
        (s.dimension, s.metric, s.element, s.schema.id, s.schema.open, s.schema.grouping)
    };
    let (old, new) = (&stored.schema.attributes, &settings.schema.attributes);
    if fixed(stored) != fixed(settings) || !new.starts_with(old) {
        return Err(Error::invalid(
            "The store was created with another dimension, metric, element or schema: attributes \
             may only be added at the end.",
        ));
    }
    if stored.shards != settings.shards {
        return Err(Error::invalid(format!(
            "The store was created with {} shards and the settings say {}: the number never \
             changes.",
            stored.shards, settings.shards
        )));
    }
    if settings.seed.is_some_and(|seed| stored.seed.is_some_and(|stored| stored != seed)) {
        return Err(Error::invalid("The store was created with another seed."));
    }
    let changes = |s: &GroupSettings| (s.bound, s.deletes_remembered);
    Ok(new.len() > old.len() || changes(stored) != changes(settings))
}

pub(crate) fn open_run(
    store: &FileStore,
    entry: RunEntry,
    shape: &Shape,
    cache: &Arc<Cache<Block>>,
) -> Result<Arc<Run>, Error> {
    let file = store.open(&run_name(entry.number), Access::Cached)?;
    let name = file.name().to_owned();
    let run = Run::open(file, entry.number, shape, Some(cache.clone()))?;
    let found = (run.identity(), run.bytes());
    if found != (entry.identity, entry.bytes) {
        return Err(StoreError::corrupt(name, 0, "not the run that the manifest names").into());
    }
    Ok(Arc::new(run.within(entry.shards)))
}

/// Applies the log to the memtable and continues it.
///
/// * `view`: the runs, which updates look their rows up in, and an empty memtable.
fn recover(store: &FileStore, manifest: &Manifest, view: &View) -> Result<Log, Error> {
    let (name, identity) = (log_name(manifest.log), manifest.file_identity(manifest.log));
    let (settings, memtable) = (&manifest.settings, &view.memtable);
    let vector_bytes = settings.vector_bytes();
    let whole = replay(store, &name, identity, vector_bytes, &mut |record| {
        match record {
            Record::Row(group, row) => {
                memtable.put(group_hash(group, manifest.seed)?, group, row)?;
            }
            Record::Update(group, id, version, update) => {
                let hash = group_hash(group, manifest.seed)?;
                let schema = &settings.schema;
                // A logged update found its row, so it does again: the runs of a manifest and its
                // log belong together.
                let merged =
                    write::merge(view, schema, (hash, group), ((*id).into(), *version), update)?;
                if let Ok(content) = merged {
                    memtable.put(hash, group, &content.row(*id, *version))?;
                }
            }
            Record::Drop(group) => {
                memtable.drop_group(group_hash(group, manifest.seed)?, group)?;
            }
        }
        Ok(())
    })?;
    Log::reopen(store, &name, identity, whole)
}

/// Removes files that no manifest names: those of flushes and merges that did not finish.
fn sweep(store: &FileStore, manifest: &Manifest) -> Result<(), Error> {
    store.sweep(&|name| name.starts_with("run-") || name.starts_with("log-"))?;
    let mut named: Vec<String> = manifest.runs.iter().map(|run| run_name(run.number)).collect();
    named.push(log_name(manifest.log));
    for prefix in ["run-", "log-"] {
        for entry in store.list(prefix)? {
            if !named.contains(&entry.name) {
                store.delete(&entry.name)?;
            }
        }
    }
    Ok(())
}

/// Locks the directory of a store until the lock is dropped. Errors: `Unavailable` if it is open
/// already, those of the operating system.
pub(crate) fn lock(path: &Path) -> Result<DirectoryLock, Error> {
    let failed = |what: String| {
        let name = DirectoryLock::path(path).display().to_string();
        Error::from(StoreError::new(ErrorKind::Unavailable, name, what))
    };
    let taken = DirectoryLock::take(path).map_err(|e| failed(format!("cannot lock: {e}")))?;
    taken.ok_or_else(|| failed("open already: close it there first".into()))
}
