//! The store over an object store.
//!
//! 1. Every call repeats its request until it is answered or the time limit is reached
//!    (`retry.rs`).
//! 2. A request without an answer may have taken effect. So if a repeated request fails because the
//!    object exists, the store compares the object's content with its own: if they are equal, the
//!    earlier request made it.
//! 3. `open` reads a small file as a whole, by one request, so that the reader sees one version
//!    even if the file is replaced later. Longer files are written once and read by ranges
//!    (`file.rs`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128;

use super::file::{RemoteFile, SMALL_BYTES};
use super::objects::{Fault, FaultKind, Objects, PutMode};
use super::retry::{Call, Retry, RetryPolicy};
use super::writer::RemoteWriter;
use crate::buffer::Buffer;
use crate::clock::Clock;
use crate::defect::{self, Defect};
use crate::error::{Error, ErrorKind};
use crate::files::Access;
use crate::names::{check_name, is_name};
use crate::store::{checksum_of, Entry, FileWriter, Range, ReadAt, Store};

/// Counters of a remote store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteCounts {
    /// Requests, including retries. Each of several ranges counts.
    pub requests: u64,
    /// Requests that failed and were repeated.
    pub retries: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were sent.
    pub sent_bytes: u64,
}

/// Files in an object store. Clones are the same store. Everything that a call returned
/// successfully is durable.
///
/// Every call may fail with `Unavailable` if there is no answer in time. It may have taken effect
/// nevertheless, or may still do so later. Calls of `replace` by several writers have no defined
/// order; put data whose order matters under a new name each time.
#[derive(Clone)]
pub struct RemoteStore {
    remote: Arc<Remote>,
}

impl RemoteStore {
    /// A store over a folder of objects. `seed` seeds the random waits between requests.
    pub fn new(
        objects: Arc<dyn Objects>,
        policy: RetryPolicy,
        clock: Arc<dyn Clock>,
        seed: u64,
    ) -> RemoteStore {
        let retry = Retry::new(policy, clock, seed);
        let remote = Remote { objects, retry, counts: Counts::default() };
        RemoteStore { remote: Arc::new(remote) }
    }

    /// The present counters.
    pub fn counts(&self) -> RemoteCounts {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counts { requests, retries, read_bytes, sent_bytes } = &self.remote.counts;
        RemoteCounts {
            requests: load(requests),
            retries: load(retries),
            read_bytes: load(read_bytes),
            sent_bytes: load(sent_bytes),
        }
    }
}

impl Store for RemoteStore {
    fn create(&self, name: &str) -> Result<Box<dyn FileWriter>, Error> {
        check_name(name)?;
        Ok(Box::new(RemoteWriter::new(self.remote.clone(), name)))
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        check_name(name)?;
        self.remote.put(name, bytes, PutMode::Replace)
    }

    fn open(&self, name: &str, _access: Access) -> Result<Arc<dyn ReadAt>, Error> {
        Ok(Arc::new(Remote::open(&self.remote, name)?))
    }

    fn list(&self, prefix: &str) -> Result<Vec<Entry>, Error> {
        let remote = &self.remote;
        let listed =
            remote.retry("", "list", |call| remote.objects.list(prefix, call.long_timeout()))?;
        let mut found: Vec<Entry> = listed.into_iter().filter(|e| is_name(&e.name)).collect();
        found.sort();
        Ok(found)
    }

    fn delete(&self, name: &str) -> Result<(), Error> {
        check_name(name)?;
        let remote = &self.remote;
        let gone = remote.retry(name, "remove", |call| remote.objects.delete(name, call.timeout()));
        gone.or_else(|error| match error.kind() {
            ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })
    }

    fn describe(&self, name: &str) -> String {
        self.remote.objects.describe(name)
    }
}

/// State that the store shares with its files.
pub(super) struct Remote {
    pub(super) objects: Arc<dyn Objects>,
    pub(super) retry: Retry,
    pub(super) counts: Counts,
}

#[derive(Default)]
pub(super) struct Counts {
    requests: AtomicU64,
    retries: AtomicU64,
    pub(super) read_bytes: AtomicU64,
    pub(super) sent_bytes: AtomicU64,
}

