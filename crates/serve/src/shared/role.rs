//! Whether this server writes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::catalog::Catalog;
use crate::failure::Failure;

/// Whether this server writes.
pub(crate) enum Role {
    Writer,
    Replica(Replica),
}

/// A server that others write for.
pub(crate) struct Replica {
    /// The address of its writer; `None` if it only reads files.
    pub(crate) writer: Option<String>,
    /// How far behind it may be and still be ready.
    pub(crate) behind_max: Duration,
    /// Every collection that the writer listed last is here.
    has_all: AtomicBool,
    /// Why the writer was lost the last time.
    lost: Mutex<Option<String>>,
    /// When the writer was heard last and could say all that it has, at first when this server started.
    heard: Mutex<Instant>,
}

impl Replica {
    pub(crate) fn new(writer: Option<String>, behind_max: Duration) -> Replica {
        let (has_all, lost) = (AtomicBool::new(false), Mutex::new(None));
        Replica { writer, behind_max, has_all, lost, heard: Mutex::new(Instant::now()) }
    }

    /// Notes whether every collection that the writer has is here.
    pub(crate) fn note_has_all(&self, has_all: bool) {
        self.has_all.store(has_all, Ordering::Relaxed);
    }
}

impl Role {
    /// Errors: `MISDIRECTED_REQUEST`, which names the writer, unless this server writes.
    pub(crate) fn check_write(&self) -> Result<(), Failure> {
        match self {
            Role::Writer => Ok(()),
            Role::Replica(replica) => Err(Failure::read_only(replica.writer.as_deref())),
        }
    }

    /// Notes that the writer said what it has.
    pub(crate) fn note_heard(&self) {
        if let Role::Replica(replica) = self {
            *replica.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        }
    }

    /// How long the writer has said nothing, or not all; nothing where there is none.
    pub(crate) fn unheard(&self) -> Duration {
        match self {
            Role::Replica(replica @ Replica { writer: Some(_), .. }) => {
                replica.heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
            }
            _ => Duration::ZERO,
        }
    }

    /// Notes why the writer, or one of its collections, is not followed at present.
    pub(crate) fn note_lost(&self, why: &str) {
        if let Role::Replica(replica) = self {
            *replica.lost.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.to_owned());
        }
    }

    /// True for a replica that does not have every collection of its writer.
    pub(crate) fn is_incomplete(&self) -> bool {
        matches!(self, Role::Replica(Replica { writer: Some(_), has_all, .. }) if !has_all.load(Ordering::Relaxed))
    }

    /// Why this server should get no queries, if it should not: a replica that lacks a collection, or that
    /// is too far behind.
    pub(crate) fn not_ready(&self, catalog: &Catalog) -> Option<String> {
        let Role::Replica(replica) = self else { return None };
        self.lacks(catalog, replica.behind_max)
    }

    /// Why a replica does not have everything that its writer had so long `ago`, if it has not.
    pub(crate) fn lacks(&self, catalog: &Catalog, ago: Duration) -> Option<String> {
        let Role::Replica(Replica { writer: Some(writer), has_all, lost, .. }) = self else {
            return None;
        };
        let late = catalog.all().into_iter().find_map(|collection| {
            let name = &collection.name;
            match collection.progress.behind_ms() {
                None => Some(format!("the collection '{name}' has not reached {writer} yet")),
                Some(ms) if ms > ago.as_millis() as u64 => {
                    Some(format!("the collection '{name}' is {ms} ms behind {writer}"))
                }
                Some(_) => None,
            }
        });
        let lacks = || format!("not every collection of {writer} is here yet");
        let why = late.or_else(|| (!has_all.load(Ordering::Relaxed)).then(lacks))?;
        let lost = lost.lock().unwrap_or_else(PoisonError::into_inner);
        Some(lost.as_ref().map_or(why.clone(), |lost| format!("{why}; the last error: {lost}")))
    }
}
