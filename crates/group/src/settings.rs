//! What a store of groups is asked to hold, and how.

use std::time::Duration;

use vstream_attribute::Schema;
use vstream_vector::{Element, Metric};

use crate::error::Error;
use crate::shard::{is_number_of_shards, SHARDS, SHARDS_MAX};

/// Largest number of dimensions of a row.
pub const DIMENSION_MAX: usize = 4096;

/// Longest time for which deletes are remembered.
const DELETES_REMEMBERED_FOR_MAX: Duration = Duration::from_secs(366 * 86_400);

/// What the search relies on when it rules rows out by their codes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// A bound that holds for every row: each code of four bits per dimension comes with the length
    /// of its error, and `|⟨error, u⟩| ≤ |error| · |u|`. The answer is exact.
    Proven,
    /// A bound of so many standard deviations, 5 to 9, over codes of one bit per dimension. The
    /// random rotation, which nobody outside of the store knows, makes the errors normal. With 7, a
    /// row among the nearest is missed with a probability of about 1e-12. The rows that are left get
    /// the codes of [`Bound::Proven`] before exact distances. Reads under half of the bytes that
    /// that bound reads, and takes an eighth more of the disk.
    Deviations(f32),
}

/// The settings of a store. Dimension, metric, element, shards and seed are fixed when it is created, and the
/// schema but for attributes that are added at the end. A change of the others holds for new runs.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupSettings {
    /// Dimensions of a vector, 1 to [`DIMENSION_MAX`].
    pub dimension: usize,
    /// Formula of the distance.
    pub metric: Metric,
    /// Number type of stored vectors. Cosine takes floats only.
    pub element: Element,
    /// What rows carry beside their vectors.
    pub schema: Schema,
    /// How rows are ruled out by their codes.
    pub bound: Bound,
    /// Rows of a group from which a part of it gets codes. Smaller ones are read whole.
    pub coded_rows: usize,
    /// Rows of a part from which a merge orders it by clusters.
    pub clustered_rows: usize,
    /// How long versions of deleted rows are kept, at least: meanwhile an upsert older than the
    /// delete of its id changes nothing. 1 s to 366 days; `None`: until a merge of all runs. A
    /// dropped group is not remembered.
    pub deletes_remembered: Option<Duration>,
    /// Bytes of new rows in memory before they are written as a run.
    pub memory: usize,
    /// Bytes of the block cache.
    pub cache: usize,
    /// Runs of similar size that are merged into one, 2 to 16.
    pub fanout: usize,
    /// Number of shards that [`ShardRange`](crate::ShardRange)s count, a power of two up to
    /// [`SHARDS_MAX`].
    pub shards: u16,
    /// Seed of the rotation and of the hash of group names. `None` to draw one when the store is
    /// created.
    pub seed: Option<u64>,
}

impl GroupSettings {
    /// Settings with defaults: proven bounds, 64 MiB of new rows, 64 MiB of cache.
    pub fn new(dimension: usize, metric: Metric, element: Element) -> GroupSettings {
        GroupSettings {
            dimension,
            metric,
            element,
            schema: Schema::default(),
            bound: Bound::Proven,
            coded_rows: 128,
            clustered_rows: 2048,
            deletes_remembered: None,
            memory: 64 << 20,
            cache: 64 << 20,
            fanout: 4,
            shards: SHARDS,
            seed: None,
        }
    }

    /// Errors: `Invalid` if a setting is out of range.
    pub fn validate(&self) -> Result<(), Error> {
        if !(1..=DIMENSION_MAX).contains(&self.dimension) {
            let what = format!("The dimension is {}: use 1 to {DIMENSION_MAX}.", self.dimension);
            return Err(Error::invalid(what));
        }
        if self.metric == Metric::Cosine && self.element.is_integer() {
            let what = format!("Cosine stores directions, which {} cannot hold.", self.element);
            return Err(Error::invalid(what));
        }
        if let Bound::Deviations(deviations) = self.bound {
            if !(5.0..=9.0).contains(&deviations) {
                let what = format!("A bound of {deviations} standard deviations: use 5 to 9.");
                return Err(Error::invalid(what));
            }
        }
        let allowed = Duration::from_secs(1)..=DELETES_REMEMBERED_FOR_MAX;
        if self.deletes_remembered.is_some_and(|time| !allowed.contains(&time)) {
            return Err(Error::invalid("Deletes are remembered for 1 s to 366 days, or not."));
        }
        if !is_number_of_shards(self.shards) {
            let what = format!("{} shards: use a power of two up to {SHARDS_MAX}.", self.shards);
            return Err(Error::invalid(what));
        }
        if !(2..=16).contains(&self.fanout) || self.memory == 0 {
            return Err(Error::invalid("The fan-out is 2 to 16, and rows need some memory."));
        }
        Ok(())
    }

    /// Bytes of a stored vector.
    pub(crate) fn vector_bytes(&self) -> usize {
        self.dimension * self.element.bytes()
    }
}
