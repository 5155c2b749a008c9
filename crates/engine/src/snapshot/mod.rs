//! All living rows of a moment, as files: one per shard, and a manifest that is written last.
//!
//! A full copy for now. The shape is that of the incremental form: immutable files named by
//! shard, and one manifest that says which files make a state.

mod format;

pub(crate) use self::format::row_digest;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use vstream_index::PinnedRows;

use crate::engine::Row;
use crate::error::Error;
use crate::settings::Settings;

use self::format::{RowDecoder, RowFileWriter};

/// Name of the manifest in a snapshot directory.
const MANIFEST: &str = "MANIFEST";

/// One file of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotFile {
    /// Shard whose rows it holds.
    pub shard: u16,
    /// Rows in it.
    pub rows: u64,
    /// Its length.
    pub bytes: u64,
    /// XXH3-64 of its content.
    pub checksum: u64,
}

/// What a snapshot holds.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotSummary {
    /// Dimensions of the collection.
    pub dimension: usize,
    /// Metric of the collection.
    pub metric: vstream_vector::Metric,
    /// Element type of the collection.
    pub element: vstream_vector::Element,
    /// Living rows.
    pub rows: u64,
    /// Order-free sum of a hash of (id, version) over all rows: two states with the same rows have
    /// the same digest.
    pub digest: u128,
    /// The files, by shard.
    pub files: Vec<SnapshotFile>,
}

/// The rows of one moment, to be written while the engine goes on: from any thread.
pub struct PinnedSnapshot {
    pub(crate) settings: Settings,
    pub(crate) rows: Box<dyn PinnedRows>,
}

/// Whether a snapshot must outlive a loss of power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Every file is forced to the disk, the manifest last.
    Synced,
    /// Files are left to the operating system: for a snapshot that is copied elsewhere at once.
    Cached,
}

impl PinnedSnapshot {
    /// Writes the rows to `dir`, a file per shard and a manifest last.
    ///
    /// `dir` is created; it must not hold a snapshot yet. Errors: `Invalid`, `Io`.
    pub fn write(&self, dir: &Path, durability: Durability) -> Result<SnapshotSummary, Error> {
        write(dir, &self.settings, &*self.rows, durability)
    }
}

fn write(
    dir: &Path,
    settings: &Settings,
    rows: &dyn PinnedRows,
    durability: Durability,
) -> Result<SnapshotSummary, Error> {
    let manifest = dir.join(MANIFEST);
    if manifest.exists() {
        return Err(Error::invalid(format!(
            "{} already holds a snapshot: choose another directory or remove it",
            dir.display()
        )));
    }
    fs::create_dir_all(dir).map_err(|e| Error::io(dir, "create the directory", &e))?;
    let mut files: BTreeMap<u16, RowFileWriter> = BTreeMap::new();
    let mut failed: Option<Error> = None;
    let mut digest = 0u128;
    rows.for_each_row(&mut |key, vector| {
        if failed.is_some() {
            return;
        }
        let written = (|| {
            let file = match files.entry(key.shard) {
                std::collections::btree_map::Entry::Occupied(file) => file.into_mut(),
                std::collections::btree_map::Entry::Vacant(place) => {
                    place.insert(RowFileWriter::create(dir, settings, key.shard)?)
                }
            };
            file.push(&key, vector)
        })();
        digest = digest.wrapping_add(format::row_digest(key.id, key.version));
        failed = written.err();
    });
    if let Some(error) = failed {
        return Err(error);
    }
    let files: Vec<SnapshotFile> =
        files.into_values().map(|file| file.finish(durability)).collect::<Result<_, _>>()?;
    let summary = SnapshotSummary {
        dimension: settings.dimension,
        metric: settings.metric,
        element: settings.element,
        rows: files.iter().map(|file| file.rows).sum(),
        digest,
        files,
    };
    publish(&manifest, &format::encode_manifest(&summary), durability)?;
    Ok(summary)
}

/// Shows every row of the snapshot in `dir` to `apply`.
pub(crate) fn read(
    dir: &Path,
    settings: &Settings,
    apply: &mut dyn FnMut(&Row<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let manifest = dir.join(MANIFEST);
    if !manifest.exists() {
        for path in loose_files(dir)? {
            read_file(&path, settings, None, apply)?;
        }
        return Ok(());
    }
    let summary = inspect(dir)?;
    format::check_collection(&manifest, settings, &summary)?;
    let mut digest = 0u128;
    for file in &summary.files {
        let path = dir.join(format::file_name(file.shard));
        read_file(&path, settings, Some(file), &mut |row| {
            digest = digest.wrapping_add(format::row_digest(row.id, row.version));
            apply(row)
        })?;
    }
    if digest != summary.digest {
        return Err(Error::corrupt(
            &manifest,
            "the rows of the files are not those of the manifest (digest differs)",
        ));
    }
    Ok(())
}

/// Reads the manifest of a snapshot. Errors: `Io`, `Corrupt`, `Unsupported`.
pub fn inspect(dir: &Path) -> Result<SnapshotSummary, Error> {
    let path = dir.join(MANIFEST);
    let bytes = fs::read(&path).map_err(|e| Error::io(&path, "read the manifest", &e))?;
    format::decode_manifest(&path, &bytes)
}

fn loose_files(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(dir).map_err(|e| Error::io(dir, "list", &e))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| Error::io(dir, "list", &e))?.path();
        if format::is_file_name(&path) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn read_file(
    path: &Path,
    settings: &Settings,
    expected: Option<&SnapshotFile>,
    apply: &mut dyn FnMut(&Row<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let file = File::open(path).map_err(|e| Error::io(path, "open", &e))?;
    let bytes = file.metadata().map_err(|e| Error::io(path, "look at", &e))?.len();
    // The checksum stands at the end: it is verified in a first pass, so that no row of a damaged
    // file is ever applied.
    let checksum = format::verify_file(path, &mut BufReader::new(&file), bytes)?;
    if let Some(expected) = expected {
        if bytes != expected.bytes || checksum != expected.checksum {
            return Err(Error::corrupt(path, "this is not the file that the manifest names"));
        }
    }
    let file = File::open(path).map_err(|e| Error::io(path, "open", &e))?;
    let mut reader = BufReader::with_capacity(1 << 18, file);
    let mut decoder = RowDecoder::open(path, settings, bytes, &mut reader)?;
    while let Some(row) = decoder.next(&mut reader)? {
        apply(&row)?;
    }
    Ok(())
}

/// Writes `bytes` to `path`; if synced, so that after a crash there is all of it or nothing.
fn publish(path: &Path, bytes: &[u8], durability: Durability) -> Result<(), Error> {
    let partial = path.with_extension("partial");
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&partial)?;
        file.write_all(bytes)?;
        if durability == Durability::Synced {
            file.sync_all()?;
        }
        fs::rename(&partial, path)?;
        if durability == Durability::Synced {
            File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()?;
        }
        Ok(())
    };
    write().map_err(|e| Error::io(path, "write", &e))
}

fn read_exactly(path: &Path, reader: &mut dyn Read, bytes: &mut [u8]) -> Result<(), Error> {
    reader.read_exact(bytes).map_err(|e| Error::io(path, "read", &e))
}

type Out = BufWriter<File>;
