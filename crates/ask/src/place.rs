//! Where a job publishes: in a folder, or in an object store.

use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use vstream_store::remote::{Location, RetryPolicy};
use vstream_store::{Access, ErrorKind, Range, Store};

use crate::error::Attempt;
use crate::published::FILE_BYTES_MAX;

/// Folder of the files, below that of the checkpoints.
const FOLDER: &str = "vstream-reads";
/// Bounds on the calls to an object store: a question waits for a look at it, once in a while.
const POLICY: RetryPolicy = RetryPolicy {
    attempt: Duration::from_secs(1),
    total: Duration::from_secs(2),
    first_wait: Duration::from_millis(50),
    wait_max: Duration::from_millis(500),
};

/// Where a job publishes where it answers.
pub(crate) enum Place {
    Folder(PathBuf),
    Store { address: Location, store: Arc<dyn Store> },
}

impl Place {
    /// Reads nothing yet.
    ///
    /// * `checkpoints`: a path, or an address that begins with `file:` or `s3://`.
    /// * `search`: name of the search; empty for the one search of a program without a name.
    ///
    /// Errors: a sentence, for an address that cannot be.
    pub(crate) fn of(checkpoints: &str, search: &str) -> Result<Place, String> {
        let below = |location: Location| match search {
            "" => location.join(FOLDER),
            search => location.join(FOLDER).join(search),
        };
        // Java writes one slash where others write three.
        let is_short = checkpoints.starts_with("file:") && !checkpoints.starts_with("file://");
        let address = if is_short { &checkpoints["file:".len()..] } else { checkpoints };
        let address = below(Location::parse(address).map_err(|error| error.to_string())?);
        match &address {
            Location::Folder(path) => Ok(Place::Folder(path.clone())),
            Location::Bucket(bucket) => {
                let store = bucket.open(POLICY).map_err(|error| error.to_string())?;
                Ok(Place::Store { address, store: Arc::new(store) })
            }
        }
    }

    /// The bytes of a file, and how errors name it; `None` if there is no file.
    pub(crate) fn read(&self, name: &str) -> Result<Option<(Vec<u8>, String)>, Attempt> {
        match self {
            Place::Folder(folder) => {
                let path = folder.join(name);
                let shown = path.display().to_string();
                match fs::read(&path) {
                    Ok(bytes) => Ok(Some((bytes, shown))),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                    Err(error) => Err(Attempt::again(format!("{shown}: {error}"))),
                }
            }
            Place::Store { store, .. } => {
                let file = match store.open(name, Access::Cached) {
                    Ok(file) => file,
                    Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                    Err(error) => return Err(Attempt::again(error)),
                };
                if file.bytes() > FILE_BYTES_MAX {
                    return Err(Attempt::again(format!("{} is too long", file.name())));
                }
                let all = Range { offset: 0, bytes: file.bytes() as usize };
                let bytes = file.read(all).map_err(Attempt::again)?;
                Ok(Some((bytes.to_vec(), file.name().to_owned())))
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Folder(folder) => write!(f, "{}", folder.display()),
            Place::Store { address, .. } => write!(f, "{address}"),
        }
    }
}
