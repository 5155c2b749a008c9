//! States of a store that others copy while it goes on, and stores that begin with such states.
//!
//! 1. [`GroupStore::share`] flushes the new rows. What is left is a manifest and runs, which never
//!    change. They stay on the disk until the [`SharedGroups`] is dropped, also if a merge replaces
//!    them meanwhile.
//! 2. [`GroupStore::open_shared`] continues in the directory of a state.
//! 3. [`GroupStore::adopt`] takes the groups of some shards out of a state: the store gets the run
//!    files as they are, and notes the shards beside each. Groups of other shards are not read from
//!    then on, and the next merge of the run leaves them out. No row is written again.
//!
//! Each state that is opened or adopted belongs to other shards, so a group is in the runs of one
//! state alone and their order keeps its meaning.

use std::path::Path;
use std::sync::Arc;

use vstream_store::{Error as StoreError, FileStore, Store, Syncing};

use crate::error::Error;
use crate::log::Log;
use crate::manifest::{log_name, run_name, Manifest, RunEntry};
use crate::run::Run;
use crate::settings::GroupSettings;
use crate::shard::ShardRange;
use crate::store::{check_settings, drawn, open_run, shape, GroupStore};
use crate::view::View;

/// Name of the manifest in the directory of a state.
const SHARED: &str = "COLLECTION";

/// A run of a shared state. Its bytes never change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedRun {
    /// Its name in the directory of the state.
    pub name: String,
    /// A name that no other content ever has.
    pub key: String,
    /// Its present path, valid until the state is dropped.
    pub path: String,
    /// Its length.
    pub bytes: u64,
}

/// The rows of a store at one moment as files, which stay until this is dropped.
pub struct SharedGroups {
    store: Arc<FileStore>,
    manifest: Vec<u8>,
    entries: Vec<RunEntry>,
    /// Open, so that no file is removed.
    _runs: Vec<Arc<Run>>,
}

impl SharedGroups {
    /// The bytes of the manifest, which the directory of the state holds as `COLLECTION`.
    pub fn manifest(&self) -> &[u8] {
        &self.manifest
    }

    /// The files beside the manifest. A state and the next one differ by the runs that were written
    /// between them.
    pub fn files(&self) -> Vec<SharedRun> {
        let file = |entry: &RunEntry| {
            let name = run_name(entry.number);
            SharedRun {
                // The identity is drawn, so it tells the content; the length guards against slips.
                key: format!("{:016x}.{name}.{:016x}", entry.identity, entry.bytes),
                path: self.store.describe(&name),
                bytes: entry.bytes,
                name,
            }
        };
        self.entries.iter().map(file).collect()
    }
}

impl GroupStore {
    /// Shares the rows of this moment. Cost: a flush of the new rows. Errors: those of the files.
    pub fn share(&mut self) -> Result<SharedGroups, Error> {
        self.flush()?;
        let view = self.view.load();
        Ok(SharedGroups {
            store: self.store.clone(),
            manifest: self.manifest.sealed(),
            entries: self.manifest.runs.clone(),
            _runs: view.runs.clone(),
        })
    }

    /// Opens the store of a shared state: a directory with the manifest as `COLLECTION` and the
    /// files under their names. It continues there; nothing is forced to the disk.
    ///
    /// Cost: the ends of the runs. Errors: `Invalid` if there is no state or if a fixed setting is
    /// another one, `Corrupt`, those of the operating system.
    pub fn open_shared(path: &Path, settings: GroupSettings) -> Result<GroupStore, Error> {
        let store = FileStore::create_dir(path, Syncing::Off)?;
        let mut manifest = shared(&store)?;
        check_settings(&manifest.settings, &settings)?;
        // Another attempt may continue with the same state: the files of each have names of their
        // own.
        manifest.identity = drawn();
        manifest.log = manifest.next;
        manifest.next += 1;
        Log::create(&store, &log_name(manifest.log), manifest.file_identity(manifest.log))?;
        manifest.publish(&store)?;
        GroupStore::open(store, settings)
    }

    /// Takes the groups of some shards out of the shared state in a directory, which is only read.
    /// The store must have no group of these shards. Returns the number of runs that it got.
    ///
    /// Cost: a link per run, or a copy on another file system, and the ends of the runs. Errors:
    /// `Invalid` if there is no state, if it has other settings or if `shards` counts others than
    /// the store has, `Corrupt`, those of the operating
    /// system. Nothing is changed then.
    pub fn adopt(&mut self, from: &Path, shards: ShardRange) -> Result<usize, Error> {
        let source = FileStore::open_dir(from, Syncing::Off)?;
        let theirs = shared(&source)?;
        check_settings(&theirs.settings, &self.settings)?;
        if shards.shards() != self.settings.shards {
            return Err(Error::invalid(format!(
                "The shards are some of {} and the store has {}.",
                shards.shards(),
                self.settings.shards
            )));
        }
        let view = self.view.load_full();
        let mut manifest = self.manifest.clone();
        let mut runs = view.runs.clone();
        let shape = shape(&self.settings, self.seed);
        for entry in &theirs.runs {
            let Some(shards) = entry.shards.and(shards) else { continue };
            let number = manifest.next;
            manifest.next += 1;
            let (old, new) = (run_name(entry.number), run_name(number));
            place(&source.describe(&old), &self.store.describe(&new))?;
            let entry = RunEntry { number, shards, ..*entry };
            runs.push(open_run(&self.store, entry, &shape, &self.cache)?);
            manifest.runs.push(entry);
        }
        let count = runs.len() - view.runs.len();
        self.publish(manifest)?;
        self.view.store(Arc::new(View { runs, ..(*view).clone() }));
        Ok(count)
    }
}

/// The manifest of a shared state.
fn shared(store: &FileStore) -> Result<Manifest, Error> {
    let found = Manifest::read_from(store, SHARED)?;
    found.ok_or_else(|| Error::invalid("The directory holds no state of groups."))
}

/// Has a file under another name too.
fn place(from: &str, to: &str) -> Result<(), Error> {
    // An attempt that failed may have left it, as a link through which a copy would write.
    let _ = std::fs::remove_file(to);
    let placed = std::fs::hard_link(from, to).or_else(|_| std::fs::copy(from, to).map(drop));
    placed.map_err(|error| StoreError::io(from, "copy", &error).into())
}
