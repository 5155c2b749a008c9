//! The store over a directory. It writes a file under a partial name, syncs it and renames it.
//!
//! 1. `create` writes to `NAME.partial`. `finish` syncs the file, renames it unless `NAME` exists,
//!    and syncs the directory.
//! 2. `replace` does the same, but its rename replaces `NAME`.
//! 3. A failed sync poisons the store. The kernel may have dropped the pages that it could not
//!    write, and a second sync would report success (measured; see docs/design/format.md).

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::buffer::Buffer;
use crate::disk::Disk;
use crate::error::{Error, ErrorKind};
use crate::files::{Access, Files, InFile, OutFile};
use crate::log::LogFile;
use crate::names::{check_name, PARTIAL};
use crate::pool::fill;
use crate::ring::PlannedRead;
use crate::store::{check_range, Entry, FileWriter, Range, ReadAt, Store};

/// Bytes of a streamed file that are buffered before a write.
const WRITE_BYTES: usize = 1 << 16;
/// Bytes that are copied at a time.
const COPY_BYTES: u64 = 1 << 20;
/// Bytes of a log that are rewritten at a time.
const REWRITE_BYTES: u64 = 1 << 20;

/// Whether files must survive a loss of power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syncing {
    /// Syncs files and names before they are visible.
    Full,
    /// Never syncs. For files that are copied to another place at once.
    Off,
}

/// The files of one directory. Clones are the same store.
#[derive(Clone)]
pub struct FileStore {
    disk: Arc<Shared>,
}

/// State that the store shares with its open files.
pub(crate) struct Shared {
    pub(crate) files: Arc<dyn Files>,
    syncing: Syncing,
    poisoned: AtomicBool,
    /// Names that are being written. Two writers of one name would share a partial file.
    writing: Mutex<BTreeSet<String>>,
}

impl FileStore {
    /// A store over any directory of files.
    pub fn new(files: Arc<dyn Files>, syncing: Syncing) -> FileStore {
        let (poisoned, writing) = (AtomicBool::new(false), Mutex::default());
        FileStore { disk: Arc::new(Shared { files, syncing, poisoned, writing }) }
    }

    /// True if the files are in no directory of the operating system: a read may be a request over a network.
    pub fn is_far(&self) -> bool {
        self.disk.files.root().is_none()
    }

    /// A store over a directory of the operating system. Creates the directory if it does not
    /// exist. Errors: `Io`.
    pub fn create_dir(path: &Path, syncing: Syncing) -> Result<FileStore, Error> {
        let disk = Disk::create(path).map_err(|e| io_error(path, "create the directory", &e))?;
        Ok(FileStore::new(Arc::new(disk), syncing))
    }

    /// A store over an existing directory of the operating system. Errors: `NotFound`, `Io`.
    pub fn open_dir(path: &Path, syncing: Syncing) -> Result<FileStore, Error> {
        let disk = Disk::open(path).map_err(|e| io_error(path, "open the directory", &e))?;
        Ok(FileStore::new(Arc::new(disk), syncing))
    }

    /// Takes the file `name` of another store as file `to`. Without syncs, and in directories of one
    /// file system, both stores share its bytes; else it is copied.
    ///
    /// Errors: `Exists` if there is a file `to`; those of both stores.
    pub fn take(&self, from: &FileStore, name: &str, to: &str) -> Result<(), Error> {
        self.disk.check(to)?;
        if self.disk.syncing == Syncing::Off {
            let _claim = self.disk.claim(to)?;
            if self.disk.files.link(&*from.disk.files, name, to) {
                return Ok(());
            }
        }
        let file = from.open(name, Access::Cached)?;
        let mut out = self.create(to)?;
        let mut offset = 0;
        while offset < file.bytes() {
            let bytes = (file.bytes() - offset).min(COPY_BYTES) as usize;
            out.append(&file.read(Range { offset, bytes })?)?;
            offset += bytes as u64;
        }
        out.finish()?;
        Ok(())
    }

    /// Whether it forces files to the disk.
    pub fn syncing(&self) -> Syncing {
        self.disk.syncing
    }

    /// The directory, and whether its files are synced: for another store over the same files.
    pub(crate) fn parts(&self) -> (Arc<dyn Files>, Syncing) {
        (self.disk.files.clone(), self.disk.syncing)
    }

