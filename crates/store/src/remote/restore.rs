//! A restored snapshot that is usable while its files are fetched.
//!
//! 1. `begin` writes `RESTORING`, the list of the snapshot, to the directory. A later process can
//!    continue the restore from it.
//! 2. A read of a file that is not fetched yet goes to the remote store, range by range.
//! 3. Files are fetched one by one, short ones first: written to `NAME.fetching`, compared with
//!    their checksum, synced and renamed. From then on all readers read the local file, even those
//!    that opened it before.
//! 4. Files that are written, renamed or removed during the restore change only in the local
//!    directory. When no file is pending any more, the restore removes `RESTORING`, and the
//!    directory is an ordinary one.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use xxhash_rust::xxh3::Xxh3;

use super::contents::{Contents, PushedFile};
use super::pending::{PendingFile, PendingReader};
use crate::clock::Clock;
use crate::defect::{self, Defect};
use crate::error::{Error, ErrorKind};
use crate::files::{Access, Files, InFile, OutFile};
use crate::store::{Range, Store, WALK_BYTES};

const MARK: &str = "RESTORING";
const FETCHING: &str = ".fetching";
/// Parts of a file that are fetched at the same time.
const PARTS_TOGETHER: usize = 4;
/// A file whose content is wrong is fetched this many times, because the network may have damaged
/// it.
const TRIES: usize = 3;
/// Longest sleep of the fetching thread, so that it stops in time.
const NAP: Duration = Duration::from_millis(50);

/// True for a file that is there while a folder is being restored.
pub(super) fn is_of_restore(name: &str) -> bool {
    name == MARK || name.ends_with(FETCHING)
}

/// The settings of a restore.
#[derive(Clone)]
pub struct RestoreSettings {
    /// Largest number of bytes per second. `None`: no limit.
    pub bytes_per_second: Option<u64>,
    /// The clock that limits the rate.
    pub clock: Arc<dyn Clock>,
}

/// The progress of a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Number of pending files.
    pub files_left: usize,
    /// Bytes of the pending files.
    pub bytes_left: u64,
    /// Bytes that were fetched.
    pub fetched_bytes: u64,
    /// Ranges that were read remotely because their file was pending.
    pub remote_reads: u64,
    /// Bytes of these ranges.
    pub remote_bytes: u64,
}

/// A directory whose files are being fetched. Clones are the same directory.
#[derive(Clone)]
pub struct Restore {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) local: Arc<dyn Files>,
    pub(super) remote: Arc<dyn Store>,
    settings: RestoreSettings,
    /// Files that are not fetched yet. The lock is held while names change, so that a fetched file
    /// never replaces one that was written locally in the meantime.
    pending: Mutex<BTreeMap<String, Arc<PendingFile>>>,
    /// Allows one fetch at a time.
    fetching: Mutex<()>,
    is_marked: bool,
    fetched_bytes: AtomicU64,
    remote_reads: AtomicU64,
    remote_bytes: AtomicU64,
}

