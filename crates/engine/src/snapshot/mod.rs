//! Snapshots: all living rows as files, one file per shard and the manifest last.
//!
//! A snapshot is a full copy, for backups and inspection. Checkpoints of a job hold shared states
//! instead; see `checkpoint/`.

mod format;
mod image;
mod image_files;
mod read;
mod rows;

use std::collections::btree_map::{BTreeMap, Entry};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use vstream_attribute::Schema;
use vstream_index::IndexRow;
use vstream_segment::row_digest;
use vstream_store::{FileStore, Store, Syncing};

use crate::error::Error;
use crate::layout::check_not_collection;
use crate::row::Row;
use crate::settings::Settings;
use crate::tree::Pinned;

pub(crate) use self::image::{Image, Part, Run, Turn};
pub(crate) use self::image_files::ImageFiles;
pub use self::read::inspect;
pub(crate) use self::read::{inspect_in, read, SnapshotRows};
pub(crate) use self::rows::{file_name, read_vector, shard_of_file, stored_element, RowFileWriter};

/// Name of the manifest in a snapshot directory.
pub(crate) const MANIFEST: &str = "MANIFEST";

/// One file of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotFile {
    /// Shard of its rows.
    pub shard: u16,
    /// Rows in it.
    pub rows: u64,
    /// Its length.
    pub bytes: u64,
    /// XXH3-64 of its content.
    pub checksum: u64,
}

/// Summary of a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotSummary {
    /// Dimensions of the collection.
    pub dimension: usize,
    /// Metric of the collection.
    pub metric: vstream_vector::Metric,
    /// Element type of the collection.
    pub element: vstream_vector::Element,
    /// What its rows carry beside their vectors.
    pub schema: Arc<Schema>,
    /// Living rows.
    pub rows: u64,
    /// Order-free sum of a hash of (id, version) over all rows. Two states with the same rows have
    /// the same digest.
    pub digest: u128,
    /// The files, by shard.
    pub files: Vec<SnapshotFile>,
}

impl SnapshotSummary {
    /// Returns the checksum of the manifest with this content. It identifies one snapshot among
    /// all.
    pub(crate) fn checksum(&self) -> u64 {
        xxhash_rust::xxh3::xxh3_64(&format::encode_manifest(self))
    }
}

