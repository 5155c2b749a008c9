//! A thread pool for reads, so that one query can have several reads in flight.

use std::collections::VecDeque;
use std::sync::{mpsc, Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use crate::buffer::Buffer;
use crate::error::Error;

/// Reads in flight at once. A disk answers 8 to 32 reads in the time of one, and more threads would
/// only wait for each other.
const THREADS: usize = 8;

/// A thread without work ends after this time, so that an idle process has no threads.
const IDLE: Duration = Duration::from_secs(10);

/// Reads what is missing, at the same time if that is more than one range. Errors: the first one.
///
/// * `ready`: what needed no wait. To hand a read of the page cache to another thread costs more
///   than the read.
pub(crate) fn fill(
    ready: Vec<Option<Buffer>>,
    read: impl Fn(usize) -> Result<Buffer, Error> + Send + Sync + 'static,
) -> Result<Vec<Buffer>, Error> {
    let missing: Vec<usize> = (0..ready.len()).filter(|&at| ready[at].is_none()).collect();
    let mut late = match missing[..] {
        [] => Vec::new(),
        [only] => vec![read(only)],
        _ => Pool::shared().run(missing.len(), move |at| read(missing[at])),
    }
    .into_iter();
    let next = |read: Option<Buffer>| {
        read.map_or_else(|| late.next().expect("a read for each that is missing"), Ok)
    };
    ready.into_iter().map(next).collect()
}

type Job = Box<dyn FnOnce() + Send>;

/// Threads that run short jobs in the order of their submission.
pub(crate) struct Pool {
    queue: Arc<Queue>,
}

struct Queue {
    state: Mutex<State>,
    waiting: Condvar,
    idle: Duration,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Threads that have not ended.
    threads: usize,
    /// Threads that wait for a job.
    idle: usize,
}

impl Pool {
    /// The pool of the process. It starts threads when there is work for them.
    pub(crate) fn shared() -> &'static Pool {
        static POOL: OnceLock<Pool> = OnceLock::new();
        POOL.get_or_init(|| Pool::new(IDLE))
    }

    fn new(idle: Duration) -> Pool {
        let queue = Queue { state: Mutex::default(), waiting: Condvar::new(), idle };
        Pool { queue: Arc::new(queue) }
    }

    /// Runs `job` for each of `0..count` and returns the results in that order. The caller runs
    /// jobs too, so other work in the pool cannot block it for ever.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        count: usize,
        job: impl Fn(usize) -> T + Send + Sync + 'static,
    ) -> Vec<T> {
        let job = Arc::new(job);
        let next = Arc::new(Mutex::new(0..count));
        let (sender, results) = mpsc::channel();
        let work = {
            let next = next.clone();
            move || loop {
                let Some(index) = next.lock().unwrap_or_else(PoisonError::into_inner).next() else {
                    break;
                };
                // The receiver is dropped only if the caller panicked.
                let _ = sender.send((index, job(index)));
            }
        };
        for _ in 1..count.min(THREADS) {
            self.queue.push(Box::new(work.clone()));
        }
        work();
        drop(work);
        let mut results: Vec<(usize, T)> = results.iter().take(count).collect();
        results.sort_unstable_by_key(|(index, _)| *index);
        results.into_iter().map(|(_, result)| result).collect()
    }
}

impl Queue {
    fn push(self: &Arc<Queue>, job: Job) {
        let mut state = self.state();
        state.jobs.push_back(job);
        if state.jobs.len() <= state.idle {
            self.waiting.notify_one();
        } else if state.threads < THREADS {
            let queue = self.clone();
            let thread = thread::Builder::new().name("vstream-read".to_owned());
            // If no thread can be started, the work is slower but still correct, because the caller
            // of `run` works too.
            state.threads += usize::from(thread.spawn(move || queue.work()).is_ok());
        }
    }

    fn work(&self) {
        let _dying = Dying(self);
        while let Some(job) = self.next() {
            job();
        }
    }

    /// The next job. `None` if no job came for a while; the thread then ends.
    fn next(&self) -> Option<Job> {
        let mut state = self.state();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            state.idle += 1;
            let waited = self.waiting.wait_timeout(state, self.idle);
            let (back, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = back;
            state.idle -= 1;
            if timeout.timed_out() && state.jobs.is_empty() {
                state.threads -= 1;
                return None;
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Corrects the number of threads when a panic in a job ends a thread.
struct Dying<'a>(&'a Queue);

impl Drop for Dying<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.state().threads -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each job that was submitted once left eight threads behind in its process.
    #[test]
    fn threads_without_work_end_and_come_back() {
        let pool = Pool::new(Duration::from_millis(1));
        for round in 0..3 {
            let squares = pool.run(100, move |index| index * index + round);
            assert!(squares
                .iter()
                .enumerate()
                .all(|(index, &square)| square == index * index + round));
            let mut looks = 0;
            while pool.queue.state().threads > 0 {
                looks += 1;
                assert!(looks < 10_000, "threads stay");
                thread::sleep(Duration::from_millis(1));
            }
        }
    }

    #[test]
    fn what_is_missing_is_read_into_its_place() {
        let buffer = |at: usize| Buffer::from(vec![at as u8; 3]);
        for missing in 0..1u8 << 5 {
            let is_missing = move |at: usize| missing & 1 << at != 0;
            let ready = (0..5).map(|at| (!is_missing(at)).then(|| buffer(at))).collect();
            let read = move |at: usize| {
                assert!(is_missing(at), "it was there");
                Ok(buffer(at))
            };
            let filled = fill(ready, read).expect("all that is missing");
            assert!(filled.iter().enumerate().all(|(at, read)| **read == [at as u8; 3]));
        }
        let broken = |_| Err(Error::corrupt("file", 7, "broken"));
        assert_eq!(fill(vec![None, None], broken).unwrap_err().offset(), Some(7));
        assert_eq!(fill(vec![None], broken).unwrap_err().offset(), Some(7));
    }

    #[test]
    fn a_panic_takes_its_thread_out_of_the_count() {
        let pool = Pool::new(Duration::from_millis(1));
        pool.queue.push(Box::new(|| panic!("asked for by a test")));
        let mut looks = 0;
        while pool.queue.state().threads > 0 {
            looks += 1;
            assert!(looks < 10_000, "it is still counted");
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(pool.run(3, |index| index), [0, 1, 2]);
    }
}
