//! Collections whose files were pushed to a store, read where they are.
//!
//! `vstream snapshot push` sends the files of a collection; what an earlier push sent is not sent again, and
//! nothing is ever replaced. So whoever reads one push is disturbed by none.

use std::fmt;
use std::sync::Arc;

use vstream_store::remote::{numbers, Contents, Location, Restore, RestoreSettings};
use vstream_store::{FileStore, Store, Syncing, SystemClock};

use crate::engine::Engine;
use crate::error::{Error, ErrorKind};
use crate::layout::COLLECTION;
use crate::version::{open_far, Manifest, REMOTE};

/// A collection that was pushed to a store.
#[derive(Clone)]
pub struct PushedCollection {
    place: Location,
    store: Arc<dyn Store>,
    newest: u64,
}

impl PushedCollection {
    /// What was pushed to an address and to the folders in it, by name. Folders whose names begin with a dot
    /// are passed over, and those of a file system that cannot be read.
    ///
    /// * `address`: `s3://bucket/folder`, `file:///folder` or a path.
    ///
    /// Errors: `Invalid` if the address cannot be, or nothing was pushed there; those of the store, whose
    /// requests are given up after 10 s.
    pub fn find(address: &str) -> Result<Vec<PushedCollection>, Error> {
        let place = Location::parse(address)?;
        let mut found = Vec::new();
        if place.folder().is_none_or(|folder| folder.is_dir()) {
            found.extend(PushedCollection::at(&place)?);
            for name in place.folders()?.iter().filter(|name| !name.starts_with('.')) {
                match PushedCollection::at(&place.join(name)) {
                    Ok(one) => found.extend(one),
                    Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
                    Err(_) => {}
                }
            }
        }
        if found.is_empty() {
            return Err(Error::invalid(format!("no collection was pushed to {place}")));
        }
        Ok(found)
    }

    fn at(place: &Location) -> Result<Option<PushedCollection>, Error> {
        let store = open_far(place)?;
        let newest = numbers(&*store)?.last().copied();
        Ok(newest.map(|newest| PushedCollection { place: place.clone(), store, newest }))
    }

    /// The name of its folder; in a bucket without one, that of the bucket.
    pub fn name(&self) -> String {
        self.place.name()
    }

    /// Number of the push that was the newest when this was found.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// Reads the rows of that push, and writes nothing there. The engine keeps its own writes in memory.
    /// Segments stay in the store: searches read ranges of them.
    ///
    /// Cost: reads all files but segments, and of these the directories and ids, up to 16 at once. A thread
    /// reads codes behind. Errors: `Invalid` if what was pushed is no collection, or one with
    /// a remote level, whose segments the push lacks; `Corrupt`; those of the store.
    pub fn open(&self) -> Result<Engine, Error> {
        let contents = Contents::read(&*self.store, Some(self.newest))?;
        let has = |name: &str| contents.files.iter().any(|file| file.name == name);
        if !has(COLLECTION) {
            return Err(Error::invalid(format!("what was pushed to {self} is no collection")));
        }
        if has(REMOTE) {
            return Err(Error::invalid(format!(
                "the collection that was pushed to {self} has segments in its remote level, which are not \
                 pushed: read it where its folder is"
            )));
        }
        let settings =
            RestoreSettings { bytes_per_second: None, clock: Arc::new(SystemClock::new()) };
        let files = Restore::browse(self.store.clone(), &contents, settings);
        let store = FileStore::new(Arc::new(files), Syncing::Off);
        let manifest = Manifest::read(&store)?;
        let mut engine = Engine::borrowing(manifest.settings.clone())?;
        engine.borrow(&store, &manifest)?;
        Ok(engine)
    }
}

impl fmt::Display for PushedCollection {
    /// Its address.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.place)
    }
}

impl fmt::Debug for PushedCollection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.place, self.newest)
    }
}
