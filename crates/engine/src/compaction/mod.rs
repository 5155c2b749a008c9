//! Compaction: chooses segments to merge or drop, merges them, and publishes the result.

mod compactor;
mod graph;
mod merge;
mod part;
mod plan;

pub(crate) use self::compactor::{Compactor, MergeBegun};
pub(crate) use self::plan::Occasion;
