//! What every store answers to: write-once files, and readers of ranges.

use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

use crate::buffer::Buffer;
use crate::error::Error;
use crate::files::Access;

/// A file of a store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
}

/// Write-once files with flat names: ASCII letters, digits, `.`, `_` and `-`, up to 128 of them,
/// not beginning with a dot, not ending in `.partial`.
///
/// A file that can be seen is whole and, if the store syncs, outlives a loss of power. Every error
/// names the file. After a failed sync a store refuses all changes (`Poisoned`).
pub trait Store: Send + Sync {
    /// Begins a file, which nobody sees before [`FileWriter::finish`].
    ///
    /// Errors: `Invalid` name, `Full`, `Io`.
    fn create(&self, name: &str) -> Result<Box<dyn FileWriter>, Error>;

    /// Writes a whole small file in place of one of the same name: afterwards, and after a crash
    /// at any moment, there is either the old content or the new one. This is the commit point.
    fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), Error>;

    /// Opens a file to read ranges of it. Errors: `NotFound`, `Io`.
    fn open(&self, name: &str, access: Access) -> Result<Arc<dyn ReadAt>, Error>;

    /// The whole files whose names begin with `prefix`, by name.
    fn list(&self, prefix: &str) -> Result<Vec<Entry>, Error>;

    /// Removes a file; one that is not there is no error. It may come back after a crash.
    fn delete(&self, name: &str) -> Result<(), Error>;

    /// The file as messages name it: with the directory or address of the store.
    fn describe(&self, name: &str) -> String;

    /// Writes a whole small file. Errors: `Exists` and those of [`Store::create`].
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let mut file = self.create(name)?;
        file.append(bytes)?;
        file.finish().map(|_| ())
    }
}

/// A file that is being written. Dropped before [`FileWriter::finish`], it never was.
pub trait FileWriter: Send {
    /// Adds bytes at the end. After an error the file cannot be finished.
    fn append(&mut self, bytes: &[u8]) -> Result<(), Error>;

    /// Makes the file visible under its name, whole and durable; returns its length.
    ///
    /// Errors: `Exists` if there is such a file already, which stays as it is.
    fn finish(self: Box<Self>) -> Result<u64, Error>;
}

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: usize,
}

/// An open file of which any range can be read, from any thread.
pub trait ReadAt: Send + Sync {
    /// The file as messages name it.
    fn name(&self) -> &str;

    /// Its length when it was opened.
    fn bytes(&self) -> u64;

    /// Reads a range whole. Errors: `Corrupt` if the file ends before the range does, `Io`.
    fn read(&self, range: Range) -> Result<Buffer, Error>;

    /// True if a read may wait, so that several are better under way at once.
    fn waits(&self) -> bool {
        false
    }

    /// Reads ranges, in the order given; they are under way at the same time where the store can.
    ///
    /// Cost: about that of the slowest read rather than that of all of them, on a disk or beyond a
    /// network. Errors: those of [`ReadAt::read`]; the first one stands for all.
    fn read_many(&self, ranges: &[Range]) -> Result<Vec<Buffer>, Error> {
        ranges.iter().map(|&range| self.read(range)).collect()
    }
}

/// Errors: `Corrupt` if a file of `bytes` bytes ends before `range` does.
pub(crate) fn check_range(range: Range, bytes: u64, file: &str) -> Result<(), Error> {
    let end = range.offset.checked_add(range.bytes as u64);
    if end.is_none_or(|end| end > bytes) {
        let what = format!("{} bytes are missing: the file is too short", range.bytes);
        return Err(Error::corrupt(file, range.offset, what));
    }
    Ok(())
}

/// Bytes of a file that is read from its start to its end, at a time.
pub(crate) const WALK_BYTES: usize = 4 << 20;

/// XXH3-128 of a whole file. Errors: those of the file.
pub fn checksum_of(file: &dyn ReadAt) -> Result<u128, Error> {
    let mut hash = Xxh3::new();
    let mut offset = 0;
    while offset < file.bytes() {
        let bytes = (file.bytes() - offset).min(WALK_BYTES as u64) as usize;
        hash.update(&file.read(Range { offset, bytes })?);
        offset += bytes as u64;
    }
    Ok(hash.digest128())
}
