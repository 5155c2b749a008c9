//! All collections of a folder.
//!
//! A collection is a folder of the catalog's folder that has its name. One that is being made or
//! dropped has a name that no collection can have, so a crash leaves none in part. One that does not open
//! stays as it is: requests for it are told why, and the others are served.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use axum::http::StatusCode;
use tokio::sync::Mutex;
use vstream_engine::{inspect_collection, Engine, Settings};

use crate::collection::Collection;
use crate::failure::Failure;
use crate::limits::Limits;

/// Most bytes of the name of a collection.
const NAME_BYTES_MAX: usize = 255;
/// What no name of a collection begins with.
const HIDDEN: char = '.';
/// What the names of folders begin with that hold no collection yet, or none any more. Nobody else names
/// a folder so: what a server left of these is removed when the next one starts.
const MAKING: &str = ".vstream-new ";
const DROPPING: &str = ".vstream-gone ";

/// The collections of a folder.
pub(crate) struct Catalog {
    directory: PathBuf,
    collections_max: usize,
    /// The folder is a collection itself, so none can be made in it or dropped.
    is_collection: bool,
    collections: RwLock<BTreeMap<String, Arc<Collection>>>,
    /// Collections that did not open, with the reason.
    broken: BTreeMap<String, String>,
    /// Held while a collection is made or dropped.
    changing: Mutex<()>,
}

impl Catalog {
    /// Opens all collections of a folder, which is made if absent; of a folder that is a collection
    /// itself, that one. Errors: `INTERNAL_SERVER_ERROR` if the folder cannot be read,
    /// `SERVICE_UNAVAILABLE` if others hold all collections, and any error of a collection that would be
    /// served alone.
    pub(crate) fn open(directory: &Path, limits: &Limits) -> Result<Catalog, Failure> {
        let unreadable =
            |error: std::io::Error| Failure::broken(format!("{}: {error}", directory.display()));
        fs::create_dir_all(directory).map_err(unreadable)?;
        let (mut collections, mut broken) = (BTreeMap::new(), Vec::new());
        let is_one = is_collection(directory);
        if is_one {
            let name = directory.canonicalize().map_err(unreadable)?;
            let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
            collections.insert(name.clone(), Arc::new(opened(&name, directory)?));
        } else {
            for entry in fs::read_dir(directory).map_err(unreadable)? {
                let path = entry.map_err(unreadable)?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                if name.starts_with(MAKING) || name.starts_with(DROPPING) {
                    fs::remove_dir_all(&path).map_err(unreadable)?;
                } else if name.starts_with(HIDDEN) {
                    // Whatever it is, it is not ours.
                } else if path.is_dir() && is_collection(&path) {
                    match opened(&name, &path) {
                        Ok(collection) => drop(collections.insert(name, Arc::new(collection))),
                        Err(failure) => broken.push((name, failure)),
                    }
                }
            }
        }
        // Somebody else serves this folder, most likely: who starts a second server must hear of it.
        let is_taken = |failure: &Failure| failure.status == StatusCode::SERVICE_UNAVAILABLE;
        if collections.is_empty() && broken.iter().all(|(_, failure)| is_taken(failure)) {
            if let Some((_, failure)) = broken.pop() {
                return Err(failure);
            }
        }
        Ok(Catalog {
            directory: directory.to_owned(),
            collections_max: limits.collections,
            is_collection: is_one,
            collections: RwLock::new(collections),
            broken: broken.into_iter().map(|(name, failure)| (name, failure.message)).collect(),
            changing: Mutex::new(()),
        })
    }

    /// The collection of a name. Errors: `NOT_FOUND`, and `SERVICE_UNAVAILABLE` if it did not open.
    pub(crate) fn get(&self, name: &str) -> Result<Arc<Collection>, Failure> {
        self.find(name).ok_or_else(|| match self.broken.get(name) {
            Some(why) => does_not_open(why),
            None => Failure::no_collection(name),
        })
    }

    /// Collections that did not open, with the reason, by name.
    pub(crate) fn broken(&self) -> &BTreeMap<String, String> {
        &self.broken
    }

    /// True if there is a collection of a name, whether it opened or not.
    pub(crate) fn is_there(&self, name: &str) -> bool {
        self.broken.contains_key(name) || self.find(name).is_some()
    }

