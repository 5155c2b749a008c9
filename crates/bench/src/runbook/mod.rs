//! Runbooks: what a collection goes through, step by step, and how well it answers meanwhile.
//!
//! `form.rs` reads and writes the public streaming-track form, `generate/` makes runbooks over any
//! data, `run.rs` follows one on the engine, `truth.rs` scores the answers against brute force
//! over what lives at that step, `report.rs` and `plot.rs` show the result.

mod error;
mod form;
mod generate;
mod live;
mod matrix;
mod plot;
mod report;
mod run;
#[cfg(test)]
mod tests;
mod truth;

pub(crate) use generate::clusters;
pub(crate) use truth::Ground;

pub use error::RunbookError;
pub use form::{Runbook, Step, Walk};
pub use generate::{generate, Generated, Kind};
pub use live::LiveSet;
pub use matrix::Matrix;
pub use plot::svg;
pub use report::{EqualEffort, Guessed, SearchReport, Summary, Writes};
pub use run::{run, Amount, RunSettings};
