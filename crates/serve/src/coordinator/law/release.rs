//! Hysteresis: when may replicas go?

use std::collections::VecDeque;

use crate::coordinator::error::{setting, CoordinatorError};
use crate::coordinator::observation::Observation;

/// When replicas go that are no longer wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Release {
    /// At once.
    AtOnce,
    /// When none of the last seconds has wanted them.
    Hold {
        /// Seconds at least.
        least_s: f64,
        /// As many times the start time of a replica, if that is longer.
        starts: f64,
    },
    /// One after so many seconds without a replica that was started or released.
    OnePer {
        /// Above 0.
        seconds: f64,
    },
}

impl Release {
    /// Two seconds, or three times what a start takes.
    pub const HELD: Release = Release::Hold { least_s: 2.0, starts: 3.0 };

    pub(super) fn check(&self) -> Result<(), CoordinatorError> {
        let day = |is: f64| (0.0..=86_400.0).contains(&is);
        match *self {
            Release::AtOnce => Ok(()),
            Release::Hold { least_s, starts } => {
                setting("the hold", "0 s to a day", least_s, day(least_s))?;
                let fits = (0.0..=1_000.0).contains(&starts);
                setting("starts of the hold", "0 to 1,000", starts, fits)
            }
            Release::OnePer { seconds } => setting(
                "the pause",
                "above 0 s, a day at most",
                seconds,
                seconds > 0.0 && day(seconds),
            ),
        }
    }
}

/// Holds replicas back from being released.
#[derive(Debug)]
pub(super) struct Hysteresis {
    release: Release,
    /// What was wanted lately, each less than the one before: the first is the largest.
    wanted: VecDeque<(f64, u32)>,
    /// When a replica was last started or released.
    moved_s: f64,
}

impl Hysteresis {
    pub(super) fn new(release: Release) -> Hysteresis {
        Hysteresis { release, wanted: VecDeque::new(), moved_s: f64::NEG_INFINITY }
    }

    /// Replicas that should be there if `wanted` are. Cost: O(1), amortised.
    pub(super) fn settle(&mut self, wanted: u32, seen: &Observation) -> u32 {
        match self.release {
            Release::AtOnce => wanted,
            Release::Hold { least_s, starts } => {
                let hold_s = least_s.max(starts * seen.start_s);
                while self.wanted.back().is_some_and(|&(_, other)| other <= wanted) {
                    self.wanted.pop_back();
                }
                self.wanted.push_back((seen.time_s, wanted));
                while self.wanted.front().is_some_and(|&(at, _)| at < seen.time_s - hold_s) {
                    self.wanted.pop_front();
                }
                self.wanted.front().map_or(wanted, |&(_, most)| most)
            }
            Release::OnePer { seconds } => {
                let now = seen.replicas();
                if wanted >= now {
                    if wanted > now || self.moved_s == f64::NEG_INFINITY {
                        self.moved_s = seen.time_s;
                    }
                    return wanted;
                }
                if seen.time_s - self.moved_s < seconds {
                    return now;
                }
                self.moved_s = seen.time_s;
                now - 1
            }
        }
    }
}
