//! The primitives of a directory of files, on which [`FileStore`](crate::FileStore) builds. A crash
//! simulator implements these traits too.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::buffer::Buffer;
use crate::ring::PlannedRead;
use crate::store::Range;

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Through the page cache of the operating system.
    Cached,
    /// Past the page cache where possible. For readers that have a cache of their own.
    Direct,
}

/// One flat directory. Its errors are those of the operating system.
pub trait Files: Send + Sync {
    /// Creates an empty file and replaces any file of that name.
    fn create(&self, name: &str) -> io::Result<Box<dyn OutFile>>;

    /// Opens an existing file to append to it.
    fn reopen(&self, name: &str) -> io::Result<Box<dyn OutFile>>;

    /// Opens an existing file to read it.
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn InFile>>;

    /// Renames a file. With `replace` it replaces any file of the new name. Otherwise the error is
    /// `AlreadyExists` if there is one.
    fn rename(&self, from: &str, to: &str, replace: bool) -> io::Result<()>;

    /// Gives the bytes of a file of another directory a name here, without a copy. Neither may be
    /// written from then on. False, and nothing has changed, where that cannot be.
    fn link(&self, _from: &dyn Files, _name: &str, _to: &str) -> bool {
        false
    }

    /// The directory of the operating system that holds the files, if one does.
    fn root(&self) -> Option<&Path> {
        None
    }

    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Syncs the directory: the names that were created, changed and removed.
    fn sync_names(&self) -> io::Result<()>;

    /// Names and lengths of all files.
    fn list(&self) -> io::Result<Vec<(String, u64)>>;

    /// The file as error messages name it.
    fn describe(&self, name: &str) -> String {
        name.to_owned()
    }
}

/// A file that is being written.
pub trait OutFile: Send {
    /// Appends some of `bytes` and returns how many, at least one unless `bytes` is empty.
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Overwrites the bytes from `offset` on with all of `bytes`, within the file.
    fn overwrite(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Truncates the file to `bytes` bytes, at most its present length.
    fn cut(&mut self, bytes: u64) -> io::Result<()>;

    /// Syncs content and length.
    fn sync(&mut self) -> io::Result<()>;
}

/// A file that is being read.
pub trait InFile: Send + Sync {
    /// Its present length.
    fn bytes(&self) -> io::Result<u64>;

    /// Reads up to `bytes` bytes from `offset`. It reads fewer only at the end of the file or after
    /// an interrupt.
    fn read(&self, offset: u64, bytes: usize) -> io::Result<Buffer>;

    /// As [`InFile::read`], if that needs no wait; `None` if it may, or if nobody knows.
    fn read_ready(&self, _offset: u64, _bytes: usize) -> Option<io::Result<Buffer>> {
        None
    }

    /// As [`InFile::read`], for a caller that makes several reads with one call; `None` if nobody can. The
    /// caller reads again what fails or comes short.
    fn plan(&self, _offset: u64, _bytes: usize) -> Option<PlannedRead> {
        None
    }

    /// Reads whole ranges in one call. `None` where that is no better than one call for each range;
    /// it is better over a network.
    fn read_many(&self, _ranges: &[Range]) -> Option<io::Result<Vec<Buffer>>> {
        None
    }

    /// True if a read may wait, so that several reads should run at once.
    fn waits(&self) -> bool;

    /// False while its bytes are in a far store alone, so that a read needs that store.
    fn is_near(&self) -> bool {
        true
    }
}
