//! At which number of partitions a part meets its limit.

use super::deployment::{Deployment, GBIT, GIB, SHARDS_MAX};
use super::load;

/// No wall is looked for beyond so many partitions.
pub const PARTITIONS_MAX: u64 = 1 << 20;
/// Sample rows that a partition needs so that the fullest has at most 1.2 times the mean.
const SAMPLE_ROWS: f64 = 400.0;
/// Rows of the training sample, by default.
const SAMPLE: f64 = 20_000.0;

/// A load that grows with the partitions, or one that falls, and its limit.
#[derive(Clone, Copy)]
pub struct Wall {
    /// The part.
    pub part: &'static str,
    /// The limit, in words.
    pub limit_words: &'static str,
    /// Its limit.
    pub limit: f64,
    /// Its load.
    pub load: fn(&Deployment) -> f64,
}

/// Parts whose load grows with the partitions.
pub fn growing() -> Vec<Wall> {
    let wall = |part, limit_words, limit, load| Wall { part, limit_words, limit, load };
    vec![
        wall("shards", "4,096", SHARDS_MAX as f64, |job| job.partitions as f64),
        wall("training sample", "400 rows of 20,000 for each partition", SAMPLE, |job| {
            SAMPLE_ROWS * job.partitions as f64
        }),
        wall("minimum of marks", "a tenth of a core", 0.1, load::minimum_cores),
        wall("minimum of marks", "1 core", 1.0, load::minimum_cores),
        wall("marks into a partition", "1 Gbit/s", GBIT, load::marks_bytes),
        wall("marks into a partition", "10 Gbit/s", 10.0 * GBIT, load::marks_bytes),
        wall("the same, numbered", "1 Gbit/s", GBIT, load::numbered_marks_bytes),
        wall("answers into a merge task", "1 Gbit/s", GBIT, load::answers_bytes),
        wall("network buffers of a slot", "1 GiB", GIB, load::buffer_bytes),
        wall("acks of a step", "a million", 1e6, load::acks),
        wall("reports to the JobManager", "10,000 per second", 1e4, load::reports),
        wall("files that it counts", "100,000", 1e5, load::files),
    ]
}

/// Parts of a partition whose load falls with the partitions.
pub fn falling() -> Vec<Wall> {
    let wall = |part, limit_words, limit, load| Wall { part, limit_words, limit, load };
    let memory = 16.0 * GIB;
    vec![
        wall("rows in memory", "16 GiB", memory, load::memory_bytes),
        wall("rows in segments, codes in memory", "16 GiB", memory, load::memory_segments_bytes),
        wall("restore at another parallelism", "60 s", 60.0, load::restore_s),
        wall("restore at another parallelism", "600 s", 600.0, load::restore_s),
    ]
}

impl Wall {
    /// The least number of partitions at which a growing load is above its limit; `None` if it is
    /// nowhere below [`PARTITIONS_MAX`].
    ///
    /// `job` makes the job of a number of partitions.
    pub fn met_at(&self, job: impl Fn(u64) -> Deployment) -> Option<u64> {
        least(|partitions| (self.load)(&job(partitions)) > self.limit)
    }

    /// The least number of partitions at which a falling load is within its limit.
    pub fn fits_from(&self, job: impl Fn(u64) -> Deployment) -> Option<u64> {
        least(|partitions| (self.load)(&job(partitions)) <= self.limit)
    }
}

/// The least number that holds, of a condition that holds from some number on.
fn least(holds: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut low, mut high) = (1, PARTITIONS_MAX);
    if !holds(high) {
        return None;
    }
    while low < high {
        let middle = (low + high) / 2;
        match holds(middle) {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    Some(low)
}
