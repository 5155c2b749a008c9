//! Files of collections that replicas fetch. They stay until nobody has asked for any of them for a while.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use vstream_engine::SharedState;

use crate::catalog::blocking;
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
    /// Keeps the files of a state; returns its number. Somebody has to let go of them: [`Leases::let_go`]. Errors:
    /// `SERVICE_UNAVAILABLE` if there are too many.
    pub(crate) fn keep(
        &self,
        collection: &str,
        state: SharedState,
        files: HashMap<String, PathBuf>,
    ) -> Result<u64, Failure> {
        let mut all = self.lock();
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

    /// Lets go of the files of a state when nobody has asked for any of them for a while.
    pub(crate) async fn let_go(&self, number: u64) {
        let ended = loop {
            let left = match self.take_unused(number) {
                Ok(ended) => break ended,
                Err(left) => left,
            };
            tokio::time::sleep(left).await;
        };
        // Its files are removed then, if merges have replaced them.
        let _ = blocking(move || drop(ended)).await;
    }

    /// Takes a lease out that nobody used for a while, if it is there. Errors: the time until then.
    fn take_unused(&self, number: u64) -> Result<Option<Lease>, Duration> {
        let mut all = self.lock();
        let used = all.leases.get(&number).map(|lease| lease.used.elapsed());
        match used.and_then(|used| UNUSED_MAX.checked_sub(used)) {
            Some(left) if !left.is_zero() => Err(left),
            _ => Ok(all.leases.remove(&number)),
        }
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
