//! PassiveRAG, the baseline of StreamRAG: one more replica while the backlog is above a threshold.

use super::release::{Hysteresis, Release};
use super::Law;
use crate::coordinator::error::{seconds, setting, CoordinatorError};
use crate::coordinator::observation::Observation;

/// Settings of [`Passive`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PassiveSettings {
    /// Queries that wait, from which one more replica is started; 0 or more.
    pub threshold: f64,
    /// Seconds from one decision to the next, at least.
    pub period_s: f64,
    /// When replicas go. The paper does not say it.
    pub release: Release,
}

impl Default for PassiveSettings {
    /// The threshold is the paper's.
    fn default() -> PassiveSettings {
        PassiveSettings { threshold: 1_500.0, period_s: 1.0, release: Release::HELD }
    }
}

/// PassiveRAG's law.
#[derive(Debug)]
pub struct Passive {
    settings: PassiveSettings,
    release: Hysteresis,
    next_s: f64,
    wanted: u32,
}

impl Passive {
    /// Errors: `Setting`.
    pub fn new(settings: PassiveSettings) -> Result<Passive, CoordinatorError> {
        let PassiveSettings { threshold, period_s, release } = settings;
        setting("the threshold", "0 or more", threshold, threshold >= 0.0)?;
        seconds("the period", period_s)?;
        release.check()?;
        let release = Hysteresis::new(release);
        Ok(Passive { settings, release, next_s: f64::NEG_INFINITY, wanted: 1 })
    }
}

impl Law for Passive {
    fn name(&self) -> &'static str {
        "PassiveRAG"
    }

    fn replicas(&mut self, seen: &Observation) -> u32 {
        if seen.time_s < self.next_s - 1e-6 {
            return self.wanted;
        }
        self.next_s = seen.time_s + self.settings.period_s;
        let needed = match seen.backlog as f64 > self.settings.threshold {
            true => seen.replicas().saturating_add(1),
            false => 1,
        };
        self.wanted = self.release.settle(needed, seen);
        self.wanted
    }
}
