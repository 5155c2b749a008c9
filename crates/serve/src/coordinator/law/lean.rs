//! Replicas for what exceeds one of them, and for the backlog by a deadline; soon released.
//!
//! N = ⌈max(0, r₁ − μ) / μ + B / (D μ)⌉, with the rate r₁ of arrivals over the last second, the rate μ
//! of a replica, all open queries B, and a deadline D of two seconds. Of the replicas that are there
//! ⌈min(r₁, r₂₀) / μ⌉ stay, which a rate needs that lasts: without that a steady rate above that of one replica
//! would start one and stop it again for ever, while all queries wait. A burst of ten seconds raises r₂₀ late, so it
//! costs hardly more.

use super::recent::Recent;
use super::release::{Hysteresis, Release};
use super::{whole, Law};
use crate::coordinator::error::{seconds, CoordinatorError};
use crate::coordinator::observation::Observation;

/// The span of the rate, and that of a rate that lasts.
const SPAN_S: f64 = 1.0;
const LASTING_S: f64 = 20.0;

/// Settings of [`Lean`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeanSettings {
    /// Seconds within which the backlog should be gone, D.
    pub drain_s: f64,
    /// When replicas go.
    pub release: Release,
}

impl Default for LeanSettings {
    fn default() -> LeanSettings {
        LeanSettings { drain_s: 2.0, release: Release::Hold { least_s: 1.0, starts: 0.0 } }
    }
}

/// As few replicas as drain the backlog in time.
#[derive(Debug)]
pub struct Lean {
    settings: LeanSettings,
    arrivals: Recent,
    release: Hysteresis,
}

impl Lean {
    /// Errors: `Setting`.
    pub fn new(settings: LeanSettings) -> Result<Lean, CoordinatorError> {
        seconds("the deadline of the backlog", settings.drain_s)?;
        settings.release.check()?;
        let release = Hysteresis::new(settings.release);
        Ok(Lean { settings, arrivals: Recent::new(LASTING_S), release })
    }
}

impl Law for Lean {
    fn name(&self) -> &'static str {
        "lean"
    }

    fn replicas(&mut self, seen: &Observation) -> u32 {
        self.arrivals.add(seen.time_s, seen.arrivals);
        let of_one = seen.rate_of_replica();
        let rate = self.arrivals.rate(seen.time_s, SPAN_S);
        let needed = ((rate - of_one).max(0.0) + seen.open() / self.settings.drain_s) / of_one;
        let lasting = rate.min(self.arrivals.rate(seen.time_s, LASTING_S));
        let stay = whole(lasting / of_one).min(seen.replicas());
        self.release.settle(whole(needed).max(stay).max(1), seen)
    }
}
