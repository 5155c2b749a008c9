//! How many replicas should run, how large a batch may be, and with which effort queries are answered.
//!
//! 1. Whoever dispatches queries says now and then what it sees: an [`Observation`].
//! 2. A [`Law`] says how many replicas there should be. It is a state machine without a clock.
//! 3. The [`Coordinator`] holds that number within its bounds and adds what costs nothing to change:
//!    the size of a batch and the effort of a query. The result is a [`Decision`].
//! 4. [`reach`] starts and stops [`Replicas`] until there are so many; [`Routes`] says which of them
//!    gets a query. [`Steering`] does all of this, tick by tick.
//!
//! The laws are those of StreamRAG, of its baseline PassiveRAG, of KEDA, and ours. `crates/sim` runs
//! them all over the same traffic (`docs/benchmarks.md`).

mod decide;
mod error;
mod fleet;
mod law;
mod observation;
mod routes;
mod steering;
#[cfg(test)]
mod tests;

pub use self::decide::{Coordinator, CoordinatorSettings, Dispatch, RecallRange, REPLICAS_MAX};
pub use self::error::CoordinatorError;
pub use self::fleet::{reach, CommandLine, Processes, Replica, ReplicaId, ReplicaState, Replicas};
pub use self::law::{
    Fixed, Forecast, ForecastSettings, Keda, KedaSettings, Law, Lean, LeanSettings, Passive,
    PassiveSettings, Release, StreamRag, StreamRagSettings,
};
pub use self::observation::{Decision, Observation};
pub use self::routes::Routes;
pub use self::steering::{Steering, SteeringSettings};
