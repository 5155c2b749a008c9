//! A directory some of whose files lie in a far store.
//!
//! 1. A file is written here, as in any directory.
//! 2. [`Tiered::send`] copies it to the far store and then removes it here. [`Tiered::fetch`] copies it
//!    back; the far copy stays, so the next `send` copies nothing. Files never change, so both copies
//!    are the same. Readers follow, those that opened the file before too (`file.rs`).
//! 3. A file that is removed is gone here at once. Its far copy is *doomed*: [`Tiered::settle`] deletes
//!    it, so nobody who removes a file waits for a network. After a restart the far copy is listed
//!    again, and whoever sweeps files that nothing names removes it again.
//! 4. A file is removed here only after the far store said that it has it. So a crash at any moment
//!    leaves the file here, there or in both places.
//! 5. A far store that gives no answer is left alone for a while (`far.rs`), so that readers learn at
//!    once that it is away.
//!
//! Only files that are written once may be sent. Nobody else may write to the far store's folder.
//!
//! A directory that many may follow, one after the other or at once, has *pointers* ([`Tiered::with_pointers`],
//! `pointer.rs` and `pointed.rs`): it lists nothing in the far store, which many directories share.

mod far;
mod file;
mod pointed;
mod pointer;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use xxhash_rust::xxh3::Xxh3;

use self::far::Far;
use self::file::TieredFile;
use self::pointer::{pointer_name, FarCopy, Owner, POINTER};
use crate::clock::Clock;
use crate::error::{Error, ErrorKind};
use crate::file_store::FileStore;
use crate::files::{Access, Files, InFile, OutFile};
use crate::names::PARTIAL;
use crate::store::{checksum_of, Entry, Range, Store, WALK_BYTES};

/// A file that may be sent, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedFile {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// True if it is in the directory, be it also in the far store.
    pub is_near: bool,
}

/// Counters of a tiered directory since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierCounts {
    /// Files that were copied to the far store, and their bytes.
    pub sent: u64,
    /// Bytes of these files.
    pub sent_bytes: u64,
    /// Files that were copied back.
    pub fetched: u64,
    /// Bytes of these files.
    pub fetched_bytes: u64,
    /// Ranges that readers read from the far store.
    pub far_reads: u64,
    /// Bytes of these ranges.
    pub far_read_bytes: u64,
    /// Calls that the far store did not answer, or that were not made because it was away.
    pub far_failures: u64,
}

/// A directory over two places. Clones are the same directory.
#[derive(Clone)]
pub struct Tiered {
    shared: Arc<Shared>,
}

/// What the directory shares with its open files.
struct Shared {
    near: Arc<dyn Files>,
    far: Arc<Far>,
    /// Which files may be sent.
    may_move: fn(&str) -> bool,
    /// What the names of its far copies begin with. `None`: a copy has the name of its file, and there
    /// are no pointers.
    prefix: Option<String>,
    known: Mutex<Known>,
    sent: AtomicU64,
    sent_bytes: AtomicU64,
    fetched: AtomicU64,
    fetched_bytes: AtomicU64,
}

#[derive(Default)]
struct Known {
    /// Files with a far copy.
    far: BTreeMap<String, FarCopy>,
    /// Far copies that are to be deleted, by name of the file.
    doomed: BTreeMap<String, Doomed>,
    /// Files that are being sent or fetched.
    moving: BTreeSet<String>,
    /// Files that stay here while others copy them, and how many do.
    lent: HashMap<String, usize>,
    /// Far copies of the directory before this one, whose files are gone here.
    left: Vec<Doomed>,
    /// True if no far copy may be deleted any more.
    is_over: bool,
    open: HashMap<String, Vec<Weak<TieredFile>>>,
}

/// A far copy that is to be deleted when its last reader has closed it.
struct Doomed {
    copy: String,
    open: Vec<Weak<TieredFile>>,
}

