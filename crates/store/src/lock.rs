//! The lock that keeps a directory to one program at a time.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// A file in the locked directory, held locked by whoever uses the directory.
///
/// Dropping it unlocks the directory at once. Closing the file would not do: a process that another
/// thread starts has copies of all open files until it runs its program, and the system keeps a
/// lock for as long as any copy is open.
#[derive(Debug)]
pub struct DirectoryLock {
    file: File,
}

impl DirectoryLock {
    /// Name of the file. It is empty, stays when the lock goes, and is of this machine alone.
    pub const NAME: &str = "LOCK";

    /// Locks the existing directory `root`, whose file is created if it is missing. `None` if
    /// another lock on it is held, in this process or elsewhere. Never waits. Errors: those of the
    /// operating system.
    pub fn take(root: &Path) -> io::Result<Option<DirectoryLock>> {
        let file = File::options().create(true).append(true).open(DirectoryLock::path(root))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(DirectoryLock { file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// The path of the file of the directory `root`.
    pub fn path(root: &Path) -> PathBuf {
        root.join(DirectoryLock::NAME)
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // If the system refuses, closing the file unlocks it all the same, only perhaps later.
        let _ = self.file.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_lock_until_it_is_dropped() {
        let dir = tempfile::tempdir().expect("a directory");
        let take = || DirectoryLock::take(dir.path()).expect("the system answers");
        let held = take().expect("nobody has it");
        // As the copy that a process has which another thread starts.
        let copy = held.file.try_clone().expect("a copy");
        assert!(take().is_none() && take().is_none());
        drop(held);
        let again = take().expect("it is free, although a copy of the file is open");
        drop(copy);
        assert!(take().is_none(), "the copy is of the lock before");
        drop(again);
        assert!(take().is_some());
        assert!(DirectoryLock::take(&dir.path().join("x")).is_err(), "no directory");
    }
}
