//! Files that are elsewhere, and readers of them that come here when they do.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::contents::PushedFile;
use super::restore::Shared;
use crate::buffer::Buffer;
use crate::error::Error;
use crate::files::{Access, InFile};
use crate::store::{Range, ReadAt, Store};

/// A file that is elsewhere.
pub(super) struct Away {
    pub(super) file: PushedFile,
    /// Opened when it is first read.
    remote: OnceLock<Arc<dyn ReadAt>>,
    is_here: AtomicBool,
}

impl Away {
    pub(super) fn new(file: PushedFile) -> Away {
        Away { file, remote: OnceLock::new(), is_here: AtomicBool::new(false) }
    }

    /// From now on its readers read here.
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

/// A file that was not here when it was opened.
pub(super) struct AwayFile {
    shared: Arc<Shared>,
    away: Arc<Away>,
    remote: Arc<dyn ReadAt>,
    access: Access,
    here: OnceLock<Arc<dyn InFile>>,
}

impl AwayFile {
    pub(super) fn open(
        shared: Arc<Shared>,
        away: Arc<Away>,
        access: Access,
    ) -> Result<AwayFile, Error> {
        let remote = away.open(&*shared.remote)?;
        Ok(AwayFile { shared, away, remote, access, here: OnceLock::new() })
    }

    /// The file, if it is here by now.
    fn here(&self) -> Option<&Arc<dyn InFile>> {
        if self.here.get().is_none() && self.away.is_here.load(Ordering::Acquire) {
            // If it was removed again, its reader goes on reading elsewhere.
            if let Ok(file) = self.shared.local.open(&self.away.file.name, self.access) {
                return Some(self.here.get_or_init(|| file));
            }
        }
        self.here.get()
    }
}

impl InFile for AwayFile {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.away.file.bytes)
    }

    fn read(&self, offset: u64, bytes: usize) -> io::Result<Buffer> {
        if let Some(here) = self.here() {
            return here.read(offset, bytes);
        }
        let left = self.away.file.bytes.saturating_sub(offset);
        let range = Range { offset, bytes: bytes.min(usize::try_from(left).unwrap_or(bytes)) };
        self.shared.count(&[range]);
        self.remote.read(range).map_err(io::Error::other)
    }

    fn read_many(&self, ranges: &[Range]) -> Option<io::Result<Vec<Buffer>>> {
        if self.here().is_some() {
            return None;
        }
        self.shared.count(ranges);
        Some(self.remote.read_many(ranges).map_err(io::Error::other))
    }

    fn waits(&self) -> bool {
        true
    }
}
