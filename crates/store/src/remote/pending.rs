//! Files of a restore that are not fetched yet, and their readers, which switch to the local file
//! once it is fetched.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::contents::PushedFile;
use super::restore::Shared;
use crate::buffer::Buffer;
use crate::error::Error;
use crate::files::{Access, InFile};
use crate::ring::PlannedRead;
use crate::store::{Range, ReadAt, Store};

/// A file of a snapshot that is not fetched yet.
pub(super) struct PendingFile {
    pub(super) file: PushedFile,
    /// The remote file, opened at its first read.
    remote: OnceLock<Arc<dyn ReadAt>>,
    is_here: AtomicBool,
}

impl PendingFile {
    pub(super) fn new(file: PushedFile) -> PendingFile {
        PendingFile { file, remote: OnceLock::new(), is_here: AtomicBool::new(false) }
    }

    /// Marks the file as fetched. From now on its readers read the local file.
    pub(super) fn is_fetched(&self) {
        self.is_here.store(true, Ordering::Release);
    }

    pub(super) fn open(&self, remote: &dyn Store) -> Result<Arc<dyn ReadAt>, Error> {
        if let Some(file) = self.remote.get() {
            return Ok(file.clone());
        }
        let file = self.file.open(remote)?;
        Ok(self.remote.get_or_init(|| file).clone())
    }
}

/// A reader of a file that was pending when it was opened.
pub(super) struct PendingReader {
    shared: Arc<Shared>,
    pending: Arc<PendingFile>,
    remote: Arc<dyn ReadAt>,
    access: Access,
    local: OnceLock<Arc<dyn InFile>>,
}

impl PendingReader {
    pub(super) fn open(
        shared: Arc<Shared>,
        pending: Arc<PendingFile>,
        access: Access,
    ) -> Result<PendingReader, Error> {
        let remote = pending.open(&*shared.remote)?;
        Ok(PendingReader { shared, pending, remote, access, local: OnceLock::new() })
    }

    /// The local file, if it is fetched.
    fn local(&self) -> Option<&Arc<dyn InFile>> {
        if self.local.get().is_none() && self.pending.is_here.load(Ordering::Acquire) {
            // If the local file was removed after the fetch, the reader goes on reading the remote
            // one.
            if let Ok(file) = self.shared.local.open(&self.pending.file.name, self.access) {
                return Some(self.local.get_or_init(|| file));
            }
        }
        self.local.get()
    }
}

impl InFile for PendingReader {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.pending.file.bytes)
    }

    fn read(&self, offset: u64, bytes: usize) -> io::Result<Buffer> {
        if let Some(local) = self.local() {
            return local.read(offset, bytes);
        }
        let left = self.pending.file.bytes.saturating_sub(offset);
        let range = Range { offset, bytes: bytes.min(usize::try_from(left).unwrap_or(bytes)) };
        self.shared.count(&[range]);
        self.remote.read(range).map_err(io::Error::other)
    }

    fn plan(&self, offset: u64, bytes: usize) -> Option<PlannedRead> {
        self.local()?.plan(offset, bytes)
    }

    fn read_many(&self, ranges: &[Range]) -> Option<io::Result<Vec<Buffer>>> {
        if self.local().is_some() {
            return None;
        }
        self.shared.count(ranges);
        Some(self.remote.read_many(ranges).map_err(io::Error::other))
    }

    fn waits(&self) -> bool {
        true
    }

    fn is_near(&self) -> bool {
        self.local().is_some()
    }
}
