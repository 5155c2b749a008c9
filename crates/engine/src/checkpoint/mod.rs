//! Checkpoints, which replace old logs, and shared states, which are files for others to copy.

mod logs;
mod share;
mod steps;
mod write;

pub use self::share::{SharedFile, SharedState};
pub(crate) use self::steps::{Checkpoints, Rows};
pub(crate) use self::write::Capture;
