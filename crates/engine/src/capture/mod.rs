//! The state of a partition as files that never change: a checkpoint names those it has already and
//! takes the new ones.
//!
//! 1. Every write is appended to the open *change file*.
//! 2. At a capture that file is ended and the rows are pinned; the writer goes on at once.
//! 3. Off the writer's thread the *row files* of a few shards, those that are oldest, are written
//!    anew from the pinned rows: twice as many bytes as changed, so that 3 bytes are written for
//!    each that changed, and changes never grow beyond about half of the rows.
//! 4. Change files that are older than every row file are named no more.
//!
//! The state is: the rows of the row files, and then the changes in their order, each of which
//! does nothing to a row that is newer. A file is deleted when nothing names it any more.

mod assemble;
mod format;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vstream_index::{RowKey, VectorRef};
use vstream_store::{FileStore, Store, Syncing};
use vstream_vector::{Element, Metric};

use self::format::ChangeWriter;
use crate::engine::Engine;
use crate::error::Error;
use crate::settings::Settings;
use crate::snapshot::{row_digest, PinnedSnapshot, RowFileWriter};

/// Name of the manifest of a captured state.
pub const CAPTURED_MANIFEST: &str = "CAPTURED";

/// Bytes of rows that are written anew per byte of changes.
const REWRITE: i64 = 2;
/// Change files of one state, about: at least this fraction of the rows is written anew each time.
const CHANGE_FILES: i64 = 64;

/// A file of a captured state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedFile {
    /// Its name, new for every content within one engine's life and those of its heirs.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Shards that it speaks of: an engine of other shards can do without it.
    pub shards: RangeInclusive<u16>,
}

/// A state, all of whose files stay until this is dropped.
pub struct CapturedState {
    /// The manifest, to be kept as [`CAPTURED_MANIFEST`] beside the files.
    pub manifest: Vec<u8>,
    dir: PathBuf,
    files: Vec<Arc<Kept>>,
}

impl CapturedState {
    /// The files of the state.
    pub fn files(&self) -> impl Iterator<Item = &CapturedFile> {
        self.files.iter().map(|kept| &kept.file)
    }

    /// Where the files are.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

/// Which content a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId {
    /// Of the capture that wrote it.
    number: u64,
    /// Length; 0 for the rows of an empty shard, which have no file.
    bytes: u64,
    checksum: u64,
}

/// Living rows and their digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    live: u64,
    digest: u128,
}

impl Tally {
    fn add(&mut self, id: u64, version: u64) {
        self.live += 1;
        self.digest = self.digest.wrapping_add(row_digest(id, version));
    }

    fn remove(&mut self, id: u64, version: u64) {
        self.live -= 1;
        self.digest = self.digest.wrapping_sub(row_digest(id, version));
    }
}

/// Which files make a state.
#[derive(Clone, Debug, PartialEq)]
struct Manifest {
    dimension: usize,
    metric: Metric,
    /// As rows are stored.
    element: Element,
    shards: RangeInclusive<u16>,
    number: u64,
    tally: Tally,
    rows: BTreeMap<u16, FileId>,
    changes: Vec<FileId>,
}

/// A file that is deleted when nothing names it any more.
struct Kept {
    store: FileStore,
    file: CapturedFile,
    id: FileId,
}

impl Drop for Kept {
    fn drop(&mut self) {
        // What cannot be deleted is left to whoever made the directory.
        let _ = self.store.delete(&self.file.name);
    }
}

/// Row files of a shard, with the number of the capture whose rows they hold.
#[derive(Clone, Default)]
struct RowsOf {
    number: u64,
    /// `None` if the shard was empty.
    file: Option<Arc<Kept>>,
}

/// The files of the newest state.
#[derive(Clone, Default)]
struct Files {
    rows: BTreeMap<u16, RowsOf>,
    /// By number, ascending.
    changes: Vec<Arc<Kept>>,
}

impl Files {
    /// Forgets the changes that the row files of all `shards` have already.
    fn drop_old_changes(&mut self, shards: &RangeInclusive<u16>) {
        if self.rows.len() == shards.len() {
            let oldest = self.rows.values().map(|rows| rows.number).min().unwrap_or(0);
            self.changes.retain(|kept| kept.id.number > oldest);
        }
    }
}

/// The writer's side: the open change file.
pub(crate) struct Capturing {
    dir: PathBuf,
    store: FileStore,
    shards: RangeInclusive<u16>,
    /// Of the next capture.
    number: u64,
    open: Option<ChangeWriter>,
    tally: Tally,
    /// Bytes of rows that may be written anew.
    credit: i64,
    files: Arc<Mutex<Files>>,
}

