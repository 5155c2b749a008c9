//! The remote level: a far store for segments that are not asked for, beside the directory of an
//! engine.
//!
//! Which segments are where is not in the manifest: a segment whose file is not in the directory is in
//! the far store. The file `REMOTE` says where that store is, so that the directory can be opened,
//! verified and inspected by its path alone. A directory with pointers has no such file: its copies are
//! opened on other machines, by programs that know the address.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use vstream_store::remote::{Location, RetryPolicy, Tiered};
use vstream_store::{
    Access, Clock, DirectoryLock, ErrorKind, FileStore, Range, Store, Syncing, SystemClock,
};
use xxhash_rust::xxh3::xxh3_64;

use super::manifest::Manifest;
use crate::error::Error;
use crate::layout::{number, segment_name, Number};

/// Name of the file that says where the far store is.
pub(crate) const REMOTE: &str = "REMOTE";
/// In that file, a store that only the program knows.
const OF_THE_PROGRAM: &str = "-";
/// Most bytes of that file.
const REMOTE_BYTES_MAX: u64 = 4096;

/// A far store for the segments that queries ask for least, and how many bytes of segments stay in the
/// engine's directory.
///
/// The engine copies a segment there before it removes it from the directory, so both places together
/// hold every row at every moment. Queries read ranges of such a segment through the block cache. The
/// limit is about segments that are served; what is being written comes in addition.
#[derive(Clone)]
pub struct RemoteLevel {
    address: Option<Location>,
    store: Option<Arc<dyn Store>>,
    clock: Arc<dyn Clock>,
    local_bytes: u64,
    has_pointers: bool,
}

/// The remote level of an open directory.
pub(crate) struct Tiers {
    pub(crate) files: Tiered,
    pub(crate) local_bytes: u64,
}

impl RemoteLevel {
    /// A folder of an object store or of the operating system: `s3://bucket/folder` or a path. Each
    /// collection uses a folder of its own in it, so several may share the address.
    ///
    /// * `local_bytes`: of segments that stay in the directory of the engine, the hottest.
    ///
    /// Errors: `Invalid` address.
    pub fn at(address: &str, local_bytes: u64) -> Result<RemoteLevel, Error> {
        let address = match Location::parse(address)? {
            // The directory may be opened from another working directory.
            Location::Folder(path) => {
                let whole = std::path::absolute(&path);
                Location::Folder(whole.map_err(|e| {
                    Error::invalid(format!("the folder {} cannot be found: {e}", path.display()))
                })?)
            }
            bucket => bucket,
        };
        if address.to_string().contains('\n') {
            return Err(Error::invalid("the address of the remote level has more than one line"));
        }
        let address = Some(address);
        let clock = Arc::new(SystemClock::new());
        Ok(RemoteLevel { address, store: None, clock, local_bytes, has_pointers: false })
    }

    /// A store of the program's own, which holds the segments of this collection alone. The program
    /// must give it again whenever the directory is opened.
    pub fn over(store: Arc<dyn Store>, clock: Arc<dyn Clock>, local_bytes: u64) -> RemoteLevel {
        let (address, store) = (None, Some(store));
        RemoteLevel { address, store, clock, local_bytes, has_pointers: false }
    }

    /// Has shared states name the segments that are away, instead of holding their bytes
    /// ([`crate::Engine::share`]). For engines that are opened from copies of such states: all of them use
    /// the address together, under names of their own, and each must be given it whenever it is opened.
    /// The directory has a pointer for each segment with a far copy.
    pub fn with_pointers(mut self) -> RemoteLevel {
        self.has_pointers = true;
        self
    }

    /// True if the directory has pointers, and does not name the far store itself.
    pub(super) fn has_pointers(&self) -> bool {
        self.has_pointers
    }

    /// The remote level that a directory names, if it names one. Errors: `Invalid` if it is a store of
    /// the program's own, `Corrupt`, `Io`.
    pub(crate) fn read(store: &FileStore) -> Result<Option<RemoteLevel>, Error> {
        let file = match store.open(REMOTE, Access::Cached) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let corrupt = |what: &str| Error::corrupt(file.name().as_ref(), what);
        if file.bytes() > REMOTE_BYTES_MAX {
            return Err(corrupt("too long for the address of a store"));
        }
        let bytes = file.read(Range { offset: 0, bytes: file.bytes() as usize })?;
        let text = std::str::from_utf8(&bytes).map_err(|_| corrupt("this is no text"))?;
        let (address, local_bytes) =
            text.split_once('\n').ok_or_else(|| corrupt("it has no second line"))?;
        let local_bytes = local_bytes.trim_end().parse();
        let local_bytes = local_bytes.map_err(|_| corrupt("its second line is no number"))?;
        if address == OF_THE_PROGRAM {
            return Err(Error::invalid(format!(
                "{} holds a collection with segments in a store of the program that made it: open it \
                 with that store",
                store.describe("")
            )));
        }
        RemoteLevel::at(address, local_bytes).map(Some)
    }

    /// Writes into a directory where its far store is.
    pub(crate) fn write(&self, store: &FileStore) -> Result<(), Error> {
        let address = self.address.as_ref().map_or(OF_THE_PROGRAM.to_owned(), full_address);
        store.replace(REMOTE, format!("{address}\n{}\n", self.local_bytes).as_bytes())?;
        Ok(())
    }