    /// Syncs the directory. A killed process may have renamed, created or removed files without a
    /// sync; the next process sees these changes, but a loss of power could undo them. Errors:
    /// `Io`.
    pub fn sync_names(&self) -> Result<(), Error> {
        self.disk.sync_names()
    }

    /// Creates an empty log that is visible and durable at once. Errors: `Exists`, `Full`, `Io`.
    pub fn create_log(&self, name: &str) -> Result<LogFile, Error> {
        self.disk.check(name)?;
        let listed = self.list(name)?;
        if listed.iter().any(|entry| entry.name == name) {
            return Err(self.disk.error(name, "create", &io::ErrorKind::AlreadyExists.into()));
        }
        let created = self.disk.files.create(name);
        let file = created.map_err(|e| self.disk.error(name, "create", &e))?;
        self.disk.sync_names()?;
        Ok(LogFile::new(self.disk.clone(), name, file, 0))
    }

    /// Opens a log to append to it, and truncates it to its first `bytes` bytes.
    ///
    /// Nobody knows whether the bytes from `sure` on were synced. The process that wrote them may
    /// have been killed before its sync, or the sync may have failed. Then the page cache shows
    /// bytes that are not on the disk and regards them as written. So this call writes them again
    /// and syncs them.
    pub fn reopen_log(&self, name: &str, bytes: u64, sure: u64) -> Result<LogFile, Error> {
        self.disk.check(name)?;
        let reopened = self.disk.files.reopen(name);
        let mut file = reopened.map_err(|e| self.disk.error(name, "open", &e))?;
        let written = self.open(name, Access::Cached)?;
        let mut offset = sure;
        while offset < bytes {
            let part = (bytes - offset).min(REWRITE_BYTES) as usize;
            let rewritten = written.read(Range { offset, bytes: part })?;
            let done = file.overwrite(offset, &rewritten);
            done.map_err(|e| self.disk.error(name, "write", &e))?;
            offset += part as u64;
        }
        let mut log = LogFile::new(self.disk.clone(), name, file, bytes);
        log.cut()?;
        log.sync()?;
        Ok(log)
    }

    /// Removes partial files that a crash left behind, if `ours` accepts their names.
    pub fn sweep(&self, ours: &dyn Fn(&str) -> bool) -> Result<(), Error> {
        let listed = self.disk.files.list().map_err(|e| self.disk.error("", "list", &e))?;
        for (name, _) in &listed {
            if name.strip_suffix(PARTIAL).is_some_and(ours) {
                self.delete(name)?;
            }
        }
        Ok(())
    }

    /// True if a sync failed. The store then refuses all changes.
    pub fn is_poisoned(&self) -> bool {
        self.disk.poisoned.load(Ordering::Acquire)
    }
}

fn io_error(path: &Path, doing: &str, error: &io::Error) -> Error {
    Error::io(path.display().to_string(), doing, error)
}

impl Shared {
    pub(crate) fn error(&self, name: &str, doing: &str, error: &io::Error) -> Error {
        Error::io(self.files.describe(name), doing, error)
    }

    /// Refuses an invalid name, and every change after a failed sync.
    fn check(&self, name: &str) -> Result<(), Error> {
        check_name(name)?;
        self.check_poison(name)
    }

    /// Excludes other writers of a name until the result is dropped. Errors: `Exists`.
    fn claim(self: &Arc<Shared>, name: &str) -> Result<Claim, Error> {
        let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if !writing.insert(name.to_owned()) {
            let what = "another writer is at work on this file: choose another name";
            return Err(Error::new(ErrorKind::Exists, self.files.describe(name), what));
        }
        Ok(Claim { disk: self.clone(), name: name.to_owned() })
    }

    pub(crate) fn check_poison(&self, name: &str) -> Result<(), Error> {
        if self.poisoned.load(Ordering::Acquire) {
            let what = "an earlier sync failed, so what the disk holds is not known: open the \
                        directory again to recover what was saved";
            return Err(Error::new(ErrorKind::Poisoned, self.files.describe(name), what));
        }
        Ok(())
    }

    pub(crate) fn poison(&self) {
        self.poisoned.store(true, Ordering::Release);
    }

