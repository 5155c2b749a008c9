//! Addresses of stores, as settings and command lines give them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::retry::RetryPolicy;
use super::store::RemoteStore;
use crate::error::{Error, ErrorKind};
use crate::file_store::{FileStore, Syncing};
use crate::names::is_name;
use crate::store::Store;

/// The address of a store: `s3://bucket/folder`, `file:///folder` or a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A folder of the operating system.
    Folder(PathBuf),
    /// A folder of a bucket.
    Bucket(Bucket),
}

/// A folder of a bucket.
///
/// The text form is `s3://bucket/folder?endpoint=https://host:port&region=name`. An endpoint or
/// region that is not given comes from the environment (`AWS_ENDPOINT_URL`, `AWS_REGION`).
/// Credentials always come from the environment (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
/// `AWS_SESSION_TOKEN`, or the role of a cloud machine).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Name of the bucket.
    pub name: String,
    /// Names of folders with `/` between them; empty for the whole bucket.
    pub prefix: String,
    /// Address of the object store. `None`: the environment names it.
    pub endpoint: Option<String>,
    /// Region of the bucket. `None`: the environment names it.
    pub region: Option<String>,
}

impl Location {
    /// Parses an address. Errors: `Invalid`, with a correct form in the message.
    pub fn parse(text: &str) -> Result<Location, Error> {
        let invalid = |what: &str| Error::new(ErrorKind::Invalid, text, what);
        if let Some(rest) = text.strip_prefix("s3://") {
            return Ok(Location::Bucket(Bucket::parse(rest).map_err(|what| invalid(&what))?));
        }
        if let Some(rest) = text.strip_prefix("file://") {
            let path = rest.strip_prefix("localhost").unwrap_or(rest);
            if !path.starts_with('/') {
                return Err(invalid("write a folder as file:///folder, with three slashes"));
            }
            return Ok(Location::Folder(PathBuf::from(path)));
        }
        match text.split_once("://") {
            Some((scheme, _)) => Err(invalid(&format!(
                "'{scheme}' is no kind of store: write s3://bucket/folder, file:///folder or a path"
            ))),
            None if text.is_empty() => Err(invalid("write s3://bucket/folder or a path")),
            None => Ok(Location::Folder(PathBuf::from(text))),
        }
    }

    /// The address of the folder `name` inside this one.
    pub fn join(&self, name: &str) -> Location {
        match self {
            Location::Folder(path) => Location::Folder(path.join(name)),
            Location::Bucket(bucket) => {
                let prefix = match bucket.prefix.as_str() {
                    "" => name.to_owned(),
                    prefix => format!("{prefix}/{name}"),
                };
                Location::Bucket(Bucket { prefix, ..bucket.clone() })
            }
        }
    }

    /// The name of the folder; of a whole bucket, that of the bucket.
    pub fn name(&self) -> String {
        match self {
            Location::Folder(path) => {
                path.file_name().unwrap_or_default().to_string_lossy().into_owned()
            }
            Location::Bucket(Bucket { name, prefix, .. }) => {
                prefix.rsplit('/').next().filter(|last| !last.is_empty()).unwrap_or(name).to_owned()
            }
        }
    }

    /// The path, if this is a folder of the operating system.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Location::Folder(path) => Some(path),
            Location::Bucket(_) => None,
        }
    }

    /// Opens the store. A folder of the operating system is created if it does not exist.
    ///
    /// Errors: `Invalid` settings in the environment, `Unsupported` if this build has no object
    /// stores, `Io`. A bucket that does not exist is noticed at the first request.
    pub fn open(&self) -> Result<Arc<dyn Store>, Error> {
        match self {
            Location::Folder(path) => Ok(Arc::new(FileStore::create_dir(path, Syncing::Full)?)),
            Location::Bucket(bucket) => Ok(Arc::new(bucket.open(RetryPolicy::default())?)),
        }
    }

    /// Names of the folders inside, sorted. Errors: those of the store.
    pub fn folders(&self) -> Result<Vec<String>, Error> {
        let mut names = match self {
            Location::Folder(path) => {
                let failed = |e| Error::io(path.display().to_string(), "list", &e);
                let entries = std::fs::read_dir(path).map_err(failed)?;
                let is_dir =
                    |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|t| t.is_dir());
                let entries = entries.filter_map(Result::ok).filter(is_dir);
                entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
            }
            Location::Bucket(bucket) => bucket.folders()?,
        };
        names.sort();
        Ok(names)
    }
}

