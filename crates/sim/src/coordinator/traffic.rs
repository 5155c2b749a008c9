//! Arrivals of queries.

use vstream_vector::SplitMix;

/// Nanoseconds of a second.
pub const SECOND: f64 = 1e9;
/// Queries of a minute in StreamRAG's scenarios.
const PER_MINUTE: f64 = 10_000.0;
/// Minutes of a run.
const MINUTES: usize = 1;
/// Seconds of a minute before its burst, so that a law has seen the quiet rate.
const BEFORE_S: f64 = 20.0;

/// A time during which the rate moves from one value to another in a straight line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// Its length.
    pub seconds: f64,
    /// Queries per second where it begins.
    pub from: f64,
    /// Queries per second where it ends.
    pub to: f64,
}

/// Queries that arrive at random, at a rate that changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// As tables have it.
    pub name: &'static str,
    /// One after the other.
    pub phases: Vec<Phase>,
}

fn steady(seconds: f64, rate: f64) -> Phase {
    Phase { seconds, from: rate, to: rate }
}

impl Traffic {
    /// Always the same rate.
    pub fn steady(seconds: f64, rate: f64) -> Traffic {
        Traffic { name: "steady", phases: vec![steady(seconds, rate)] }
    }

    /// Minutes of StreamRAG: 10,000 queries, `burst` of them within `burst_s` seconds.
    pub fn minutes(name: &'static str, minutes: usize, burst: f64, burst_s: f64) -> Traffic {
        let quiet = (PER_MINUTE - burst) / (60.0 - burst_s);
        let minute = [
            steady(BEFORE_S, quiet),
            steady(burst_s, burst / burst_s),
            steady(60.0 - BEFORE_S - burst_s, quiet),
        ];
        Traffic { name, phases: minute.repeat(minutes) }
    }

    /// Low as the paper's words say it, 1,000 within ten seconds: no burst, since 180 per second follow.
    pub fn low() -> Traffic {
        Traffic::minutes("Low", MINUTES, 1_000.0, 10.0)
    }

    /// Medium as the paper's words say it: 3,000 within ten seconds.
    pub fn medium() -> Traffic {
        Traffic::minutes("Medium", MINUTES, 3_000.0, 10.0)
    }

    /// High as the paper's words say it: 5,000 within ten seconds.
    pub fn high() -> Traffic {
        Traffic::minutes("High", MINUTES, 5_000.0, 10.0)
    }

    /// High in clumps: 5,000 within one second.
    pub fn high_clumped() -> Traffic {
        Traffic::minutes("High, clumped", MINUTES, 5_000.0, 1.0)
    }

    /// All that the laws are compared over.
    pub fn all() -> Vec<Traffic> {
        vec![
            Traffic::low(),
            Traffic::medium(),
            Traffic::high(),
            Traffic::minutes("Low, clumped", MINUTES, 1_000.0, 1.0),
            Traffic::minutes("Medium, clumped", MINUTES, 3_000.0, 1.0),
            Traffic::high_clumped(),
            Traffic {
                name: "on and off",
                phases: [steady(5.0, 50.0), steady(5.0, 500.0)].repeat(12),
            },
            Traffic {
                name: "slow ramps",
                phases: vec![
                    Phase { seconds: 60.0, from: 100.0, to: 1_000.0 },
                    Phase { seconds: 60.0, from: 1_000.0, to: 100.0 },
                ],
            },
            // A fifth more than one replica answers.
            Traffic::steady(120.0, 240.0),
        ]
    }

    /// The same with rates that are `factor` times as high.
    #[must_use]
    pub fn times(mut self, factor: f64) -> Traffic {
        for phase in &mut self.phases {
            phase.from *= factor;
            phase.to *= factor;
        }
        self
    }

    /// Seconds of all phases.
    pub fn seconds(&self) -> f64 {
        self.phases.iter().map(|phase| phase.seconds).sum()
    }

    /// Times of arrival in nanoseconds, ascending: a Poisson process with the rate of each moment.
    pub fn arrivals(&self, seed: u64) -> Vec<u64> {
        let (mut random, mut times, mut begins) = (SplitMix(seed), Vec::new(), 0.0);
        for phase in &self.phases {
            // At the highest rate of the phase; each arrival is kept with the share of that rate.
            let most = phase.from.max(phase.to);
            // Nothing arrives at a rate of 0, since it divides by it.
            let mut at = exponential(&mut random) / most;
            while at < phase.seconds {
                let rate = phase.from + (phase.to - phase.from) * at / phase.seconds;
                if uniform(&mut random) * most < rate {
                    times.push(((begins + at) * SECOND) as u64);
                }
                at += exponential(&mut random) / most;
            }
            begins += phase.seconds;
        }
        times
    }
}

/// A number in `[0, 1)` with 53 random bits.
pub(super) fn uniform(random: &mut SplitMix) -> f64 {
    (random.next() >> 11) as f64 / (1u64 << 53) as f64
}

/// Exponentially distributed with mean 1.
pub(super) fn exponential(random: &mut SplitMix) -> f64 {
    -(1.0 - uniform(random)).ln()
}
