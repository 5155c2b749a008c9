//! Reads a base image leaf by leaf: rows of one leaf may be in the files of several shards.

use std::path::Path;

use vstream_segment::row_digest;
use vstream_store::Store;

use super::read::{FileRows, READ_BYTES};
use super::rows::file_name;
use super::{format, inspect_in, SnapshotFile, MANIFEST};
use crate::error::Error;
use crate::row::Row;
use crate::settings::Settings;

/// Bytes of the buffers of all files together, unless there are very many files.
const BUFFERS_BYTES: usize = 64 << 20;
/// Comes after every leaf.
const NO_LEAF: u64 = u64::MAX;

/// Receives a row, and the number of the leaf that it was in.
pub(crate) type ApplyLeafRow<'a> = dyn FnMut(Option<u32>, &Row<'_>) -> Result<(), Error> + 'a;

/// Calls `apply` with every row of the image whose files begin with `prefix`, in the order of the
/// leaves. Rows in no leaf come last, as do all rows of files that do not say the leaf.
///
/// Verifies every file before the first row. Errors: `Corrupt`, `Invalid`, `Unsupported`, `Io`; the
/// caller drops what it got until then.
pub(crate) fn read_leaves(
    store: &dyn Store,
    prefix: &str,
    settings: &Settings,
    apply: &mut ApplyLeafRow<'_>,
) -> Result<(), Error> {
    let manifest = store.describe(&format!("{prefix}{MANIFEST}"));
    let summary = inspect_in(store, prefix)?;
    format::check_collection(Path::new(&manifest), settings, &summary)?;
    let read_bytes = (BUFFERS_BYTES / summary.files.len().max(1)).clamp(1 << 12, READ_BYTES);
    let open = |file: &SnapshotFile| {
        let name = format!("{prefix}{}", file_name(file.shard));
        let file = FileRows::open(store, &name, settings, (Some(file), read_bytes))?;
        let mut source = Source { file, next: None };
        source.advance()?;
        Ok(source)
    };
    let mut sources: Vec<Source> = summary.files.iter().map(open).collect::<Result<_, Error>>()?;
    let mut digest = 0u128;
    while let Some(next) = sources.iter().filter_map(|source| source.next).min() {
        for source in &mut sources {
            while source.next == Some(next) {
                let row = source.file.decoder.row()?;
                digest = digest.wrapping_add(row_digest(row.id, row.version));
                apply(u32::try_from(next).ok(), &row)?;
                source.advance()?;
            }
        }
    }
    if digest != summary.digest {
        return Err(Error::corrupt(
            Path::new(&manifest),
            "the rows of the files are not those of the manifest (digest differs)",
        ));
    }
    Ok(())
}

/// A file, and the leaf of the row that was read of it last; `None` at its end.
struct Source {
    file: FileRows,
    next: Option<u64>,
}

impl Source {
    fn advance(&mut self) -> Result<(), Error> {
        let is_there = self.file.advance()?;
        let leaf = || self.file.decoder.leaf().map_or(NO_LEAF, u64::from);
        self.next = is_there.then(leaf);
        Ok(())
    }
}
