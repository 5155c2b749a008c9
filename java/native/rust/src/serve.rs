//! What a partition does for its task, whichever way it keeps its rows.

use std::path::Path;

use vstream_settings::MergedAudits;

use crate::failure::{Failure, Kind};
use crate::handover::Adopting;
use crate::partition::{Partition, Pinned, Shards, Snapshot};
use crate::sample::Draw;
use crate::state::SharedStateHandle;
use crate::written::Written;

/// One partition. One thread writes, any number read.
pub(crate) trait Serve: Send + Sync {
    /// Applies `count` records in order; returns what became of them.
    fn write(&self, bytes: &[u8], count: i32) -> Result<Written, Failure>;
    /// Answers queries into `out`; returns the number of bytes.
    fn search(&self, bytes: &[u8], out: &mut [u8]) -> Result<usize, Failure>;
    /// Answers queries that ask what rows carry.
    fn search_fields(&self, bytes: &[u8]) -> Result<Vec<u8>, Failure>;
    /// The rows of this moment, for queries of any thread.
    fn moment(&self) -> Result<Box<dyn Moment>, Failure>;
    /// Shares the files of this moment.
    fn share(&self) -> Result<SharedStateHandle, Failure>;
    /// Takes the rows of some shards out of a shared state.
    fn take(&self, source: &Path, shards: &Shards) -> Result<u64, Failure>;
    /// Counts as one JSON object.
    fn stats_json(&self) -> Result<String, Failure>;
    /// Sets the recall to reach, from merged audits; returns it.
    fn aim(&self, merged: &MergedAudits) -> Result<f64, Failure>;
    /// Runs `work` as every call is run.
    fn guard(&self, work: &dyn Fn() -> Result<(), Failure>) -> Result<(), Failure>;

    /// Pins the rows to be written as a folder.
    fn pin(&self) -> Result<Pinned, Failure> {
        Err(no_index("no snapshot"))
    }

    /// Says that no state of the engine before this one will be opened again.
    fn inherit_remote(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Rows and writes by bucket.
    fn loads(&self) -> Result<Vec<u8>, Failure> {
        Err(no_index("no codes"))
    }

    /// Some rows.
    fn sample(&self, _draw: &Draw) -> Result<Vec<u8>, Failure> {
        Err(no_index("no sample"))
    }

    /// Begins or ends to await rows of another partition.
    fn await_rows(&self, _awaited: bool) -> Result<(), Failure> {
        Err(no_index("no hand-over"))
    }

    /// Takes in rows of another partition.
    fn adopt(&self, _adopting: &Adopting, _rows_max: i32) -> Result<usize, Failure> {
        Err(no_index("no hand-over"))
    }

    /// Drops rows that went to another partition.
    fn release(&self, _ranges: &[u8], _rows_max: i32) -> Result<usize, Failure> {
        Err(no_index("no hand-over"))
    }
}

/// The rows of one moment.
pub(crate) trait Moment: Send + Sync {
    /// Answers queries into `out`; returns the number of bytes.
    fn search(&self, bytes: &[u8], out: &mut [u8]) -> Result<usize, Failure>;
    /// Answers queries that ask what rows carry.
    fn search_fields(&self, bytes: &[u8]) -> Result<Vec<u8>, Failure>;
}

fn no_index(what: &str) -> Failure {
    let what = format!("A partition of isolated groups has {what}.");
    Failure::new(Kind::Unsupported, what)
}

impl Serve for Partition {
    fn write(&self, bytes: &[u8], count: i32) -> Result<Written, Failure> {
        self.write(bytes, count)
    }

    fn search(&self, bytes: &[u8], out: &mut [u8]) -> Result<usize, Failure> {
        self.search(bytes, out)
    }

    fn search_fields(&self, bytes: &[u8]) -> Result<Vec<u8>, Failure> {
        self.search_fields(bytes)
    }

    fn moment(&self) -> Result<Box<dyn Moment>, Failure> {
        Ok(Box::new(self.read_snapshot()?))
    }

    fn share(&self) -> Result<SharedStateHandle, Failure> {
        self.share()
    }

    fn take(&self, source: &Path, shards: &Shards) -> Result<u64, Failure> {
        self.take(source, shards)
    }

    fn stats_json(&self) -> Result<String, Failure> {
        self.stats_json()
    }

    fn aim(&self, merged: &MergedAudits) -> Result<f64, Failure> {
        self.aim(merged)
    }

    fn guard(&self, work: &dyn Fn() -> Result<(), Failure>) -> Result<(), Failure> {
        self.guard(work)
    }

    fn pin(&self) -> Result<Pinned, Failure> {
        self.pin()
    }

    fn inherit_remote(&self) -> Result<(), Failure> {
        self.inherit_remote()
    }

    fn loads(&self) -> Result<Vec<u8>, Failure> {
        self.loads()
    }

    fn sample(&self, draw: &Draw) -> Result<Vec<u8>, Failure> {
        self.sample(draw)
    }

    fn await_rows(&self, awaited: bool) -> Result<(), Failure> {
        self.await_rows(awaited)
    }

    fn adopt(&self, adopting: &Adopting, rows_max: i32) -> Result<usize, Failure> {
        self.adopt(adopting, rows_max)
    }

    fn release(&self, ranges: &[u8], rows_max: i32) -> Result<usize, Failure> {
        self.release(ranges, rows_max)
    }
}

impl Moment for Snapshot {
    fn search(&self, bytes: &[u8], out: &mut [u8]) -> Result<usize, Failure> {
        self.search(bytes, out)
    }

    fn search_fields(&self, bytes: &[u8]) -> Result<Vec<u8>, Failure> {
        self.search_fields(bytes)
    }
}
