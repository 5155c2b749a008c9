//! The directory of a durable engine: its lock, its files, and the removal of files.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use vstream_store::remote::Tiered;
use vstream_store::{DirectoryLock, FileStore, Store, Syncing};

use super::manifest::Manifest;
use super::remote_level::{RemoteLevel, Tiers};
use crate::error::Error;
use crate::layout::{check_not_collection, number, segment_name, Number, COLLECTION};
use crate::snapshot::MANIFEST;
use crate::wal::HEADER;

/// A directory that nobody else writes to.
pub(crate) struct Directory {
    pub(crate) store: FileStore,
    /// Where segments go that are not asked for, if anywhere.
    tiers: Option<Tiers>,
    pins: Mutex<Pins>,
    /// Held until the directory is dropped; stores that the caller locks need none.
    _lock: Option<DirectoryLock>,
}

impl Directory {
    /// Wraps a store. The caller ensures that nobody else writes to it.
    pub(crate) fn unlocked(store: FileStore) -> Directory {
        Directory { store, tiers: None, pins: Mutex::default(), _lock: None }
    }

    /// Makes and locks a directory. Errors: `Unavailable` if it is open already, `Io`.
    pub(crate) fn create(path: &Path, syncing: Syncing) -> Result<Directory, Error> {
        let store = FileStore::create_dir(path, syncing)?;
        Ok(Directory { store, tiers: None, pins: Mutex::default(), _lock: Some(lock(path)?) })
    }

    /// Locks an existing directory. Errors: `Invalid` if it holds no collection, `Unavailable` if
    /// it is open already, `Io`.
    pub(crate) fn open(path: &Path, syncing: Syncing) -> Result<Directory, Error> {
        if !path.join(COLLECTION).is_file() {
            return Err(Error::invalid(format!(
                "{} holds no collection: create one there",
                path.display()
            )));
        }
        let store = FileStore::open_dir(path, syncing)?;
        Ok(Directory { store, tiers: None, pins: Mutex::default(), _lock: Some(lock(path)?) })
    }

    /// Opens the far store of a collection that is made here.
    pub(crate) fn begin_remote(&mut self, level: &RemoteLevel, number: u64) -> Result<(), Error> {
        self.attach(level, level.open(&self.store, number)?, true)
    }

    /// Opens the far store of the collection that is here: `given`, or the one that the directory names,
    /// if it names one. Errors: those of [`RemoteLevel::read`] and of the far store; `Unavailable` if it is a
    /// folder that is not there, and has segments.
    pub(crate) fn open_remote(
        &mut self,
        given: Option<&RemoteLevel>,
        manifest: &Manifest,
    ) -> Result<(), Error> {
        let number = manifest.collection;
        let Some(given) = given else {
            return match RemoteLevel::read(&self.store)? {
                Some(named) => self.attach(&named, named.open_named(&self.store, number)?, false),
                None if Tiered::has_pointers(&self.store)? => Err(self.without_far_store()),
                None => Ok(()),
            };
        };
        let opened = match given.has_pointers() || self.is_whole(manifest)? {
            true => given.open(&self.store, number)?,
            false => given.open_named(&self.store, number)?,
        };
        self.attach(given, opened, true)
    }

    /// True if every segment is here.
    fn is_whole(&self, manifest: &Manifest) -> Result<bool, Error> {
        let listed = self.store.list("")?;
        let is_here = |name: &str| listed.iter().any(|entry| entry.name == name);
        let mut segments = manifest.base.segments.iter();
        Ok(segments.all(|segment| is_here(&segment_name(segment.number))))
    }

    fn attach(
        &mut self,
        level: &RemoteLevel,
        (store, tiers): (FileStore, Tiers),
        is_given: bool,
    ) -> Result<(), Error> {
        if is_given && !level.has_pointers() {
            level.write(&self.store)?;
        }
        (self.store, self.tiers) = (store, Some(tiers));
        Ok(())
    }

    /// Opens the far store of a directory whose files are to be taken: the one that it names, or `ours` if
    /// it has pointers. Errors: as [`Directory::open_remote`].
    pub(crate) fn open_remote_beside(
        &mut self,
        ours: Option<&Tiers>,
        manifest: &Manifest,
    ) -> Result<(), Error> {
        if !Tiered::has_pointers(&self.store)? {
            return self.open_remote(None, manifest);
        }
        let ours = ours.ok_or_else(|| self.without_far_store())?;
        let (store, files) = ours.files.reading(&self.store)?;
        (self.store, self.tiers) = (store, Some(Tiers { files, local_bytes: 0 }));
        Ok(())
    }

    fn without_far_store(&self) -> Error {
        Error::invalid(format!(
            "{} has segments in a remote level, and no address was given: give the one that it was made \
             with. A job names it in collection.remote; a savepoint needs none",
            self.store.describe("")
        ))
    }

    /// Takes the file `name` of another directory as file `to`: its far copy, where both know it; else its
    /// bytes. Errors: those of both stores.
    pub(crate) fn take(&self, from: &Directory, name: &str, to: &str) -> Result<(), Error> {
        if let (Some(ours), Some(theirs)) = (&self.tiers, &from.tiers) {
            if ours.files.take(&theirs.files, name, to)? {
                return Ok(());
            }
        }
        Ok(self.store.take(&from.store, name, to)?)
    }

