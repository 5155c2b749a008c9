//! What a directory of groups holds, and whether every byte is what was written.

use std::path::Path;
use std::sync::Arc;

use vstream_attribute::NameHash;
use vstream_store::{Access, DirectoryLock, Error as StoreError, FileStore, Store, Syncing};

use crate::accept::group_hash;
use crate::error::Error;
use crate::log::{replay, Record};
use crate::manifest::{self, log_name, run_name, Manifest, RunEntry};
use crate::run::{Part, Run};
use crate::settings::GroupSettings;
use crate::store::{lock, shape};

/// Second half of the key of string ids, after the seed.
const ID_KEY_DOMAIN: [u8; 8] = *b"row name";

/// What a store of groups holds, by its manifest and the ends of its files.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreSummary {
    /// The settings of its creation, with the seed.
    pub settings: GroupSettings,
    /// Newest first.
    pub runs: Vec<RunInfo>,
    /// Name of the log, and its bytes.
    pub log: (String, u64),
}

/// A run of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunInfo {
    /// Name of the file.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// Rows, those that newer runs hide included.
    pub rows: u64,
    /// Tombstones of deleted rows.
    pub tombstones: u64,
    /// Groups with rows or tombstones.
    pub groups: u64,
}

/// What a look at every byte found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifiedGroups {
    /// Rows in runs and upserts in the log that could be read, hidden ones included.
    pub rows: u64,
    /// Files that were read.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Each damage, with file and offset; empty if all is as it was written.
    pub damage: Vec<String>,
    /// Bytes behind the last whole write of the log, in a sentence: a crash leaves such, and so does damage to the
    /// last write.
    pub left_over: Option<String>,
}

impl GroupSettings {
    /// The hash that stands for string ids in a store with a seed: nothing else need be stored.
    pub fn name_hash(&self) -> NameHash {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&self.seed.unwrap_or_default().to_le_bytes());
        key[8..].copy_from_slice(&ID_KEY_DOMAIN);
        NameHash::new(key)
    }
}

/// Describes the store in a directory, open or not; `None` if there is none. Cost: the manifest, and
/// the ends of every run. Errors: `Corrupt`, those of the operating system.
pub fn inspect_groups(directory: &Path) -> Result<Option<StoreSummary>, Error> {
    let Some((store, manifest)) = read(directory)? else { return Ok(None) };
    let mut runs = Vec::with_capacity(manifest.runs.len());
    for entry in &manifest.runs {
        let run = open(&store, &manifest, *entry)?;
        runs.push(RunInfo {
            name: run_name(entry.number),
            bytes: run.bytes(),
            rows: run.rows(),
            tombstones: run.tombstones(),
            groups: run.groups(),
        });
    }
    let log = log_name(manifest.log);
    let bytes = store.open(&log, Access::Cached)?.bytes();
    let settings = GroupSettings { seed: Some(manifest.seed), ..manifest.settings };
    Ok(Some(StoreSummary { settings, runs, log: (log, bytes) }))
}

/// Reads every byte of the store in a directory, which nobody has open. `None` if there is none.
///
/// Cost: all files are read, a part of a run at a time. Errors: `Unavailable` if it is open,
/// `Corrupt` for a damaged manifest, those of the operating system.
pub fn verify_groups(directory: &Path) -> Result<Option<VerifiedGroups>, Error> {
    let Some((store, manifest)) = read(directory)? else { return Ok(None) };
    // Who reads makes no file: a copy may lack that of the lock.
    let _lock = match DirectoryLock::path(directory).is_file() {
        true => Some(lock(directory)?),
        false => None,
    };
    let mut found = VerifiedGroups { files: 1, ..VerifiedGroups::default() };
    for entry in &manifest.runs {
        found.files += 1;
        found.bytes += entry.bytes;
        let rows = open(&store, &manifest, *entry).and_then(|run| rows_of(&run, &manifest));
        found.note(rows)?;
    }
    let name = log_name(manifest.log);
    let mut rows = 0;
    let identity = manifest.file_identity(manifest.log);
    let vector_bytes = manifest.settings.vector_bytes();
    let replayed = replay(&store, &name, identity, vector_bytes, &mut |record| {
        rows += u64::from(matches!(record, Record::Row(_, row) if row.content.is_some()));
        Ok(())
    });
    found.files += 1;
    let bytes = store.open(&name, Access::Cached)?.bytes();
    found.bytes += bytes;
    if let Some(extra) = replayed.as_ref().ok().map(|read| bytes - read).filter(|&extra| extra > 0)
    {
        found.left_over = Some(format!(
            "{} at byte {}: {extra} bytes are no whole write: the torn end of a crash, or damage to the last one",
            store.describe(&name),
            bytes - extra
        ));
    }
    found.note(replayed.map(|_| rows))?;
    Ok(Some(found))
}

impl VerifiedGroups {
    /// Notes the rows of a file, or its damage. Errors: those that are no damage.
    fn note(&mut self, rows: Result<u64, Error>) -> Result<(), Error> {
        match rows {
            Ok(rows) => self.rows += rows,
            Err(error) if error.is_corrupt() => self.damage.push(error.to_string()),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

fn read(directory: &Path) -> Result<Option<(FileStore, Manifest)>, Error> {
    if !directory.join(manifest::NAME).is_file() {
        return Ok(None);
    }
    let store = FileStore::open_dir(directory, Syncing::Off)?;
    let manifest = Manifest::read(&store)?;
    Ok(manifest.map(|manifest| (store, manifest)))
}

/// Opens a run whole: also the groups that belong to other stores since it was taken over.
fn open(store: &FileStore, manifest: &Manifest, entry: RunEntry) -> Result<Arc<Run>, Error> {
    let file = store.open(&run_name(entry.number), Access::Cached)?;
    let name = file.name().to_owned();
    let shape = shape(&manifest.settings, manifest.seed);
    let run = Run::open(file, entry.number, &shape, None)?;
    if (run.identity(), run.bytes()) != (entry.identity, entry.bytes) {
        return Err(StoreError::corrupt(name, 0, "not the run that the manifest names").into());
    }
    Ok(Arc::new(run))
}

/// Reads the codes of a part, which its rows do not need.
fn read_codes(part: &Part) -> Result<(), Error> {
    if !part.is_coded() {
        return Ok(());
    }
    let leaves: Vec<usize> = (0..part.leaves().len()).collect();
    leaves.chunks(64).try_for_each(|leaves| part.codes(leaves).map(|_| ()))?;
    if part.shape().second_bytes() == 0 {
        return Ok(());
    }
    let rows: Vec<u32> = (0..part.rows()).collect();
    part.visit_seconds(&rows, |_, _| {})
}

/// Reads all blocks of a run; its number of rows.
fn rows_of(run: &Arc<Run>, manifest: &Manifest) -> Result<u64, Error> {
    let (mut walk, mut rows) = (run.walk(), 0);
    while let Some(group) = walk.group()? {
        while let Some(entry) = walk.part_of(group)? {
            let part = walk.open(entry)?;
            if group_hash(part.group(), manifest.seed)? != group {
                return Err(run.corrupt(0, "a part is of another group"));
            }
            part.load(false)?;
            read_codes(&part)?;
            rows += u64::from(part.rows());
        }
    }
    if rows != run.rows() {
        return Err(run.corrupt(0, "the run has another number of rows than its end says"));
    }
    Ok(rows)
}