    /// Appends all of `bytes`.
    pub(crate) fn append(
        &self,
        name: &str,
        file: &mut dyn OutFile,
        mut bytes: &[u8],
    ) -> Result<(), Error> {
        while !bytes.is_empty() {
            match file.append(bytes) {
                Ok(0) => return Err(self.error(name, "write", &io::ErrorKind::WriteZero.into())),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.error(name, "write", &error)),
            }
        }
        Ok(())
    }

    pub(crate) fn sync(&self, name: &str, file: &mut dyn OutFile) -> Result<(), Error> {
        if self.syncing == Syncing::Off {
            return Ok(());
        }
        file.sync().map_err(|error| {
            self.poison();
            self.error(name, "sync", &error)
        })
    }

    fn sync_names(&self) -> Result<(), Error> {
        if self.syncing == Syncing::Off {
            return Ok(());
        }
        self.files.sync_names().map_err(|error| {
            self.poison();
            self.error("", "sync the directory", &error)
        })
    }

    /// Syncs a partial file and renames it to its final name.
    fn publish(&self, name: &str, file: &mut dyn OutFile, replace: bool) -> Result<(), Error> {
        self.sync(name, file)?;
        let partial = format!("{name}{PARTIAL}");
        let renamed = self.files.rename(&partial, name, replace);
        renamed.map_err(|e| self.error(name, "rename to", &e))?;
        self.sync_names()
    }
}

impl Store for FileStore {
    fn create(&self, name: &str) -> Result<Box<dyn FileWriter>, Error> {
        self.disk.check(name)?;
        let claim = self.disk.claim(name)?;
        let created = self.disk.files.create(&format!("{name}{PARTIAL}"));
        let file = created.map_err(|e| self.disk.error(name, "create", &e))?;
        Ok(Box::new(Writer { claim, file, gathered: Vec::new(), bytes: 0, state: State::Growing }))
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.disk.check(name)?;
        let _claim = self.disk.claim(name)?;
        let partial = format!("{name}{PARTIAL}");
        let created = self.disk.files.create(&partial);
        let mut file = created.map_err(|e| self.disk.error(name, "create", &e))?;
        let done = self.disk.append(name, &mut *file, bytes);
        let done = done.and_then(|()| self.disk.publish(name, &mut *file, true));
        if done.is_err() {
            // Best effort: if this fails, the next sweep removes the file.
            let _ = self.disk.files.remove(&partial);
        }
        done
    }

    fn open(&self, name: &str, access: Access) -> Result<Arc<dyn ReadAt>, Error> {
        let file = self.disk.files.open(name, access);
        let file = file.map_err(|e| self.disk.error(name, "open", &e))?;
        let bytes = file.bytes().map_err(|e| self.disk.error(name, "look at", &e))?;
        let waits = file.waits();
        let read = Arc::new(Read { file, name: self.disk.files.describe(name), bytes });
        Ok(Arc::new(Reader { read, waits }))
    }

    fn list(&self, prefix: &str) -> Result<Vec<Entry>, Error> {
        let listed = self.disk.files.list().map_err(|e| self.disk.error("", "list", &e))?;
        let whole = |name: &str| name.starts_with(prefix) && !name.ends_with(PARTIAL);
        let found = listed.into_iter().filter(|(name, _)| whole(name));
        let mut found: Vec<Entry> = found.map(|(name, bytes)| Entry { name, bytes }).collect();
        found.sort();
        Ok(found)
    }

    fn delete(&self, name: &str) -> Result<(), Error> {
        self.disk.check_poison(name)?;
        match self.disk.files.remove(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(self.disk.error(name, "remove", &error))
            }
            _ => Ok(()),
        }
    }

    fn describe(&self, name: &str) -> String {
        self.disk.files.describe(name)
    }
}

#[derive(PartialEq, Eq)]
enum State {
    Growing,
    Failed,
    Finished,
}

/// The exclusive right to write a name.
struct Claim {
    disk: Arc<Shared>,
    name: String,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut writing = self.disk.writing.lock().unwrap_or_else(PoisonError::into_inner);
        writing.remove(&self.name);
    }
}

/// A file before it is published.
struct Writer {
    claim: Claim,
    file: Box<dyn OutFile>,
    gathered: Vec<u8>,
    bytes: u64,
    state: State,
}

