//! A forecast of the rate, and the backlog by a deadline, over the utilisation of a replica.
//!
//! 1. r_W is the rate of arrivals over the last W seconds. The forecast is the largest of r₀.₅, r₁ and
//!    r₃, the first two less what chance alone gives them: λ = max(r₀.₅ − 2 √(r₀.₅ / 0.5), r₁ − √r₁,
//!    r₃).
//! 2. Two deviations are added, those of a Poisson process over three seconds: λ + 2 √(λ / 3). The
//!    deviation of the samples would be wrong, since a step inflates it.
//! 3. N = ⌈(λ + B / D) / (ρ μ)⌉, with all open queries B, a deadline D, utilisation ρ, and the rate μ
//!    of a replica.

use super::recent::Recent;
use super::release::{Hysteresis, Release};
use super::{whole, Law};
use crate::coordinator::error::{seconds, setting, CoordinatorError};
use crate::coordinator::observation::Observation;

/// The longest span of a rate.
const SPAN_S: f64 = 3.0;

/// Settings of [`Forecast`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ForecastSettings {
    /// Share of its time that a replica should be busy, ρ: above 0, 1 at most.
    pub utilisation: f64,
    /// Seconds within which the backlog should be gone, D.
    pub drain_s: f64,
    /// When replicas go.
    pub release: Release,
}

impl Default for ForecastSettings {
    fn default() -> ForecastSettings {
        ForecastSettings { utilisation: 0.85, drain_s: 1.0, release: Release::HELD }
    }
}

/// Forecast and backlog.
#[derive(Debug)]
pub struct Forecast {
    settings: ForecastSettings,
    arrivals: Recent,
    release: Hysteresis,
}

impl Forecast {
    /// Errors: `Setting`.
    pub fn new(settings: ForecastSettings) -> Result<Forecast, CoordinatorError> {
        let ForecastSettings { utilisation, drain_s, release } = settings;
        let fits = utilisation > 0.0 && utilisation <= 1.0;
        setting("the utilisation", "above 0, 1 at most", utilisation, fits)?;
        seconds("the deadline of the backlog", drain_s)?;
        release.check()?;
        let release = Hysteresis::new(release);
        Ok(Forecast { settings, arrivals: Recent::new(SPAN_S), release })
    }
}

impl Law for Forecast {
    fn name(&self) -> &'static str {
        "forecast"
    }

    fn replicas(&mut self, seen: &Observation) -> u32 {
        self.arrivals.add(seen.time_s, seen.arrivals);
        let rate = |span_s: f64| self.arrivals.rate(seen.time_s, span_s);
        let (half, one) = (rate(0.5), rate(1.0));
        let least = (half - 2.0 * (half / 0.5).sqrt()).max(one - one.sqrt()).max(rate(SPAN_S));
        let rate = least + 2.0 * (least / SPAN_S).sqrt();
        let ForecastSettings { utilisation, drain_s, .. } = self.settings;
        let load = (rate + seen.open() / drain_s) / (utilisation * seen.rate_of_replica());
        self.release.settle(whole(load).max(1), seen)
    }
}