    /// The names of all collections, those that did not open among them, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.all().iter().map(|one| one.name.clone()).collect();
        names.extend(self.broken.keys().cloned());
        names.sort_unstable();
        names
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<Collection>> {
        self.collections.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// All collections that are served, by name.
    pub(crate) fn all(&self) -> Vec<Arc<Collection>> {
        let collections = self.collections.read().unwrap_or_else(PoisonError::into_inner);
        collections.values().cloned().collect()
    }

    /// Makes a collection. Errors: `CONFLICT` if it is there, `BAD_REQUEST` for a name that cannot be
    /// or settings that cannot be, and where the folder is a collection itself.
    pub(crate) async fn create(
        self: &Arc<Catalog>,
        name: &str,
        settings: Settings,
    ) -> Result<(), Failure> {
        check_name(name)?;
        self.check_changes()?;
        let _changing = self.changing.lock().await;
        if self.is_there(name) {
            let what = format!("the collection '{name}' is there already");
            return Err(Failure::conflict(what));
        }
        let count = self.all().len() + self.broken.len();
        if count >= self.collections_max {
            return Err(Failure::bad(format!("there are {count} collections, which is the limit")));
        }
        let (directory, owned) = (self.directory.clone(), name.to_owned());
        let made = blocking(move || {
            let (hidden, path) =
                (directory.join(format!("{MAKING}{owned}")), directory.join(&owned));
            let broken = |error: std::io::Error| Failure::broken(format!("{owned}: {error}"));
            if hidden.exists() {
                fs::remove_dir_all(&hidden).map_err(broken)?;
            }
            Engine::builder().dir(&hidden).create(settings)?.close()?;
            fs::rename(&hidden, &path).map_err(broken)?;
            sync_folder(&directory).map_err(broken)?;
            opened(&owned, &path)
        });
        let made = Arc::new(made.await??);
        let mut collections = self.collections.write().unwrap_or_else(PoisonError::into_inner);
        collections.insert(name.to_owned(), made);
        Ok(())
    }

    /// Drops a collection and its files; false if there is none. Requests that hold it end first. Errors:
    /// `BAD_REQUEST` where the folder is a collection itself, `SERVICE_UNAVAILABLE` for one that did not
    /// open: its rows may yet be saved.
    pub(crate) async fn drop(self: &Arc<Catalog>, name: &str) -> Result<bool, Failure> {
        self.check_changes()?;
        if let Some(why) = self.broken.get(name) {
            return Err(does_not_open(why));
        }
        let _changing = self.changing.lock().await;
        let taken = {
            let mut collections = self.collections.write().unwrap_or_else(PoisonError::into_inner);
            collections.remove(name)
        };
        let Some(taken) = taken else { return Ok(false) };
        let (directory, owned) = (self.directory.clone(), name.to_owned());
        let done = blocking(move || {
            taken.writes.close();
            let (path, hidden) =
                (directory.join(&owned), directory.join(format!("{DROPPING}{owned}")));
            let broken = |error: std::io::Error| Failure::broken(format!("{owned}: {error}"));
            if path.exists() {
                fs::rename(&path, &hidden).map_err(broken)?;
                sync_folder(&directory).map_err(broken)?;
                fs::remove_dir_all(&hidden).map_err(broken)?;
            }
            Ok(true)
        });
        done.await?
    }

    /// Errors: `BAD_REQUEST` where the folder is a collection itself.
    fn check_changes(&self) -> Result<(), Failure> {
        match self.is_collection {
            true => Err(Failure::bad("one collection is served alone: none is made or dropped")),
            false => Ok(()),
        }
    }

    /// Closes every collection. Blocks until all writes are on the disk.
    pub(crate) fn close(&self) {
        self.all().iter().for_each(|collection| collection.writes.close());
    }
}

/// Runs what may block on a thread that may wait.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Failure::broken(format!("a thread ended: {error}")))
}

fn is_collection(directory: &Path) -> bool {
    !matches!(inspect_collection(directory), Ok(None))
}

/// * `why`: names the collection.
fn does_not_open(why: &str) -> Failure {
    Failure::busy(format!("{why}. It is served when it is repaired and the server starts again"))
}

fn opened(name: &str, directory: &Path) -> Result<Collection, Failure> {
    Collection::open(name, directory)
        .map_err(|failure| failure.of(&format!("the collection '{name}' does not open")))
}

/// Makes the names in a folder durable.
fn sync_folder(directory: &Path) -> std::io::Result<()> {
    fs::File::open(directory)?.sync_all()
}

/// Errors: `BAD_REQUEST` unless the name can be that of a folder on every system.
fn check_name(name: &str) -> Result<(), Failure> {
    let is_bad = |c: char| c.is_control() || "<>:\"/\\|?*".contains(c);
    let is_long = name.is_empty() || name.len() > NAME_BYTES_MAX;
    if is_long || name.starts_with(HIDDEN) || name.contains(is_bad) {
        return Err(Failure::bad(format!(
            "'{}' is no name of a collection: use 1 to {NAME_BYTES_MAX} bytes without <>:\"/\\|?*, \
             not beginning with a dot",
            name.chars().take(64).collect::<String>()
        )));
    }
    Ok(())
}
