//! Moves segments between the directory of an engine and its remote level.
//!
//! 1. The temperature of a segment is its heat ([`crate::tree`]) per byte. The hottest segments that fit
//!    the limit stay in the directory, the others go to the far store. A segment that is here counts as
//!    somewhat hotter than it is, so that two similar ones do not take turns.
//! 2. Segments leave before others come, so the limit holds while segments come back. A segment that
//!    was just written is here until the next round, in addition.
//! 3. Copies of segments that nothing names any more are deleted in the far store.
//!
//! If the far store gives no answer, segments stay where they are, be it beyond the limit: no row is
//! lost for the sake of room.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use vstream_store::remote::TierCounts;
use vstream_store::ErrorKind as StoreErrorKind;

use crate::error::Error;
use crate::layout::segment_name;
use crate::priority::yield_to_others;
use crate::tree::{plan_moves, Move, Part};
use crate::version::{Tiers, VersionSet};

/// Time between two rounds of the thread, and between two looks whether it shall end.
const ROUND: Duration = Duration::from_millis(500);
const NAP: Duration = Duration::from_millis(25);

/// Segments in the directory and in the remote level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteStats {
    /// Segments whose file is in the directory.
    pub local_segments: u64,
    /// Bytes of these files.
    pub local_bytes: u64,
    /// Segments whose file is in the far store alone.
    pub remote_segments: u64,
    /// Bytes of these files.
    pub remote_bytes: u64,
    /// What moved, and what was read in the far store, since the engine was opened.
    pub counts: TierCounts,
    /// Why the last round failed, if it did.
    pub failure: Option<String>,
}

/// True for an error that the next file need not meet: this one is too long, or damaged.
fn is_of_file(kind: StoreErrorKind) -> bool {
    matches!(kind, StoreErrorKind::Invalid | StoreErrorKind::Corrupt)
}

/// Places the segments of an engine. The engine and its thread share it.
pub(crate) struct Placement {
    versions: Arc<VersionSet>,
    /// Held for a round; why the last one failed.
    failure: Mutex<Option<String>>,
}

impl Placement {
    pub(crate) fn new(versions: Arc<VersionSet>) -> Placement {
        Placement { versions, failure: Mutex::default() }
    }

    fn failure(&self) -> MutexGuard<'_, Option<String>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves segments until the hottest that fit the limit are in the directory. Returns the bytes that
    /// were copied; 0 without a remote level.
    ///
    /// * `keep_going`: asked now and then; if it says no, the round ends.
    ///
    /// Errors: those of both stores; what was moved stays moved.
    pub(crate) fn place(&self, keep_going: &dyn Fn() -> bool) -> Result<u64, Error> {
        let mut failure = self.failure();
        let done = self.round(keep_going);
        *failure = done.as_ref().err().map(Error::to_string);
        done
    }

    fn round(&self, keep_going: &dyn Fn() -> bool) -> Result<u64, Error> {
        let Some(tiers) = self.versions.directory().tiers() else { return Ok(0) };
        let mut failed = match tiers.files.settle() {
            Err(error) if error.kind() == StoreErrorKind::Unavailable => return Err(error.into()),
            // A copy that stays keeps no segment where it is.
            settled => settled.err(),
        };
        let mut copied = 0;
        let mut heat = self.versions.tree().segment_heat();
        heat.sort_unstable_by_key(|&(number, _)| number);
        let placed = tiers.files.placed()?;
        let found = |name: &str| placed.iter().find(|file| file.name == name);
        let (mut parts, mut segments) = (Vec::new(), Vec::new());
        for (number, heat) in heat {
            let name = segment_name(number);
            // A segment that was retired meanwhile is in neither place.
            let Some(file) = found(&name) else { continue };
            let temperature = f64::from(heat) / file.bytes.max(1) as f64;
            parts.push(Part { temperature, bytes: file.bytes, is_held: file.is_near });
            segments.push((number, name));
        }
        for step in plan_moves(&parts, tiers.local_bytes) {
            if !keep_going() {
                break;
            }
            let (at, comes) = match step {
                Move::Release(at) => (at, false),
                Move::Hold(at) => (at, true),
            };
            let (number, name) = &segments[at];
            let moved = match comes {
                true => tiers.files.fetch(name, keep_going),
                false => tiers.files.send(name, keep_going),
            };
            match moved {
                Ok(bytes) => {
                    copied += bytes;
                    // One that a state still needs here stays for now.
                    if tiers.files.is_away(name) != comes {
                        self.versions.tree().note_move(*number, comes);
                    }
                }
                // A merge has replaced it meanwhile.
                Err(error) if error.kind() == StoreErrorKind::NotFound => {}
                // One file that cannot be moved keeps no other where it is.
                Err(error) if is_of_file(error.kind()) => failed = failed.or(Some(error)),
                Err(error) => return Err(error.into()),
            }
        }
        self.drop_retired(tiers, keep_going)?;
        failed.map_or(Ok(copied), |error| Err(error.into()))
    }

    /// Removes segments from the directory that were merged, have a far copy, and are named by shared
    /// states: these lead to the far copy.
    fn drop_retired(&self, tiers: &Tiers, keep_going: &dyn Fn() -> bool) -> Result<(), Error> {
        for name in self.versions.directory().retired() {
            if tiers.files.keeps_pointers() && tiers.files.has_far_copy(&name) && keep_going() {
                match tiers.files.send(&name, keep_going) {
                    // Its last state is gone.
                    Err(error) if error.kind() == StoreErrorKind::NotFound => {}
                    done => drop(done?),
                }
            }
        }
        Ok(())
    }

    /// Makes the far copies of the engine before this one its own.
    pub(crate) fn inherit(&self) {
        if let Some(tiers) = self.versions.directory().tiers() {
            tiers.files.inherit();
        }
    }

    pub(crate) fn stats(&self) -> Option<RemoteStats> {
        let tiers = self.versions.directory().tiers()?;
        let mut stats = RemoteStats { counts: tiers.files.counts(), ..RemoteStats::default() };
        // A round may take minutes, and nobody waits for it here.
        stats.failure = self.failure.try_lock().ok().and_then(|failure| failure.clone());
        // States keep what was merged meanwhile; nobody asks for it here.
        let retired = self.versions.directory().retired();
        let placed = tiers.files.placed().unwrap_or_default().into_iter();
        for file in placed.filter(|file| !retired.contains(&file.name)) {
            let (segments, bytes) = match file.is_near {
                true => (&mut stats.local_segments, &mut stats.local_bytes),
                false => (&mut stats.remote_segments, &mut stats.remote_bytes),
            };
            *segments += 1;
            *bytes += file.bytes;
        }
        Some(stats)
    }
}

/// The thread that places segments, until this is dropped.
pub(crate) struct Mover {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Mover {
    /// `None` without a remote level. If no thread can start, segments stay where they are.
    pub(crate) fn start(placement: &Arc<Placement>) -> Option<Mover> {
        placement.versions.directory().tiers()?;
        let (placement, stop) = (placement.clone(), Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("vstream-remote".to_owned());
        let thread = thread.spawn(move || {
            yield_to_others();
            let keep_going = || !stopped.load(Ordering::Relaxed);
            while keep_going() {
                // The round notes a failure.
                let _ = placement.place(&keep_going);
                let naps = (ROUND.as_millis() / NAP.as_millis()) as usize;
                (0..naps).take_while(|_| keep_going()).for_each(|_| std::thread::sleep(NAP));
            }
        });
        Some(Mover { stop, thread: thread.ok() })
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of that thread printed its own message.
            let _ = thread.join();
        }
    }
}
