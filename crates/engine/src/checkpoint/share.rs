//! Shared states: the rows of one LSN as files, which others copy while the engine continues.

use std::sync::Arc;

use vstream_store::{Access, ReadAt, Store};
use xxhash_rust::xxh3::Xxh3;

use crate::error::Error;
use crate::version::VersionSet;
use crate::wal::{State, Ticket, Window};

/// Bytes per read while a checksum is computed.
const PART: usize = 1 << 20;

/// A file of a shared state. Its bytes never change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedFile {
    /// Its name in the directory of the state.
    pub name: String,
    /// A name that no other content ever has. A copy under this name can serve many states.
    pub key: String,
    /// Its present path, valid until the state is dropped.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// XXH3-64 of its content.
    pub checksum: u64,
}

/// The rows of one LSN as files, which stay until this is dropped.
///
/// `Engine::open` restores exactly this state from a directory that holds the manifest as
/// `COLLECTION` and the files under their names. Two states in a row differ only by new files:
/// those written since the first. A state holds the directory's lock as long as it lives.
pub struct SharedState {
    versions: Arc<VersionSet>,
    manifest: Vec<u8>,
    collection: u64,
    names: Vec<String>,
    state: State,
    ticket: Ticket,
}

impl SharedState {
    /// * `ticket`: waits for the last record, after which the log was rotated.
    pub(super) fn of(
        versions: &Arc<VersionSet>,
        state: State,
        ticket: Ticket,
    ) -> Result<SharedState, Error> {
        if versions.directory().tiers().is_some() {
            return Err(Error::unsupported(
                "some segments are in the remote level, and its files cannot be lent",
            ));
        }
        let (manifest, names) = versions.pin(state)?;
        Ok(SharedState {
            versions: versions.clone(),
            collection: manifest.collection,
            manifest: manifest.encode(),
            names,
            state,
            ticket,
        })
    }

    /// Returns the bytes of the manifest, which a directory holds as `COLLECTION`.
    pub fn manifest(&self) -> &[u8] {
        &self.manifest
    }

    /// Returns the number of living rows.
    pub fn rows(&self) -> u64 {
        self.state.live
    }

    /// Returns the sum, mod 2^128, of a hash of (id, version) of every living row.
    pub fn digest(&self) -> u128 {
        self.state.digest
    }

    /// Waits until the files beside the manifest are whole on the disk, and returns them.
    ///
    /// Cost: may wait for a sync; reads each file once for its checksum, whatever the number of
    /// states that share the file. May be called from any thread. Errors: `Io` if the log cannot be
    /// written.
    pub fn files(&self) -> Result<Vec<SharedFile>, Error> {
        self.ticket.clone().wait()?;
        self.names.iter().map(|name| self.file(name)).collect()
    }

    fn file(&self, name: &str) -> Result<SharedFile, Error> {
        let store = &self.versions.directory().store;
        let file = store.open(name, Access::Cached)?;
        let checksum = self.versions.checksum_of(name, || {
            let mut hash = Xxh3::new();
            for_each_part(&*file, &mut |part| {
                hash.update(part);
                Ok(())
            })?;
            Ok(hash.digest())
        })?;
        Ok(SharedFile {
            name: name.to_owned(),
            key: format!("{:016x}.{name}.{checksum:016x}", self.collection),
            path: store.describe(name),
            bytes: file.bytes(),
            checksum,
        })
    }
}

impl Drop for SharedState {
    fn drop(&mut self) {
        self.versions.directory().unpin(&self.names);
    }
}

fn for_each_part(
    file: &dyn ReadAt,
    visit: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut window = Window::new(file);
    let mut offset = 0;
    while offset < file.bytes() {
        let part = window.get(offset, PART)?;
        offset += part.len() as u64;
        visit(part)?;
    }
    Ok(())
}
