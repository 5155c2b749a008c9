//! What a user chooses about routing, and the check of it.

use crate::error::RouteError;
use crate::lsh::{Curve, Grid};
use vstream_vector::Metric;

/// Most dimensions of a vector.
pub const DIMENSION_MAX: usize = 4096;
/// Most shards. The number is fixed for the life of a collection; 128 is the default.
pub const SHARDS_MAX: u16 = 256;
/// Most cells: a query measures its distance to each of them.
pub const CELLS_MAX: usize = 4096;
/// Sample rows that training needs for each cell.
pub const ROWS_PER_CELL: usize = 8;
/// Most hash families, which is the most copies of one vector.
pub const FAMILIES_MAX: usize = 64;
/// Most hashes in one family: each needs at least one bit of the code.
pub const HASHES_MAX: usize = 58;

/// How a collection is routed.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteSettings {
    /// How a vector becomes a code.
    pub encoder: EncoderSpec,
    /// Dimensions of every vector and query, `1..=`[`DIMENSION_MAX`].
    pub dimension: usize,
    /// What makes two vectors near.
    pub metric: Metric,
    /// Shards, `1..=`[`SHARDS_MAX`]; the greatest parallelism there can ever be.
    pub shards: u16,
    /// Seed of all chance in training.
    pub seed: u64,
}

/// Encoder of a collection.
#[derive(Clone, Debug, PartialEq)]
pub enum EncoderSpec {
    /// Balanced clusters of a sample; one copy of each vector.
    Cells {
        /// Cells, `1..=`[`CELLS_MAX`], at most one per [`ROWS_PER_CELL`] rows of the sample.
        /// With fewer cells than shards some shards stay empty.
        cells: usize,
        /// Share of the true neighbours that the visited partitions must hold, in `(0, 1]`.
        recall_target: f32,
    },
    /// Hash families strung on a space-filling curve; up to `families` copies of each vector.
    Lsh {
        /// Order in which the grid of hash values is walked.
        curve: Curve,
        /// Families, `1..=`[`FAMILIES_MAX`].
        families: usize,
        /// Hashes of a family = dimensions of the curve, `1..=`[`HASHES_MAX`].
        hashes: usize,
        /// Width of a hash bucket in the unit of the vectors (their length under cosine is 1),
        /// finite and above 0. Small is fine: a template scales the hashes to its sample.
        width: f32,
        /// Bits of each hash in the code, `1..=16`. Fewer are used where `hashes × bits` does not
        /// fit the code: 10 hashes and 8 families leave 6 bits each.
        bits: u32,
    },
    /// A hash of the id; every query visits every partition.
    Id,
}

impl RouteSettings {
    /// Says in a sentence what is wrong with these settings, if anything is.
    ///
    /// Errors: `Invalid`.
    pub fn validate(&self) -> Result<(), RouteError> {
        if !(1..=DIMENSION_MAX).contains(&self.dimension) {
            return Err(RouteError::invalid(format!(
                "The dimension is {}: set it between 1 and {DIMENSION_MAX}.",
                self.dimension
            )));
        }
        if !(1..=SHARDS_MAX).contains(&self.shards) {
            return Err(RouteError::invalid(format!(
                "The number of shards is {}: set it between 1 and {SHARDS_MAX}.",
                self.shards
            )));
        }
        match self.encoder {
            EncoderSpec::Id => Ok(()),
            EncoderSpec::Cells { cells, recall_target } => validate_cells(cells, recall_target),
            EncoderSpec::Lsh { curve, families, hashes, width, bits } => {
                validate_lsh(families, hashes, width, bits)?;
                Grid::for_code(curve, hashes, bits, families).map(|_| ())
            }
        }
    }
}

fn validate_cells(cells: usize, recall_target: f32) -> Result<(), RouteError> {
    if !(1..=CELLS_MAX).contains(&cells) {
        return Err(RouteError::invalid(format!(
            "The number of cells is {cells}: set it between 1 and {CELLS_MAX}."
        )));
    }
    if !(recall_target > 0.0 && recall_target <= 1.0) {
        return Err(RouteError::invalid(format!(
            "The encoder's recall target is {recall_target}: set it above 0 and at most 1."
        )));
    }
    Ok(())
}

fn validate_lsh(families: usize, hashes: usize, width: f32, bits: u32) -> Result<(), RouteError> {
    if !(1..=FAMILIES_MAX).contains(&families) {
        return Err(RouteError::invalid(format!(
            "The number of hash families is {families}: set it between 1 and {FAMILIES_MAX}."
        )));
    }
    if !(1..=HASHES_MAX).contains(&hashes) {
        return Err(RouteError::invalid(format!(
            "The number of hashes is {hashes}: set it between 1 and {HASHES_MAX}."
        )));
    }
    if !(width > 0.0 && width.is_finite()) {
        return Err(RouteError::invalid(format!(
            "The width of a hash bucket is {width}: set it to a finite number above 0."
        )));
    }
    if !(1..=16).contains(&bits) {
        return Err(RouteError::invalid(format!(
            "The number of bits of a hash is {bits}: set it between 1 and 16."
        )));
    }
    Ok(())
}