impl Writer {
    fn write_gathered(&mut self) -> Result<(), Error> {
        let written = self.claim.disk.append(&self.claim.name, &mut *self.file, &self.gathered);
        self.gathered.clear();
        if written.is_err() {
            self.state = State::Failed;
        }
        written
    }

    fn check_whole(&self) -> Result<(), Error> {
        if self.state == State::Failed {
            let what = "an earlier write of this file failed: write it again from the start";
            return Err(Error::new(
                ErrorKind::Io,
                self.claim.disk.files.describe(&self.claim.name),
                what,
            ));
        }
        self.claim.disk.check_poison(&self.claim.name)
    }
}

impl FileWriter for Writer {
    fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.check_whole()?;
        self.gathered.extend_from_slice(bytes);
        self.bytes += bytes.len() as u64;
        if self.gathered.len() >= WRITE_BYTES {
            self.write_gathered()?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<u64, Error> {
        self.check_whole()?;
        self.write_gathered()?;
        self.claim.disk.publish(&self.claim.name, &mut *self.file, false)?;
        self.state = State::Finished;
        Ok(self.bytes)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.state != State::Finished {
            // Best effort: if this fails, the next sweep removes the file.
            let _ = self.claim.disk.files.remove(&format!("{}{PARTIAL}", self.claim.name));
        }
    }
}

struct Reader {
    read: Arc<Read>,
    waits: bool,
}

struct Read {
    file: Arc<dyn InFile>,
    name: String,
    bytes: u64,
}

impl Read {
    fn read(&self, range: Range) -> Result<Buffer, Error> {
        check_range(range, self.bytes, &self.name)?;
        let first = self.part(range.offset, range.bytes)?;
        if first.len() == range.bytes {
            return Ok(first);
        }
        let mut whole = first.to_vec();
        while whole.len() < range.bytes {
            let offset = range.offset + whole.len() as u64;
            let part = self.part(offset, range.bytes - whole.len())?;
            if part.is_empty() {
                return Err(Error::corrupt(&self.name, offset, "the file became shorter"));
            }
            whole.extend_from_slice(&part);
        }
        Ok(Buffer::from(whole))
    }

    /// The range, if all of it is there without a wait.
    fn read_ready(&self, range: Range) -> Option<Buffer> {
        check_range(range, self.bytes, &self.name).ok()?;
        let read = self.file.read_ready(range.offset, range.bytes)?.ok()?;
        (read.len() == range.bytes).then_some(read)
    }

    fn plan(&self, range: Range) -> Option<PlannedRead> {
        check_range(range, self.bytes, &self.name).ok()?;
        self.file.plan(range.offset, range.bytes)
    }

    fn part(&self, offset: u64, bytes: usize) -> Result<Buffer, Error> {
        loop {
            match self.file.read(offset, bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => {
                    return done.map_err(|e| Error::io(&self.name, "read", &e).with_offset(offset))
                }
            }
        }
    }
}

impl ReadAt for Reader {
    fn name(&self) -> &str {
        &self.read.name
    }

    fn bytes(&self) -> u64 {
        self.read.bytes
    }

    fn read(&self, range: Range) -> Result<Buffer, Error> {
        self.read.read(range)
    }

    fn waits(&self) -> bool {
        self.waits
    }

    fn is_near(&self) -> bool {
        self.read.file.is_near()
    }

    fn read_ready(&self, range: Range) -> Option<Buffer> {
        self.read.read_ready(range)
    }

    fn plan(&self, range: Range) -> Option<PlannedRead> {
        self.read.plan(range)
    }

    fn read_many(&self, ranges: &[Range]) -> Result<Vec<Buffer>, Error> {
        for range in ranges {
            check_range(*range, self.read.bytes, &self.read.name)?;
        }
        if let Some(read) = self.read.file.read_many(ranges) {
            return read.map_err(|e| Error::io(&self.read.name, "read", &e));
        }
        if !self.waits || ranges.len() < 2 {
            return ranges.iter().map(|&range| self.read.read(range)).collect();
        }
        let ready = ranges.iter().map(|&range| self.read.read_ready(range)).collect();
        let (read, wanted) = (self.read.clone(), ranges.to_vec());
        fill(ready, |at| self.read.plan(ranges[at]), move |at| read.read(wanted[at]))
    }
}
