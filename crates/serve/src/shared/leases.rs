//! Files of collections that replicas fetch. They stay until nobody has asked for any of them for a while.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use vstream_engine::SharedState;

use crate::failure::Failure;

/// Time after which files go that nobody asked for.
const UNUSED_MAX: Duration = Duration::from_secs(60);
/// States whose files are there at the same time. Each keeps files that merges have replaced.
const LEASES_MAX: usize = 32;

/// Files of collections that replicas fetch.
#[derive(Default)]
pub(crate) struct Leases(Mutex<State>);

#[derive(Default)]
struct State {
    last: u64,
    leases: HashMap<u64, Lease>,
}

struct Lease {
    collection: String,
    /// Path by name.
    files: HashMap<String, PathBuf>,
    used: Instant,
    /// Keeps the files.
    _state: SharedState,
}

impl Leases {
    /// Keeps the files of a state; returns its number. Errors: `SERVICE_UNAVAILABLE` if there are too many.
    pub(crate) fn keep(
        &self,
        collection: &str,
        state: SharedState,
        files: HashMap<String, PathBuf>,
    ) -> Result<u64, Failure> {
        let mut all = self.lock();
        expire(&mut all);
        if all.leases.len() >= LEASES_MAX {
            return Err(Failure::busy("too many replicas fetch files at the same time"));
        }
        all.last += 1;
        let number = all.last;
        let collection = collection.to_owned();
        all.leases.insert(number, Lease { collection, files, used: Instant::now(), _state: state });
        Ok(number)
    }

    /// The collection of a state, and the path of one of its files. Errors: `NOT_FOUND`.
    pub(crate) fn find(&self, number: u64, name: &str) -> Result<(String, PathBuf), Failure> {
        let mut all = self.lock();
        let lease = all.leases.get_mut(&number);
        let found = lease.and_then(|lease| {
            lease.used = Instant::now();
            Some((lease.collection.clone(), lease.files.get(name)?.clone()))
        });
        found.ok_or_else(|| {
            Failure::new(StatusCode::NOT_FOUND, "these files are gone: ask for the files again")
        })
    }

    /// Lets go of files that nobody asked for lately.
    pub(crate) fn expire(&self) {
        expire(&mut self.lock());
    }

    /// Lets go of the files of a collection, or of all.
    pub(crate) fn end(&self, collection: Option<&str>) {
        let is_other = |lease: &Lease| collection.is_some_and(|name| lease.collection != name);
        self.lock().leases.retain(|_, lease| is_other(lease));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn expire(all: &mut State) {
    all.leases.retain(|_, lease| lease.used.elapsed() < UNUSED_MAX);
}
