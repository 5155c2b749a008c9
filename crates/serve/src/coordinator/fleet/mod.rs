//! Replicas: which there are, and how there come to be more or fewer.

mod processes;
#[cfg(test)]
mod tests;

pub use self::processes::{CommandLine, Processes};

use std::fmt;
use std::net::SocketAddr;

use super::error::CoordinatorError;

/// A replica of a fleet; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId(pub u64);

impl fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a replica does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaState {
    /// It was started and has not said where it listens.
    Starting,
    /// It takes queries.
    Ready,
    /// It was told to stop, and answers what it has.
    Stopping,
}

/// One replica.
#[derive(Clone, Debug, PartialEq)]
pub struct Replica {
    /// Its id.
    pub id: ReplicaId,
    /// What it does.
    pub state: ReplicaState,
    /// Seconds from its start until it was ready; `None` before.
    pub start_s: Option<f64>,
}

/// A fleet of replicas: processes here, pods elsewhere.
///
/// Orders return at once. What came of them is seen in [`Replicas::list`].
pub trait Replicas {
    /// Orders one more. Errors: `Full`, `Failing`, `Process`.
    fn start(&mut self) -> Result<ReplicaId, CoordinatorError>;

    /// Tells one to answer what it has and to end. Twice is as good as once. Errors: `Unknown`,
    /// `Process`.
    fn stop(&mut self, id: ReplicaId) -> Result<(), CoordinatorError>;

    /// All that have not ended, the oldest first.
    fn list(&mut self) -> Vec<Replica>;

    /// Where a replica listens; `None` before it is ready and after it has ended.
    fn address(&self, id: ReplicaId) -> Option<SocketAddr>;
}

/// Starts or stops replicas until `wanted` run or start. Those that start are stopped before those that
/// run, the newest first. Errors: as [`Replicas::start`] and [`Replicas::stop`]; what was ordered
/// before stays so.
pub fn reach(replicas: &mut dyn Replicas, wanted: u32) -> Result<(), CoordinatorError> {
    let mut there = replicas.list();
    there.retain(|replica| replica.state != ReplicaState::Stopping);
    for _ in there.len()..wanted as usize {
        replicas.start()?;
    }
    there.reverse();
    there.sort_by_key(|replica| replica.state == ReplicaState::Ready);
    let surplus = there.len().saturating_sub(wanted as usize);
    there[..surplus].iter().try_for_each(|replica| replicas.stop(replica.id))
}
