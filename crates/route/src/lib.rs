//! Routing: which shard a vector belongs to, and which partitions may hold a query's neighbours.
//!
//! An *encoder* turns a vector into a code, a position on one line of 64 bits. A *template* maps
//! ranges of codes to shards, and a shard belongs to a partition. Three encoders exist:
//!
//! * `cells`: balanced clusters of a sample, numbered so that clusters which share neighbours
//!   are close on the line. One copy of each vector; a query visits few partitions.
//! * `lsh`: p-stable hash families whose values are strung on a space-filling curve (the VStream
//!   paper). One copy per family, less where families agree.
//! * `id`: a hash of the record's id. Perfect balance, and every query goes everywhere.
//!
//! Everything here is pure arithmetic: no files, no clock, no threads, no chance but the seed.
//! `docs/design/route.md` explains the choices with their measurements.

#![forbid(unsafe_code)]

mod cells;
mod error;
mod fan_out;
mod format;
mod id;
mod lsh;
mod moves;
mod partition;
mod random;
mod ranges;
mod rebalance;
mod settings;
mod space;
mod template;

#[cfg(test)]
mod tests;

pub use cells::LiveSample;
pub use error::{RouteError, RouteErrorKind};
pub use lsh::{Curve, Grid};
pub use moves::Move;
pub use partition::partition_of_shard;
pub use rebalance::{Plan, Policy, Rebalance, RetrainSettings};
pub use settings::{
    EncoderSpec, RouteSettings, CELLS_MAX, DIMENSION_MAX, FAMILIES_MAX, HASHES_MAX, ROWS_PER_CELL,
    SHARDS_MAX,
};
pub use template::{Placement, Template};