    /// The remote level, if there is one.
    pub(crate) fn tiers(&self) -> Option<&Tiers> {
        self.tiers.as_ref()
    }

    /// Errors if the directory already holds a collection or a snapshot.
    pub(crate) fn check_free(&self) -> Result<(), Error> {
        check_not_collection(&self.store, "open it")?;
        if self.store.list(MANIFEST)?.iter().any(|entry| entry.name == MANIFEST) {
            let place = self.store.describe("");
            let message = format!("{place} holds a snapshot: choose another directory");
            return Err(Error::invalid(message));
        }
        self.check_not_lost()
    }

    /// Errors if the directory holds files of a collection without its manifest: they may be all
    /// that is left of a user's rows. A crash during the creation of a collection leaves only the
    /// first log, without a record; such a log is no error.
    fn check_not_lost(&self) -> Result<(), Error> {
        for entry in self.store.list("")? {
            let is_begun =
                matches!(number(&entry.name), Some(Number::Log(1))) && entry.bytes <= HEADER as u64;
            if number(&entry.name).is_some() && !is_begun {
                return Err(Error::invalid(format!(
                    "{} holds {} of a collection whose {COLLECTION} is gone: put it back, or choose \
                     another directory",
                    self.store.describe(""),
                    entry.name
                )));
            }
        }
        Ok(())
    }

    /// Returns the engine's files that the manifest does not name: a crash during a checkpoint
    /// leaves them.
    pub(crate) fn unnamed(&self, manifest: Option<&Manifest>) -> Result<Vec<String>, Error> {
        let base = manifest.map(|found| &found.base);
        let image = base.and_then(|base| base.image.as_ref());
        let segments = base.map_or(&[][..], |base| &base.segments);
        let is_named = |name: &str| match number(name) {
            None => true,
            Some(Number::Base) => image.is_some_and(|image| image.has(name)),
            Some(Number::Log(number)) => manifest.is_some_and(|m| m.logs.contains(&number)),
            Some(Number::Segment(number)) => segments.iter().any(|of| of.number == number),
            Some(Number::Remembered(number)) => {
                manifest.is_some_and(|manifest| manifest.base.remembered == number)
            }
            Some(Number::Marks(number)) => segments.iter().any(|of| of.tombstones == number),
        };
        let names = self.store.list("")?.into_iter().map(|entry| entry.name);
        Ok(names.filter(|name| !is_named(name)).collect())
    }

    /// Removes the files that [`Directory::unnamed`] finds, and files that were never finished.
    pub(crate) fn sweep(&self, manifest: Option<&Manifest>) -> Result<(), Error> {
        self.store.sweep(&|name| name == COLLECTION || number(name).is_some())?;
        for name in self.unnamed(manifest)? {
            self.store.delete(&name)?;
        }
        Ok(())
    }

    /// Removes a file that nothing names any more and whose name is never used again. A pinned file
    /// is removed with its last pin.
    ///
    /// If a removal fails, the next removals try it again, and the next open of the directory
    /// sweeps the file. A file too many does no harm, so the failure is no error.
    pub(crate) fn remove(&self, name: &str) {
        let mut pins = self.pins();
        if pins.holders.contains_key(name) {
            pins.doomed.insert(name.to_owned());
            return;
        }
        pins.stuck.insert(name.to_owned());
        pins.stuck.retain(|name| self.store.delete(name).is_err());
    }

    /// Names of files that go with their last pin.
    pub(crate) fn retired(&self) -> Vec<String> {
        self.pins().doomed.iter().cloned().collect()
    }

    /// Returns the number of files that could not be removed yet.
    pub(crate) fn stuck(&self) -> u64 {
        self.pins().stuck.len() as u64
    }

    /// Protects files from removal until [`Directory::unpin`].
    pub(crate) fn pin(&self, names: &[String]) {
        let mut pins = self.pins();
        for name in names {
            *pins.holders.entry(name.clone()).or_insert(0) += 1;
        }
    }

    /// Ends the protection by [`Directory::pin`].
    pub(crate) fn unpin(&self, names: &[String]) {
        let mut pins = self.pins();
        for name in names {
            let holders = pins.holders.get_mut(name).expect("a file that is pinned");
            *holders -= 1;
            if *holders == 0 {
                pins.holders.remove(name);
                if pins.doomed.remove(name) && self.store.delete(name).is_err() {
                    pins.stuck.insert(name.clone());
                }
            }
        }
    }

    fn pins(&self) -> MutexGuard<'_, Pins> {
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pinned files by name with their number of pins, and those of them that are to be removed after
/// their last pin.
#[derive(Default)]
struct Pins {
    holders: HashMap<String, usize>,
    doomed: BTreeSet<String>,
    /// Files whose removal failed. They are tried again in order, so that a seed of a test says all.
    stuck: BTreeSet<String>,
}

fn lock(path: &Path) -> Result<DirectoryLock, Error> {
    let taken = DirectoryLock::take(path);
    let taken = taken.map_err(|error| Error::io(&DirectoryLock::path(path), "lock", error))?;
    let is_open =
        || Error::unavailable(format!("{} is open already: close it there first", path.display()));
    taken.ok_or_else(is_open)
}
