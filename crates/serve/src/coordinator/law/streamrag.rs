//! StreamRAG's traffic-aware provisioning.
//!
//! 1. The volume x of a batch is read before it is fetched, and kept with those before: w of them, the
//!    current one included.
//! 2. Z = (x − M) / σ, with mean M and population deviation σ of the w volumes. All equal: no burst.
//! 3. Z ≥ α is a burst: ⌈x / β⌉ replicas are needed, and missing ones are added. The batch waits for
//!    them.
//! 4. Otherwise one is enough. The paper does not say when the others go: see [`Release`].

use std::collections::VecDeque;

use super::release::{Hysteresis, Release};
use super::{whole, Law};
use crate::coordinator::error::{seconds, setting, CoordinatorError};
use crate::coordinator::observation::Observation;

/// Settings of [`StreamRag`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamRagSettings {
    /// Volumes that are compared, the current one included: 2 to 10,000. The paper does not say it.
    pub window: usize,
    /// Deviations above the mean that make a burst: 0 to 100. None is above √(window − 1).
    pub alpha: f64,
    /// Queries of a replica; above 0.
    pub beta: f64,
    /// Seconds from a volume to the next, at least.
    pub period_s: f64,
    /// When replicas go.
    pub release: Release,
}

impl Default for StreamRagSettings {
    /// α and β as in the paper, ten volumes of a second, nothing held.
    fn default() -> StreamRagSettings {
        StreamRagSettings {
            window: 10,
            alpha: 0.5,
            beta: 800.0,
            period_s: 1.0,
            release: Release::AtOnce,
        }
    }
}

/// StreamRAG's law.
#[derive(Debug)]
pub struct StreamRag {
    settings: StreamRagSettings,
    volumes: VecDeque<f64>,
    release: Hysteresis,
    next_s: f64,
    wanted: u32,
}

impl StreamRag {
    /// Errors: `Setting`.
    pub fn new(settings: StreamRagSettings) -> Result<StreamRag, CoordinatorError> {
        let StreamRagSettings { window, alpha, beta, period_s, release } = settings;
        setting("the window", "2 to 10,000", window as f64, (2..=10_000).contains(&window))?;
        setting("alpha", "0 to 100", alpha, (0.0..=100.0).contains(&alpha))?;
        setting("beta", "above 0", beta, beta > 0.0)?;
        seconds("the period", period_s)?;
        release.check()?;
        Ok(StreamRag {
            settings,
            volumes: VecDeque::new(),
            release: Hysteresis::new(release),
            next_s: f64::NEG_INFINITY,
            wanted: 1,
        })
    }

    /// Whether the newest volume is a burst.
    fn is_burst(&self, volume: f64) -> bool {
        let count = self.volumes.len() as f64;
        let mean = self.volumes.iter().sum::<f64>() / count;
        let variance = self.volumes.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
        variance > 0.0 && (volume - mean) / variance.sqrt() >= self.settings.alpha
    }
}

impl Law for StreamRag {
    fn name(&self) -> &'static str {
        "StreamRAG"
    }

    fn replicas(&mut self, seen: &Observation) -> u32 {
        // A microsecond earlier is not earlier.
        if !seen.is_fetch || seen.time_s < self.next_s - 1e-6 {
            return self.wanted;
        }
        self.next_s = seen.time_s + self.settings.period_s;
        if self.volumes.len() == self.settings.window {
            self.volumes.pop_front();
        }
        let volume = seen.backlog as f64;
        self.volumes.push_back(volume);
        let needed = match self.is_burst(volume) {
            true => whole(volume / self.settings.beta).max(seen.replicas()),
            false => 1,
        };
        self.wanted = self.release.settle(needed, seen);
        self.wanted
    }

    fn awaits_replicas(&self) -> bool {
        true
    }
}
