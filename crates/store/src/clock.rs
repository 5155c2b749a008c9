//! Time as a value, so that a simulation can hold it.

use std::time::{Duration, Instant};

/// Tells how much time has passed, and lets it pass.
pub trait Clock: Send + Sync {
    /// Time since some moment before; never less than it was.
    fn now(&self) -> Duration;

    /// Returns after `wait`.
    fn sleep(&self, wait: Duration);
}

/// The clock of the operating system.
pub struct SystemClock(Instant);

impl SystemClock {
    /// A clock that begins now.
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
