//! How long a query takes on a replica of one thread.

use serde_json::{json, Value};
use vstream_vector::SplitMix;

use super::traffic::{exponential, uniform, SECOND};

/// Quantiles that are kept of measured times.
const QUANTILES: usize = 1_000;

/// Times of one query, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub enum Service {
    /// Always the same: for the check against M/D/1.
    Constant(f64),
    /// Exponential with this mean: for the check against M/M/1.
    Exponential(f64),
    /// Log-normal with this mean, and a 99th percentile of three times the mean.
    LogNormal(f64),
    /// As measured: ascending quantiles, evenly spaced from the least to the most.
    Measured(Vec<f64>),
}

/// Deviation of the logarithm of a log-normal time whose 99th percentile is three times its mean: the
/// smaller root of σ² / 2 − 2.326 σ + ln 3 = 0.
const LOG_DEVIATION: f64 = 0.5336;

impl Service {
    /// Of measured times in seconds. `None` if there are none, or one is not above 0.
    pub fn measured(mut times_s: Vec<f64>) -> Option<Service> {
        times_s.sort_by(f64::total_cmp);
        if times_s.is_empty() || !times_s.iter().all(|time| time.is_finite() && *time > 0.0) {
            return None;
        }
        let last = times_s.len() - 1;
        let rank = |at: usize| (at * last + QUANTILES / 2) / QUANTILES;
        Some(Service::Measured((0..=QUANTILES).map(|at| times_s[rank(at)]).collect()))
    }

    /// Mean seconds.
    pub fn mean(&self) -> f64 {
        match self {
            Service::Constant(mean) | Service::Exponential(mean) | Service::LogNormal(mean) => {
                *mean
            }
            // The mean of straight lines between quantiles.
            Service::Measured(quantiles) => {
                let halves = quantiles.windows(2).map(|two| (two[0] + two[1]) / 2.0);
                halves.sum::<f64>() / (quantiles.len() - 1) as f64
            }
        }
    }

    /// Nanoseconds of one query; at least 1.
    pub fn draw(&self, random: &mut SplitMix) -> u64 {
        let seconds = match self {
            Service::Constant(mean) => *mean,
            Service::Exponential(mean) => mean * exponential(random),
            Service::LogNormal(mean) => {
                let normal = f64::from(random.normal());
                mean * (LOG_DEVIATION * normal - LOG_DEVIATION.powi(2) / 2.0).exp()
            }
            Service::Measured(quantiles) => {
                let at = uniform(random) * (quantiles.len() - 1) as f64;
                let (low, share) = (at as usize, at.fract());
                quantiles[low] + (quantiles[low + 1] - quantiles[low]) * share
            }
        };
        ((seconds * SECOND) as u64).max(1)
    }

    /// For a report.
    pub fn json(&self) -> Value {
        match self {
            Service::Constant(mean) => json!({"constant_s": mean}),
            Service::Exponential(mean) => json!({"exponential_s": mean}),
            Service::LogNormal(mean) => json!({"log_normal_s": mean}),
            Service::Measured(quantiles) => {
                let at = |share: f64| quantiles[(share * (quantiles.len() - 1) as f64) as usize];
                json!({"mean_s": self.mean(), "p50_s": at(0.5), "p99_s": at(0.99), "max_s": at(1.0)})
            }
        }
    }
}
