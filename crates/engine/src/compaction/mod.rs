//! Compaction: which segments are merged or dropped, how they are merged, and how the result is
//! published.

mod compactor;
mod merge;
mod plan;

pub(crate) use self::compactor::{Compactor, MergeBegun};