/// A source of rows for a snapshot.
pub(crate) trait RowSource {
    /// Calls `visit` with every row. Errors: `Corrupt`, `Io`.
    fn for_each_row(&self, visit: &mut dyn FnMut(IndexRow<'_>)) -> Result<(), Error>;

    /// Calls `visit` with every row of the chosen shards and the serial of its leaf, ascending. Rows in no
    /// leaf come last.
    fn for_each_serial_row(
        &self,
        is_chosen: &dyn Fn(u16) -> bool,
        visit: &mut dyn FnMut(Option<u32>, IndexRow<'_>),
    ) -> Result<(), Error> {
        self.for_each_row(&mut |row| {
            if is_chosen(row.key.shard) {
                visit(None, row);
            }
        })
    }
}

impl RowSource for Pinned {
    fn for_each_row(&self, visit: &mut dyn FnMut(IndexRow<'_>)) -> Result<(), Error> {
        Pinned::for_each_row(self, visit)
    }

    fn for_each_serial_row(
        &self,
        is_chosen: &dyn Fn(u16) -> bool,
        visit: &mut dyn FnMut(Option<u32>, IndexRow<'_>),
    ) -> Result<(), Error> {
        Pinned::for_each_serial_row(self, is_chosen, visit)
    }
}

/// The rows of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShardRows {
    pub(crate) rows: u64,
    pub(crate) digest: u128,
}

/// The rows of one sequence number, pinned. Any thread may write them while the engine continues.
pub struct PinnedSnapshot {
    pub(crate) settings: Settings,
    pub(crate) rows: Pinned,
}

impl PinnedSnapshot {
    /// Writes the rows to `dir`, one file per shard and the manifest last.
    ///
    /// Creates `dir`, which must not hold a snapshot yet. Errors: `Invalid`, `Io`.
    pub fn write(&self, dir: &Path, syncing: Syncing) -> Result<SnapshotSummary, Error> {
        self.write_rows(&self.rows, dir, syncing)
    }

    /// Writes some rows of this collection to `dir`, as [`PinnedSnapshot::write`] does.
    pub(crate) fn write_rows(
        &self,
        rows: &dyn RowSource,
        dir: &Path,
        syncing: Syncing,
    ) -> Result<SnapshotSummary, Error> {
        let store = FileStore::create_dir(dir, syncing)?;
        check_not_collection(&store, "choose another directory")?;
        if store.list(MANIFEST)?.iter().any(|entry| entry.name == MANIFEST) {
            return Err(Error::invalid(format!(
                "{} already holds a snapshot: choose another directory or remove it",
                dir.display()
            )));
        }
        // Without a manifest these files are leftovers of an attempt that a crash ended.
        for left in store.list("shard-")?.iter().filter(|left| rows::is_file_name(&left.name)) {
            store.delete(&left.name)?;
        }
        write(&store, "", (&self.settings, false), (rows, &|_| true))
    }

    /// Writes the rows of the chosen shards to `store`, in files whose names begin with `prefix`. The
    /// files say the leaf of each row, if the index has leaves.
    pub(crate) fn write_in(
        &self,
        store: &dyn Store,
        prefix: &str,
        is_chosen: &dyn Fn(u16) -> bool,
    ) -> Result<SnapshotSummary, Error> {
        write(store, prefix, (&self.settings, self.rows.has_leaves()), (&self.rows, is_chosen))
    }

    /// Counts the rows of each shard that has some. Cost: as [`PinnedSnapshot::for_each_code`], and a
    /// hash for each row.
    ///
    /// Errors: the same as [`PinnedSnapshot::for_each_row`].
    pub(crate) fn count_shards(&self) -> Result<BTreeMap<u16, ShardRows>, Error> {
        let mut shards: BTreeMap<u16, ShardRows> = BTreeMap::new();
        self.rows.for_each_match(None, &mut |key| {
            let shard = shards.entry(key.shard).or_default();
            shard.rows += 1;
            shard.digest = shard.digest.wrapping_add(row_digest(key.id, key.version));
        })?;
        Ok(shards)
    }

    /// Calls `visit` with the routing code of every row. Cost: a few nanoseconds a row in memory.
    ///
    /// Errors: the same as [`PinnedSnapshot::for_each_row`].
    pub fn for_each_code(&self, visit: &mut dyn FnMut(u64)) -> Result<(), Error> {
        self.rows.for_each_match(None, &mut |key| visit(key.code))
    }

    /// Calls `visit` with every row in its stored form: under cosine the vector is a direction.
    ///
    /// Errors: `Corrupt`, `Io`, if a segment cannot be read.
    pub fn for_each_row(&self, visit: &mut dyn FnMut(&Row<'_>)) -> Result<(), Error> {
        self.for_each_chosen(&|_| true, visit)
    }

    /// Calls `visit` with the rows whose id passes `chosen`. Does not read the vectors of other
    /// rows in memory.
    ///
    /// Errors: the same as [`PinnedSnapshot::for_each_row`].
    pub fn for_each_chosen(
        &self,
        chosen: &dyn Fn(u64) -> bool,
        visit: &mut dyn FnMut(&Row<'_>),
    ) -> Result<(), Error> {
        let mut values = vec![0.0; self.settings.dimension];
        self.rows.for_each_row(&mut |IndexRow { key, vector, fields }| {
            if !chosen(key.id) {
                return;
            }
            vector.read(&mut values);
            let (id, version, code, shard) = (key.id, key.version, key.code, key.shard);
            visit(&Row { id, version, code, shard, vector: &values, fields });
        })
    }
}

/// * `has_leaves`: whether the files say the leaf of each row.
fn write(
    store: &dyn Store,
    prefix: &str,
    (settings, has_leaves): (&Settings, bool),
    (rows, is_chosen): (&dyn RowSource, &dyn Fn(u16) -> bool),
) -> Result<SnapshotSummary, Error> {
    let mut files: BTreeMap<u16, RowFileWriter> = BTreeMap::new();
    let mut failed: Option<Error> = None;
    let mut digest = 0u128;
    rows.for_each_serial_row(is_chosen, &mut |leaf, row| {
        let key = row.key;
        if failed.is_some() {
            return;
        }
        let written = (|| {
            let file = match files.entry(key.shard) {
                Entry::Occupied(file) => file.into_mut(),
                Entry::Vacant(place) => {
                    let name = format!("{prefix}{}", file_name(key.shard));
                    let kind = (key.shard, has_leaves);
                    place.insert(RowFileWriter::create(store, &name, settings, kind)?)
                }
            };
            file.push(leaf, &row)
        })();
        digest = digest.wrapping_add(row_digest(key.id, key.version));
        failed = written.err();
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    let files: Vec<SnapshotFile> =
        files.into_values().map(RowFileWriter::finish).collect::<Result<_, _>>()?;
    let summary = SnapshotSummary {
        dimension: settings.dimension,
        metric: settings.metric,
        element: settings.element,
        schema: settings.schema.clone(),
        rows: files.iter().map(|file| file.rows).sum(),
        digest,
        files,
    };
    store.put(&format!("{prefix}{MANIFEST}"), &format::encode_manifest(&summary))?;
    Ok(summary)
}

fn read_exactly(path: &Path, reader: &mut dyn Read, bytes: &mut [u8]) -> Result<(), Error> {
    reader.read_exact(bytes).map_err(|error| Error::io(path, "read", error))
}

#[cfg(test)]
mod tests;
