//! Shared states: the rows of one LSN as files, which others copy while the engine continues.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use vstream_store::{Access, FileStore, ReadAt, Store, Syncing};
use xxhash_rust::xxh3::Xxh3;

use crate::error::Error;
use crate::version::VersionSet;
use crate::wal::{State, Ticket, Window};

/// Bytes per read while a checksum is computed.
const PART: usize = 1 << 20;

/// A file of a shared state. Its bytes never change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedFile {
    /// Its name in the directory of the state.
    pub name: String,
    /// A name that no other content ever has. A copy under this name can serve many states.
    pub key: String,
    /// Its present path, valid until the state is dropped; empty if it must be brought first
    /// ([`SharedState::bring`]).
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// XXH3-64 of its content, or of the pointer to it.
    pub checksum: u64,
}

/// The rows of one LSN as files, which stay until this is dropped.
///
/// `Engine::open` restores exactly this state from a directory that holds the manifest as
/// `COLLECTION` and the files under their names. Two states in a row differ only by new files:
/// those written since the first. A state holds the directory's lock as long as it lives.
///
/// With a remote level that has pointers ([`crate::RemoteLevel::with_pointers`]) the state has the
/// pointer of each segment with a far copy, in place of its bytes. Then it must live as long as anybody
/// may open a copy of it: a far copy is deleted only when no state names it. Once its files are copied,
/// [`SharedState::release_copied`] lets go of all others.
pub struct SharedState {
    versions: Arc<VersionSet>,
    manifest: Vec<u8>,
    collection: u64,
    files: Vec<Lent>,
    /// False once the files without a pointer were let go of.
    holds_all: AtomicBool,
    state: State,
    ticket: Ticket,
}

/// A file of the state, and the pointer that stands for it if it has a far copy.
struct Lent {
    name: String,
    pointer: Option<String>,
}

impl SharedState {
    /// * `ticket`: waits for the last record, after which the log was rotated.
    pub(super) fn of(
        versions: &Arc<VersionSet>,
        state: State,
        ticket: Ticket,
    ) -> Result<SharedState, Error> {
        let tiers = versions.directory().tiers();
        if tiers.is_some_and(|tiers| !tiers.files.keeps_pointers()) {
            return Err(Error::unsupported(
                "some segments are in a remote level without pointers, and its files cannot be lent",
            ));
        }
        let (manifest, names) = versions.pin(state)?;
        let lend = |name: String| {
            let pointer = tiers.and_then(|tiers| tiers.files.lend(&name));
            Lent { name, pointer }
        };
        Ok(SharedState {
            versions: versions.clone(),
            collection: manifest.collection,
            manifest: manifest.encode(),
            files: names.into_iter().map(lend).collect(),
            holds_all: AtomicBool::new(true),
            state,
            ticket,
        })
    }

    /// Returns the manifest, which a directory holds as `COLLECTION`.
    pub fn manifest(&self) -> &[u8] {
        &self.manifest
    }

    /// Returns the number of living rows.
    pub fn rows(&self) -> u64 {
        self.state.live
    }

    /// Returns the sum, mod 2^128, of a hash of (id, version) of every living row.
    pub fn digest(&self) -> u128 {
        self.state.digest
    }

    /// True if the state has pointers, so that it needs the far copies that they name.
    pub fn has_pointers(&self) -> bool {
        self.files.iter().any(|file| file.pointer.is_some())
    }

    /// Waits until the files beside the manifest are whole on the disk, and returns them.
    ///
    /// Cost: may wait for a sync; reads each file once for its checksum, whatever the number of
    /// states that share the file; asks nothing of a far store. May be called from any thread. Errors:
    /// `Io` if the log cannot be written.
    pub fn files(&self) -> Result<Vec<SharedFile>, Error> {
        self.ticket.clone().wait()?;
        self.files.iter().map(|file| self.file(file)).collect()
    }

