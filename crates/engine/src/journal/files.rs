//! The directory of a durable engine: names, lock, and what may be swept.

use std::fs::{File, TryLockError};
use std::path::Path;

use vstream_store::{FileStore, Store, Syncing};

use super::manifest::Manifest;
use crate::error::Error;
use crate::snapshot::MANIFEST;

/// The manifest of a durable engine: which files make the state.
pub(crate) const COLLECTION: &str = "COLLECTION";
const LOCK: &str = "LOCK";
const LOG: &str = "log-";
const BASE: &str = "base-";

/// Name of a log.
pub(super) fn log_name(number: u64) -> String {
    format!("{LOG}{number:010}")
}

/// What the names of a base image's files begin with.
pub(super) fn base_prefix(number: u64) -> String {
    format!("{BASE}{number:010}.")
}

/// A directory that nobody else writes to.
pub(crate) struct Directory {
    pub(crate) store: FileStore,
    /// Held until the directory is dropped; simulated directories need none.
    _lock: Option<File>,
}

impl Directory {
    /// A store that its caller keeps others away from.
    pub(crate) fn unlocked(store: FileStore) -> Directory {
        Directory { store, _lock: None }
    }

    /// Makes and locks a directory. Errors: `Unavailable` if it is open already, `Io`.
    pub(crate) fn create(path: &Path) -> Result<Directory, Error> {
        let store = FileStore::create_dir(path, Syncing::Full)?;
        Ok(Directory { store, _lock: Some(lock(path)?) })
    }

    /// Locks a directory that is there. Errors: `Unavailable` if it is open already, `Io`.
    pub(crate) fn open(path: &Path) -> Result<Directory, Error> {
        let store = FileStore::open_dir(path, Syncing::Full)?;
        if !holds(&store)? {
            return Err(none(path));
        }
        Ok(Directory { store, _lock: Some(lock(path)?) })
    }

    /// Errors if a collection, or a snapshot, is there already.
    pub(crate) fn check_free(&self) -> Result<(), Error> {
        let taken = if holds(&self.store)? {
            "a collection: open it"
        } else if self.store.list(MANIFEST)?.iter().any(|entry| entry.name == MANIFEST) {
            "a snapshot: choose another directory"
        } else {
            return Ok(());
        };
        Err(Error::invalid(format!("{} holds {taken}", self.store.describe(""))))
    }

    /// Removes files that the manifest does not name: what a crash left of a checkpoint. Files of
    /// other names are none of ours and stay.
    pub(crate) fn sweep(&self, manifest: Option<&Manifest>) -> Result<(), Error> {
        self.store.sweep(&|name| name == COLLECTION || number(name).is_some())?;
        let base = manifest.and_then(|found| found.base.as_ref()).map(|base| base.number);
        for entry in self.store.list("")? {
            let is_named = match number(&entry.name) {
                None => continue,
                Some(Number::Base(number)) => base == Some(number),
                Some(Number::Log(number)) => manifest.is_some_and(|m| m.logs.contains(&number)),
            };
            if !is_named {
                self.store.delete(&entry.name)?;
            }
        }
        Ok(())
    }
}

/// Whose file it is.
enum Number {
    Log(u64),
    Base(u64),
}

/// The number in a name that is ours.
fn number(name: &str) -> Option<Number> {
    let digits = |text: &str| -> Option<u64> {
        (text.len() == 10 && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
    };
    if let Some(log) = name.strip_prefix(LOG) {
        return digits(log).map(Number::Log);
    }
    let (base, _) = name.strip_prefix(BASE)?.split_once('.')?;
    digits(base).map(Number::Base)
}

/// True if the store holds a durable engine.
pub(crate) fn holds(store: &FileStore) -> Result<bool, Error> {
    Ok(store.list(COLLECTION)?.iter().any(|entry| entry.name == COLLECTION))
}

fn none(path: &Path) -> Error {
    Error::invalid(format!("{} holds no collection: create one", path.display()))
}

fn lock(path: &Path) -> Result<File, Error> {
    let name = path.join(LOCK);
    let opened = File::options().create(true).append(true).open(&name);
    let file = opened.map_err(|e| Error::io(&name, "open", &e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::unavailable(format!(
            "{} is open already: close it there first",
            path.display()
        ))),
        Err(TryLockError::Error(error)) => Err(Error::io(&name, "lock", &error)),
    }
}
