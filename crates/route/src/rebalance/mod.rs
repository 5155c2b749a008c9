//! Plans which cells move to another partition, so that no partition has much more load than the
//! others.
//!
//! Policy `cells`:
//!
//! 1. Do nothing while the load of the fullest partition is below `trigger` times the mean.
//! 2. Take the fullest and the emptiest partition. Consider the cells that would overfill neither
//!    of them. Move the one whose queries find most of their neighbours in the emptiest partition,
//!    to the least loaded shard there.
//! 3. Repeat until the fullest partition has at most `target` times the mean, no move helps, or the
//!    plan has moved as much as it may. Each cell moves at most once.
//!
//! Policy `boundary` is the policy of the VStream paper. Partitions keep their order on the line,
//! and each right boundary shifts until every partition has the mean load. It moves more, because a
//! surplus passes through all partitions in between, but it keeps neighbours together.
//!
//! The gap between `trigger` and `target` and a least gain prevent a steady load from moving
//! anything twice.

mod boundary;
mod intervals;
mod layout;
mod plan;

#[cfg(test)]
mod tests;

pub use plan::{Plan, Policy, Rebalance, RetrainSettings};
