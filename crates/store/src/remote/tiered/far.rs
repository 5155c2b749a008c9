//! A far store that is left alone for a while after it gave no answer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::Clock;
use crate::error::{Error, ErrorKind};
use crate::store::{Range, Store};

/// How long the store is left alone after the first call without an answer; twice as long after each
/// further one, up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);

pub(super) struct Far {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    away: Mutex<Option<Away>>,
    reads: AtomicU64,
    read_bytes: AtomicU64,
    failures: AtomicU64,
}

/// The store gave no answer.
#[derive(Clone)]
struct Away {
    until: Duration,
    pause: Duration,
    why: Error,
}

impl Far {
    pub(super) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Far {
        let (reads, read_bytes, failures) = Default::default();
        Far { store, clock, away: Mutex::new(None), reads, read_bytes, failures }
    }

    fn away(&self) -> MutexGuard<'_, Option<Away>> {
        self.away.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the store, unless it gave no answer a short time ago: then it fails at once, as the last
    /// call did.
    pub(super) fn ask<T>(
        &self,
        call: impl FnOnce(&dyn Store) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let known = self.away().clone();
        if let Some(away) = known.as_ref().filter(|away| self.clock.now() < away.until) {
            self.failures.fetch_add(1, Ordering::Relaxed);
            return Err(away.why.clone());
        }
        let done = call(&*self.store);
        match &done {
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                let pause = known.map_or(FIRST_PAUSE, |away| (2 * away.pause).min(PAUSE_MAX));
                let until = self.clock.now() + pause;
                *self.away() = Some(Away { until, pause, why: error.clone() });
            }
            // Any answer, be it a refusal, shows that the store is there.
            _ if known.is_some() => *self.away() = None,
            _ => {}
        }
        done
    }

    /// Counts ranges that are read.
    pub(super) fn count(&self, ranges: &[Range]) {
        let bytes: u64 = ranges.iter().map(|range| range.bytes as u64).sum();
        self.reads.fetch_add(ranges.len() as u64, Ordering::Relaxed);
        self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    pub(super) fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}
