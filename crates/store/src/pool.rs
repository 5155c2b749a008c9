//! A few threads that read, so that one query has several reads under way.

use std::collections::VecDeque;
use std::sync::{mpsc, Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread;

/// Reads under way at once. Disks answer 8 to 32 reads in the time of one; more threads than that
/// only wait for each other.
const THREADS: usize = 8;

type Job = Box<dyn FnOnce() + Send>;

/// Threads that run short jobs in the order in which they came.
pub(crate) struct Pool {
    queue: Arc<Queue>,
}

#[derive(Default)]
struct Queue {
    jobs: Mutex<VecDeque<Job>>,
    waiting: Condvar,
}

impl Pool {
    /// The pool of the process. Its threads are started with the first call and stay.
    pub(crate) fn shared() -> &'static Pool {
        static POOL: OnceLock<Pool> = OnceLock::new();
        POOL.get_or_init(|| {
            let queue = Arc::new(Queue::default());
            for _ in 0..THREADS {
                let queue = queue.clone();
                let thread = thread::Builder::new().name("vstream-read".to_owned());
                // Fewer threads are slower, not wrong; with none, `run` works on its own.
                drop(thread.spawn(move || queue.work()));
            }
            Pool { queue }
        })
    }

    /// Runs `job` for each of `0..count` and returns the results in that order. The caller works
    /// too, so a pool that is busy with others never holds it up for ever.
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
                let Some(at) = next.lock().unwrap_or_else(PoisonError::into_inner).next() else {
                    break;
                };
                // The receiver is gone only if the caller panicked.
                let _ = sender.send((at, job(at)));
            }
        };
        for _ in 1..count.min(THREADS) {
            self.queue.push(Box::new(work.clone()));
        }
        work();
        drop(work);
        let mut results: Vec<(usize, T)> = results.iter().take(count).collect();
        results.sort_unstable_by_key(|(at, _)| *at);
        results.into_iter().map(|(_, result)| result).collect()
    }
}

impl Queue {
    fn push(&self, job: Job) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).push_back(job);
        self.waiting.notify_one();
    }

    fn work(&self) {
        loop {
            let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
            let job = loop {
                match jobs.pop_front() {
                    Some(job) => break job,
                    None => {
                        let waited = self.waiting.wait(jobs);
                        jobs = waited.unwrap_or_else(PoisonError::into_inner);
                    }
                }
            };
            drop(jobs);
            job();
        }
    }
}
