//! A file that is written to an object store: one request for a short file, parts for a long one.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

use super::objects::{PutMode, Upload, PART_BYTES};
use super::store::Remote;
use crate::error::{Error, ErrorKind};
use crate::store::FileWriter;

/// Parts that are sent at the same time, all of which are in memory.
const PARTS_TOGETHER: usize = 4;
/// The time limit of publishing, in units of the policy's total.
const PUBLISH_TIMES: u32 = 10;
/// Largest object that object stores copy by one request.
const FILE_BYTES_MAX: u64 = 5 << 30;

pub(super) struct RemoteWriter {
    remote: Arc<Remote>,
    name: String,
    gathered: Vec<u8>,
    upload: Option<Box<dyn Upload>>,
    parts: usize,
    bytes: u64,
    hash: Xxh3,
    has_failed: bool,
}

impl RemoteWriter {
    pub(super) fn new(remote: Arc<Remote>, name: &str) -> RemoteWriter {
        RemoteWriter {
            remote,
            name: name.to_owned(),
            gathered: Vec::new(),
            upload: None,
            parts: 0,
            bytes: 0,
            hash: Xxh3::new(),
            has_failed: false,
        }
    }

    /// Sends the buffered bytes as parts.
    fn send(&mut self) -> Result<(), Error> {
        let RemoteWriter { remote, name, gathered, upload, parts, .. } = self;
        let upload = match upload {
            Some(upload) => upload,
            None => {
                let begin = remote
                    .retry(name, "write", |call| remote.objects.upload(name, call.timeout()))?;
                upload.insert(begin)
            }
        };
        let chunks: Vec<(usize, &[u8])> = (*parts..).zip(gathered.chunks(PART_BYTES)).collect();
        remote.retry_many(name, "write", chunks.len(), |open, call| {
            let wanted: Vec<(usize, &[u8])> = open.iter().map(|&index| chunks[index]).collect();
            upload.send(&wanted, call.long_timeout())
        })?;
        *parts += chunks.len();
        remote.counts.sent_bytes.fetch_add(gathered.len() as u64, Ordering::Relaxed);
        gathered.clear();
        Ok(())
    }

    fn grow(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        self.expect(self.bytes + bytes.len() as u64)?;
        self.bytes += bytes.len() as u64;
        self.hash.update(bytes);
        while !bytes.is_empty() {
            let room = PARTS_TOGETHER * PART_BYTES - self.gathered.len();
            let (fits, rest) = bytes.split_at(room.min(bytes.len()));
            self.gathered.extend_from_slice(fits);
            if self.gathered.len() == PARTS_TOGETHER * PART_BYTES {
                self.send()?;
            }
            bytes = rest;
        }
        Ok(())
    }

    fn error(&self, what: &str) -> Error {
        Error::new(ErrorKind::Invalid, self.remote.objects.describe(&self.name), what)
    }

    fn publish(&mut self) -> Result<(), Error> {
        let Some(upload) = &mut self.upload else {
            return self.remote.put(&self.name, &self.gathered, PutMode::Create);
        };
        let mut call = self.remote.retry.call(PUBLISH_TIMES);
        let (published, may_be_ours) = loop {
            self.remote.count(1);
            match upload.publish(call.long_timeout()) {
                Ok(()) => break (Ok(()), false),
                Err(fault) => {
                    let may_be_ours = call.is_doubtful;
                    if let Err(error) = self.remote.wait(&mut call, &fault, &self.name, "publish") {
                        break (Err(error), may_be_ours);
                    }
                }
            }
        };
        let (bytes, checksum) = (self.bytes, self.hash.digest128());
        self.remote.settle(published, may_be_ours, &self.name, bytes, checksum)
    }
}

impl FileWriter for RemoteWriter {
    fn expect(&mut self, bytes: u64) -> Result<(), Error> {
        match bytes > FILE_BYTES_MAX {
            true => Err(self.error("a file of an object store has 5 GiB at most: write two")),
            false => Ok(()),
        }
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.has_failed {
            return Err(self.error("an earlier write of this file failed: write it again"));
        }
        let grown = self.grow(bytes);
        self.has_failed = grown.is_err();
        grown
    }

    fn finish(mut self: Box<Self>) -> Result<u64, Error> {
        if self.has_failed {
            return Err(self.error("an earlier write of this file failed: write it again"));
        }
        if self.gathered.len() > PART_BYTES || self.upload.is_some() && !self.gathered.is_empty() {
            self.send()?;
        }
        self.publish()?;
        Ok(self.bytes)
    }
}
