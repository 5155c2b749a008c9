//! How long a query waits for the slowest of its partitions, by drawing.

use vstream_vector::SplitMix;

/// Median and 99th percentile of a search over five merged segments, in milliseconds, which is
/// taken for the time of each partition.
const P50_MS: f64 = 2.4;
const P99_MS: f64 = 4.5;
/// The 99th percentile of the standard normal distribution.
const NORMAL_P99: f64 = 2.326;

/// Waits of queries, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waits {
    /// Mean, by which queries in flight are counted.
    pub mean: f64,
    /// Half of the queries wait at most as long.
    pub p50: f64,
    /// 99 % of the queries wait at most as long.
    pub p99: f64,
}

/// Draws `queries` queries, each of which waits for `fan_out` searches, rounded up or down by chance.
///
/// A search takes log-normal time, independent of the others. `queries` is 1 or more. The same seed
/// gives the same waits.
pub fn waits(fan_out: f64, queries: usize, seed: u64) -> Waits {
    assert!(queries >= 1, "a percentile needs a query");
    let mut random = SplitMix(seed);
    let sigma = (P99_MS / P50_MS).ln() / NORMAL_P99;
    let mut drawn: Vec<f64> = (0..queries)
        .map(|_| {
            let extra = f64::from(random.unit()) < fan_out.fract();
            let asked = (fan_out as usize + usize::from(extra)).max(1);
            let slowest = (0..asked).map(|_| random.normal()).fold(f32::MIN, f32::max);
            P50_MS * (sigma * f64::from(slowest)).exp()
        })
        .collect();
    drawn.sort_unstable_by(f64::total_cmp);
    Waits {
        mean: drawn.iter().sum::<f64>() / queries as f64,
        p50: drawn[queries / 2],
        p99: drawn[queries * 99 / 100],
    }
}