impl Restore {
    /// Begins to restore `contents` of `remote` in an empty directory, or continues a restore of
    /// the same snapshot.
    ///
    /// Errors: `Invalid` if the directory has other files or another snapshot is being restored in
    /// it, and those of the directory.
    pub fn begin(
        local: Arc<dyn Files>,
        remote: Arc<dyn Store>,
        contents: &Contents,
        settings: RestoreSettings,
    ) -> Result<Restore, Error> {
        let failed = |doing: &'static str| {
            let place = local.describe("");
            move |e: io::Error| Error::io(place, doing, &e)
        };
        let listed = local.list().map_err(failed("list"))?;
        let partial = format!("{MARK}{FETCHING}");
        let invalid = |what: &str| Error::new(ErrorKind::Invalid, local.describe(""), what);
        if listed.iter().any(|(name, _)| name == MARK) {
            if read_all(&*local, MARK).map_err(failed("read"))? != contents.encode() {
                return Err(invalid(
                    "another snapshot is being restored here: choose another folder",
                ));
            }
        } else if listed.iter().any(|(name, _)| *name != partial) {
            return Err(invalid("there are files already: choose another folder to restore to"));
        } else {
            let mark = || -> io::Result<()> {
                let mut out = local.create(&partial)?;
                write_all(&mut *out, &contents.encode())?;
                out.sync()?;
                local.rename(&partial, MARK, true)?;
                local.sync_names()
            };
            mark().map_err(failed("begin to restore to"))?;
        }
        for (name, _) in listed.iter().filter(|(name, _)| name.ends_with(FETCHING)) {
            // The partial `RESTORING` file has been renamed and does not exist any more.
            let _ = local.remove(name);
        }
        let is_here = |file: &PushedFile| listed.iter().any(|(name, _)| *name == file.name);
        let missing = contents.files.iter().filter(|file| !is_here(file)).cloned().collect();
        let restore = Restore::over(local, remote, missing, settings, true);
        restore.finish_if_done()?;
        Ok(restore)
    }

    /// Opens a snapshot without fetching it. Files that are written to it stay in memory.
    pub fn browse(
        remote: Arc<dyn Store>,
        contents: &Contents,
        settings: RestoreSettings,
    ) -> Restore {
        let local = Arc::new(crate::memory::Memory::new());
        Restore::over(local, remote, contents.files.clone(), settings, false)
    }

    fn over(
        local: Arc<dyn Files>,
        remote: Arc<dyn Store>,
        missing: Vec<PushedFile>,
        settings: RestoreSettings,
        is_marked: bool,
    ) -> Restore {
        let pending = |file: PushedFile| {
            let name = file.name.clone();
            (name, Arc::new(PendingFile::new(file)))
        };
        let shared = Shared {
            local,
            remote,
            settings,
            pending: Mutex::new(missing.into_iter().map(pending).collect()),
            fetching: Mutex::new(()),
            is_marked,
            fetched_bytes: AtomicU64::new(0),
            remote_reads: AtomicU64::new(0),
            remote_bytes: AtomicU64::new(0),
        };
        Restore { shared: Arc::new(shared) }
    }

    /// The present progress.
    pub fn progress(&self) -> Progress {
        let pending = self.shared.pending();
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Progress {
            files_left: pending.len(),
            bytes_left: pending.values().map(|pending| pending.file.bytes).sum(),
            fetched_bytes: load(&self.shared.fetched_bytes),
            remote_reads: load(&self.shared.remote_reads),
            remote_bytes: load(&self.shared.remote_bytes),
        }
    }

    /// Fetches the shortest pending file. False if no file is pending.
    ///
    /// Errors: `Corrupt` if its content differs from the pushed one, and those of both stores. The
    /// file then stays pending.
    pub fn fetch_next(&self) -> Result<bool, Error> {
        self.fetch_next_while(&|| true)
    }

    pub(super) fn fetch_next_while(&self, keep_going: &dyn Fn() -> bool) -> Result<bool, Error> {
        let next = self.shared.pending().values().min_by_key(|pending| pending.file.bytes).cloned();
        let Some(next) = next else { return Ok(false) };
        self.shared.fetch(&next, keep_going)?;
        self.finish_if_done()?;
        Ok(true)
    }

    fn finish_if_done(&self) -> Result<(), Error> {
        let Shared { local, is_marked, .. } = &*self.shared;
        let pending = self.shared.pending();
        let is_done = pending.is_empty() || defect::active(Defect::MarkRemovedEarly);
        if !is_done || !is_marked {
            return Ok(());
        }
        let gone = match local.remove(MARK) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            gone => gone.and_then(|()| local.sync_names()),
        };
        gone.map_err(|e| Error::io(local.describe(MARK), "remove", &e))
    }
}