impl Remote {
    /// Repeats a request until it is answered.
    pub(super) fn retry<T>(
        &self,
        name: &str,
        doing: &str,
        mut request: impl FnMut(&Call<'_>) -> Result<T, Fault>,
    ) -> Result<T, Error> {
        let mut call = self.retry.call(1);
        loop {
            self.count(1);
            match request(&call) {
                Ok(answer) => return Ok(answer),
                Err(fault) => self.wait(&mut call, &fault, name, doing)?,
            }
        }
    }

    /// Makes several requests at once and repeats those that fail.
    ///
    /// * `request`: makes the requests with the given numbers and returns one result for each.
    pub(super) fn retry_many<T>(
        &self,
        name: &str,
        doing: &str,
        count: usize,
        mut request: impl FnMut(&[usize], &Call<'_>) -> Vec<Result<T, Fault>>,
    ) -> Result<Vec<T>, Error> {
        let mut call = self.retry.call(1);
        let mut answers: Vec<Option<T>> = (0..count).map(|_| None).collect();
        let mut open: Vec<usize> = (0..count).collect();
        while !open.is_empty() {
            self.count(open.len());
            let answered = request(&open, &call);
            assert_eq!(answered.len(), open.len(), "an answer per request");
            let mut failed: Option<Fault> = None;
            let mut left = Vec::new();
            for (index, answer) in open.into_iter().zip(answered) {
                match answer {
                    Ok(answer) => answers[index] = Some(answer),
                    Err(fault) => {
                        left.push(index);
                        // A lasting fault tells the caller more than a doubtful one.
                        if failed.is_none() || fault.kind != FaultKind::Doubtful {
                            failed = Some(fault);
                        }
                    }
                }
            }
            open = left;
            if let Some(fault) = failed {
                self.wait(&mut call, &fault, name, doing)?;
            }
        }
        Ok(answers.into_iter().map(|answer| answer.expect("answered")).collect())
    }

    pub(super) fn count(&self, requests: usize) {
        self.counts.requests.fetch_add(requests as u64, Ordering::Relaxed);
    }

    pub(super) fn wait(
        &self,
        call: &mut Call<'_>,
        fault: &Fault,
        name: &str,
        doing: &str,
    ) -> Result<(), Error> {
        call.wait(fault, &self.objects.describe(name), doing)?;
        self.counts.retries.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Puts a whole object.
    pub(super) fn put(
        self: &Arc<Remote>,
        name: &str,
        bytes: &[u8],
        mode: PutMode,
    ) -> Result<(), Error> {
        let mut may_be_ours = false;
        let put = self.retry(name, "write", |call| {
            may_be_ours = call.is_doubtful;
            let put = self.objects.put(name, bytes, mode, call.timeout());
            let is_trusted = defect::active(Defect::DoubtTrusted);
            put.or_else(|fault| match fault.kind {
                FaultKind::Doubtful if is_trusted => Ok(()),
                _ => Err(fault),
            })
        });
        self.counts.sent_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.settle(put, may_be_ours, name, bytes.len() as u64, xxh3_128(bytes))
    }

    /// Interprets the answer to a repeated request. If the object exists, the earlier request may
    /// have made it, and the object's content decides.
    pub(super) fn settle(
        self: &Arc<Remote>,
        answer: Result<(), Error>,
        may_be_ours: bool,
        name: &str,
        bytes: u64,
        checksum: u128,
    ) -> Result<(), Error> {
        match answer {
            Err(error) if error.kind() == ErrorKind::Exists && may_be_ours => {
                let file = Remote::open(self, name)?;
                let is_ours = file.bytes() == bytes && checksum_of(&file)? == checksum;
                is_ours.then_some(()).ok_or(error)
            }
            answer => answer,
        }
    }

    fn open(self: &Arc<Remote>, name: &str) -> Result<RemoteFile, Error> {
        let (bytes, content) = self.retry(name, "open", |call| {
            let bytes = self.objects.bytes(name, call.timeout())?;
            if bytes > SMALL_BYTES as u64 {
                return Ok((bytes, None));
            }
            if bytes == 0 {
                // Object stores refuse any range of an empty object.
                return Ok((bytes, Some(Buffer::default())));
            }
            // Asks for one byte more than expected, to notice that a longer file replaced this one.
            self.count(1);
            let range = Range { offset: 0, bytes: bytes as usize + 1 };
            let mut got = self.objects.get(name, &[range], call.timeout());
            let content = got.pop().expect("an answer per range")?;
            if content.len() as u64 != bytes {
                let what = format_args!("{} of {bytes} bytes came", content.len());
                return Err(Fault::new(FaultKind::Doubtful, what));
            }
            Ok((bytes, Some(content)))
        })?;
        let Some(content) = content else {
            return Ok(RemoteFile::new(self.clone(), name, bytes));
        };
        self.counts.read_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(RemoteFile::small(self.clone(), name, content))
    }
}
