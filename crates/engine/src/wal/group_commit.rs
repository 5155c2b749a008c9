//! The log that writers use: they push groups and wait for them. With a thread in the background,
//! this thread writes the groups that were pushed and syncs once for all writers that wait. This is
//! the group commit.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::format::Group;
use super::writer::{LogWriter, Spare};
use crate::durability::{Durability, Journaling};
use crate::error::Error;

/// Bytes of groups that may wait to be written. Above this, the writer waits.
const QUEUE_BYTES_MAX: usize = 64 << 20;

/// The log, and the thread that writes it.
pub(crate) struct Log {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Lets a writer wait until a record is on the disk.
#[derive(Clone)]
pub(crate) struct Ticket {
    shared: Arc<Shared>,
    lsn: u64,
}

struct Shared {
    queue: Mutex<Queue>,
    /// Signals that a group was pushed, or that a sync or the next log is wanted.
    work: Condvar,
    /// Signals that a pass ended: records became durable, or the pass failed.
    done: Condvar,
    background: bool,
    durability: Durability,
}

struct Queue {
    /// The thread takes it out during a pass.
    writer: Option<LogWriter>,
    groups: VecDeque<Group>,
    bytes: usize,
    /// The next log, and how many of the groups come before it.
    next: Option<(Spare, usize)>,
    /// A pass that is under way ends with the change to the next log.
    changes_log: bool,
    /// LSN of the last record that is on the disk, or that no one will sync any more.
    synced: u64,
    /// Whether a sync is wanted, whatever the durability.
    forced: bool,
    /// Error of the last pass, if it failed. The next attempt begins when a caller asks for one.
    failed: Option<Error>,
    /// Time before which no sync is due.
    next_sync: Option<Instant>,
    closing: bool,
}

impl Log {
    /// Starts the log, and its thread if it runs in the background. Errors: `Unavailable` if the
    /// system has no thread left.
    pub(crate) fn start(writer: LogWriter, journaling: &Journaling) -> Result<Log, Error> {
        let queue = Queue {
            synced: writer.synced(),
            writer: Some(writer),
            groups: VecDeque::new(),
            bytes: 0,
            next: None,
            changes_log: false,
            forced: false,
            failed: None,
            next_sync: None,
            closing: false,
        };
        let shared = Arc::new(Shared {
            queue: Mutex::new(queue),
            work: Condvar::new(),
            done: Condvar::new(),
            background: journaling.background,
            durability: journaling.durability,
        });
        let mut thread = None;
        if journaling.background {
            let shared = shared.clone();
            let log = std::thread::Builder::new().name("vstream-log".to_owned());
            thread = Some(log.spawn(move || shared.work()).map_err(|error| {
                Error::unavailable(format!("there is no thread for the log: {error}"))
            })?);
        }
        Ok(Log { shared, thread })
    }

    /// Errors if the log accepts no more groups: its file is poisoned, or too many bytes wait for
    /// disk space.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let queue = self.shared.lock();
        match &queue.failed {
            Some(error) if queue.bytes > QUEUE_BYTES_MAX || queue.poisoned() => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Accepts a group; waits while too many bytes wait to be written.
    pub(crate) fn push(&self, group: Group) {
        let mut queue = self.shared.lock();
        queue.bytes += group.bytes();
        queue.groups.push_back(group);
        if !self.shared.background {
            if queue.bytes > QUEUE_BYTES_MAX {
                // The queue keeps the failure, and the next commit returns it.
                let _ = queue.pass(false);
            }
            return;
        }
        self.shared.work.notify_one();
        while queue.bytes > QUEUE_BYTES_MAX && queue.failed.is_none() {
            queue = wait(&self.shared.done, queue);
        }
    }

    /// Asks for all groups so far to be written, even after an earlier failure. If a ticket comes
    /// back, the caller waits for it. Errors: an earlier failure that no caller was told of.
    pub(crate) fn commit(&self, lsn: u64) -> Result<Option<Ticket>, Error> {
        let is_sync = matches!(self.shared.durability, Durability::Sync);
        let mut queue = self.shared.lock();
        let failed = queue.failed.take();
        if !self.shared.background {
            return queue.pass(is_sync).map(|()| None);
        }
        self.shared.work.notify_one();
        match failed {
            Some(error) if !is_sync => Err(error),
            _ => Ok(is_sync.then(|| self.ticket(lsn))),
        }
    }

    /// Asks for all groups so far to be synced, whatever the durability.
    pub(crate) fn force(&self) {
        let mut queue = self.shared.lock();
        queue.forced = true;
        queue.failed = None;
        self.shared.work.notify_one();
    }

    /// Continues in `next` after the groups so far.
    pub(crate) fn rotate(&self, next: Spare) -> Result<(), Error> {
        let mut queue = self.shared.lock();
        if !self.shared.background {
            queue.pass(true)?;
            return queue.writer.as_mut().expect("no pass is under way").rotate(next);
        }
        while (queue.next.is_some() || queue.changes_log) && queue.failed.is_none() {
            queue = wait(&self.shared.done, queue);
        }
        if let Some(error) = &queue.failed {
            return Err(error.clone());
        }
        queue.next = Some((next, queue.groups.len()));
        self.shared.work.notify_one();
        Ok(())
    }

    /// Returns a ticket that waits until record `lsn` is on the disk.
    pub(crate) fn ticket(&self, lsn: u64) -> Ticket {
        Ticket { shared: self.shared.clone(), lsn }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.work.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of that thread printed its own message.
            let _ = thread.join();
        }
    }
}

impl Ticket {
    /// LSN of the last record that is on the disk now, whatever the ticket waits for.
    pub(crate) fn synced(&self) -> u64 {
        self.shared.lock().synced
    }