    /// As [`SharedState::files`], without pointers: a copy of these needs no far store. Files that are
    /// away have no path. Errors: the same.
    pub fn whole_files(&self) -> Result<Vec<SharedFile>, Error> {
        self.ticket.clone().wait()?;
        let whole = |file: &Lent| {
            let shared = self.file(file)?;
            if file.pointer.is_none() {
                return Ok(shared);
            }
            let bytes = self.versions.directory().store.open(&file.name, Access::Cached)?.bytes();
            let key = self.key(&file.name, shared.checksum);
            Ok(SharedFile { name: file.name.clone(), key, path: String::new(), bytes, ..shared })
        };
        self.files.iter().map(whole).collect()
    }

    /// Copies or links a file of [`SharedState::whole_files`] into the directory `into`, under its name.
    ///
    /// Errors: `Unavailable` if it is away and the far store gives no answer, `Exists`, `Io`.
    pub fn bring(&self, name: &str, into: &Path) -> Result<(), Error> {
        let into = FileStore::create_dir(into, Syncing::Off)?;
        Ok(into.take(&self.versions.directory().store, name, name)?)
    }

    /// Copies the far copies of earlier engines to this engine's own, so that the state needs nothing of
    /// theirs. Call it before [`SharedState::files`]. Cost: these bytes pass through here. Errors: those
    /// of the far store.
    pub fn make_own(&self) -> Result<(), Error> {
        let Some(tiers) = self.versions.directory().tiers() else { return Ok(()) };
        for file in self.files.iter().filter(|file| file.pointer.is_some()) {
            tiers.files.make_own(&file.name)?;
        }
        Ok(())
    }

    /// Lets go of all files that have no pointer: they were copied. Those that pointers stand for stay
    /// until the state is dropped.
    pub fn release_copied(&self) {
        if self.holds_all.swap(false, Ordering::AcqRel) {
            self.release(&|file| file.pointer.is_none());
        }
    }

    /// Has no far copy deleted from now on. Call it before the state is dropped because its engine ends,
    /// and not because nobody needs its files any more.
    pub fn end_deletes(&self) {
        if let Some(tiers) = self.versions.directory().tiers() {
            tiers.files.end_deletes();
        }
    }

    fn release(&self, which: &dyn Fn(&Lent) -> bool) {
        let directory = self.versions.directory();
        let released: Vec<&Lent> = self.files.iter().filter(|file| which(file)).collect();
        if let Some(tiers) = directory.tiers() {
            let lent = released.iter().filter(|file| file.pointer.is_none());
            lent.for_each(|file| tiers.files.give_back(&file.name));
        }
        let names: Vec<String> = released.iter().map(|file| file.name.clone()).collect();
        directory.unpin(&names);
    }

    fn file(&self, file: &Lent) -> Result<SharedFile, Error> {
        let store = &self.versions.directory().store;
        let name = file.pointer.as_ref().unwrap_or(&file.name);
        let opened = store.open(name, Access::Cached)?;
        let take = || {
            let mut hash = Xxh3::new();
            for_each_part(&*opened, &mut |part| {
                hash.update(part);
                Ok(())
            })?;
            Ok(hash.digest())
        };
        let checksum = match file.pointer {
            // The far copy of a segment may become another one, and its pointer with it.
            Some(_) => take()?,
            None => self.versions.checksum_of(name, take)?,
        };
        Ok(SharedFile {
            name: name.clone(),
            key: self.key(name, checksum),
            path: store.describe(name),
            bytes: opened.bytes(),
            checksum,
        })
    }

    fn key(&self, name: &str, checksum: u64) -> String {
        format!("{:016x}.{name}.{checksum:016x}", self.collection)
    }
}

impl Drop for SharedState {
    fn drop(&mut self) {
        let holds_all = self.holds_all.load(Ordering::Acquire);
        self.release(&|file| holds_all || file.pointer.is_some());
    }
}

fn for_each_part(
    file: &dyn ReadAt,
    visit: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut window = Window::new(file);
    let mut offset = 0;
    while offset < file.bytes() {
        let part = window.get(offset, PART)?;
        offset += part.len() as u64;
        visit(part)?;
    }
    Ok(())
}
