//! Routing: this crate decides which shard stores a vector, and which partitions a query visits.
//!
//! An *encoder* turns a vector into a code, which is a position on one line of 64 bits. A
//! *template* maps ranges of codes to shards, and each shard belongs to a partition. There are
//! three encoders:
//!
//! * `cells` clusters a sample into balanced cells and numbers them so that cells which share
//!   neighbours are close on the line. Each vector has one copy, and a query visits few partitions.
//! * `lsh` computes p-stable hashes and orders their values along a space-filling curve (the
//!   VStream paper). Each hash family makes one copy, fewer where families name the same shard.
//! * `id` hashes the record's id. The load is perfectly balanced, and every query visits every
//!   partition.
//!
//! The crate is pure arithmetic: it uses no files, no clock and no threads, and all randomness
//! comes from the seed. `docs/design/route.md` explains the choices with measurements.
//!
//! A good first change: print a template as text: encoder, epoch, ranges (`src/template.rs`; its
//! test: `src/tests/training.rs`).

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
pub use lsh::{Curve, Grid, HASHES_MAX};
pub use moves::Move;
pub use partition::partition_of_shard;
pub use rebalance::{Plan, Policy, Rebalance, RetrainSettings};
pub use settings::{
    EncoderSpec, RouteSettings, CELLS_MAX, DIMENSION_MAX, FAMILIES_MAX, ROWS_PER_CELL, SHARDS_MAX,
};
pub use template::{Placement, Template};