    /// Opens the far store of a collection beside the store of its directory. Errors: those of the far
    /// store, `Unavailable` if it gives no answer.
    pub(crate) fn open(
        &self,
        near: &FileStore,
        collection: u64,
    ) -> Result<(FileStore, Tiers), Error> {
        let far = match (&self.store, &self.address) {
            (Some(store), _) => store.clone(),
            (None, Some(address)) if self.has_pointers => open_far(address)?,
            (None, Some(address)) => open_far(&address.join(&format!("{collection:016x}")))?,
            (None, None) => return Err(Error::internal("a remote level without a store")),
        };
        let (store, files) = if self.has_pointers {
            // A state may be opened more than once, and each opening makes copies of its own.
            let prefix = format!("{collection:016x}-{:016x}", fresh_number(near));
            Tiered::with_pointers(near, far, may_move, self.clock.clone(), &prefix)?
        } else {
            Tiered::beside(near, far, may_move, self.clock.clone())?
        };
        Ok((store, Tiers { files, local_bytes: self.local_bytes }))
    }
}

impl RemoteLevel {
    /// As [`RemoteLevel::open`], for a level that a directory names: its folder was made with the collection, and
    /// may be where no disk is mounted now. Errors: `Unavailable` then.
    pub(crate) fn open_named(
        &self,
        near: &FileStore,
        collection: u64,
    ) -> Result<(FileStore, Tiers), Error> {
        let of_collection = |address: &Location| address.join(&format!("{collection:016x}"));
        if let Some(Location::Folder(path)) = self.address.as_ref().map(of_collection) {
            if !path.is_dir() {
                return Err(Error::unavailable(format!(
                    "the remote level of {} is the folder {}, which is not there: mount it, or put it back",
                    near.describe(""),
                    path.display()
                )));
            }
        }
        self.open(near, collection)
    }
}

/// Draws a number that two collections, or two openings of one, are very unlikely to share.
pub(crate) fn fresh_number(store: &FileStore) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (place, process) = (store.describe(""), std::process::id());
    xxh3_64(format!("{place} {} {process}", now.as_nanos()).as_bytes())
}

/// The files of the collection or snapshot in a directory, those in its far store among them. Errors:
/// as [`RemoteLevel::read`] and [`RemoteLevel::open`].
pub(crate) fn open_store(dir: &Path) -> Result<FileStore, Error> {
    let near = FileStore::open_dir(dir, Syncing::Off)?;
    match RemoteLevel::read(&near)? {
        None => Ok(near),
        Some(level) => Ok(level.open_named(&near, Manifest::read(&near)?.collection)?.0),
    }
}

/// The files of a closed collection, or of any other folder, and the store that reads them, so that they are whole in
/// another place: segments of a remote level are among them, and the file that says where that is is not.
///
/// Errors: as [`open_store`]; those of the stores.
pub fn files_to_push(dir: &Path) -> Result<(FileStore, Vec<String>), Error> {
    let near = FileStore::open_dir(dir, Syncing::Off)?;
    let mut names: Vec<String> = near.list("")?.into_iter().map(|entry| entry.name).collect();
    names.retain(|name| name != DirectoryLock::NAME);
    if Tiered::has_pointers(&near)? {
        return Err(Error::invalid(format!(
            "{} has segments in the remote level of a job: push a savepoint of the job, which has all of them",
            near.describe("")
        )));
    }
    if !names.iter().any(|name| name == REMOTE) {
        return Ok((near, names));
    }
    names.retain(|name| name != REMOTE);
    let segments = Manifest::read(&near)?.base.segments;
    names.extend(segments.iter().map(|segment| segment_name(segment.number)));
    names.sort_unstable();
    names.dedup();
    Ok((open_store(dir)?, names))
}

/// Only segments go to the far store.
fn may_move(name: &str) -> bool {
    matches!(number(name), Some(Number::Segment(_)))
}

/// Opens a store that searches wait for. Errors: those of the store.
pub(crate) fn open_far(address: &Location) -> Result<Arc<dyn Store>, Error> {
    Ok(match address {
        Location::Folder(_) => address.open()?,
        Location::Bucket(bucket) => Arc::new(bucket.open(POLICY)?),
    })
}

/// A query should not wait for a minute; moves are tried again in any case.
const POLICY: RetryPolicy = RetryPolicy {
    attempt: std::time::Duration::from_secs(4),
    total: std::time::Duration::from_secs(10),
    first_wait: std::time::Duration::from_millis(50),
    wait_max: std::time::Duration::from_secs(2),
};

/// An address from which [`Location::parse`] makes the same location.
fn full_address(address: &Location) -> String {
    let Location::Bucket(bucket) = address else { return address.to_string() };
    let given = [("endpoint", &bucket.endpoint), ("region", &bucket.region)];
    let given = given.iter().filter_map(|(key, value)| Some(format!("{key}={}", value.as_ref()?)));
    let given: Vec<String> = given.collect();
    match given.is_empty() {
        true => bucket.to_string(),
        false => format!("{bucket}?{}", given.join("&")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_being_written() {
        for address in [
            "s3://bucket",
            "s3://bucket/a/b",
            "s3://bucket/a?endpoint=http://127.0.0.1:9000&region=x",
            "/tmp/far",
        ] {
            let location = Location::parse(address).expect("an address");
            assert_eq!(full_address(&location), address);
            assert_eq!(Location::parse(&full_address(&location)).expect("an address"), location);
        }
    }

    /// A directory is opened from anywhere.
    #[test]
    fn a_folder_is_written_in_full() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = FileStore::open_dir(dir.path(), Syncing::Off).expect("a store");
        RemoteLevel::at("far/away", 7).expect("a folder").write(&store).expect("written");
        let text = std::fs::read_to_string(dir.path().join(REMOTE)).expect("a text");
        let here = std::env::current_dir().expect("a directory");
        assert_eq!(text, format!("{}\n7\n", here.join("far/away").display()));
    }
}
