//! A log file: one writer appends to it and syncs it from time to time.

use std::sync::Arc;

use crate::error::{Error, ErrorKind};
use crate::file_store::Shared;
use crate::files::OutFile;

/// A log that is open for appends. [`FileStore`](crate::FileStore) creates it.
pub struct LogFile {
    disk: Arc<Shared>,
    name: String,
    file: Box<dyn OutFile>,
    /// Bytes of all complete appends.
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

    /// Name of the log in its store.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Length of the log: the bytes of all complete appends.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// True if a sync failed. The log then refuses all writes.
    pub fn is_poisoned(&self) -> bool {
        self.disk.check_poison(&self.name).is_err()
    }

    /// Appends all of `bytes`, or nothing after an error.
    ///
    /// Errors: `Full`, after which the caller may free space and call again. Any other error
    /// poisons the store.
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

    /// Syncs all appended bytes. Every error poisons the store.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.disk.check_poison(&self.name)?;
        self.disk.sync(&self.name, &mut *self.file)
    }

    /// Truncates the file to the end of the last complete append.
    pub(crate) fn cut(&mut self) -> Result<(), Error> {
        self.file.cut(self.bytes).map_err(|e| self.disk.error(&self.name, "shorten", &e))
    }
}
