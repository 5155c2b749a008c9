//! Which cells should change hands so that no partition has much more to do than the others.
//!
//! Policy `cells`:
//!
//! 1. Do nothing while the fullest partition has less than `trigger` times the mean.
//! 2. Take the fullest partition and the emptiest one. Of the cells that would overfill neither, move
//!    the one whose queries find most of their answers over there, to the least loaded shard there.
//! 3. Repeat until the fullest has at most `target` times the mean, or nothing helps any more, or as
//!    much has been moved as may be. Each cell moves at most once.
//!
//! Policy `boundary` is that of the VStream paper: partitions keep their order on the line and each
//! right boundary shrinks or grows until every partition has the mean. It moves more, because a
//! surplus passes through all partitions in between, and keeps neighbours together.
//!
//! A gap between `trigger` and `target` and a least gain keep a steady load from moving anything
//! twice.

mod boundary;
mod layout;
mod plan;

#[cfg(test)]
mod tests;

pub use plan::{Plan, Policy, Rebalance, RetrainSettings};
