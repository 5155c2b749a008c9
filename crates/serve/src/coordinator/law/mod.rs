//! Laws: how many replicas should there be?
//!
//! | law | rule | from |
//! |---|---|---|
//! | [`StreamRag`] | a burst by Z-score adds what the backlog needs | the paper of StreamRAG |
//! | [`Passive`] | one more while the backlog is above a threshold | its baseline |
//! | [`Keda`] | backlog / lag, at each poll | KEDA's Kafka scaler |
//! | [`Forecast`] | (forecast rate + backlog / deadline) / (utilisation x rate of a replica) | ours |
//! | [`Lean`] | what exceeds one replica, and half the backlog per second | ours, the default |
//! | [`Fixed`] | always the same | control |

mod forecast;
mod keda;
mod lean;
mod passive;
mod recent;
mod release;
mod streamrag;

pub use self::forecast::{Forecast, ForecastSettings};
pub use self::keda::{Keda, KedaSettings};
pub use self::lean::{Lean, LeanSettings};
pub use self::passive::{Passive, PassiveSettings};
pub use self::release::Release;
pub use self::streamrag::{StreamRag, StreamRagSettings};

use super::error::{setting, CoordinatorError};
use super::observation::Observation;

/// How many replicas should there be? A state machine: it has no clock, and does nothing.
pub trait Law: Send {
    /// The name, as tables have it.
    fn name(&self) -> &'static str;

    /// Replicas that should run, those that start among them. The caller holds the number within its
    /// bounds, and has checked what was seen.
    fn replicas(&mut self, seen: &Observation) -> u32;

    /// Whether a batch waits for the replicas that were started for it.
    fn awaits_replicas(&self) -> bool {
        false
    }
}

/// Always the same number: a control.
#[derive(Clone, Copy, Debug)]
pub struct Fixed(u32);

impl Fixed {
    /// So many replicas. Errors: `Setting` for none.
    pub fn new(replicas: u32) -> Result<Fixed, CoordinatorError> {
        setting("replicas", "1 or more", f64::from(replicas), replicas >= 1)?;
        Ok(Fixed(replicas))
    }
}

impl Law for Fixed {
    fn name(&self) -> &'static str {
        "static"
    }

    fn replicas(&mut self, _seen: &Observation) -> u32 {
        self.0
    }
}

/// A number of replicas from a quotient, rounded up; what is too large is the largest there is.
fn whole(replicas: f64) -> u32 {
    replicas.ceil() as u32
}