impl Shared {
    fn pending(&self) -> MutexGuard<'_, BTreeMap<String, Arc<PendingFile>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, name: &str) -> Option<Arc<PendingFile>> {
        self.pending().get(name).cloned()
    }

    /// Counts ranges that are read remotely.
    pub(super) fn count(&self, ranges: &[Range]) {
        let bytes: u64 = ranges.iter().map(|range| range.bytes as u64).sum();
        self.remote_reads.fetch_add(ranges.len() as u64, Ordering::Relaxed);
        self.remote_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Fetches a file. Does nothing if the file is fetched already or was removed.
    fn fetch(&self, pending: &PendingFile, keep_going: &dyn Fn() -> bool) -> Result<(), Error> {
        let _alone = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
        let name = &pending.file.name;
        if self.find(name).is_none() {
            return Ok(());
        }
        let partial = format!("{name}{FETCHING}");
        for attempt in 1.. {
            match self.copy(pending, &partial, keep_going) {
                Ok(()) => break,
                Err(error) => {
                    // Best effort: if this fails, the next restore removes the file.
                    let _ = self.local.remove(&partial);
                    if error.kind() != ErrorKind::Corrupt || attempt == TRIES {
                        return Err(error);
                    }
                }
            }
        }
        let failed = |e: io::Error| Error::io(self.local.describe(name), "restore", &e);
        let mut missing = self.pending();
        if missing.contains_key(name) {
            self.local.rename(&partial, name, false).map_err(failed)?;
            missing.remove(name);
            pending.is_fetched();
        } else {
            // The file was removed or replaced locally during the fetch.
            self.local.remove(&partial).map_err(failed)?;
        }
        drop(missing);
        self.local.sync_names().map_err(failed)
    }

    fn copy(
        &self,
        pending: &PendingFile,
        to: &str,
        keep_going: &dyn Fn() -> bool,
    ) -> Result<(), Error> {
        let remote = pending.open(&*self.remote)?;
        let failed = |e: io::Error| Error::io(self.local.describe(to), "write", &e);
        let mut out = self.local.create(to).map_err(failed)?;
        let mut hash = Xxh3::new();
        let mut offset = 0;
        let begun = self.settings.clock.now();
        while offset < remote.bytes() {
            let end = remote.bytes().min(offset + (PARTS_TOGETHER * WALK_BYTES) as u64);
            let range = |from: u64| Range {
                offset: from,
                bytes: (end - from).min(WALK_BYTES as u64) as usize,
            };
            let ranges: Vec<Range> = (offset..end).step_by(WALK_BYTES).map(range).collect();
            for part in remote.read_many(&ranges)? {
                hash.update(&part);
                write_all(&mut *out, &part).map_err(failed)?;
            }
            self.fetched_bytes.fetch_add(end - offset, Ordering::Relaxed);
            offset = end;
            self.hold_back(begun, offset, keep_going)?;
        }
        if !defect::active(Defect::FetchUnchecked) {
            pending.file.check(remote.name(), hash.digest128())?;
        }
        if defect::active(Defect::FetchUnsynced) {
            return Ok(());
        }
        out.sync().map_err(failed)
    }

    /// Waits until the rate allows `bytes` bytes since `begun`.
    fn hold_back(
        &self,
        begun: Duration,
        bytes: u64,
        keep_going: &dyn Fn() -> bool,
    ) -> Result<(), Error> {
        let RestoreSettings { bytes_per_second, clock } = &self.settings;
        let due = match bytes_per_second {
            Some(rate) => begun + Duration::from_secs_f64(bytes as f64 / (*rate).max(1) as f64),
            None => begun,
        };
        loop {
            if !keep_going() {
                let what = "the restore was stopped: begin it again to go on";
                return Err(Error::new(ErrorKind::Unavailable, self.local.describe(""), what));
            }
            match due.checked_sub(clock.now()).filter(|wait| !wait.is_zero()) {
                Some(wait) => clock.sleep(wait.min(NAP)),
                None => return Ok(()),
            }
        }
    }
}

fn read_all(files: &dyn Files, name: &str) -> io::Result<Vec<u8>> {
    let file = files.open(name, Access::Cached)?;
    let bytes = file.bytes()? as usize;
    let mut whole: Vec<u8> = Vec::new();
    while whole.len() < bytes {
        match file.read(whole.len() as u64, bytes - whole.len()) {
            Ok(part) if part.is_empty() => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(part) => whole.extend_from_slice(&part),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(whole)
}

fn write_all(out: &mut dyn OutFile, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match out.append(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Files for Restore {
    fn create(&self, name: &str) -> io::Result<Box<dyn OutFile>> {
        let mut pending = self.shared.pending();
        let out = self.shared.local.create(name)?;
        pending.remove(name);
        Ok(out)
    }

    fn reopen(&self, name: &str) -> io::Result<Box<dyn OutFile>> {
        if let Some(pending) = self.shared.find(name) {
            self.shared.fetch(&pending, &|| true).map_err(io::Error::other)?;
        }
        self.shared.local.reopen(name)
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn InFile>> {
        match self.shared.find(name) {
            Some(pending) => {
                let file = PendingReader::open(self.shared.clone(), pending, access);
                Ok(Arc::new(file.map_err(io::Error::other)?))
            }
            None => self.shared.local.open(name, access),
        }
    }

    fn rename(&self, from: &str, to: &str, replace: bool) -> io::Result<()> {
        if let Some(pending) = self.shared.find(from) {
            self.shared.fetch(&pending, &|| true).map_err(io::Error::other)?;
        }
        let mut pending = self.shared.pending();
        if !replace && pending.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.shared.local.rename(from, to, replace)?;
        pending.remove(to);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match self.shared.pending().remove(name) {
            Some(_) => Ok(()),
            None => self.shared.local.remove(name),
        }
    }

    fn sync_names(&self) -> io::Result<()> {
        self.shared.local.sync_names()
    }

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let pending = self.shared.pending();
        let here = self.shared.local.list()?;
        let mut found: Vec<(String, u64)> =
            here.into_iter().filter(|(name, _)| !is_of_restore(name)).collect();
        found.extend(
            pending.values().map(|pending| (pending.file.name.clone(), pending.file.bytes)),
        );
        Ok(found)
    }

    fn describe(&self, name: &str) -> String {
        match self.shared.find(name) {
            Some(pending) => self.shared.remote.describe(&pending.file.object()),
            None => self.shared.local.describe(name),
        }
    }
}