impl Tiered {
    /// A directory over `near`, the files of which that `may_move` accepts may go to `far`.
    ///
    /// Cost: lists the far store once. Errors: those of the far store, `Unavailable` among them.
    pub fn open(
        near: Arc<dyn Files>,
        far: Arc<dyn Store>,
        may_move: fn(&str) -> bool,
        clock: Arc<dyn Clock>,
    ) -> Result<Tiered, Error> {
        let listed = far.list("")?.into_iter().filter(|entry| may_move(&entry.name));
        let copy = |entry: Entry| FarCopy {
            name: entry.name.clone(),
            bytes: entry.bytes,
            owner: Owner::This,
        };
        let listed = listed.map(|entry| (entry.name.clone(), copy(entry))).collect();
        Ok(Tiered::over(near, Arc::new(Far::new(far, clock)), may_move, None, listed))
    }

    fn over(
        near: Arc<dyn Files>,
        far: Arc<Far>,
        may_move: fn(&str) -> bool,
        prefix: Option<String>,
        copies: BTreeMap<String, FarCopy>,
    ) -> Tiered {
        let known = Mutex::new(Known { far: copies, ..Known::default() });
        let (sent, sent_bytes, fetched, fetched_bytes) = Default::default();
        let shared =
            Shared { near, far, may_move, prefix, known, sent, sent_bytes, fetched, fetched_bytes };
        Tiered { shared: Arc::new(shared) }
    }

    /// A store over the files of `near` and a far store; see [`Tiered::open`].
    pub fn beside(
        near: &FileStore,
        far: Arc<dyn Store>,
        may_move: fn(&str) -> bool,
        clock: Arc<dyn Clock>,
    ) -> Result<(FileStore, Tiered), Error> {
        let (files, syncing) = near.parts();
        let tiered = Tiered::open(files, far, may_move, clock)?;
        Ok((FileStore::new(Arc::new(tiered.clone()), syncing), tiered))
    }

    /// The files that may be sent, and where they are. Errors: those of the directory.
    pub fn placed(&self) -> Result<Vec<PlacedFile>, Error> {
        let shared = &self.shared;
        let listed = shared.near.list().map_err(|e| shared.error("", "list", &e))?;
        let known = shared.known();
        let near = listed.into_iter().filter(|(name, _)| (shared.may_move)(name));
        let mut placed: BTreeMap<String, PlacedFile> = near
            .map(|(name, bytes)| (name.clone(), PlacedFile { name, bytes, is_near: true }))
            .collect();
        for (name, copy) in &known.far {
            let away = || PlacedFile { name: name.clone(), bytes: copy.bytes, is_near: false };
            placed.entry(name.clone()).or_insert_with(away);
        }
        Ok(placed.into_values().collect())
    }

    /// True if readers of a file go to the far store.
    pub fn is_away(&self, name: &str) -> bool {
        let known = self.shared.known();
        known.far.contains_key(name) && self.shared.near.open(name, Access::Cached).is_err()
    }

    /// Copies a file to the far store, unless it is there, and removes it here. Returns the bytes that
    /// were copied.
    ///
    /// * `keep_going`: asked now and then; if it says no, the file stays as it was.
    ///
    /// Errors: `Invalid` for a file that may not be sent, `NotFound`, those of both stores. The file
    /// stays where it was.
    pub fn send(&self, name: &str, keep_going: &dyn Fn() -> bool) -> Result<u64, Error> {
        let shared = &self.shared;
        let Some(_moving) = shared.begin_move(name)? else { return Ok(0) };
        let is_there = shared.known().far.contains_key(name);
        if is_there && shared.near.open(name, Access::Cached).is_err() {
            return Ok(0);
        }
        let copied = if is_there { Some(0) } else { shared.copy_out(name, keep_going)? };
        let Some(copied) = copied else { return Ok(0) };
        let mut known = shared.known();
        if known.doomed.contains_key(name) {
            // It was removed meanwhile.
            return Ok(copied);
        }
        let near = shared.near.open(name, Access::Cached).and_then(|file| file.bytes());
        let bytes = near.map_err(|e| shared.error(name, "look at", &e))?;
        if !is_there {
            let copy = FarCopy { name: shared.far_name(name), bytes, owner: Owner::This };
            shared.note(&mut known, name, copy)?;
        }
        if copied > 0 {
            shared.sent.fetch_add(1, Ordering::Relaxed);
            shared.sent_bytes.fetch_add(copied, Ordering::Relaxed);
        }
        if known.lent.contains_key(name) {
            // Somebody copies it from here; a later call removes it.
            return Ok(copied);
        }
        known.for_each_open(name, &mut |file| file.go_far());
        shared.near.remove(name).map_err(|e| shared.error(name, "remove", &e))?;
        Ok(copied)
    }