impl Capturing {
    fn new(dir: &Path, shards: RangeInclusive<u16>) -> Result<Capturing, Error> {
        if shards.is_empty() {
            return Err(Error::invalid(
                "an engine that captures its state needs at least one shard",
            ));
        }
        let rows = shards.clone().map(|shard| (shard, RowsOf::default())).collect();
        Ok(Capturing {
            dir: dir.to_owned(),
            store: FileStore::create_dir(dir, Syncing::Off)?,
            shards,
            number: 1,
            open: None,
            tally: Tally::default(),
            credit: 0,
            files: Arc::new(Mutex::new(Files { rows, changes: Vec::new() })),
        })
    }

    /// Notes an upsert over version `before`.
    pub(crate) fn upsert(
        &mut self,
        settings: &Settings,
        key: &RowKey,
        vector: VectorRef<'_>,
        before: Option<u64>,
    ) -> Result<(), Error> {
        if !self.shards.contains(&key.shard) {
            return Err(Error::invalid(format!(
                "shard {} is not among the engine's, {} to {}: send the row to its partition",
                key.shard,
                self.shards.start(),
                self.shards.end()
            )));
        }
        self.open(settings)?.push(key, Some(vector))?;
        if let Some(before) = before {
            self.tally.remove(key.id, before);
        }
        self.tally.add(key.id, key.version);
        Ok(())
    }

    /// Notes a delete of version `before`.
    pub(crate) fn delete(
        &mut self,
        settings: &Settings,
        id: u64,
        version: u64,
        before: u64,
    ) -> Result<(), Error> {
        self.open(settings)?.push(&RowKey { id, version, code: 0, shard: 0 }, None)?;
        self.tally.remove(id, before);
        Ok(())
    }

    fn open(&mut self, settings: &Settings) -> Result<&mut ChangeWriter, Error> {
        if self.open.is_none() {
            let name = changes_name(self.number);
            let writer = ChangeWriter::create(&self.store, &name, settings, self.number)?;
            self.open = Some(writer);
        }
        Ok(self.open.as_mut().expect("just opened"))
    }

    /// Ends the open change file; returns the files and the shards to be written anew.
    fn end_changes(&mut self, row_bytes: i64) -> Result<(Files, Vec<u16>), Error> {
        let all = self.tally.live as i64 * row_bytes;
        let mut files = lock(&self.files);
        let mut rewrite: Vec<u16> =
            self.shards.clone().filter(|shard| !files.rows.contains_key(shard)).collect();
        if let Some(writer) = self.open.take() {
            let written = writer.bytes() as i64;
            let (bytes, checksum) = writer.finish()?;
            let name = changes_name(self.number);
            let file = CapturedFile { name, bytes, shards: self.shards.clone() };
            let id = FileId { number: self.number, bytes, checksum };
            files.changes.push(Arc::new(Kept { store: self.store.clone(), file, id }));
            self.credit += (REWRITE * written).max(all / CHANGE_FILES);
            let mut oldest: Vec<(u64, u16)> =
                files.rows.iter().map(|(&shard, rows)| (rows.number, shard)).collect();
            oldest.sort_unstable();
            let average = (all / self.shards.len() as i64).max(1);
            oldest.truncate(usize::try_from(self.credit / average).unwrap_or(usize::MAX));
            // What is left when everything is written anew is not saved up.
            self.credit = (self.credit - oldest.len() as i64 * average).min(average);
            rewrite.extend(oldest.into_iter().map(|(_, shard)| shard));
        } else if rewrite.is_empty() {
            return Ok((files.clone(), rewrite));
        }
        self.number += 1;
        Ok((files.clone(), rewrite))
    }
}

/// A state that is being captured: see [`Engine::capture`].
pub struct Capture {
    dir: PathBuf,
    store: FileStore,
    rows: PinnedSnapshot,
    number: u64,
    tally: Tally,
    shards: RangeInclusive<u16>,
    files: Files,
    rewrite: Vec<u16>,
    newest: Arc<Mutex<Files>>,
}

