//! Time behind a trait, so that a simulation can control it.

use std::time::{Duration, Instant};

/// Measures time and waits.
pub trait Clock: Send + Sync {
    /// Time since a fixed moment in the past. It never decreases.
    fn now(&self) -> Duration;

    /// Returns after `wait` has passed.
    fn sleep(&self, wait: Duration);
}

/// The clock of the operating system.
pub struct SystemClock(Instant);

impl SystemClock {
    /// A clock that starts at zero now.
    pub fn new() -> SystemClock {
        SystemClock(Instant::now())
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, wait: Duration) {
        std::thread::sleep(wait);
    }
}