    /// Copies a file from the far store, unless it is here. Returns the bytes that were copied.
    ///
    /// * `keep_going`: as for [`Tiered::send`].
    ///
    /// Errors: `NotFound`, those of both stores, such as `Full`. The file stays where it was.
    pub fn fetch(&self, name: &str, keep_going: &dyn Fn() -> bool) -> Result<u64, Error> {
        let shared = &self.shared;
        let Some(_moving) = shared.begin_move(name)? else { return Ok(0) };
        if shared.near.open(name, Access::Cached).is_ok() {
            return Ok(0);
        }
        let partial = format!("{name}{PARTIAL}");
        let copied = shared.copy_in(name, &partial, keep_going);
        if !matches!(copied, Ok(Some(_))) {
            // Best effort: if this fails, the next sweep removes the file.
            let _ = shared.near.remove(&partial);
        }
        let Some(copied) = copied? else { return Ok(0) };
        let mut known = shared.known();
        if !known.far.contains_key(name) {
            // It was removed meanwhile.
            let _ = shared.near.remove(&partial);
            return Ok(copied);
        }
        let failed = |e: io::Error| shared.error(name, "fetch", &e);
        shared.near.rename(&partial, name, false).map_err(failed)?;
        shared.near.sync_names().map_err(failed)?;
        known.for_each_open(name, &mut |file| {
            // A reader that cannot be led here goes on to read there.
            if let Ok(near) = shared.near.open(name, file.access()) {
                file.come_near(near);
            }
        });
        shared.fetched.fetch_add(1, Ordering::Relaxed);
        shared.fetched_bytes.fetch_add(copied, Ordering::Relaxed);
        Ok(copied)
    }

    /// Deletes the far copies of files that were removed and that nobody reads any more. Errors: the first of
    /// the far store, after all were tried, unless it cannot be reached; what is left is deleted by a later call.
    pub fn settle(&self) -> Result<(), Error> {
        let doomed: Vec<(String, String)> = {
            let known = self.shared.known();
            let is_free = |name: &String, doomed: &Doomed| {
                let mut open = doomed.open.iter();
                !known.moving.contains(name) && open.all(|file| file.strong_count() == 0)
            };
            let doomed = known.doomed.iter().filter(|(name, doomed)| is_free(name, doomed));
            doomed.map(|(name, doomed)| (name.clone(), doomed.copy.clone())).collect()
        };
        let mut failed = None;
        for (name, copy) in doomed {
            if self.shared.known().is_over {
                break;
            }
            match self.shared.far.ask(|far| far.delete(&copy)) {
                Ok(()) => drop(self.shared.known().doomed.remove(&name)),
                Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
                // The store may refuse this one alone.
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// The counters so far.
    pub fn counts(&self) -> TierCounts {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Shared { sent, sent_bytes, fetched, fetched_bytes, far, .. } = &*self.shared;
        TierCounts {
            sent: load(sent),
            sent_bytes: load(sent_bytes),
            fetched: load(fetched),
            fetched_bytes: load(fetched_bytes),
            far_reads: far.reads(),
            far_read_bytes: far.read_bytes(),
            far_failures: far.failures(),
        }
    }
}

/// The exclusive right to move a file.
struct Moving<'a> {
    shared: &'a Shared,
    name: &'a str,
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        self.shared.known().moving.remove(self.name);
    }
}

impl Known {
    fn for_each_open(&mut self, name: &str, visit: &mut dyn FnMut(&TieredFile)) {
        let open = self.open.get(name).into_iter().flatten();
        open.filter_map(Weak::upgrade).for_each(|file| visit(&file));
    }
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, name: &str, doing: &str, error: &io::Error) -> Error {
        Error::io(self.near.describe(name), doing, error)
    }

