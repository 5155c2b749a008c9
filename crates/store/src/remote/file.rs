//! An open file of an object store.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use super::objects::{Fault, FaultKind};
use super::store::Remote;
use crate::buffer::Buffer;
use crate::defect::{self, Defect};
use crate::error::Error;
use crate::store::{check_range, Range, ReadAt};

/// Files up to this length are read as a whole when they are opened.
pub(super) const SMALL_BYTES: usize = 64 << 10;
/// Largest gap between two ranges that one request covers. Reading it takes about as long as
/// another round trip.
const GAP_MAX: u64 = 32 << 10;
/// Largest number of bytes that one request for several ranges covers.
const TOGETHER_MAX: u64 = 1 << 20;
/// A longer range is read by several requests at once.
const SINGLE_MAX: usize = 8 << 20;

/// An open file of an object store.
pub(super) struct RemoteFile {
    remote: Arc<Remote>,
    /// Name of the object.
    object: String,
    name: String,
    bytes: u64,
    /// The whole content, if the file is small.
    content: Option<Buffer>,
}

impl RemoteFile {
    pub(super) fn new(remote: Arc<Remote>, name: &str, bytes: u64) -> RemoteFile {
        let (object, name) = (name.to_owned(), remote.objects.describe(name));
        RemoteFile { remote, object, name, bytes, content: None }
    }

    pub(super) fn small(remote: Arc<Remote>, name: &str, content: Buffer) -> RemoteFile {
        let bytes = content.len() as u64;
        RemoteFile { content: Some(content), ..RemoteFile::new(remote, name, bytes) }
    }

    /// Reads whole ranges, one request for each. No range is empty.
    fn get(&self, ranges: &[Range]) -> Result<Vec<Buffer>, Error> {
        let remote = &self.remote;
        let got = remote.retry_many(&self.object, "read", ranges.len(), |open, call| {
            let wanted: Vec<Range> = open.iter().map(|&index| ranges[index]).collect();
            let got = remote.objects.get(&self.object, &wanted, call.timeout());
            got.into_iter().zip(&wanted).map(|(got, range)| whole(got?, *range)).collect()
        })?;
        let bytes: u64 = got.iter().map(|buffer| buffer.len() as u64).sum();
        remote.counts.read_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(got)
    }

    /// Reads a range by several requests.
    fn get_long(&self, range: Range) -> Result<Buffer, Error> {
        let parts: Vec<Range> = (0..range.bytes)
            .step_by(SINGLE_MAX)
            .map(|from| Range {
                offset: range.offset + from as u64,
                bytes: SINGLE_MAX.min(range.bytes - from),
            })
            .collect();
        let mut whole = Vec::with_capacity(range.bytes);
        self.get(&parts)?.iter().for_each(|part| whole.extend_from_slice(part));
        Ok(Buffer::from(whole))
    }
}

impl ReadAt for RemoteFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&self, range: Range) -> Result<Buffer, Error> {
        Ok(self.read_many(&[range])?.pop().expect("a buffer per range"))
    }

    fn read_many(&self, ranges: &[Range]) -> Result<Vec<Buffer>, Error> {
        for range in ranges {
            check_range(*range, self.bytes, &self.name)?;
        }
        if let Some(content) = &self.content {
            return Ok(ranges.iter().map(|&range| part(content, 0, range)).collect());
        }
        let runs = together(ranges);
        let (long, short): (Vec<_>, Vec<_>) =
            runs.into_iter().partition(|run| run.range.bytes > SINGLE_MAX);
        let mut buffers = vec![Buffer::default(); ranges.len()];
        let wanted: Vec<Range> = short.iter().map(|run| run.range).collect();
        for (run, got) in short.iter().zip(self.get(&wanted)?) {
            match run.members[..] {
                [only] => buffers[only] = got,
                _ => {
                    for &index in &run.members {
                        buffers[index] = part(&got, run.range.offset, ranges[index]);
                    }
                }
            }
        }
        for run in long {
            let got = self.get_long(run.range)?;
            for &index in &run.members {
                buffers[index] = part(&got, run.range.offset, ranges[index]);
            }
        }
        Ok(buffers)
    }
}

/// Cuts `range` out of bytes that were read from `offset` on.
fn part(bytes: &[u8], offset: u64, range: Range) -> Buffer {
    let from = (range.offset - offset) as usize;
    Buffer::from(bytes[from..from + range.bytes].to_vec())
}

/// Checks the length of an answer. A short one means that the connection broke.
fn whole(got: Buffer, range: Range) -> Result<Buffer, Fault> {
    if got.len() == range.bytes {
        return Ok(got);
    }
    if defect::active(Defect::ShortRangeFilled) {
        let mut filled = got.to_vec();
        filled.resize(range.bytes, 0);
        return Ok(Buffer::from(filled));
    }
    let what = format!("{} of {} bytes came", got.len(), range.bytes);
    Err(Fault::new(FaultKind::Doubtful, what))
}

/// Ranges that one request covers.
struct Run {
    range: Range,
    /// Indexes of the caller's ranges.
    members: Vec<usize>,
}

/// Joins ranges that are near each other. Empty ranges need no request.
fn together(ranges: &[Range]) -> Vec<Run> {
    let mut order: Vec<usize> =
        (0..ranges.len()).filter(|&index| ranges[index].bytes > 0).collect();
    order.sort_unstable_by_key(|&index| ranges[index].offset);
    let mut runs: Vec<Run> = Vec::new();
    for index in order {
        let Range { offset, bytes } = ranges[index];
        if let Some(run) = runs.last_mut() {
            let end = run.range.offset + run.range.bytes as u64;
            let joined = end.max(offset + bytes as u64) - run.range.offset;
            if offset <= end.saturating_add(GAP_MAX) && joined <= TOGETHER_MAX {
                run.range.bytes = joined as usize;
                run.members.push(index);
                continue;
            }
        }
        runs.push(Run { range: ranges[index], members: vec![index] });
    }
    runs
}
