//! The primitives of an object store, on which [`RemoteStore`](super::RemoteStore) builds: single
//! requests. A simulated store that fails implements this trait too.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::buffer::Buffer;
use crate::store::{Entry, Range};

/// The kind of a fault, by what the caller can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The object does not exist.
    NotFound,
    /// The object exists already.
    Exists,
    /// The store will refuse a repeated request too: no permission, no bucket, a wrong request.
    Refused,
    /// No answer, or the store asks for a retry. The request may be repeated. It may also have
    /// taken effect.
    Doubtful,
}

/// A request that failed.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The kind of the fault.
    pub kind: FaultKind,
    /// The message of the store or the network.
    pub what: String,
}

impl Fault {
    /// A fault with the message `what`.
    pub fn new(kind: FaultKind, what: impl fmt::Display) -> Fault {
        Fault { kind, what: what.to_string() }
    }
}

/// Whether a put may replace an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutMode {
    /// Fails with `Exists` if the object exists.
    Create,
    /// Replaces the object.
    Replace,
}

/// One folder of objects with flat names. Each call makes one request, or several at once, within
/// `timeout`, and never repeats them.
pub trait Objects: Send + Sync {
    /// Puts an object. Afterwards either the whole object exists or nothing does.
    fn put(&self, name: &str, bytes: &[u8], mode: PutMode, timeout: Duration) -> Result<(), Fault>;

    /// Length of an object.
    fn bytes(&self, name: &str, timeout: Duration) -> Result<u64, Fault>;

    /// Reads ranges of an object at the same time, none of them empty. Each has its own result.
    fn get(&self, name: &str, ranges: &[Range], timeout: Duration) -> Vec<Result<Buffer, Fault>>;

    /// Objects whose names begin with `prefix`, in any order.
    fn list(&self, prefix: &str, timeout: Duration) -> Result<Vec<Entry>, Fault>;

    /// Removes an object. If there is none, the store may answer `NotFound` or succeed.
    fn delete(&self, name: &str, timeout: Duration) -> Result<(), Fault>;

    /// Begins an object that is sent in parts. It is invisible until [`Upload::publish`].
    fn upload(&self, name: &str, timeout: Duration) -> Result<Box<dyn Upload>, Fault>;

    /// An object as error messages name it; the folder if `name` is empty.
    fn describe(&self, name: &str) -> String;
}

/// An upload in parts. Dropping it abandons the upload.
pub trait Upload: Send {
    /// Sends parts at the same time, numbered from 0. All parts of an object but the last have
    /// [`PART_BYTES`] bytes. Each part has its own result and may be sent again.
    fn send(&mut self, parts: &[(usize, &[u8])], timeout: Duration) -> Vec<Result<(), Fault>>;

    /// Turns the parts into an object. Fails with `Exists` if there is one of this name. After a
    /// fault the call may be repeated.
    fn publish(&mut self, timeout: Duration) -> Result<(), Fault>;
}

/// Bytes of a part. Object stores ask for 5 MiB or more, and for at most 10,000 parts.
pub const PART_BYTES: usize = 8 << 20;

/// Objects in memory, for tests. Clones are the same folder.
#[derive(Clone, Default)]
pub struct MemoryObjects {
    objects: Arc<Mutex<BTreeMap<String, Arc<[u8]>>>>,
}

impl MemoryObjects {
    /// An empty folder.
    pub fn new() -> MemoryObjects {
        MemoryObjects::default()
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Arc<[u8]>>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn object(&self, name: &str) -> Result<Arc<[u8]>, Fault> {
        let found = self.objects().get(name).cloned();
        found.ok_or_else(|| Fault::new(FaultKind::NotFound, "there is no such object"))
    }

    /// A copy of all objects.
    pub fn content(&self) -> BTreeMap<String, Arc<[u8]>> {
        self.objects().clone()
    }

    /// Puts an object and replaces any former one.
    pub fn set(&self, name: &str, bytes: &[u8]) {
        self.objects().insert(name.to_owned(), bytes.into());
    }
}

impl Objects for MemoryObjects {
    fn put(&self, name: &str, bytes: &[u8], mode: PutMode, _: Duration) -> Result<(), Fault> {
        let mut objects = self.objects();
        if mode == PutMode::Create && objects.contains_key(name) {
            return Err(Fault::new(FaultKind::Exists, "there is such an object"));
        }
        objects.insert(name.to_owned(), bytes.into());
        Ok(())
    }

    fn bytes(&self, name: &str, _: Duration) -> Result<u64, Fault> {
        Ok(self.object(name)?.len() as u64)
    }

    fn get(&self, name: &str, ranges: &[Range], _: Duration) -> Vec<Result<Buffer, Fault>> {
        let get = |range: &Range| {
            let object = self.object(name)?;
            let start = usize::try_from(range.offset).unwrap_or(usize::MAX).min(object.len());
            let end = start.saturating_add(range.bytes).min(object.len());
            Ok(Buffer::from(object[start..end].to_vec()))
        };
        ranges.iter().map(get).collect()
    }

    fn list(&self, prefix: &str, _: Duration) -> Result<Vec<Entry>, Fault> {
        let objects = self.objects();
        let found = objects.iter().filter(|(name, _)| name.starts_with(prefix));
        let entry = |(name, object): (&String, &Arc<[u8]>)| Entry {
            name: name.clone(),
            bytes: object.len() as u64,
        };
        Ok(found.map(entry).collect())
    }

    fn delete(&self, name: &str, _: Duration) -> Result<(), Fault> {
        self.objects().remove(name);
        Ok(())
    }

    fn upload(&self, name: &str, _: Duration) -> Result<Box<dyn Upload>, Fault> {
        let (objects, name) = (self.clone(), name.to_owned());
        Ok(Box::new(MemoryUpload { objects, name, parts: BTreeMap::new() }))
    }

    fn describe(&self, name: &str) -> String {
        format!("memory:{name}")
    }
}

struct MemoryUpload {
    objects: MemoryObjects,
    name: String,
    parts: BTreeMap<usize, Vec<u8>>,
}

impl Upload for MemoryUpload {
    fn send(&mut self, parts: &[(usize, &[u8])], _: Duration) -> Vec<Result<(), Fault>> {
        self.parts.extend(parts.iter().map(|&(number, bytes)| (number, bytes.to_vec())));
        vec![Ok(()); parts.len()]
    }

    fn publish(&mut self, timeout: Duration) -> Result<(), Fault> {
        let whole: Vec<u8> = self.parts.values().flatten().copied().collect();
        self.objects.put(&self.name, &whole, PutMode::Create, timeout)
    }
}