impl Capture {
    /// Writes what is missing; on any thread, while the engine goes on.
    ///
    /// Cost: one pass over the rows and the bytes of some of them. Errors: `Io`; the next capture
    /// does without.
    pub fn write(mut self) -> Result<CapturedState, Error> {
        let written = self.write_rows()?;
        for (shard, rows) in written {
            self.files.rows.insert(shard, rows.clone());
            let mut newest = lock(&self.newest);
            let place = newest.rows.entry(shard).or_default();
            if place.number < rows.number {
                *place = rows;
            }
            newest.drop_old_changes(&self.shards);
        }
        self.files.drop_old_changes(&self.shards);
        let settings = &self.rows.settings;
        let nothing = |number| FileId { number, bytes: 0, checksum: 0 };
        let rows = self.files.rows.iter();
        let manifest = Manifest {
            dimension: settings.dimension,
            metric: settings.metric,
            element: crate::snapshot::stored_element(settings),
            shards: self.shards,
            number: self.number,
            tally: self.tally,
            rows: rows
                .map(|(&shard, of)| {
                    (shard, of.file.as_ref().map_or(nothing(of.number), |kept| kept.id))
                })
                .collect(),
            changes: self.files.changes.iter().map(|kept| kept.id).collect(),
        };
        let rows = self.files.rows.into_values().filter_map(|rows| rows.file);
        Ok(CapturedState {
            manifest: format::encode_manifest(&manifest),
            dir: self.dir,
            files: rows.chain(self.files.changes).collect(),
        })
    }

    fn write_rows(&self) -> Result<BTreeMap<u16, RowsOf>, Error> {
        let mut written = BTreeMap::new();
        if self.rewrite.is_empty() {
            return Ok(written);
        }
        let mut writers: BTreeMap<u16, Option<RowFileWriter>> =
            self.rewrite.iter().map(|&shard| (shard, None)).collect();
        let mut tally = Tally::default();
        let mut failed = None;
        self.rows.rows.for_each_row(&mut |key, vector| {
            tally.add(key.id, key.version);
            if let (None, Some(place)) = (&failed, writers.get_mut(&key.shard)) {
                failed = self.push(place, &key, vector).err();
            }
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        if tally != self.tally {
            return Err(Error::internal(format!(
                "the {} rows of capture {} are not the {} that were written: report the defect",
                tally.live, self.number, self.tally.live
            )));
        }
        for (shard, writer) in writers {
            let mut rows = RowsOf { number: self.number, file: None };
            if let Some(writer) = writer {
                let done = writer.finish()?;
                let name = rows_name(self.number, shard);
                let file = CapturedFile { name, bytes: done.bytes, shards: shard..=shard };
                let (number, bytes, checksum) = (self.number, done.bytes, done.checksum);
                let id = FileId { number, bytes, checksum };
                rows.file = Some(Arc::new(Kept { store: self.store.clone(), file, id }));
            }
            written.insert(shard, rows);
        }
        Ok(written)
    }

    fn push(
        &self,
        place: &mut Option<RowFileWriter>,
        key: &RowKey,
        vector: VectorRef<'_>,
    ) -> Result<(), Error> {
        if place.is_none() {
            let name = rows_name(self.number, key.shard);
            let settings = &self.rows.settings;
            *place = Some(RowFileWriter::create(&self.store, &name, settings, key.shard)?);
        }
        place.as_mut().expect("just created").push(key, vector)
    }
}

impl Engine {
    /// An empty engine in memory whose state can be shared as files of `dir`, which is made and is
    /// its own. It takes rows of `shards` alone.
    ///
    /// Errors: `Invalid` settings, `Io`.
    pub fn create_capturing(
        settings: Settings,
        dir: &Path,
        shards: RangeInclusive<u16>,
    ) -> Result<Engine, Error> {
        let mut engine = Engine::create(settings)?;
        engine.capturing = Some(Capturing::new(dir, shards)?);
        Ok(engine)
    }

    /// The state of this moment, to be written on another thread by [`Capture::write`].
    ///
    /// Of the files of consecutive states most are the same: about three times the bytes that
    /// changed are new. Cost: the end of one file. Errors: `Invalid` unless the engine was made by
    /// [`Engine::create_capturing`] or [`Engine::assemble`], `Io`.
    pub fn capture(&mut self) -> Result<Capture, Error> {
        let rows = self.pin();
        let row_bytes = self.settings.dimension
            * crate::snapshot::stored_element(&self.settings).bytes()
            + std::mem::size_of::<[u64; 3]>();
        let capturing = self.capturing.as_mut().ok_or_else(|| {
            Error::invalid("this engine captures no state: make it with create_capturing")
        })?;
        let (files, rewrite) = capturing.end_changes(row_bytes as i64)?;
        Ok(Capture {
            dir: capturing.dir.clone(),
            store: capturing.store.clone(),
            rows,
            number: capturing.number - 1,
            tally: capturing.tally,
            shards: capturing.shards.clone(),
            files,
            rewrite,
            newest: capturing.files.clone(),
        })
    }
}

fn rows_name(number: u64, shard: u16) -> String {
    format!("rows-{number:010}-{shard:03}")
}

fn changes_name(number: u64) -> String {
    format!("changes-{number:010}")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
