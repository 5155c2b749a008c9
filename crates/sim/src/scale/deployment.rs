//! The job that is asked about, and the machine that it has.

/// Shards of a collection that does not say.
pub const SHARDS: u64 = 128;
/// Most shards of a collection, and so most partitions of a job: `SHARDS_MAX` of `vstream-route`.
pub const SHARDS_MAX: u64 = 4096;
/// Most cells of a template: `CELLS_MAX` of `vstream-route`.
pub const CELLS_MAX: u64 = 4096;
/// One Gbit/s, in bytes.
pub const GBIT: f64 = 125e6;
/// One GiB, in bytes.
pub const GIB: f64 = (1u64 << 30) as f64;

/// A job, its stream and its template.
#[derive(Clone, Debug, PartialEq)]
pub struct Deployment {
    /// Partitions; place, route and merge have as many tasks.
    pub partitions: u64,
    /// Rows that live.
    pub rows: f64,
    /// Dimensions of a vector.
    pub dimension: u64,
    /// Neighbours that a query asks for.
    pub k: u64,
    /// Queries per second, of the whole job.
    pub queries_per_s: f64,
    /// Upserts per second, of the whole job.
    pub writes_per_s: f64,
    /// Partitions of the source topic; 0 if its source has no offsets.
    pub source_partitions: u64,
    /// Cells of the template.
    pub cells: u64,
    /// Seconds from one checkpoint to the next.
    pub checkpoint_s: f64,
}

impl Deployment {
    /// The job of the tables: each partition brings 100 queries and 1,000 writes per second, and the
    /// topic has as many partitions as the job.
    ///
    /// `partitions` is 1 or more. The vectors have 100 dimensions, as those of GloVe have, from
    /// which most constants come.
    pub fn of(partitions: u64, rows: f64) -> Deployment {
        assert!(partitions >= 1, "a job has a partition");
        Deployment {
            partitions,
            rows,
            dimension: 100,
            k: 10,
            queries_per_s: 100.0 * partitions as f64,
            writes_per_s: 1_000.0 * partitions as f64,
            source_partitions: partitions,
            cells: 1024,
            checkpoint_s: 10.0,
        }
    }

    /// Shards that the template has: a power of two, 128 or as many as the partitions need. The model
    /// also has the jobs beyond [`SHARDS_MAX`] that cannot be.
    pub fn shards(&self) -> u64 {
        self.partitions.next_power_of_two().max(SHARDS)
    }

    /// Rows of a partition, if all have as many.
    pub fn rows_of_partition(&self) -> f64 {
        self.rows / self.partitions as f64
    }
}
