//! The interface of every store: write-once files, and readers of ranges.

use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

use crate::buffer::Buffer;
use crate::error::Error;
use crate::files::Access;
use crate::ring::PlannedRead;

/// A file in the list of a store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
}

/// Write-once files with flat names. A name has up to 128 ASCII letters, digits, `.`, `_` and `-`.
/// It does not begin with a dot and does not end in `.partial`.
///
/// A visible file is complete and, if the store syncs, survives a loss of power. Every error names
/// the file. After a failed sync a store refuses all changes (`Poisoned`).
pub trait Store: Send + Sync {
    /// Begins a file. It is invisible until [`FileWriter::finish`].
    ///
    /// Errors: `Invalid` name, `Full`, `Io`.
    fn create(&self, name: &str) -> Result<Box<dyn FileWriter>, Error>;

    /// Writes a small file as a whole and replaces any file of the same name. A crash at any moment
    /// leaves either the old content or the new one. This call is the commit point.
    fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), Error>;

    /// Opens a file to read ranges of it. Errors: `NotFound`, `Io`.
    fn open(&self, name: &str, access: Access) -> Result<Arc<dyn ReadAt>, Error>;

    /// The complete files whose names begin with `prefix`, sorted by name.
    fn list(&self, prefix: &str) -> Result<Vec<Entry>, Error>;

    /// Removes a file. It is no error if there is none. After a crash the file may exist again.
    fn delete(&self, name: &str) -> Result<(), Error>;

    /// The file as error messages name it, with the directory or address of the store.
    fn describe(&self, name: &str) -> String;

    /// Writes a small file as a whole. Errors: `Exists` and those of [`Store::create`].
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let mut file = self.create(name)?;
        file.append(bytes)?;
        file.finish().map(|_| ())
    }
}

/// A file that is being written. Dropped before [`FileWriter::finish`], it leaves nothing behind.
pub trait FileWriter: Send {
    /// Says how many bytes will come, before the first of them. Errors: `Invalid` if no file of the store may
    /// have so many.
    fn expect(&mut self, bytes: u64) -> Result<(), Error> {
        let _ = bytes;
        Ok(())
    }

    /// Appends bytes. After an error the file cannot be finished.
    fn append(&mut self, bytes: &[u8]) -> Result<(), Error>;

    /// Makes the file visible under its name, complete and durable. Returns its length.
    ///
    /// Errors: `Exists` if there is a file of that name; that file stays unchanged.
    fn finish(self: Box<Self>) -> Result<u64, Error>;
}

/// A range of bytes in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: usize,
}

/// An open file. Any thread can read any range of it.
pub trait ReadAt: Send + Sync {
    /// The file as error messages name it.
    fn name(&self) -> &str;

    /// Length of the file when it was opened.
    fn bytes(&self) -> u64;

    /// Reads a whole range. Errors: `Corrupt` if the file ends before the range does, `Io`.
    fn read(&self, range: Range) -> Result<Buffer, Error>;

    /// True if a read may wait, so that several reads should run at once.
    fn waits(&self) -> bool {
        false
    }

    /// False while its bytes are in a far store alone, so that a read needs that store.
    fn is_near(&self) -> bool {
        true
    }

    /// Reads a whole range that is in memory already, as in the page cache. `None` if it is not, or
    /// if nobody knows: then [`ReadAt::read`] says more.
    fn read_ready(&self, _range: Range) -> Option<Buffer> {
        None
    }

    /// The read of a range, for a caller that makes several with one call; `None` if nobody can, or if the file
    /// ends before. The caller reads again what fails or comes short.
    fn plan(&self, _range: Range) -> Option<PlannedRead> {
        None
    }

    /// Reads ranges and returns them in the given order. The reads run at the same time if the
    /// store can do that.
    ///
    /// Cost: on a disk or over a network, about that of the slowest read instead of the sum of all.
    /// Errors: those of [`ReadAt::read`]; the first error is returned.
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

/// Bytes that are read at a time when a whole file is read.
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
