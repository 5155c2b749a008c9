//! Collections whose files were pushed to a store, read where they are.
//!
//! `vstream snapshot push` sends the files of a collection; what an earlier push sent is not sent again, and
//! nothing is ever replaced. So whoever reads one push is disturbed by none.

use std::sync::Arc;

use vstream_store::remote::{numbers, Contents, Location, Restore, RestoreSettings};
use vstream_store::{FileStore, Syncing, SystemClock};

use crate::engine::Engine;
use crate::error::Error;
use crate::version::{with_far, Manifest};

/// A collection that was pushed to a store.
#[derive(Clone, Debug)]
pub struct PushedCollection {
    place: Location,
}

impl PushedCollection {
    /// The collection that was pushed to an address, or else those in the folders of the address, by name.
    ///
    /// * `address`: `s3://bucket/folder`, `file:///folder` or a path.
    ///
    /// Errors: `Invalid` if the address cannot be, or nothing was pushed there; those of the store.
    pub fn find(address: &str) -> Result<Vec<PushedCollection>, Error> {
        let place = Location::parse(address)?;
        let none = || Error::invalid(format!("no collection was pushed to {address}"));
        if place.folder().is_some_and(|folder| !folder.is_dir()) {
            return Err(none());
        }
        let is_pushed = |place: &Location| Ok::<_, Error>(!numbers(&*place.open()?)?.is_empty());
        if is_pushed(&place)? {
            return Ok(vec![PushedCollection { place }]);
        }
        let mut found = Vec::new();
        for name in place.folders()? {
            let place = place.join(&name);
            if is_pushed(&place)? {
                found.push(PushedCollection { place });
            }
        }
        if found.is_empty() {
            return Err(none());
        }
        Ok(found)
    }

    /// The name of its folder; in a bucket without one, that of the bucket.
    pub fn name(&self) -> String {
        self.place.name()
    }

    /// Number of the newest push. Errors: those of the store.
    pub fn newest(&self) -> Result<u64, Error> {
        let store = self.place.open()?;
        let newest = numbers(&*store)?.last().copied();
        newest.ok_or_else(|| Error::invalid(format!("no collection was pushed to {}", self.place)))
    }

    /// Reads the rows of one push, and writes nothing there. The engine keeps its own writes in memory.
    /// Segments stay in the store: searches read ranges of them.
    ///
    /// Cost: reads all files but segments. Errors: `Invalid` if what was pushed is no collection, `Corrupt`,
    /// those of the store.
    pub fn open(&self, number: u64) -> Result<Engine, Error> {
        let store = self.place.open()?;
        let contents = Contents::read(&*store, Some(number))?;
        let settings =
            RestoreSettings { bytes_per_second: None, clock: Arc::new(SystemClock::new()) };
        let files = Restore::browse(store, &contents, settings);
        let store = with_far(FileStore::new(Arc::new(files), Syncing::Off))?;
        let manifest = Manifest::read(&store)?;
        let mut engine = Engine::empty(manifest.settings.clone())?;
        engine.borrow(&store, &manifest)?;
        Ok(engine)
    }
}
