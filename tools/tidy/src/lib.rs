//! Style as a test: rules that a reader would otherwise have to check by eye.
//!
//! A rule takes files and returns sentences, one for each breach, each beginning with the place.
//! `tests/it` runs every rule twice: on this repository, where it must find nothing, and on a small
//! bad sample, where it must find something.

#![forbid(unsafe_code)]

mod crates;
mod graph;
mod imports;
mod links;
mod names;
mod packages;
mod source;
mod tree;

pub use crates::{tiers, unsafe_code, Package};
pub use imports::imports;
pub use links::links;
pub use names::{blobs, names};
pub use packages::package_cycles;
pub use source::{bare_matches, file_lengths, function_lengths, open_ends};
pub use tree::{files, packages, root, tracked_bytes, File};
