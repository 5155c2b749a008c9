//! The slowest searches of the last minutes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Searches that are kept of each window.
const KEPT: usize = 20;
/// Length of a window: the list has the slowest of this window and of the one before.
const WINDOW: Duration = Duration::from_secs(300);

/// A search that took long. It has no value of the query or its filter: those may be secrets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SlowSearch {
    pub(crate) collection: String,
    pub(crate) ended: Instant,
    pub(crate) took: Duration,
    /// Points that were asked for.
    pub(crate) limit: usize,
    pub(crate) is_filtered: bool,
    pub(crate) is_exact: bool,
}

/// The slowest searches of the last minutes: 40 at most. A search that is faster than all of them costs
/// two loads.
pub(crate) struct Slow {
    since: Instant,
    /// Nanoseconds that a search must exceed to be kept.
    floor: AtomicU64,
    /// When the window ends, in nanoseconds since `since`.
    ends: AtomicU64,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    now: Vec<SlowSearch>,
    before: Vec<SlowSearch>,
}

impl Slow {
    pub(crate) fn new(since: Instant) -> Slow {
        let ends = AtomicU64::new(nanos(WINDOW));
        Slow { since, floor: AtomicU64::new(0), ends, kept: Mutex::default() }
    }

    /// Keeps a search if it is one of the slowest.
    ///
    /// * `describe`: called only for those.
    pub(crate) fn note(
        &self,
        ended: Instant,
        took: Duration,
        describe: impl FnOnce() -> SlowSearch,
    ) {
        let at = nanos(ended.saturating_duration_since(self.since));
        let is_over = at >= self.ends.load(Ordering::Relaxed);
        if !is_over && nanos(took) <= self.floor.load(Ordering::Relaxed) {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if at >= self.ends.load(Ordering::Relaxed) {
            let is_older = at >= self.ends.load(Ordering::Relaxed) + nanos(WINDOW);
            let last = std::mem::take(&mut kept.now);
            kept.before = if is_older { Vec::new() } else { last };
            self.ends.store(at + nanos(WINDOW), Ordering::Relaxed);
        }
        let place = kept.now.partition_point(|one| one.took >= took);
        if place < KEPT {
            kept.now.insert(place, describe());
            kept.now.truncate(KEPT);
        }
        let floor = kept.now.get(KEPT - 1).map_or(0, |last| nanos(last.took));
        self.floor.store(floor, Ordering::Relaxed);
    }

    /// The slowest searches that are not older than two windows, the slowest first.
    pub(crate) fn slowest(&self, now: Instant) -> Vec<SlowSearch> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |one: &&SlowSearch| now.saturating_duration_since(one.ended) < 2 * WINDOW;
        let both = kept.now.iter().chain(&kept.before);
        let mut all: Vec<SlowSearch> = both.filter(is_recent).cloned().collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.took));
        all.truncate(KEPT);
        all
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(slow: &Slow, second: u64, millis: u64) {
        let (ended, took) =
            (slow.since + Duration::from_secs(second), Duration::from_millis(millis));
        slow.note(ended, took, || SlowSearch {
            collection: "a".to_owned(),
            ended,
            took,
            limit: 10,
            is_filtered: false,
            is_exact: false,
        });
    }

    fn slowest(slow: &Slow, second: u64) -> Vec<u128> {
        let slowest = slow.slowest(slow.since + Duration::from_secs(second));
        slowest.iter().map(|one| one.took.as_millis()).collect()
    }

    #[test]
    fn the_slowest_are_kept_and_the_others_are_not_described() {
        let slow = Slow::new(Instant::now());
        // Every number from 1 to 100 once, in no order.
        (0..100).for_each(|at| note(&slow, 1, 1 + at * 37 % 100));
        let expected: Vec<u128> = (81..=100).rev().collect();
        assert_eq!(slowest(&slow, 2), expected);
        let ended = slow.since + Duration::from_secs(2);
        slow.note(ended, Duration::from_millis(81), || panic!("it is not slow enough"));
    }

    #[test]
    fn searches_are_forgotten_after_two_windows() {
        let slow = Slow::new(Instant::now());
        note(&slow, 1, 100);
        note(&slow, 301, 5);
        assert_eq!(slowest(&slow, 302), [100, 5], "a window is over, and its slowest are there");
        assert_eq!(slowest(&slow, 601), [5], "nobody searched since");
        note(&slow, 700, 7);
        assert_eq!(slowest(&slow, 701), [7, 5]);
        note(&slow, 5_000, 1);
        assert_eq!(slowest(&slow, 5_000), [1]);
    }
}
