//! A file that counts its reads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::buffer::Buffer;
use crate::error::Error;
use crate::ring::PlannedRead;
use crate::store::{Range, ReadAt};

/// Reads of a file so far. Cached blocks do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCounts {
    /// Ranges read.
    pub reads: u64,
    /// Bytes of those ranges.
    pub bytes: u64,
    /// Rounds of reads: ranges read together count once.
    pub rounds: u64,
}

/// A file, and the counts of its reads by all threads.
pub struct Counted {
    file: Arc<dyn ReadAt>,
    reads: AtomicU64,
    bytes: AtomicU64,
    rounds: AtomicU64,
}

impl Counted {
    /// Begins to count the reads of `file`.
    pub fn new(file: Arc<dyn ReadAt>) -> Counted {
        let (reads, bytes, rounds) = Default::default();
        Counted { file, reads, bytes, rounds }
    }

    /// The counts so far.
    pub fn counts(&self) -> IoCounts {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counted { reads, bytes, rounds, .. } = self;
        IoCounts { reads: load(reads), bytes: load(bytes), rounds: load(rounds) }
    }

    fn count(&self, ranges: &[Range]) {
        if !ranges.is_empty() {
            let bytes: u64 = ranges.iter().map(|range| range.bytes as u64).sum();
            self.reads.fetch_add(ranges.len() as u64, Ordering::Relaxed);
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
            self.rounds.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl ReadAt for Counted {
    fn name(&self) -> &str {
        self.file.name()
    }

    fn bytes(&self) -> u64 {
        self.file.bytes()
    }

    fn read(&self, range: Range) -> Result<Buffer, Error> {
        self.count(&[range]);
        self.file.read(range)
    }

    fn waits(&self) -> bool {
        self.file.waits()
    }

    fn is_near(&self) -> bool {
        self.file.is_near()
    }

    fn read_ready(&self, range: Range) -> Option<Buffer> {
        let read = self.file.read_ready(range)?;
        self.count(&[range]);
        Some(read)
    }

    fn plan(&self, range: Range) -> Option<PlannedRead> {
        let planned = self.file.plan(range)?;
        self.count(&[range]);
        Some(planned)
    }

    fn read_many(&self, ranges: &[Range]) -> Result<Vec<Buffer>, Error> {
        self.count(ranges);
        self.file.read_many(ranges)
    }
}
