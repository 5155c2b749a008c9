//! The primitives under a [`RemoteStore`](super::RemoteStore): single requests to an object store,
//! no more. A simulation of a store that fails is another implementation of this trait.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::buffer::Buffer;
use crate::store::{Entry, Range};

/// Why a request gave no answer, by what to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// There is no such object.
    NotFound,
    /// There is such an object already.
    Exists,
    /// It will be refused again: no permission, no bucket, a request that is wrong.
    Refused,
    /// No answer, or one that says to come back: it may be asked again. What was asked may have
    /// been done all the same.
    Doubtful,
}

/// A request that gave no answer.
#[derive(Clone, Debug)]
pub struct Fault {
    /// What to do next.
    pub kind: FaultKind,
    /// What the store or the network said.
    pub what: String,
}

impl Fault {
    /// A fault that says `what`.
    pub fn new(kind: FaultKind, what: impl fmt::Display) -> Fault {
        Fault { kind, what: what.to_string() }
    }
}

/// What a put does with an object that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutMode {
    /// Leaves it; `Exists`.
    Create,
    /// Takes its place.
    Replace,
}

/// One folder of objects with flat names. Each call is one request, or several at once, made
/// within `timeout` and not repeated.
pub trait Objects: Send + Sync {
    /// Puts an object whole: all of it is there afterwards, or nothing.
    fn put(&self, name: &str, bytes: &[u8], mode: PutMode, timeout: Duration) -> Result<(), Fault>;

    /// Length of an object.
    fn bytes(&self, name: &str, timeout: Duration) -> Result<u64, Fault>;

    /// Ranges of an object, at the same time; none is empty. Each has its own fate.
    fn get(&self, name: &str, ranges: &[Range], timeout: Duration) -> Vec<Result<Buffer, Fault>>;

    /// Objects whose names begin with `prefix`, in any order.
    fn list(&self, prefix: &str, timeout: Duration) -> Result<Vec<Entry>, Fault>;

    /// Removes an object; one that is not there may be `NotFound` or no fault.
    fn delete(&self, name: &str, timeout: Duration) -> Result<(), Fault>;

    /// Begins an object that is sent in parts. Nobody sees it before [`Upload::publish`].
    fn upload(&self, name: &str, timeout: Duration) -> Result<Box<dyn Upload>, Fault>;

    /// An object as messages name it; the folder if `name` is empty.
    fn describe(&self, name: &str) -> String;
}

/// An object on its way. Dropped, it is given up.
pub trait Upload: Send {
    /// Sends parts, numbered from 0, at the same time; all but the last of an object are of
    /// [`PART_BYTES`]. Each has its own fate; one may be sent again.
    fn send(&mut self, parts: &[(usize, &[u8])], timeout: Duration) -> Vec<Result<(), Fault>>;

    /// Makes the parts an object under its name unless there is one: `Exists`. After a fault it may
    /// be tried again.
    fn publish(&mut self, timeout: Duration) -> Result<(), Fault>;
}

/// Bytes of a part: object stores want 5 MiB and more, and 10,000 of them at most.
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

    /// Everything that is there.
    pub fn content(&self) -> BTreeMap<String, Arc<[u8]>> {
        self.objects().clone()
    }

    /// Puts an object there, whatever was there before.
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
