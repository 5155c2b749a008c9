//! The log as writers see it: push groups, wait for them. In the background one thread writes
//! what has gathered and syncs it once for all who wait: that is the group commit.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::format::Group;
use super::writer::{LogWriter, Spare};
use crate::durability::{Durability, Journaling};
use crate::error::Error;

/// Bytes that may wait to be written; more hold the writer up.
const QUEUE_BYTES_MAX: usize = 64 << 20;

/// The log, and the thread that writes it.
pub(crate) struct Log {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What a writer waits for.
#[derive(Clone)]
pub(crate) struct Ticket {
    shared: Arc<Shared>,
    lsn: u64,
}

struct Shared {
    queue: Mutex<Queue>,
    /// Something was pushed, or is wanted.
    work: Condvar,
    /// Something became durable, or failed.
    done: Condvar,
    background: bool,
    durability: Durability,
}

struct Queue {
    /// Taken out while a pass is under way.
    writer: Option<LogWriter>,
    groups: VecDeque<Group>,
    bytes: usize,
    /// Log to go on in, and how many of the groups come before it.
    next: Option<(Spare, usize)>,
    /// Last record that is on the disk, or that nobody will sync.
    synced: u64,
    /// A sync is wanted whatever the durability.
    forced: bool,
    /// Why the last pass failed. Nothing is tried again before somebody asks.
    failed: Option<Error>,
    /// No sync is due before.
    next_sync: Option<Instant>,
    closing: bool,
}

impl Log {
    /// Errors: `Unavailable` if there is no thread to be had.
    pub(crate) fn start(writer: LogWriter, journaling: &Journaling) -> Result<Log, Error> {
        let queue = Queue {
            synced: writer.synced(),
            writer: Some(writer),
            groups: VecDeque::new(),
            bytes: 0,
            next: None,
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

    /// Errors if the log takes nothing more: it is poisoned, or too much waits for space.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let queue = self.shared.lock();
        match &queue.failed {
            Some(error) if queue.bytes > QUEUE_BYTES_MAX || queue.poisoned() => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Takes a group over; waits while too much is under way.
    pub(crate) fn push(&self, group: Group) {
        let mut queue = self.shared.lock();
        queue.bytes += group.bytes();
        queue.groups.push_back(group);
        if !self.shared.background {
            if queue.bytes > QUEUE_BYTES_MAX {
                // The failure is kept, and told by the next commit.
                let _ = queue.pass(false);
            }
            return;
        }
        self.shared.work.notify_one();
        while queue.bytes > QUEUE_BYTES_MAX && queue.failed.is_none() {
            queue = wait(&self.shared.done, queue);
        }
    }

    /// Wants everything so far written, also if an earlier attempt failed. A ticket is to be waited
    /// for. Errors: an earlier attempt failed of which nobody was told.
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

    /// Wants everything so far on the disk, whatever the durability.
    pub(crate) fn force(&self) {
        let mut queue = self.shared.lock();
        queue.forced = true;
        queue.failed = None;
        self.shared.work.notify_one();
    }

    /// Goes on in `next` after the groups so far.
    pub(crate) fn rotate(&self, next: Spare) -> Result<(), Error> {
        let mut queue = self.shared.lock();
        if !self.shared.background {
            queue.pass(true)?;
            return queue.writer.as_mut().expect("no pass is under way").rotate(next);
        }
        while queue.next.is_some() && queue.failed.is_none() {
            queue = wait(&self.shared.done, queue);
        }
        if let Some(error) = &queue.failed {
            return Err(error.clone());
        }
        queue.next = Some((next, queue.groups.len()));
        self.shared.work.notify_one();
        Ok(())
    }

    /// To wait until record `lsn` is on the disk.
    pub(crate) fn ticket(&self, lsn: u64) -> Ticket {
        Ticket { shared: self.shared.clone(), lsn }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.work.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic there was reported by its own message.
            let _ = thread.join();
        }
    }
}

impl Ticket {
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
    /// True if no attempt can succeed any more.
    fn poisoned(&self) -> bool {
        self.writer.as_ref().is_some_and(LogWriter::is_poisoned)
    }

    /// Writes everything here and now.
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

    /// The thread: until the log is dropped.
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

    /// Writes what has gathered, up to a change of logs, while others push more.
    fn background_pass<'a>(&'a self, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        let mut writer = queue.writer.take().expect("one thread writes");
        let next = queue.next.take();
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
        let pushed = std::mem::replace(&mut queue.groups, groups);
        queue.groups.extend(pushed);
        if kept.is_some() {
            queue.next = kept;
        }
        match done {
            Ok(()) if sync => {
                // Another force that came meanwhile wants groups that this pass did not have.
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

    /// Returns when a pass is due.
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
