//! The versions of deleted rows, kept for a set time: an upsert that is older than the delete of its
//! id changes nothing, although no row is there to compare it with.
//!
//! A log has no times, so a delete that recovery reads from a log counts as made then. It is kept
//! longer than it must be, never shorter; checkpoints write the times (`version/remembered_file.rs`).

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::settings::DELETES_REMEMBERED_MAX;

/// Entries of the queue beyond two per id, above which it is cleaned.
const QUEUE_SPARE: usize = 1024;

/// The delete of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RememberedDelete {
    pub(crate) id: u64,
    pub(crate) version: u64,
    /// When it was made, in milliseconds since 1970-01-01 UTC.
    pub(crate) at_ms: u64,
}

/// The last deletes, the newest version of each id.
pub(crate) struct RememberedDeletes {
    kept_ms: u64,
    /// Version and time by id.
    by_id: HashMap<u64, (u64, u64)>,
    /// Time and id in the order of the deletes, and entries that `by_id` has replaced since.
    order: VecDeque<(u64, u64)>,
}

impl RememberedDeletes {
    /// Remembers nothing yet.
    pub(crate) fn new(kept: Duration) -> RememberedDeletes {
        let kept_ms = kept.as_millis() as u64;
        RememberedDeletes { kept_ms, by_id: HashMap::new(), order: VecDeque::new() }
    }

    /// Number of deletes that are kept.
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Remembers a delete. Cost: O(1) on average.
    pub(crate) fn note(&mut self, delete: RememberedDelete) {
        let RememberedDelete { id, version, at_ms } = delete;
        let entry = self.by_id.entry(id).or_insert((version, at_ms));
        *entry = (entry.0.max(version), entry.1.max(at_ms));
        self.order.push_back((entry.1, id));
        self.expire(at_ms);
    }

    /// Drops what was kept long enough, and the oldest above the limit.
    fn expire(&mut self, now_ms: u64) {
        if self.order.len() > 2 * self.by_id.len() + QUEUE_SPARE {
            let by_id = &self.by_id;
            self.order.retain(|(at, id)| by_id.get(id).is_some_and(|(_, last)| last == at));
        }
        while let Some(&(at, id)) = self.order.front() {
            let is_old = now_ms.saturating_sub(at) > self.kept_ms;
            if !is_old && self.by_id.len() <= DELETES_REMEMBERED_MAX {
                return;
            }
            self.order.pop_front();
            if self.by_id.get(&id).is_some_and(|(_, last)| *last == at) {
                self.by_id.remove(&id);
            }
        }
    }

    /// True if a row of this version is older than a delete of its id that is still remembered.
    pub(crate) fn is_dead(&self, id: u64, version: u64) -> bool {
        self.by_id.get(&id).is_some_and(|&(deleted, at)| {
            deleted > version && now_ms().saturating_sub(at) <= self.kept_ms
        })
    }

    /// The delete of an id.
    pub(crate) fn version_of(&self, id: u64) -> Option<u64> {
        self.by_id.get(&id).map(|(version, _)| *version)
    }

    /// Forgets the delete of an id whose row is there again: the row's own version counts now.
    pub(crate) fn forget(&mut self, id: u64) {
        self.by_id.remove(&id);
    }

    /// All deletes, the oldest first.
    pub(crate) fn list(&self) -> Vec<RememberedDelete> {
        let by_id = self.by_id.iter();
        let mut all: Vec<RememberedDelete> =
            by_id.map(|(&id, &(version, at_ms))| RememberedDelete { id, version, at_ms }).collect();
        all.sort_unstable_by_key(|delete| (delete.at_ms, delete.id));
        all
    }
}

/// Milliseconds since 1970-01-01 UTC.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

#[cfg(test)]
mod tests;
