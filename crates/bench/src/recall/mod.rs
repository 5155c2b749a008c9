//! Recall is a setting that holds: on which data, for which k and target, and in which place?
//!
//! 1. [`Case`] names data, k, target, place and filter; [`table`] lists those of `make bench-recall`.
//! 2. `data.rs` reads or draws the rows and the held-out queries, none of which is a row.
//! 3. `ground.rs` finds the true neighbours by brute force and keeps them on disk.
//! 4. `run.rs` brings an engine into the place through the interface that users have, and asks.
//! 5. `selected.rs` has the filters, and what the rows carry for them.
//! 6. `report.rs` compares what was found with the target and with the engine's own estimate.
//!
//! `moved.rs` is one case more: a row that moves a little at each write must stay the first answer
//! to its own vector.

mod case;
mod data;
mod ground;
mod moved;
mod report;
mod run;
mod selected;
#[cfg(test)]
mod tests;

pub use case::{table, Case, Place};
pub use data::{DataName, DataSet};
pub use ground::GroundCache;
pub use moved::{moved, MovedRow};
pub use report::{markdown, Row};
pub use run::{run, RunSettings};
pub use selected::Selected;
