//! The thread that writes, and the one that waits for the disk.
//!
//! 1. A write is a closure. It waits in a queue of bounded length; whoever sends it waits for room.
//! 2. The *writer* takes what waits, up to [`TOGETHER`] writes, applies them in order, and begins one
//!    commit for all of them.
//! 3. The *committer* waits for the commit and then answers. Meanwhile the writer goes on.
//!
//! So a write is acknowledged when it is as durable as the collection says, and one sync serves all
//! that came together.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use vstream_engine::{Commit, Engine, Error, NumberedWriter};

use super::Progress;
use crate::failure::Failure;
use crate::turns::take_turns;

/// Most writes of one commit.
const TOGETHER: usize = 64;
/// Most writes that wait.
const WAITING: usize = 256;
/// Commits that wait for the disk at the same time.
const COMMITS: usize = 4;
/// Longest wait for room in the queue.
const ROOM: Duration = Duration::from_secs(10);

/// Called when the writes of a commit are on the disk, or why they are not.
type Done = Box<dyn FnOnce(Result<(), &Error>) + Send>;
type Write = Box<dyn FnOnce(&mut NumberedWriter) -> Option<Done> + Send>;

/// What one commit answers.
struct Batch {
    commit: Result<Commit, Error>,
    /// Number of the group of writes, and sequence of its last write.
    group: u64,
    sequence: u64,
    done: Vec<Done>,
}

/// The writes of a collection.
pub(crate) struct Writes {
    queue: Mutex<Option<mpsc::Sender<Write>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Writes {
    /// Starts the threads of a collection.
    ///
    /// * `live`: gets the number of rows that live after every group of writes.
    /// * `progress`: is told how far writes are.
    ///
    /// Errors: `INTERNAL_SERVER_ERROR` if the system has no thread.
    pub(crate) fn begin(
        name: &str,
        engine: Engine,
        live: Arc<AtomicU64>,
        progress: Arc<Progress>,
    ) -> Result<Writes, Failure> {
        let (queue, writes) = mpsc::channel(WAITING);
        let (commits, batches) = sync_channel(COMMITS);
        let start = |what: &str, run: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(format!("{what} {name}"));
            thread
                .spawn(run)
                .map_err(|error| Failure::broken(format!("there is no thread: {error}")))
        };
        let rows = NumberedWriter::new(engine);
        let committed = progress.clone();
        let threads = vec![
            start("write", Box::new(move || write(rows, writes, &commits, (&live, &progress))))?,
            start("commit", Box::new(move || acknowledge(&batches, &committed)))?,
        ];
        Ok(Writes { queue: Mutex::new(Some(queue)), threads: Mutex::new(threads) })
    }

    /// Makes a write, and returns when it is as durable as the collection says. Errors: those of
    /// `write`, and `SERVICE_UNAVAILABLE` if there is no room within some seconds or the collection is
    /// being closed. What `write` did before it failed stays.
    pub(crate) async fn durable<T: Send + 'static>(
        &self,
        write: impl FnOnce(&mut NumberedWriter) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let (answer, answered) = oneshot::channel();
        let job = move |rows: &mut NumberedWriter| -> Option<Done> {
            let made = write(rows);
            Some(Box::new(move |committed| {
                let made = made.and_then(|made| committed.map(|()| made).map_err(Failure::from));
                // Nobody waits any more if the connection is gone.
                let _ = answer.send(made);
            }))
        };
        self.send(Box::new(job)).await?;
        answered.await.map_err(|_| Failure::closing())?
    }

    /// Makes a write and returns without waiting: whether it is refused is not known.
    pub(crate) async fn acknowledged(
        &self,
        write: impl FnOnce(&mut NumberedWriter) + Send + 'static,
    ) -> Result<(), Failure> {
        let job = move |rows: &mut NumberedWriter| -> Option<Done> {
            write(rows);
            None
        };
        self.send(Box::new(job)).await
    }

    /// Looks at the engine between two writes.
    pub(crate) async fn now<T: Send + 'static>(
        &self,
        look: impl FnOnce(&mut NumberedWriter) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let (answer, answered) = oneshot::channel();
        let job = move |rows: &mut NumberedWriter| -> Option<Done> {
            let _ = answer.send(look(rows));
            None
        };
        self.send(Box::new(job)).await?;
        answered.await.map_err(|_| Failure::closing())
    }

    async fn send(&self, job: Write) -> Result<(), Failure> {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let queue = queue.ok_or_else(Failure::closing)?;
        match queue.send_timeout(job, ROOM).await {
            Ok(()) => Ok(()),
            Err(mpsc::error::SendTimeoutError::Closed(_)) => Err(Failure::closing()),
            Err(mpsc::error::SendTimeoutError::Timeout(_)) => {
                Err(Failure::busy("writes wait for the disk"))
            }
        }
    }

    /// Writes the rows in memory to segments, if the collection has a limit to memory, so that the next start
    /// reads a short log; then does what [`Writes::close`] does. For threads that may wait.
    pub(crate) fn close_flushed(&self) {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(queue) = queue {
            // If the thread is gone, there is nothing to flush.
            let _ = queue.blocking_send(Box::new(|rows| {
                // The log has every row first: a checkpoint that fails costs the next start some time.
                let _ = rows.engine_mut().shorten_log();
                None
            }));
        }
        self.close();
    }

    /// Takes no more writes, makes those that wait, and closes the engine. Blocks until then.
    pub(crate) fn close(&self) {
        drop(self.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Drop for Writes {
    fn drop(&mut self) {
        self.close();
    }
}

/// Applies writes until nobody can send one.
fn write(
    mut rows: NumberedWriter,
    mut writes: mpsc::Receiver<Write>,
    commits: &SyncSender<Batch>,
    (live, progress): (&AtomicU64, &Progress),
) {
    // Queries come first: whoever waits for a write waits for the disk too.
    take_turns();
    while let Some(first) = writes.blocking_recv() {
        let group = progress.begin();
        let mut done: Vec<Done> = first(&mut rows).into_iter().collect();
        for _ in 1..TOGETHER {
            let Ok(next) = writes.try_recv() else { break };
            done.extend(next(&mut rows));
        }
        live.store(rows.live(), Ordering::Relaxed);
        let (commit, sequence) = (rows.begin_commit(), rows.engine().sequence());
        progress.note_applied(sequence);
        if commits.send(Batch { commit, group, sequence, done }).is_err() {
            return;
        }
    }
    // Everything is committed; what fails here fails again when the engine is opened, which says so.
    let _ = rows.engine_mut().detach();
}

/// Waits for commits and answers those who wait for them.
fn acknowledge(batches: &Receiver<Batch>, progress: &Progress) {
    while let Ok(Batch { commit, group, sequence, done }) = batches.recv() {
        let committed = commit.and_then(Commit::wait);
        if committed.is_ok() {
            progress.note_committed(group, sequence);
        }
        done.into_iter().for_each(|done| done(committed.as_ref().map(|_| ())));
    }
}
