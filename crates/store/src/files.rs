//! The primitives under a [`FileStore`](crate::FileStore): what a directory of files can do, no
//! more. A crash simulator is another implementation of these two traits.

use std::io;
use std::sync::Arc;

use crate::buffer::Buffer;
use crate::store::Range;

/// How a file will be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Through the page cache of the operating system.
    Cached,
    /// Past the page cache where that is possible: for readers that have a cache of their own.
    Direct,
}

/// One flat directory. Errors are those of the operating system.
pub trait Files: Send + Sync {
    /// A new, empty file in place of any of that name.
    fn create(&self, name: &str) -> io::Result<Box<dyn OutFile>>;

    /// An existing file, to be appended to.
    fn reopen(&self, name: &str) -> io::Result<Box<dyn OutFile>>;

    /// An existing file, to be read.
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn InFile>>;

    /// Gives a file another name. If `replace`, in place of any of that name; otherwise
    /// `AlreadyExists` if there is one.
    fn rename(&self, from: &str, to: &str, replace: bool) -> io::Result<()>;

    /// Removes a name.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Forces names that were made, changed and removed to the disk.
    fn sync_names(&self) -> io::Result<()>;

    /// Names and lengths of all files.
    fn list(&self) -> io::Result<Vec<(String, u64)>>;

    /// A file as messages name it.
    fn describe(&self, name: &str) -> String {
        name.to_owned()
    }
}

/// A file that is written at its end.
pub trait OutFile: Send {
    /// Adds some of `bytes` at the end; returns how many, at least one unless `bytes` is empty.
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Writes all of `bytes` over what is there from `offset` on, within the file.
    fn overwrite(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes the file `bytes` long: not more than it is.
    fn cut(&mut self, bytes: u64) -> io::Result<()>;

    /// Forces content and length to the disk.
    fn sync(&mut self) -> io::Result<()>;
}

/// A file that is read.
pub trait InFile: Send + Sync {
    /// Its length now.
    fn bytes(&self) -> io::Result<u64>;

    /// Reads up to `bytes` bytes from `offset`; fewer only at the end of the file or when
    /// interrupted.
    fn read(&self, offset: u64, bytes: usize) -> io::Result<Buffer>;

    /// Reads ranges whole, if one call for all is better than one for each: beyond a network.
    fn read_many(&self, _ranges: &[Range]) -> Option<io::Result<Vec<Buffer>>> {
        None
    }

    /// True if a read may wait, so that several are better under way at once.
    fn waits(&self) -> bool;
}
