//! Durations of many calls, and what threads cost.

use rustix::time::{clock_gettime, ClockId};
use serde::Serialize;

/// Percentiles of durations, in microseconds; all 0 of none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// Durations there are.
    pub count: usize,
    /// Half take no longer.
    pub p50: f64,
    /// One in a hundred takes longer.
    pub p99: f64,
    /// One in a thousand takes longer.
    pub p999: f64,
    /// The longest.
    pub max: f64,
    /// The mean.
    pub mean: f64,
}

impl Percentiles {
    /// Of nanoseconds, which are sorted on the way.
    pub fn of(times_ns: &mut [u64]) -> Percentiles {
        times_ns.sort_unstable();
        let (Some(last), count) = (times_ns.last(), times_ns.len()) else {
            return Percentiles::default();
        };
        let at = |share: f64| {
            let rank = ((count as f64 * share).ceil() as usize).clamp(1, count) - 1;
            times_ns[rank] as f64 / 1000.0
        };
        let sum: u64 = times_ns.iter().sum();
        Percentiles {
            count,
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: *last as f64 / 1000.0,
            mean: sum as f64 / count as f64 / 1000.0,
        }
    }

    /// As a cell of a table.
    pub fn cell(&self) -> String {
        format!("{:.1} / {:.1} / {:.1}", self.p50, self.p99, self.p999)
    }
}

/// Mean, and half the width of its 95 % confidence interval.
pub(crate) fn mean_and_margin(values: &[f64]) -> (f64, f64) {
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
    (mean, 1.96 * (squares / (n - 1.0).max(1.0) / n).sqrt())
}

/// Seconds that this thread has computed.
pub fn thread_cpu_seconds() -> f64 {
    seconds(ClockId::ThreadCPUTime)
}

/// Seconds that all threads of this process have computed together.
pub fn process_cpu_seconds() -> f64 {
    seconds(ClockId::ProcessCPUTime)
}

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_ranks_of_the_sorted_times() {
        let mut times: Vec<u64> = (1..=1000).rev().map(|us| us * 1000).collect();
        let found = Percentiles::of(&mut times);
        assert_eq!((found.count, found.p50, found.p99), (1000, 500.0, 990.0));
        assert_eq!((found.p999, found.max, found.mean), (999.0, 1000.0, 500.5));
        assert_eq!(Percentiles::of(&mut [7000]).p999, 7.0);
        assert_eq!(Percentiles::of(&mut []), Percentiles::default());
        assert_eq!(found.cell(), "500.0 / 990.0 / 999.0");
    }

    #[test]
    fn a_thread_costs_no_more_than_its_process() {
        let (thread, process) = (thread_cpu_seconds(), process_cpu_seconds());
        let sum = (0..3_000_000u64).fold(0u64, |sum, x| sum.wrapping_add(std::hint::black_box(x)));
        assert!(sum > 0);
        let thread = thread_cpu_seconds() - thread;
        assert!(thread > 0.0 && process_cpu_seconds() - process >= thread * 0.9);
    }
}
