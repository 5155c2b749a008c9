//! A file that grows while it is read by nobody, and is synced now and then.

use std::sync::Arc;

use crate::error::{Error, ErrorKind};
use crate::file_store::Shared;
use crate::files::OutFile;

/// A log that is being written. Made by [`FileStore`](crate::FileStore).
pub struct LogFile {
    disk: Arc<Shared>,
    name: String,
    file: Box<dyn OutFile>,
    /// Bytes that were appended whole.
    bytes: u64,
}

impl LogFile {
    pub(crate) fn new(
        disk: Arc<Shared>,
        name: &str,
        file: Box<dyn OutFile>,
        bytes: u64,
    ) -> LogFile {
        LogFile { disk, name: name.to_owned(), file, bytes }
    }

    /// Its name in the store.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its length: what was appended whole.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds bytes at the end, all of them or, after an error, none.
    ///
    /// Errors: `Full`: free space and call again. Any other error poisons the store.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.disk.check_poison(&self.name)?;
        match self.disk.append(&self.name, &mut *self.file, bytes) {
            Ok(()) => {
                self.bytes += bytes.len() as u64;
                Ok(())
            }
            Err(error) => {
                if error.kind() != ErrorKind::Full || self.cut().is_err() {
                    self.disk.poison();
                }
                Err(error)
            }
        }
    }

    /// Forces everything that was appended to the disk. Errors: all poison the store.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.disk.check_poison(&self.name)?;
        self.disk.sync(&self.name, &mut *self.file)
    }

    /// Cuts off what follows the last whole append.
    pub(crate) fn cut(&mut self) -> Result<(), Error> {
        self.file.cut(self.bytes).map_err(|e| self.disk.error(&self.name, "shorten", &e))
    }
}
