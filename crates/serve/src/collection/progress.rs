//! How far a collection is: which writes its searches see, which are on the disk, and in a replica how far
//! its writer was.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;
use tokio::time::timeout_at;

/// How far a collection is. Sequences are those of the engine: a replica has those of its writer.
pub(crate) struct Progress {
    applied: watch::Sender<u64>,
    committed: watch::Sender<u64>,
    /// Number of the last group of writes that was begun: searches see none of a later one.
    begun: AtomicU64,
    /// Number of the last group that is as durable as the collection says.
    ended: watch::Sender<u64>,
    writer: Option<OfWriter>,
    /// Nobody knows when this was what its writer had.
    is_push: bool,
}

/// What a replica knows of its writer.
#[derive(Default)]
struct OfWriter {
    /// The last write that the writer spoke of.
    sequence: AtomicU64,
    /// The writer's clock at the last moment of which this has every write, in milliseconds since 1970; 0
    /// if there is none since this was opened.
    as_of_ms: AtomicU64,
}

impl Progress {
    /// * `sequence`: of the last write that was recovered.
    /// * `is_replica`: whether another engine writes.
    pub(crate) fn new(sequence: u64, is_replica: bool) -> Progress {
        let (applied, committed) = (watch::Sender::new(sequence), watch::Sender::new(sequence));
        let (begun, ended) = (AtomicU64::new(0), watch::Sender::new(0));
        let writer = is_replica.then(OfWriter::default);
        Progress { applied, committed, begun, ended, writer, is_push: false }
    }

    /// Of rows that were pushed to a store.
    ///
    /// * `sequence`: of the last write in the push.
    pub(crate) fn of_push(sequence: u64) -> Progress {
        Progress { is_push: true, ..Progress::new(sequence, true) }
    }

    /// True if this may know how far it is behind a writer.
    pub(crate) fn has_age(&self) -> bool {
        !self.is_push
    }

    /// Searches see every write up to this one.
    pub(crate) fn applied(&self) -> u64 {
        *self.applied.borrow()
    }

    /// Every write up to this one is as durable as the collection says.
    pub(crate) fn committed(&self) -> u64 {
        *self.committed.borrow()
    }

    /// Is told of commits.
    pub(crate) fn commits(&self) -> watch::Receiver<u64> {
        self.committed.subscribe()
    }

    /// Begins a group of writes, and returns its number.
    pub(super) fn begin(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(super) fn note_applied(&self, sequence: u64) {
        note(&self.applied, sequence);
    }

    /// Notes that a group is as durable as the collection says.
    ///
    /// * `sequence`: of its last write.
    pub(super) fn note_committed(&self, group: u64, sequence: u64) {
        note(&self.committed, sequence);
        note(&self.ended, group);
    }

    /// Notes what the writer said.
    ///
    /// * `sequence`: of the last write on its disk at `time_ms` by its clock.
    /// * `applied`: of the last write that is here.
    pub(crate) fn heard(&self, sequence: u64, time_ms: u64, applied: u64) {
        let Some(writer) = &self.writer else { return };
        writer.sequence.fetch_max(sequence, Ordering::Relaxed);
        if applied >= sequence {
            writer.as_of_ms.fetch_max(time_ms, Ordering::Relaxed);
        }
    }

    /// True if another engine writes.
    pub(crate) fn is_replica(&self) -> bool {
        self.writer.is_some()
    }

    /// The last write that the writer spoke of; of a writer, its own.
    pub(crate) fn writer_sequence(&self) -> u64 {
        let told = |writer: &OfWriter| writer.sequence.load(Ordering::Relaxed);
        self.writer.as_ref().map_or_else(|| self.applied(), told)
    }

    /// How old the newest moment is of which this has every write: 0 for a writer, `None` for a replica
    /// that has not reached its writer since it was started. By the clocks of both machines.
    pub(crate) fn behind_ms(&self) -> Option<u64> {
        let Some(writer) = &self.writer else { return Some(0) };
        let as_of_ms = writer.as_of_ms.load(Ordering::Relaxed);
        (as_of_ms > 0).then(|| now_ms().saturating_sub(as_of_ms))
    }

    /// The newest moment of which this has every write, for those who follow it, in milliseconds since 1970: now for a
    /// writer, 0 if a replica does not know.
    pub(crate) fn as_of_ms(&self) -> u64 {
        let of_writer = |writer: &OfWriter| writer.as_of_ms.load(Ordering::Relaxed);
        self.writer.as_ref().map_or_else(now_ms, of_writer)
    }

    /// Waits until searches see a write; false if the time is over first.
    pub(crate) async fn reached(&self, sequence: u64, deadline: Instant) -> bool {
        reached(&self.applied, sequence, deadline).await
    }

    /// Waits until all that a search may have seen by now is on the disk; false if the time is over
    /// first.
    pub(crate) async fn settled(&self, deadline: Instant) -> bool {
        reached(&self.ended, self.begun.load(Ordering::SeqCst), deadline).await
    }
}

fn note(to: &watch::Sender<u64>, sequence: u64) {
    to.send_if_modified(|known| {
        let is_new = *known < sequence;
        *known = sequence.max(*known);
        is_new
    });
}

async fn reached(of: &watch::Sender<u64>, sequence: u64, deadline: Instant) -> bool {
    let mut changes = of.subscribe();
    let wait = changes.wait_for(|at| *at >= sequence);
    timeout_at(deadline.into(), wait).await.is_ok_and(|done| done.is_ok())
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
