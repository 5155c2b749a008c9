//! KEDA's Kafka scaler: backlog / lag threshold at each poll, released after a cool-down.

use super::release::{Hysteresis, Release};
use super::{whole, Law};
use crate::coordinator::error::{seconds, setting, CoordinatorError};
use crate::coordinator::observation::Observation;

/// Settings of [`Keda`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KedaSettings {
    /// `lagThreshold`: queries that wait, per replica; above 0.
    pub lag: f64,
    /// `pollingInterval` in seconds.
    pub poll_s: f64,
    /// Seconds from the start to the first poll: the poll knows nothing of the traffic.
    pub first_s: f64,
    /// Seconds for which the largest number is kept.
    pub cool_down_s: f64,
}

impl Default for KedaSettings {
    /// Polls every 30 s and keeps for 300 s, as KEDA does; a hundred queries per replica.
    fn default() -> KedaSettings {
        KedaSettings { lag: 100.0, poll_s: 30.0, first_s: 0.0, cool_down_s: 300.0 }
    }
}

/// KEDA's law.
#[derive(Debug)]
pub struct Keda {
    settings: KedaSettings,
    release: Hysteresis,
    /// `None` until the first observation.
    next_s: Option<f64>,
    wanted: u32,
}

impl Keda {
    /// Errors: `Setting`.
    pub fn new(settings: KedaSettings) -> Result<Keda, CoordinatorError> {
        let KedaSettings { lag, poll_s, first_s, cool_down_s } = settings;
        setting("the lag", "above 0", lag, lag > 0.0)?;
        seconds("the poll", poll_s)?;
        let fits = first_s >= 0.0 && first_s <= poll_s;
        setting("the first poll", "0 s to a poll", first_s, fits)?;
        let release = Release::Hold { least_s: cool_down_s, starts: 0.0 };
        release.check()?;
        Ok(Keda { settings, release: Hysteresis::new(release), next_s: None, wanted: 1 })
    }
}

impl Law for Keda {
    fn name(&self) -> &'static str {
        "KEDA"
    }

    fn replicas(&mut self, seen: &Observation) -> u32 {
        let next_s = *self.next_s.get_or_insert(seen.time_s + self.settings.first_s);
        if seen.time_s < next_s - 1e-6 {
            return self.wanted;
        }
        self.next_s = Some(seen.time_s + self.settings.poll_s);
        let needed = whole(seen.backlog as f64 / self.settings.lag).max(1);
        self.wanted = self.release.settle(needed, seen);
        self.wanted
    }
}