    pub(crate) fn wait(self) -> Result<(), Error> {
        let mut queue = self.shared.lock();
        if !self.shared.background {
            return if queue.synced >= self.lsn { Ok(()) } else { queue.pass(true) };
        }
        while queue.synced < self.lsn {
            if let Some(error) = &queue.failed {
                return Err(error.clone());
            }
            queue = wait(&self.shared.done, queue);
        }
        Ok(())
    }
}

fn wait<'a>(signal: &Condvar, queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
    signal.wait(queue).unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    /// True if no later attempt can succeed.
    fn poisoned(&self) -> bool {
        self.writer.as_ref().is_some_and(LogWriter::is_poisoned)
    }

    /// Writes all groups inside this call.
    fn pass(&mut self, sync: bool) -> Result<(), Error> {
        let writer = self.writer.as_mut().expect("no pass is under way");
        let written = if self.groups.is_empty() { Ok(()) } else { writer.write(&mut self.groups) };
        let done = written.and_then(|()| if sync { writer.sync() } else { Ok(()) });
        self.synced = writer.synced();
        match &done {
            Ok(()) => {
                self.bytes = 0;
                self.forced = false;
            }
            Err(error) => self.failed = Some(error.clone()),
        }
        done
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the thread until the log is dropped.
    fn work(&self) {
        let mut queue = self.lock();
        loop {
            queue = self.wait_for_work(queue);
            let idle = queue.groups.is_empty() && queue.next.is_none() && !queue.forced;
            if queue.closing && (idle || queue.failed.is_some()) {
                break;
            }
            queue = self.background_pass(queue);
            self.done.notify_all();
        }
    }

    /// Writes the groups that were pushed, up to a change of logs, while other threads push more.
    fn background_pass<'a>(&'a self, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        let mut writer = queue.writer.take().expect("one thread writes");
        let next = queue.next.take();
        queue.changes_log = next.is_some();
        let before = next.as_ref().map_or(queue.groups.len(), |(_, before)| *before);
        let mut groups: VecDeque<Group> = queue.groups.drain(..before).collect();
        let taken: usize = groups.iter().map(Group::bytes).sum();
        let forced = queue.forced;
        let sync = forced || next.is_some() || self.sync_is_due(&queue);
        drop(queue);
        let mut done = if groups.is_empty() { Ok(()) } else { writer.write(&mut groups) };
        if sync && done.is_ok() {
            done = writer.sync();
        }
        let mut kept = None;
        match next {
            Some((next, _)) if done.is_ok() => done = writer.rotate(next),
            Some((next, _)) => kept = Some((next, groups.len())),
            None => {}
        }
        let mut queue = self.lock();
        queue.synced = writer.synced();
        queue.writer = Some(writer);
        queue.bytes -= taken - groups.iter().map(Group::bytes).sum::<usize>();
        queue.changes_log = false;
        if let Some((_, before)) = &mut queue.next {
            // Groups that could not be written come first again.
            *before += groups.len();
        }
        let pushed = std::mem::replace(&mut queue.groups, groups);
        queue.groups.extend(pushed);
        if kept.is_some() {
            queue.next = kept;
        }
        match done {
            Ok(()) if sync => {
                // A force that came during this pass wants groups that the pass did not have.
                queue.forced &= !queue.groups.is_empty();
                if let Durability::Async { interval } = self.durability {
                    queue.next_sync = Some(Instant::now() + interval);
                }
            }
            Ok(()) => {}
            Err(error) => queue.failed = Some(error),
        }
        queue
    }

    fn sync_is_due(&self, queue: &Queue) -> bool {
        match self.durability {
            Durability::Sync => true,
            Durability::Async { .. } => queue.next_sync.is_none_or(|at| at <= Instant::now()),
            Durability::None => false,
        }
    }

    /// Waits until a pass is due.
    fn wait_for_work<'a>(&self, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        loop {
            if queue.closing {
                return queue;
            }
            let wanted = !queue.groups.is_empty() || queue.forced || queue.next.is_some();
            if wanted && queue.failed.is_none() {
                return queue;
            }
            let unsynced = queue.writer.as_ref().is_some_and(LogWriter::has_unsynced);
            let is_async = matches!(self.durability, Durability::Async { .. });
            if !(unsynced && is_async && queue.failed.is_none()) {
                queue = wait(&self.work, queue);
                continue;
            }
            let now = Instant::now();
            let left =
                queue.next_sync.map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
            if left.is_zero() {
                return queue;
            }
            let waited = self.work.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests;
