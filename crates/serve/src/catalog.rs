//! All collections of a folder.
//!
//! A collection is a folder of the catalog's folder that has its name. One that is being made or
//! dropped has a name that no collection can have, so a crash leaves none in part. One that does not open
//! stays as it is: requests for it are told why, and the others are served.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use axum::http::StatusCode;
use tokio::sync::{watch, Mutex};
use vstream_engine::{inspect, inspect_collection, Engine, PushedCollection, Settings};

use crate::collection::{Collection, JobSettings, Opening};
use crate::failure::Failure;
use crate::limits::Limits;

/// Most bytes of the name of a collection: so many that a folder may still have one of the names below for it.
const NAME_BYTES_MAX: usize = 255 - FETCHING.len();
/// What no name of a collection begins with.
const HIDDEN: char = '.';
/// What the names of folders begin with that hold no collection yet, or none any more. Nobody else names
/// a folder so: what a server left of these is removed when the next one starts.
const MAKING: &str = ".vstream-new ";
const DROPPING: &str = ".vstream-gone ";
/// The same of files that a replica has fetched. The next replica goes on with them.
const FETCHING: &str = ".vstream-fetch ";

/// The file that says that the collections of a folder are copies of another server's, and may be dropped
/// when that server has them no more.
const COPIES: &str = ".vstream-replica";

/// The file that a store of isolated groups has (`vstream-group`).
const GROUPS: &str = "GROUPS";
/// What of such a store is said, after its name.
const NO_GROUPS: &str =
    "holds isolated groups, which a server does not serve: ask them in Python or in Rust";

/// The collections of a folder.
pub(crate) struct Catalog {
    directory: PathBuf,
    collections_max: usize,
    how: Opening,
    /// The folder is a collection itself, so none can be made in it or dropped.
    is_collection: bool,
    collections: RwLock<BTreeMap<String, Arc<Collection>>>,
    /// Collections that did not open, with the reason; of a store also those of which an older push is served.
    broken: RwLock<BTreeMap<String, String>>,
    /// Folders that hold isolated groups: nothing is wrong with them, and no server serves them.
    groups: BTreeSet<String>,
    /// Held while a collection is made or dropped.
    changing: Mutex<()>,
    /// Counts collections that were made or dropped.
    changes: watch::Sender<u64>,
}

