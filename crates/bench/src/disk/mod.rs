//! Collections larger than memory: what becomes of them while rows are replaced, and what they cost.
//!
//! 1. [`Plan`] says in a seeded order which rows live first, and which are replaced in each epoch.
//!    It is made once, with the exact answers at every epoch ([`truth`]), and kept in files.
//! 2. [`updates`] follows a plan with an engine that has a limit to memory; [`fresh`] builds the rows
//!    of one epoch anew beside it. [`larger`] fills an engine with rows that do not fit.
//! 3. [`remote`] moves most segments to a far store, and times queries by what they read there.
//! 4. [`reopen`] measures how long a collection takes to answer again.
//! 5. [`forms`] compares sealed segments, graphs and clusters, at equal memory.
//!
//! The measured process reads rows, plan and truth from the disk as it needs them, so that the peak
//! of its memory is that of the engine; the queries are in memory before the engine is made.

pub mod forms;
pub mod fresh;
mod kept;
pub mod larger;
mod plan;
pub mod process;
pub mod remote;
pub mod reopen;
mod scoring;
mod source;
pub mod truth;
pub mod updates;

#[cfg(test)]
mod tests;

pub use kept::Kept;
pub use plan::{Order, Plan, PlanSettings};
pub use scoring::{ask, recall_of, Asked, Made, Moment};
pub use source::RowFile;

/// Neighbours asked for.
pub const K: usize = 10;
