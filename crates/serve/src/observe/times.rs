//! How long something took, many times: counts by buckets of time.

use std::array;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::{MetricType, TypedMetric};

/// Buckets between a time and its double: a percentile is some 9 % off at most.
const PARTS: usize = 4;
/// The upper bound of the first bucket, in seconds.
const FIRST: f64 = 6.25e-6;
/// Buckets with an upper bound: up to 26 s.
const BOUNDED: usize = 89;
/// The first bucket whose bound metrics show: 50 us. They show one bound of each doubling.
const SHOWN_FROM: usize = 12;

/// Counts by bucket. The last bucket has no upper bound.
pub(crate) type Counts = [u64; BOUNDED + 1];

/// Counts of times, shared by whoever clones it. Threads count without waiting for each other.
#[derive(Clone)]
pub(crate) struct Times(Arc<Inner>);

struct Inner {
    nanos: AtomicU64,
    buckets: [AtomicU64; BOUNDED + 1],
}

impl Default for Times {
    fn default() -> Times {
        let buckets = array::from_fn(|_| AtomicU64::new(0));
        Times(Arc::new(Inner { nanos: AtomicU64::new(0), buckets }))
    }
}

impl fmt::Debug for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Times").field("count", &self.counts().iter().sum::<u64>()).finish()
    }
}

impl Times {
    pub(crate) fn observe(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.0.nanos.fetch_add(nanos, Ordering::Relaxed);
        self.0.buckets[bucket(took.as_secs_f64())].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> Counts {
        array::from_fn(|at| self.0.buckets[at].load(Ordering::Relaxed))
    }
}

fn bucket(seconds: f64) -> usize {
    let doublings = (seconds / FIRST).max(1.0).log2();
    ((doublings * PARTS as f64).ceil() as usize).min(BOUNDED)
}

/// The upper bound of a bucket, in seconds.
fn bound(bucket: usize) -> f64 {
    FIRST * (bucket as f64 / PARTS as f64).exp2()
}

/// The time that a share of all does not exceed; `None` of nothing.
///
/// * `share`: 0 to 1.
pub(crate) fn percentile(counts: &Counts, share: f64) -> Option<Duration> {
    let all: u64 = counts.iter().sum();
    let mut left = (share * all as f64).max(f64::MIN_POSITIVE);
    for (at, &count) in counts.iter().enumerate() {
        if count > 0 && left <= count as f64 {
            let below = if at == 0 { 0.0 } else { bound(at - 1) };
            // Nobody knows how long the longest took: at least the last bound.
            let above = if at == BOUNDED { below } else { bound(at) };
            let seconds = below + (above - below) * left / count as f64;
            return Some(Duration::from_secs_f64(seconds));
        }
        left -= count as f64;
    }
    None
}

impl TypedMetric for Times {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Times {
    fn encode(&self, mut encoder: MetricEncoder) -> fmt::Result {
        let counts = self.counts();
        let mut shown: Vec<(f64, u64)> = Vec::new();
        let mut waiting = 0;
        for (at, count) in counts.iter().enumerate() {
            waiting += count;
            if at == BOUNDED {
                shown.push((f64::INFINITY, waiting));
            } else if at >= SHOWN_FROM && (at - SHOWN_FROM).is_multiple_of(PARTS) {
                shown.push((bound(at), waiting));
                waiting = 0;
            }
        }
        let seconds = Duration::from_nanos(self.0.nanos.load(Ordering::Relaxed)).as_secs_f64();
        encoder.encode_histogram::<NoLabelSet>(seconds, counts.iter().sum(), &shown, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_near_the_times_that_were_counted() {
        let times = Times::default();
        assert_eq!(percentile(&times.counts(), 0.5), None);
        // 10 us to 10 ms, evenly.
        for micros in (10..=10_000).step_by(10) {
            times.observe(Duration::from_micros(micros));
        }
        for (share, micros) in [(0.01, 100.0), (0.5, 5_000.0), (0.99, 9_900.0)] {
            let found = percentile(&times.counts(), share).expect("times").as_secs_f64() * 1e6;
            assert!((found / micros - 1.0).abs() < 0.1, "{share}: {found}, not {micros}");
        }
        let whole = percentile(&times.counts(), 1.0).expect("times");
        assert!(whole >= Duration::from_millis(10), "{whole:?}");
    }

    #[test]
    fn times_of_any_length_have_a_bucket() {
        let times = Times::default();
        for nanos in [0, 1, 6_250, 6_251, u64::MAX] {
            times.observe(Duration::from_nanos(nanos));
        }
        assert_eq!(times.counts()[..2], [3, 1]);
        assert_eq!(times.counts()[BOUNDED], 1);
        let longest = percentile(&times.counts(), 1.0).expect("times");
        assert!((20.0..30.0).contains(&longest.as_secs_f64()), "{longest:?}");
    }
}