impl Catalog {
    /// Opens all collections of a folder, which is made if absent; of a folder that is a collection
    /// itself, that one. Errors: `INTERNAL_SERVER_ERROR` if the folder cannot be read, `BAD_REQUEST` if it is
    /// isolated groups or has nothing but pushes, `SERVICE_UNAVAILABLE` if others hold all collections, and any
    /// error of a collection that would be served alone.
    pub(crate) fn open(
        directory: &Path,
        limits: &Limits,
        how: Opening,
    ) -> Result<Catalog, Failure> {
        let unreadable =
            |error: std::io::Error| Failure::broken(format!("{}: {error}", directory.display()));
        if how != Opening::ReadOnly {
            fs::create_dir_all(directory).map_err(unreadable)?;
        }
        if directory.join(GROUPS).is_file() {
            return Err(Failure::bad(format!("{} {NO_GROUPS}", directory.display())));
        }
        let (mut collections, mut broken, mut groups) =
            (BTreeMap::new(), Vec::new(), BTreeSet::new());
        let is_one = is_served(directory, how);
        if is_one {
            let name = directory.canonicalize().map_err(unreadable)?;
            let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
            collections.insert(name.clone(), Arc::new(opened(&name, directory, how)?));
        } else {
            for entry in fs::read_dir(directory).map_err(unreadable)? {
                let path = entry.map_err(unreadable)?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                if is_left_over(&name, how) {
                    fs::remove_dir_all(&path).map_err(unreadable)?;
                } else if name.starts_with(HIDDEN) {
                    // Whatever it is, it is not ours.
                } else if path.join(GROUPS).is_file() {
                    groups.insert(name);
                } else if path.is_dir() && is_served(&path, how) {
                    match opened(&name, &path, how) {
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
        // One that does not open is a collection too, whose rows may yet be saved.
        let is_empty = collections.is_empty() && broken.is_empty() && groups.is_empty();
        if is_empty {
            refuse_pushes(directory)?;
        }
        mark(directory, how, is_empty)?;
        Ok(Catalog {
            directory: directory.to_owned(),
            collections_max: limits.collections,
            how,
            is_collection: is_one,
            collections: RwLock::new(collections),
            broken: RwLock::new(
                broken.into_iter().map(|(name, failure)| (name, failure.message)).collect(),
            ),
            groups,
            changing: Mutex::new(()),
            changes: watch::Sender::new(0),
        })
    }

    /// The collection of a running job alone. Errors: those of [`Collection::of_job`], and `BAD_REQUEST` for a
    /// name that no collection can have.
    pub(crate) fn of_job(job: &JobSettings) -> Result<Catalog, Failure> {
        check_name(&job.collection)?;
        let collection = Arc::new(Collection::of_job(job)?);
        Ok(Catalog {
            directory: PathBuf::new(),
            collections_max: 1,
            how: Opening::ReadOnly,
            is_collection: true,
            collections: RwLock::new(BTreeMap::from([(job.collection.clone(), collection)])),
            broken: RwLock::default(),
            groups: BTreeSet::new(),
            changing: Mutex::new(()),
            changes: watch::Sender::new(0),
        })
    }

    /// For what is pushed to a store: nothing yet, see [`Catalog::renew`].
    pub(crate) fn of_pushed() -> Catalog {
        Catalog {
            directory: PathBuf::new(),
            collections_max: 0,
            how: Opening::ReadOnly,
            is_collection: false,
            collections: RwLock::default(),
            broken: RwLock::default(),
            groups: BTreeSet::new(),
            changing: Mutex::new(()),
            changes: watch::Sender::new(0),
        }
    }

    /// Opens a push and serves it in the place of the collection of its name, if one is there. Blocks.
    /// Errors: why it does not open, which requests for it are told as well, unless an older push is served.
    pub(crate) fn renew(&self, pushed: &PushedCollection) -> Result<(), Failure> {
        let name = pushed.name();
        let opened = check_name(&name).and_then(|()| Collection::of_pushed(pushed));
        let opened = opened.map_err(|failure| {
            failure
                .of(&format!("push {} of the collection '{name}' does not open", pushed.newest()))
        });
        match opened {
            Ok(collection) => {
                let old = self.find(&name);
                self.serve(Arc::new(collection));
                self.broken_mut().remove(&name);
                if let Some(old) = old {
                    old.writes.close();
                }
                Ok(())
            }
            Err(failure) => {
                self.broken_mut().insert(name, failure.message.clone());
                Err(failure)
            }
        }
    }

    /// Serves a collection no longer. Requests that hold it end first. Blocks.
    pub(crate) fn forget(&self, name: &str) {
        self.broken_mut().remove(name);
        let taken = {
            let mut collections = self.collections.write().unwrap_or_else(PoisonError::into_inner);
            collections.remove(name)
        };
        if let Some(taken) = taken {
            self.changes.send_modify(|count| *count += 1);
            taken.writes.close();
        }
    }

    /// The collection of a name. Errors: `NOT_FOUND`, `SERVICE_UNAVAILABLE` if it did not open, and
    /// `BAD_REQUEST` for isolated groups.
    pub(crate) fn get(&self, name: &str) -> Result<Arc<Collection>, Failure> {
        self.find(name).ok_or_else(|| match self.broken().get(name) {
            Some(why) => self.does_not_open(why),
            None if self.groups.contains(name) => Failure::bad(holds_groups(name)),
            None => Failure::no_collection(name),
        })
    }

    /// Why folders here are not served: collections that did not open, and isolated groups. A sentence each.
    pub(crate) fn not_served(&self) -> Vec<String> {
        let groups = self.groups.iter().map(|name| holds_groups(name));
        self.broken().into_values().chain(groups).collect()
    }

    /// Collections that did not open, with the reason, by name.
    pub(crate) fn broken(&self) -> BTreeMap<String, String> {
        self.broken.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn broken_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<String, String>> {
        self.broken.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// * `why`: names the collection.
    fn does_not_open(&self, why: &str) -> Failure {
        let is_pushed = self.directory.as_os_str().is_empty();
        Failure::busy(match is_pushed {
            true => format!("{why}. It is served when another one is pushed that does"),
            false => format!("{why}. It is served when it is repaired and the server starts again"),
        })
    }

    /// True if nothing else can have a name: that of a collection, whether it opened or not, or of isolated
    /// groups.
    pub(crate) fn is_there(&self, name: &str) -> bool {
        let is_collection = self.broken().contains_key(name) || self.find(name).is_some();
        is_collection || self.groups.contains(name)
    }

    /// The names of all collections, those that did not open among them, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.all().iter().map(|one| one.name.clone()).collect();
        names.extend(self.broken().into_keys());
        names.sort_unstable();
        names.dedup();
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

    /// Is told when collections are made or dropped.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// True if the folder is a collection itself.
    pub(crate) fn is_collection(&self) -> bool {
        self.is_collection
    }

    /// True if nothing in the folder is changed.
    pub(crate) fn is_read_only(&self) -> bool {
        self.how == Opening::ReadOnly
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
        let (catalog, name) = (self.clone(), name.to_owned());
        to_its_end(async move { catalog.create_now(&name, settings).await }).await
    }

    async fn create_now(&self, name: &str, settings: Settings) -> Result<(), Failure> {
        let _changing = self.changing.lock().await;
        if self.is_there(name) {
            let what = format!("the collection '{name}' is there already");
            return Err(Failure::conflict(what));
        }
        let count = self.all().len() + self.broken().len();
        if count >= self.collections_max {
            return Err(Failure::bad(format!("there are {count} collections, which is the limit")));
        }
        let (directory, owned) = (self.directory.clone(), name.to_owned());
        let made = blocking(move || {
            let (hidden, path) =
                (directory.join(format!("{MAKING}{owned}")), directory.join(&owned));
            let broken = |error: std::io::Error| Failure::broken(format!("{owned}: {error}"));
            if path.exists() {
                let what = format!("there is something else of the name '{owned}' in the folder");
                return Err(Failure::conflict(what));
            }
            if hidden.exists() {
                fs::remove_dir_all(&hidden).map_err(broken)?;
            }
            Engine::builder().dir(&hidden).create(settings)?.close()?;
            fs::rename(&hidden, &path).map_err(broken)?;
            sync_folder(&directory).map_err(broken)?;
            opened(&owned, &path, Opening::Writer)
        });
        self.serve(Arc::new(made.await??));
        Ok(())
    }

    /// Drops a collection and its files; false if there is none. Requests that hold it end first. A copy that does
    /// not open is dropped too. Errors:
    /// `BAD_REQUEST` where the folder is a collection itself and for isolated groups, `SERVICE_UNAVAILABLE` for
    /// one that did not open: its rows may yet be saved.
    pub(crate) async fn drop(self: &Arc<Catalog>, name: &str) -> Result<bool, Failure> {
        self.check_changes()?;
        if self.groups.contains(name) {
            return Err(Failure::bad(holds_groups(name)));
        }
        let (catalog, name) = (self.clone(), name.to_owned());
        to_its_end(async move { catalog.drop_now(&name).await }).await
    }

    async fn drop_now(&self, name: &str) -> Result<bool, Failure> {
        let _changing = self.changing.lock().await;
        let why = self.broken().remove(name);
        if let (Some(why), Opening::Writer) = (&why, self.how) {
            return Err(self.does_not_open(why));
        }
        let taken = {
            let mut collections = self.collections.write().unwrap_or_else(PoisonError::into_inner);
            collections.remove(name)
        };
        if taken.is_none() && why.is_none() {
            return Ok(false);
        }
        self.changes.send_modify(|count| *count += 1);
        let (directory, owned, how) = (self.directory.clone(), name.to_owned(), self.how);
        let done = blocking(move || {
            if let Some(taken) = taken {
                taken.writes.close();
            }
            if how == Opening::ReadOnly {
                return Ok(true);
            }
            let removed = remove(&directory, &owned);
            removed.map_err(|error| Failure::broken(format!("{owned}: {error}")))?;
            Ok(true)
        });
        let done: Result<bool, Failure> = done.await?;
        let is_there = self.directory.join(name).exists();
        match &done {
            // It is closed, and its files are still there.
            Err(failure) if is_there => {
                drop(self.broken_mut().insert(name.to_owned(), failure.message.clone()));
            }
            _ => drop(self.broken_mut().remove(name)),
        }
        done
    }

    /// Where a replica gathers the files of a collection. Errors: `BAD_REQUEST` for a name that no
    /// collection can have.
    pub(crate) fn gathering(&self, name: &str) -> Result<PathBuf, Failure> {
        check_name(name)?;
        Ok(self.directory.join(format!("{FETCHING}{name}")))
    }

    /// Puts a collection whose files were fetched in the place of the one that is there, if one is, and
    /// serves it. Until then the old one answers. Errors: those of the system, and of opening it.
    ///
    /// * `complete`: makes the folder that it is given; on a thread that may wait.
    pub(crate) async fn replace(
        self: &Arc<Catalog>,
        name: &str,
        complete: impl FnOnce(&Path) -> Result<(), Failure> + Send + 'static,
    ) -> Result<Arc<Collection>, Failure> {
        check_name(name)?;
        let (catalog, name) = (self.clone(), name.to_owned());
        to_its_end(async move { catalog.replace_now(&name, complete).await }).await
    }

    async fn replace_now(
        &self,
        name: &str,
        complete: impl FnOnce(&Path) -> Result<(), Failure> + Send + 'static,
    ) -> Result<Arc<Collection>, Failure> {
        let _changing = self.changing.lock().await;
        let (directory, owned, how) = (self.directory.clone(), name.to_owned(), self.how);
        let old = self.find(name);
        let made = blocking(move || {
            if let Some(old) = old {
                old.writes.close();
            }
            let path = directory.join(&owned);
            if how == Opening::ReadOnly {
                return opened(&owned, &path, how);
            }
            let hidden = directory.join(format!("{MAKING}{owned}"));
            let broken = |error: std::io::Error| Failure::broken(format!("{owned}: {error}"));
            if hidden.exists() {
                fs::remove_dir_all(&hidden).map_err(broken)?;
            }
            fs::create_dir(&hidden).map_err(broken)?;
            complete(&hidden)?;
            remove(&directory, &owned).map_err(broken)?;
            fs::rename(&hidden, &path).map_err(broken)?;
            sync_folder(&directory).map_err(broken)?;
            opened(&owned, &path, how)
        });
        let made = Arc::new(made.await??);
        self.serve(made.clone());
        self.broken_mut().remove(name);
        Ok(made)
    }

    pub(crate) fn serve(&self, collection: Arc<Collection>) {
        let mut collections = self.collections.write().unwrap_or_else(PoisonError::into_inner);
        collections.insert(collection.name.clone(), collection);
        drop(collections);
        self.changes.send_modify(|count| *count += 1);
    }

    /// Errors: `BAD_REQUEST` where the folder is a collection itself.
    fn check_changes(&self) -> Result<(), Failure> {
        match self.is_collection {
            true => Err(Failure::bad("one collection is served alone: none is made or dropped")),
            false => Ok(()),
        }
    }

    /// Closes every collection. Blocks until all writes are on the disk, in segments where there are any.
    pub(crate) fn close(&self) {
        self.all().iter().for_each(|collection| collection.writes.close_flushed());
    }
}

/// Errors: `BAD_REQUEST` if a folder without collections has what was pushed to it: by its path it would be served as
/// an empty one.
fn refuse_pushes(directory: &Path) -> Result<(), Failure> {
    let (Some(path), Ok(whole)) = (directory.to_str(), directory.canonicalize()) else {
        return Ok(());
    };
    if PushedCollection::find(path).is_err() {
        return Ok(());
    }
    Err(Failure::bad(format!(
        "{path} has what `vstream snapshot push` sent there, which is served by its address: file://{}",
        whole.display()
    )))
}

fn holds_groups(name: &str) -> String {
    format!("the folder '{name}' {NO_GROUPS}")
}

/// Does something to its end, also if nobody waits for it any more: a request whose client has gone must not leave a folder
/// that nothing serves, or let another change begin beside it.
async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::spawn(work).await;
    done.map_err(|error| Failure::broken(format!("a task ended: {error}")))?
}

/// Runs what may block on a thread that may wait.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Failure::broken(format!("a thread ended: {error}")))
}

/// True if a folder is a collection, or one that is only read, a snapshot.
fn is_served(directory: &Path, how: Opening) -> bool {
    let is_collection = !matches!(inspect_collection(directory), Ok(None));
    is_collection || (how == Opening::ReadOnly && inspect(directory).is_ok())
}

/// Says in a folder whether its collections are copies. Errors: `BAD_REQUEST` if a replica would take
/// collections for copies that are not.
fn mark(directory: &Path, how: Opening, is_empty: bool) -> Result<(), Failure> {
    let (path, broken) = (directory.join(COPIES), |error: std::io::Error| {
        Failure::broken(format!("{}: {error}", directory.display()))
    });
    match how {
        Opening::ReadOnly => Ok(()),
        Opening::Follower if path.exists() => Ok(()),
        Opening::Follower if is_empty => fs::write(&path, "").map_err(broken),
        Opening::Follower => Err(Failure::bad(format!(
            "{} has collections that are no copies of another server's: choose an empty folder",
            directory.display()
        ))),
        Opening::Writer if path.exists() => fs::remove_file(&path).map_err(broken),
        Opening::Writer => Ok(()),
    }
}

/// True if a folder is what an earlier server left and nobody needs.
fn is_left_over(name: &str, how: Opening) -> bool {
    match how {
        Opening::ReadOnly => false,
        Opening::Follower => name.starts_with(MAKING) || name.starts_with(DROPPING),
        Opening::Writer => {
            [MAKING, DROPPING, FETCHING].iter().any(|hidden| name.starts_with(hidden))
        }
    }
}

/// Removes the folder of a collection, at once for whoever opens it; false if there is none.
fn remove(directory: &Path, name: &str) -> std::io::Result<bool> {
    let (path, hidden) = (directory.join(name), directory.join(format!("{DROPPING}{name}")));
    if !path.exists() {
        return Ok(false);
    }
    fs::rename(&path, &hidden)?;
    sync_folder(directory)?;
    fs::remove_dir_all(&hidden)?;
    Ok(true)
}

fn opened(name: &str, directory: &Path, how: Opening) -> Result<Collection, Failure> {
    Collection::open(name, directory, how)
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