    /// The name of a far copy that this directory makes.
    fn far_name(&self, name: &str) -> String {
        self.prefix.as_ref().map_or(name.to_owned(), |prefix| format!("{prefix}.{name}"))
    }

    /// Notes where the far copy of a file is, here and in the directory.
    fn note(&self, known: &mut Known, name: &str, copy: FarCopy) -> Result<(), Error> {
        if self.prefix.is_some() {
            let written = pointer::write(&*self.near, name, &copy);
            written.map_err(|e| self.error(&pointer_name(name), "write", &e))?;
        }
        known.far.insert(name.to_owned(), copy);
        Ok(())
    }

    /// `None` if another thread moves the file.
    fn begin_move<'a>(&'a self, name: &'a str) -> Result<Option<Moving<'a>>, Error> {
        if !(self.may_move)(name) {
            let what = "a file of this name stays in its directory";
            return Err(Error::new(ErrorKind::Invalid, self.near.describe(name), what));
        }
        let is_first = self.known().moving.insert(name.to_owned());
        Ok(is_first.then_some(Moving { shared: self, name }))
    }

    /// Copies a file to the far store; returns its length, `None` if `keep_going` said no.
    fn copy_out(&self, name: &str, keep_going: &dyn Fn() -> bool) -> Result<Option<u64>, Error> {
        let failed = |e: io::Error| self.error(name, "read", &e);
        let near = self.near.open(name, Access::Cached).map_err(failed)?;
        let bytes = near.bytes().map_err(failed)?;
        let far_name = self.far_name(name);
        let sent = self.far.ask(|far| {
            let mut out = far.create(&far_name)?;
            out.expect(bytes)?;
            let mut offset = 0;
            while offset < bytes {
                if !keep_going() {
                    return Ok(false);
                }
                let part = (bytes - offset).min(WALK_BYTES as u64) as usize;
                let part = near.read(offset, part).map_err(failed)?;
                if part.is_empty() {
                    let what = "the file became shorter";
                    return Err(Error::corrupt(self.near.describe(name), offset, what));
                }
                offset += part.len() as u64;
                out.append(&part)?;
            }
            out.finish().map(|_| true)
        });
        match sent {
            Ok(is_sent) => Ok(is_sent.then_some(bytes)),
            Err(error) if error.kind() == ErrorKind::Exists => {
                // An earlier attempt may have sent it, and its answer was lost.
                let there = self.far.ask(|far| far.open(&far_name, Access::Cached))?;
                let is_same = there.bytes() == bytes
                    && checksum_of(&*there)? == checksum_near(&*near, bytes).map_err(failed)?;
                is_same.then_some(Some(0)).ok_or(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Copies a file from the far store to a partial file here; returns its length.
    fn copy_in(
        &self,
        name: &str,
        partial: &str,
        keep_going: &dyn Fn() -> bool,
    ) -> Result<Option<u64>, Error> {
        let copy = self.known().far.get(name).map(|copy| (copy.name.clone(), Some(copy.bytes)));
        let (copy, bytes) = copy.unwrap_or_else(|| (self.far_name(name), None));
        let file = self.far.ask(|far| far.open(&copy, Access::Cached))?;
        if let Some(bytes) = bytes.filter(|bytes| *bytes != file.bytes()) {
            let what = format!("it has {} bytes, and {bytes} were sent there", file.bytes());
            return Err(Error::corrupt(file.name(), file.bytes().min(bytes), what));
        }
        let failed = |e: io::Error| self.error(name, "write", &e);
        let mut out = self.near.create(partial).map_err(failed)?;
        let mut offset = 0;
        while offset < file.bytes() {
            if !keep_going() {
                return Ok(None);
            }
            let bytes = (file.bytes() - offset).min(WALK_BYTES as u64) as usize;
            let part = self.far.ask(|_| file.read(Range { offset, bytes }))?;
            let mut left: &[u8] = &part;
            while !left.is_empty() {
                let written = out.append(left).map_err(failed)?;
                left = &left[written..];
            }
            offset += bytes as u64;
        }
        out.sync().map_err(failed)?;
        Ok(Some(file.bytes()))
    }
}

/// XXH3-128 of the first bytes of a file.
pub(super) fn checksum_near(file: &dyn InFile, bytes: u64) -> io::Result<u128> {
    let mut hash = Xxh3::new();
    let mut offset = 0;
    while offset < bytes {
        let part = file.read(offset, (bytes - offset).min(WALK_BYTES as u64) as usize)?;
        if part.is_empty() {
            break;
        }
        hash.update(&part);
        offset += part.len() as u64;
    }
    Ok(hash.digest128())
}

impl Files for Tiered {
    fn create(&self, name: &str) -> io::Result<Box<dyn OutFile>> {
        self.shared.near.create(name)
    }

    fn reopen(&self, name: &str) -> io::Result<Box<dyn OutFile>> {
        self.shared.near.reopen(name)
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn InFile>> {
        let shared = &self.shared;
        if !(shared.may_move)(name) {
            return shared.near.open(name, access);
        }
        // No file moves while the lock is held.
        let mut known = shared.known();
        let copy = known.far.get(name);
        let (near, bytes) = match (shared.near.open(name, access), copy) {
            (Ok(near), _) => {
                let bytes = near.bytes()?;
                (Some(near), bytes)
            }
            (Err(error), Some(copy)) if error.kind() == io::ErrorKind::NotFound => {
                (None, copy.bytes)
            }
            (Err(error), _) => return Err(error),
        };
        let far = copy.map_or_else(|| shared.far_name(name), |copy| copy.name.clone());
        let file = Arc::new(TieredFile::new(shared.clone(), access, bytes, near, far));
        let open = known.open.entry(name.to_owned()).or_default();
        open.retain(|file| file.strong_count() > 0);
        open.push(Arc::downgrade(&file));
        Ok(file)
    }

    fn rename(&self, from: &str, to: &str, replace: bool) -> io::Result<()> {
        let known = self.shared.known();
        if !replace && (known.far.contains_key(to) || known.doomed.contains_key(to)) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.shared.near.rename(from, to, replace)
    }

    /// Links what is here. Whoever takes a file that is away reads it, or takes its pointer.
    fn link(&self, from: &dyn Files, name: &str, to: &str) -> bool {
        self.shared.near.link(from, name, to)
    }

    fn root(&self) -> Option<&Path> {
        self.shared.near.root()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut known = self.shared.known();
        let open = known.open.remove(name).unwrap_or_default();
        let copy = known.far.remove(name);
        let was_far = copy.is_some();
        match copy {
            Some(FarCopy { owner: Owner::Before, name: copy, .. }) => {
                known.left.push(Doomed { copy, open });
            }
            Some(FarCopy { owner: Owner::Nobody, .. }) => {}
            Some(FarCopy { name: copy, .. }) => known.doom(name, Doomed { copy, open }),
            None if known.moving.contains(name) => {
                known.doom(name, Doomed { copy: self.shared.far_name(name), open });
            }
            None => {}
        }
        if was_far && self.shared.prefix.is_some() {
            // Best effort: nobody looks for the pointer of a file that nothing names.
            let _ = self.shared.near.remove(&pointer_name(name));
        }
        match self.shared.near.remove(name) {
            Err(error) if was_far && error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    fn sync_names(&self) -> io::Result<()> {
        self.shared.near.sync_names()
    }

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let mut listed = self.shared.near.list()?;
        if self.shared.prefix.is_some() {
            listed.retain(|(name, _)| !name.ends_with(POINTER));
        }
        let near: BTreeSet<String> = listed.iter().map(|(name, _)| name.clone()).collect();
        let known = self.shared.known();
        let away = known.far.iter().filter(|(name, _)| !near.contains(*name));
        listed.extend(away.map(|(name, copy)| (name.clone(), copy.bytes)));
        Ok(listed)
    }

    fn describe(&self, name: &str) -> String {
        self.shared.near.describe(name)
    }
}
