//! Which rows are answered: the best, at most n per value, the best of each value, two lists joined.

mod best;
mod diversify;
mod fuse;
mod group_by;
#[cfg(test)]
mod tests;
mod value_key;

pub use best::{by_score, AnswerRow, Best, Ranked};
pub use diversify::Diversify;
pub use fuse::{reciprocal_rank_fusion, Fused, RankedList, FUSION_CONSTANT};
pub use group_by::{AnswerGroup, GroupBy, TooManyRows};
pub use value_key::grouping_column;
