//! Reads snapshots. Trusts no byte before it is verified.

use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vstream_store::{Access, FileStore, Range, ReadAt, Store, Syncing};

use super::format;
use super::rows::{file_name, is_file_name, verify_file, Footer, RowDecoder};
use super::{SnapshotFile, SnapshotSummary, MANIFEST};
use crate::error::Error;
use crate::layout::check_not_collection;
use crate::records::FOOTER;
use crate::row::Row;
use crate::settings::Settings;
use vstream_attribute::Schema;
use vstream_segment::row_digest;
use xxhash_rust::xxh3::Xxh3;

/// Bytes per read of a file.
pub(super) const READ_BYTES: usize = 1 << 18;
/// Most bytes of a manifest; a manifest with every possible shard is far shorter.
const MANIFEST_BYTES_MAX: u64 = 1 << 24;

/// Receives a row and the schema of the collection that it was of.
pub(crate) type Apply<'a> = dyn FnMut(&Row<'_>, &Arc<Schema>) -> Result<(), Error> + 'a;

/// Calls `apply` with every row of the snapshot whose files begin with `prefix`.
pub(crate) fn read(
    store: &dyn Store,
    prefix: &str,
    settings: &Settings,
    apply: &mut Apply<'_>,
) -> Result<(), Error> {
    let name = format!("{prefix}{MANIFEST}");
    if !store.list(&name)?.iter().any(|entry| entry.name == name) {
        for entry in store.list(prefix)? {
            if is_file_name(&entry.name[prefix.len()..]) {
                read_file(store, &entry.name, settings, None, apply)?;
            }
        }
        return Ok(());
    }
    let manifest = PathBuf::from(store.describe(&name));
    let summary = inspect_in(store, prefix)?;
    format::check_collection(&manifest, settings, &summary)?;
    let mut digest = 0u128;
    for file in &summary.files {
        let name = format!("{prefix}{}", file_name(file.shard));
        read_file(store, &name, settings, Some(file), &mut |row, schema| {
            digest = digest.wrapping_add(row_digest(row.id, row.version));
            apply(row, schema)
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
    let store = FileStore::open_dir(dir, Syncing::Off)?;
    check_not_collection(&store, "open it")?;
    inspect_in(&store, "")
}

/// Reads the manifest of the snapshot whose files begin with `prefix`.
pub(crate) fn inspect_in(store: &dyn Store, prefix: &str) -> Result<SnapshotSummary, Error> {
    let file = store.open(&format!("{prefix}{MANIFEST}"), Access::Cached)?;
    let path = Path::new(file.name());
    if file.bytes() > MANIFEST_BYTES_MAX {
        return Err(Error::corrupt(path, "too long for a manifest"));
    }
    let bytes = file.read(Range { offset: 0, bytes: file.bytes() as usize })?;
    format::decode_manifest(path, &bytes)
}

/// Calls `apply` with every row of one file, after its checksum and its expected properties are
/// verified.
fn read_file(
    store: &dyn Store,
    name: &str,
    settings: &Settings,
    expected: Option<&SnapshotFile>,
    apply: &mut Apply<'_>,
) -> Result<(), Error> {
    let mut rows = FileRows::open(store, name, settings, (expected, READ_BYTES))?;
    let schema = rows.decoder.schema().clone();
    while let Some(row) = rows.next()? {
        apply(&row, &schema)?;
    }
    Ok(())
}

/// The rows of one verified file.
pub(super) struct FileRows {
    pub(super) decoder: RowDecoder,
    reader: Hashed,
    /// What follows the rows, but for the checksum; and the checksum.
    end: ([u8; 16], u64),
}

impl FileRows {
    /// Opens a file and verifies it.
    ///
    /// * `expected`: what a manifest says of the file.
    /// * `read_bytes`: bytes of a read.
    pub(super) fn open(
        store: &dyn Store,
        name: &str,
        settings: &Settings,
        (expected, read_bytes): (Option<&SnapshotFile>, usize),
    ) -> Result<FileRows, Error> {
        let file = store.open(name, Access::Cached)?;
        let (path, bytes) = (Path::new(file.name()), file.bytes());
        // The checksum is at the end of the file. A first pass verifies it, so that no row of a
        // damaged file is ever applied.
        let footer = verify_file(path, &mut Hashed::new(&file, read_bytes), bytes)?;
        if let Some(expected) = expected {
            if bytes != expected.bytes || footer.checksum != expected.checksum {
                return Err(Error::corrupt(path, "this is not the file that the manifest names"));
            }
        }
        FileRows::decode(&file, settings, &footer, read_bytes)
    }

    /// Opens a file that was verified before. Its rows are those that `expected` says, or the last one
    /// is an error.
    pub(super) fn begin(
        store: &dyn Store,
        name: &str,
        settings: &Settings,
        (expected, read_bytes): (&SnapshotFile, usize),
    ) -> Result<FileRows, Error> {
        let file = store.open(name, Access::Cached)?;
        let footer = Footer { rows: expected.rows, checksum: expected.checksum };
        let found = file.read(Range {
            offset: file.bytes().saturating_sub(FOOTER as u64),
            bytes: FOOTER.min(file.bytes() as usize),
        })?;
        if file.bytes() != expected.bytes || *found != footer.encode(expected.bytes) {
            let path = Path::new(file.name());
            return Err(Error::corrupt(path, "this is not the file that the manifest names"));
        }
        FileRows::decode(&file, settings, &footer, read_bytes)
    }

    /// Verifies a file, and calls `visit` with the id of every row of it; in one pass, unless the file is
    /// damaged.
    pub(super) fn for_each_id(
        store: &dyn Store,
        name: &str,
        settings: &Settings,
        (expected, visit): (&SnapshotFile, &mut dyn FnMut(u64)),
    ) -> Result<(), Error> {
        let mut look = || {
            let mut rows = FileRows::begin(store, name, settings, (expected, READ_BYTES))?;
            while rows.advance()? {
                visit(rows.decoder.id()?);
            }
            Ok(())
        };
        look().or_else(|error: Error| {
            // Damaged bytes may look like anything, such as another format.
            FileRows::open(store, name, settings, (Some(expected), READ_BYTES))?;
            Err(error)
        })
    }

    fn decode(
        file: &Arc<dyn ReadAt>,
        settings: &Settings,
        footer: &Footer,
        read_bytes: usize,
    ) -> Result<FileRows, Error> {
        let (path, bytes) = (Path::new(file.name()), file.bytes());
        let mut reader = Hashed::new(file, read_bytes);
        let decoder = RowDecoder::open(path, settings, (bytes, footer), &mut reader)?;
        let mut end = [0; 16];
        end[..8].copy_from_slice(&decoder.left().to_le_bytes());
        end[8..].copy_from_slice(&bytes.to_le_bytes());
        Ok(FileRows { decoder, reader, end: (end, footer.checksum) })
    }

    /// Errors: also `Corrupt` after the last row, if the bytes were not those of the first pass. A
    /// file far away is fetched once more, and may arrive with other bytes.
    fn next(&mut self) -> Result<Option<Row<'_>>, Error> {
        if self.advance()? {
            self.decoder.row().map(Some)
        } else {
            Ok(None)
        }
    }

    /// Reads the next row; false if there is none. Errors: those of [`FileRows::next`].
    pub(super) fn advance(&mut self) -> Result<bool, Error> {
        let is_last = self.decoder.left() == 1;
        let is_there = self.decoder.advance(&mut self.reader)?;
        if is_last {
            self.reader.hash.update(&self.end.0);
            if self.reader.hash.digest() != self.end.1 {
                let path = self.decoder.path();
                return Err(Error::corrupt(path, "its bytes differ from one read to the next"));
            }
        }
        Ok(is_there)
    }
}

/// The rows of a snapshot with a manifest, one by one.
pub(crate) struct SnapshotRows {
    files: Vec<FileRows>,
    schema: Arc<Schema>,
}

impl SnapshotRows {
    /// Opens and verifies every file that the manifest names.
    pub(crate) fn open(store: &dyn Store, settings: &Settings) -> Result<SnapshotRows, Error> {
        let summary = inspect_in(store, "")?;
        format::check_collection(Path::new(&store.describe(MANIFEST)), settings, &summary)?;
        let open = |file: &SnapshotFile| {
            FileRows::open(store, &file_name(file.shard), settings, (Some(file), READ_BYTES))
        };
        let schema = summary.schema.clone();
        Ok(SnapshotRows {
            schema,
            files: summary.files.iter().map(open).collect::<Result<_, _>>()?,
        })
    }

    /// The schema of the collection that the rows were of.
    pub(crate) fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Returns the next row, of any file; `None` after the last row.
    pub(crate) fn next(&mut self) -> Result<Option<Row<'_>>, Error> {
        while self.files.last().is_some_and(|file| file.decoder.left() == 0) {
            self.files.pop();
        }
        self.files.last_mut().map_or(Ok(None), FileRows::next)
    }
}

/// What was read, and its hash.
struct Hashed {
    inner: BufReader<Cursor>,
    hash: Xxh3,
}

impl Hashed {
    fn new(file: &Arc<dyn ReadAt>, read_bytes: usize) -> Hashed {
        let cursor = Cursor { file: file.clone(), offset: 0 };
        Hashed { inner: BufReader::with_capacity(read_bytes, cursor), hash: Xxh3::new() }
    }
}

impl io::Read for Hashed {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(out)?;
        self.hash.update(&out[..read]);
        Ok(read)
    }
}

/// Reads a file from its start to its end.
struct Cursor {
    file: Arc<dyn ReadAt>,
    offset: u64,
}

impl io::Read for Cursor {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = self.file.bytes().saturating_sub(self.offset);
        let bytes = out.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = self.file.read(Range { offset: self.offset, bytes });
        out[..bytes].copy_from_slice(&read.map_err(io::Error::other)?);
        self.offset += bytes as u64;
        Ok(bytes)
    }
}
