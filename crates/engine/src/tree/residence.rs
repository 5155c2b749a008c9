//! How long rows stay on a level before they go to the next one.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Rows that have left a level since the engine was opened, and how long they had been on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residence {
    /// Rows that have left, those that were deleted or replaced meanwhile included.
    pub rows: u64,
    /// Microseconds that they were there, all of them together.
    pub total_us: u64,
    /// Microseconds of the one that was there longest.
    pub longest_us: u64,
}

impl Residence {
    /// The mean time of a row; 0 if none has left.
    pub fn mean(&self) -> Duration {
        Duration::from_micros(self.total_us.checked_div(self.rows).unwrap_or(0))
    }

    /// What has been added since `earlier`; the longest is that of all.
    pub fn since(&self, earlier: &Residence) -> Residence {
        Residence {
            rows: self.rows - earlier.rows,
            total_us: self.total_us - earlier.total_us,
            longest_us: self.longest_us,
        }
    }
}

/// The rows that have left one level.
#[derive(Debug, Default)]
pub(crate) struct Left {
    rows: AtomicU64,
    total_us: AtomicU64,
    longest_us: AtomicU64,
}

impl Left {
    pub(crate) fn add(&self, left: Residence) {
        self.rows.fetch_add(left.rows, Ordering::Relaxed);
        self.total_us.fetch_add(left.total_us, Ordering::Relaxed);
        self.longest_us.fetch_max(left.longest_us, Ordering::Relaxed);
    }

    pub(crate) fn residence(&self) -> Residence {
        Residence {
            rows: self.rows.load(Ordering::Relaxed),
            total_us: self.total_us.load(Ordering::Relaxed),
            longest_us: self.longest_us.load(Ordering::Relaxed),
        }
    }
}

/// When the rows of a memtable came.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arrivals {
    first: Option<Instant>,
    rows: u64,
    /// Times from the first row to each, all of them together.
    after_first_us: u64,
}

impl Arrivals {
    /// Notes that a row comes now.
    pub(super) fn note(&mut self, now: Instant) {
        let first = *self.first.get_or_insert(now);
        self.rows += 1;
        self.after_first_us += now.duration_since(first).as_micros() as u64;
    }

    /// What it is if all leave at `now`.
    pub(super) fn until(&self, now: Instant) -> Residence {
        let Some(first) = self.first else { return Residence::default() };
        let longest_us = now.duration_since(first).as_micros() as u64;
        let total_us = (longest_us * self.rows).saturating_sub(self.after_first_us);
        Residence { rows: self.rows, total_us, longest_us }
    }
}

/// Since when the rows of a segment have been on the local disk, in the mean. Copies share it.
#[derive(Debug)]
pub(crate) struct OnDisk {
    /// The origin of `after_us`.
    opened: Instant,
    /// Negative if they came before.
    after_us: AtomicI64,
}

impl OnDisk {
    /// Since now.
    pub(super) fn begin() -> OnDisk {
        OnDisk { opened: Instant::now(), after_us: AtomicI64::new(0) }
    }

    /// Begins again, with the rows that have just come back.
    pub(crate) fn restart(&self) {
        self.after_us.store(self.opened.elapsed().as_micros() as i64, Ordering::Relaxed);
    }

    /// Its file has gone to the far store: until it begins again, its rows have no age here.
    pub(crate) fn leave(&self) {
        self.after_us.store(i64::MAX, Ordering::Relaxed);
    }

    /// Takes over the mean of what a merge wrote it from.
    ///
    /// * `sources`: with the share of its rows that came from each.
    pub(crate) fn inherit(&self, sources: &[(&OnDisk, f64)]) {
        let now = Instant::now();
        let age: f64 = sources.iter().map(|(of, share)| of.age(now).as_secs_f64() * share).sum();
        let own = now.duration_since(self.opened).as_secs_f64();
        let after_us = ((own - age) * 1e6) as i64;
        self.after_us.store(after_us, Ordering::Relaxed);
    }

    /// How long its rows have been there at `now`.
    pub(crate) fn age(&self, now: Instant) -> Duration {
        let elapsed = now.duration_since(self.opened).as_micros() as i64;
        let age = elapsed.saturating_sub(self.after_us.load(Ordering::Relaxed));
        Duration::from_micros(age.max(0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(begin: Instant, seconds: u64) -> Instant {
        begin + Duration::from_secs(seconds)
    }

    #[test]
    fn rows_of_a_memtable_were_there_from_their_own_moment_on() {
        let begin = Instant::now();
        let mut arrivals = Arrivals::default();
        assert_eq!(arrivals.until(begin), Residence::default());

        [2, 3, 7].into_iter().for_each(|second| arrivals.note(at(begin, second)));
        let left = arrivals.until(at(begin, 12));

        assert_eq!((left.rows, left.longest_us), (3, 10_000_000));
        assert_eq!(left.total_us, (10 + 9 + 5) * 1_000_000);
        assert_eq!(left.mean(), Duration::from_secs(8));
    }

    #[test]
    fn what_left_adds_up_and_the_longest_stays() {
        let left = Left::default();
        assert_eq!(left.residence().mean(), Duration::ZERO);
        left.add(Residence { rows: 2, total_us: 30, longest_us: 20 });
        let before = left.residence();
        left.add(Residence { rows: 3, total_us: 15, longest_us: 9 });

        assert_eq!(left.residence(), Residence { rows: 5, total_us: 45, longest_us: 20 });
        let since = left.residence().since(&before);
        assert_eq!((since.rows, since.mean()), (3, Duration::from_micros(5)));
    }

    #[test]
    fn a_segment_that_comes_back_begins_again() {
        let on_disk = OnDisk::begin();
        let later = at(Instant::now(), 60);
        let before = on_disk.age(later);
        assert!(before >= Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(20));
        on_disk.leave();
        assert_eq!(on_disk.age(later), Duration::ZERO);
        on_disk.restart();
        assert!(on_disk.age(later) <= before - Duration::from_millis(20));
    }

    #[test]
    fn a_merged_segment_has_the_mean_age_of_its_sources() {
        let (old, new) = (OnDisk::begin(), OnDisk::begin());
        old.after_us.store(-100_000_000, Ordering::Relaxed);
        new.after_us.store(-20_000_000, Ordering::Relaxed);
        let merged = OnDisk::begin();
        merged.inherit(&[(&old, 0.25), (&new, 0.75)]);
        let age = merged.age(Instant::now()).as_secs_f64();
        assert!((39.9..50.0).contains(&age), "{age}");
    }
}
