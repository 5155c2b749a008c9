//! The routing settings that a user chooses, and their validation.

use crate::error::RouteError;
use crate::lsh::{Curve, Grid, HASHES_MAX};
use vstream_vector::Metric;

/// Largest dimension of a vector.
pub const DIMENSION_MAX: usize = 4096;
/// Largest number of shards. A collection never changes its number; 128 is the default. A template
/// has a byte for each pair of cell and shard, so 1,024 cells and 4,096 shards take 4 MiB.
pub const SHARDS_MAX: u16 = 4096;
/// Largest number of cells. A query measures its distance to each of them.
pub const CELLS_MAX: usize = 4096;
/// Sample rows that training needs for each cell.
pub const ROWS_PER_CELL: usize = 8;
/// Largest number of hash families, and so of copies of one vector.
pub const FAMILIES_MAX: usize = 64;

/// How a collection is routed.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteSettings {
    /// Turns a vector into a code.
    pub encoder: EncoderSpec,
    /// Dimensions of every vector and query, `1..=`[`DIMENSION_MAX`].
    pub dimension: usize,
    /// Decides which vectors are near.
    pub metric: Metric,
    /// Number of shards, `1..=`[`SHARDS_MAX`]. The parallelism can never exceed it.
    pub shards: u16,
    /// Seed of all random numbers in training.
    pub seed: u64,
}

/// The encoder of a collection.
#[derive(Clone, Debug, PartialEq)]
pub enum EncoderSpec {
    /// Balanced clusters of a sample. Each vector has one copy.
    Cells {
        /// Number of cells, `1..=`[`CELLS_MAX`], and at most one for every [`ROWS_PER_CELL`] rows
        /// of the sample. With fewer cells than shards some shards stay empty.
        cells: usize,
        /// Share of the true neighbours that the visited partitions must hold, in `(0, 1]`.
        recall_target: f32,
    },
    /// Hash families whose values lie along a space-filling curve. Each vector has up to `families`
    /// copies.
    Lsh {
        /// Order of the cells of the grid of hash values.
        curve: Curve,
        /// Number of families, `1..=`[`FAMILIES_MAX`].
        families: usize,
        /// Hashes of one family, which are the dimensions of the curve, `1..=`[`HASHES_MAX`].
        hashes: usize,
        /// Width of a hash bucket, finite and above 0, in the unit of the vectors (under cosine
        /// their length is 1). A small width is safe, since training scales the hashes to the
        /// sample.
        width: f32,
        /// Bits of each hash in the code, `1..=16`. Training uses fewer if `hashes × bits` does not
        /// fit the code: 10 hashes and 8 families leave 6 bits each.
        bits: u32,
    },
    /// A hash of the id. Every query visits every partition.
    Id,
}

impl RouteSettings {
    /// Checks these settings.
    ///
    /// Errors: `Invalid`, with a sentence that names the wrong setting.
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
