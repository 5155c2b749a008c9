//! Real data for demonstrations, tests and measurements.
//!
//! Each data set is one folder: `base.fbin` and `query.fbin` (`u32` rows, `u32` dimension, rows of
//! `f32`, little-endian), `base.words.txt` and `query.words.txt` where rows have names (line = row),
//! and `meta.json`, which is written last: a folder with it is complete.
//!
//! A runbook says which rows come, go and change, and when to search: see [`runbook`]. [`storage`]
//! measures codecs and segments, [`disk`] collections that are larger than memory, [`serve`] a server.
//!
//! A good first change: say which file of a data set is missing or short
//! (`src/dataset/folder.rs`).

#![forbid(unsafe_code)]

pub mod audits;
pub mod dataset;
pub mod disk;
pub mod ingest;
pub mod recall;
pub mod runbook;
pub mod serve;
pub mod storage;
mod times;

pub use times::Percentiles;
