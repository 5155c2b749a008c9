//! An open file that is read here or in the far store, wherever it is at the moment.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::Shared;
use crate::buffer::Buffer;
use crate::error::Error;
use crate::files::{Access, InFile};
use crate::ring::PlannedRead;
use crate::store::{Range, ReadAt};

pub(super) struct TieredFile {
    shared: Arc<Shared>,
    access: Access,
    bytes: u64,
    /// `None` while it is in the far store alone.
    near: RwLock<Option<Arc<dyn InFile>>>,
    far: Mutex<FarEnd>,
}

/// Its far copy.
struct FarEnd {
    name: String,
    /// Opened by the first read that needs it.
    file: Option<Arc<dyn ReadAt>>,
}

impl TieredFile {
    /// * `far`: the name of the far copy, now or once there is one.
    pub(super) fn new(
        shared: Arc<Shared>,
        access: Access,
        bytes: u64,
        near: Option<Arc<dyn InFile>>,
        far: String,
    ) -> TieredFile {
        let far = Mutex::new(FarEnd { name: far, file: None });
        TieredFile { shared, access, bytes, near: RwLock::new(near), far }
    }

    pub(super) fn access(&self) -> Access {
        self.access
    }

    /// Reads go to the far store from now on. The file here is closed when its last read has ended.
    pub(super) fn go_far(&self) {
        *self.near.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(super) fn come_near(&self, near: Arc<dyn InFile>) {
        *self.near.write().unwrap_or_else(PoisonError::into_inner) = Some(near);
    }

    /// Far reads go to another copy of the same bytes from now on.
    pub(super) fn move_far(&self, name: &str) {
        *self.far() = FarEnd { name: name.to_owned(), file: None };
    }

    fn far(&self) -> MutexGuard<'_, FarEnd> {
        self.far.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn near(&self) -> Option<Arc<dyn InFile>> {
        self.near.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads whole ranges in the far store.
    fn read_far(&self, ranges: &[Range]) -> Result<Vec<Buffer>, Error> {
        let far = &self.shared.far;
        far.count(ranges);
        let (name, known) = {
            let end = self.far();
            (end.name.clone(), end.file.clone())
        };
        far.ask(|store| {
            let file = match known {
                Some(file) => file,
                None => {
                    let file = store.open(&name, self.access)?;
                    if file.bytes() != self.bytes {
                        let what = format!(
                            "it has {} bytes, and {} were sent there",
                            file.bytes(),
                            self.bytes
                        );
                        return Err(Error::corrupt(file.name(), 0, what));
                    }
                    let mut end = self.far();
                    if end.name == name {
                        end.file = Some(file.clone());
                    }
                    file
                }
            };
            file.read_many(ranges)
        })
    }
}

impl InFile for TieredFile {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }

    fn read(&self, offset: u64, bytes: usize) -> io::Result<Buffer> {
        if let Some(near) = self.near() {
            return near.read(offset, bytes);
        }
        let left = self.bytes.saturating_sub(offset);
        let range = Range { offset, bytes: bytes.min(usize::try_from(left).unwrap_or(bytes)) };
        let mut read = self.read_far(&[range]).map_err(io::Error::other)?;
        Ok(read.pop().expect("a buffer per range"))
    }

    fn read_ready(&self, offset: u64, bytes: usize) -> Option<io::Result<Buffer>> {
        self.near()?.read_ready(offset, bytes)
    }

    fn plan(&self, offset: u64, bytes: usize) -> Option<PlannedRead> {
        self.near()?.plan(offset, bytes)
    }

    fn read_many(&self, ranges: &[Range]) -> Option<io::Result<Vec<Buffer>>> {
        match self.near() {
            Some(near) => near.read_many(ranges),
            None => Some(self.read_far(ranges).map_err(io::Error::other)),
        }
    }

    fn waits(&self) -> bool {
        true
    }

    fn is_near(&self) -> bool {
        self.near().is_some()
    }
}