impl Bucket {
    fn parse(rest: &str) -> Result<Bucket, String> {
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (name, prefix) = path.split_once('/').unwrap_or((path, ""));
        if name.contains('@') || name.contains(':') {
            return Err("an address holds no credentials and no port: credentials come from the \
                        environment, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and the place \
                        of the store from ?endpoint= or AWS_ENDPOINT_URL"
                .to_owned());
        }
        let prefix = prefix.trim_end_matches('/');
        let names = |text: &str| text.is_empty() || text.split('/').all(is_name);
        if !is_name(name) || !names(prefix) {
            return Err(
                "a bucket and its folders have names of letters, digits, '.', '_' and '-', \
                        as in s3://bucket/folder"
                    .to_owned(),
            );
        }
        let mut bucket = Bucket {
            name: name.to_owned(),
            prefix: prefix.to_owned(),
            endpoint: None,
            region: None,
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("endpoint", value)) if value.contains("://") => {
                    bucket.endpoint = Some(value.to_owned());
                }
                Some(("region", value)) if is_name(value) => {
                    bucket.region = Some(value.to_owned());
                }
                _ => {
                    return Err(format!(
                        "'{pair}' says nothing: write endpoint=https://host or region=name"
                    ))
                }
            }
        }
        Ok(bucket)
    }

    /// A file as error messages name it.
    #[cfg(feature = "remote")]
    pub(super) fn describe(&self, name: &str) -> String {
        let Bucket { name: bucket, prefix, .. } = self;
        match prefix.as_str() {
            "" => format!("s3://{bucket}/{name}"),
            prefix => format!("s3://{bucket}/{prefix}/{name}"),
        }
    }

    /// Opens the store with another retry policy. Errors: as [`Location::open`].
    #[cfg(feature = "remote")]
    pub fn open(&self, policy: RetryPolicy) -> Result<RemoteStore, Error> {
        use std::time::{SystemTime, UNIX_EPOCH};
        let objects = Arc::new(super::s3::S3::open(self)?);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let clock = Arc::new(crate::clock::SystemClock::new());
        Ok(RemoteStore::new(objects, policy, clock, now as u64))
    }

    #[cfg(feature = "remote")]
    fn folders(&self) -> Result<Vec<String>, Error> {
        let found = super::s3::S3::open(self)?.folders(RetryPolicy::default().attempt);
        found.map_err(|fault| {
            let kind = match fault.kind {
                super::FaultKind::Doubtful => ErrorKind::Unavailable,
                _ => ErrorKind::Io,
            };
            Error::new(kind, self.to_string(), format_args!("cannot list: {}", fault.what))
        })
    }

    /// Errors: always `Unsupported`, since this build has no object stores.
    #[cfg(not(feature = "remote"))]
    pub fn open(&self, _policy: RetryPolicy) -> Result<RemoteStore, Error> {
        Err(self.unsupported())
    }

    #[cfg(not(feature = "remote"))]
    fn folders(&self) -> Result<Vec<String>, Error> {
        Err(self.unsupported())
    }

    #[cfg(not(feature = "remote"))]
    fn unsupported(&self) -> Error {
        let what = "this program was built without object stores: use the vstream command";
        Error::new(ErrorKind::Unsupported, self.to_string(), what)
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}", self.name)?;
        match self.prefix.as_str() {
            "" => Ok(()),
            prefix => write!(f, "/{prefix}"),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Folder(path) => path.display().fmt(f),
            Location::Bucket(bucket) => bucket.fmt(f),
        }
    }
}
