//! A thread pool for reads, so that one query can have several reads in flight.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{mpsc, Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use crate::buffer::Buffer;
use crate::error::Error;
use crate::ring::{self, PlannedRead};

/// Reads in flight at once. A disk answers 8 to 32 reads in the time of one, and more threads would
/// only wait for each other.
const THREADS: usize = 8;

/// Name of the threads.
const NAME: &str = "vstream-read";

/// A thread without work ends after this time, so that an idle process has no threads.
const IDLE: Duration = Duration::from_secs(10);

/// Reads what is missing, at the same time if that is more than one range: with one call where that can be, else
/// with the threads of the pool. Errors: the first one.
///
/// * `ready`: what needed no wait. To hand a read of the page cache to another thread costs more
///   than the read.
/// * `plan`: a read for [`ring`]; `None` if it cannot be made there.
pub(crate) fn fill(
    mut ready: Vec<Option<Buffer>>,
    plan: impl Fn(usize) -> Option<PlannedRead>,
    read: impl Fn(usize) -> Result<Buffer, Error> + Send + Sync + 'static,
) -> Result<Vec<Buffer>, Error> {
    let missing_of = |ready: &[Option<Buffer>]| -> Vec<usize> {
        (0..ready.len()).filter(|&at| ready[at].is_none()).collect()
    };
    let mut missing = missing_of(&ready);
    if missing.len() > 1 && ring::is_there() {
        let planned = missing.iter().filter_map(|&at| Some((at, plan(at)?)));
        let (places, planned): (Vec<usize>, Vec<PlannedRead>) = planned.unzip();
        places.into_iter().zip(ring::read_all(planned)).for_each(|(at, read)| ready[at] = read);
        missing = missing_of(&ready);
    }
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
        let (sender, results) = mpsc::channel();
        let work = Arc::new(Work { left: Mutex::new(0..count), job, queue: self.queue.clone() });
        for _ in 1..count.min(THREADS) {
            self.queue.push(work.clone().in_turns(sender.clone()));
        }
        while work.one(&sender) {}
        drop(sender);
        let mut results: Vec<(usize, T)> = results.iter().take(count).collect();
        results.sort_unstable_by_key(|(index, _)| *index);
        results.into_iter().map(|(_, result)| result).collect()
    }
}

/// The jobs of one call of [`Pool::run`].
struct Work<F> {
    /// Those that nobody has begun.
    left: Mutex<Range<usize>>,
    job: F,
    queue: Arc<Queue>,
}

impl<F> Work<F> {
    /// Does one job, and sends its number and result; false if none is left.
    fn one<T>(&self, results: &mpsc::Sender<(usize, T)>) -> bool
    where
        F: Fn(usize) -> T,
    {
        let next = self.left.lock().unwrap_or_else(PoisonError::into_inner).next();
        let Some(index) = next else { return false };
        // The receiver is dropped only if the caller panicked.
        let _ = results.send((index, (self.job)(index)));
        true
    }

    /// Does the jobs, but lets others that wait in the queue go first after each: an audit reads hundreds of
    /// blocks, and a query that comes meanwhile a few.
    fn in_turns<T: Send + 'static>(self: Arc<Self>, results: mpsc::Sender<(usize, T)>) -> Job
    where
        F: Fn(usize) -> T + Send + Sync + 'static,
    {
        Box::new(move || {
            while self.one(&results) {
                if self.queue.has_jobs() {
                    let queue = self.queue.clone();
                    return queue.put_back(self.in_turns(results));
                }
            }
        })
    }
}

impl Queue {
    fn has_jobs(&self) -> bool {
        !self.state().jobs.is_empty()
    }

    /// Puts a job behind those that wait. The caller is a thread of the pool, which takes the next one.
    fn put_back(&self, job: Job) {
        self.state().jobs.push_back(job);
    }

    fn push(self: &Arc<Queue>, job: Job) {
        let mut state = self.state();
        state.jobs.push_back(job);
        if state.jobs.len() <= state.idle {
            self.waiting.notify_one();
        } else if state.threads < THREADS {
            let queue = self.clone();
            let thread = thread::Builder::new().name(NAME.to_owned());
            // If no thread can be started, the work is slower but still correct, because the caller
            // of `run` works too.
            state.threads += usize::from(thread.spawn(move || queue.work()).is_ok());
        } else if state.idle > 0 {
            // Of those that wait some were told of other jobs; one may not have been.
            self.waiting.notify_one();
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

    /// Long runs do not hold up one that comes after them: the pool's threads take turns.
    #[test]
    fn long_runs_let_a_short_one_through() {
        const ALL: usize = 1_000;
        let pool = Arc::new(Pool::new(Duration::from_secs(10)));
        let (begun, begins) = mpsc::channel();
        // Jobs of the long runs that threads of the pool may end; those of callers wait until all may.
        let gate = Arc::new((Mutex::new(0), Condvar::new()));
        let open = |jobs: usize| {
            *gate.0.lock().expect("a count") = jobs;
            gate.1.notify_all();
        };
        let long = |_: usize| {
            let (pool, gate, begun) = (pool.clone(), gate.clone(), begun.clone());
            thread::spawn(move || {
                pool.run(100, move |_| {
                    let _ = begun.send(());
                    let least = if thread::current().name() == Some(NAME) { 1 } else { ALL };
                    let left = gate.0.lock().expect("a count");
                    let mut left = gate.1.wait_while(left, |left| *left < least).expect("a count");
                    *left -= if *left < ALL { 1 } else { 0 };
                })
            })
        };
        let runs: Vec<_> = (0..2).map(long).collect();
        // Both callers and all threads of the pool.
        (0..2 + THREADS).for_each(|_| begins.recv().expect("a job"));
        let (both, (met, meeting)) = (Arc::new(std::sync::Barrier::new(2)), mpsc::channel());
        let (short_pool, at_work) = (pool.clone(), met.clone());
        let short = thread::spawn(move || {
            short_pool.run(2, move |_| {
                at_work.send(false).expect("the test");
                both.wait();
                met.send(true).expect("the test");
            })
        });
        // The caller is at work, so what it wants of the pool is in the queue.
        assert_eq!(meeting.recv(), Ok(false));
        // Not enough to end a long run.
        open(80);
        let wait = || meeting.recv_timeout(Duration::from_secs(30));
        let found = [wait(), wait(), wait()];
        open(ALL);
        assert_eq!(found, [Ok(false), Ok(true), Ok(true)], "the long runs have the threads still");
        runs.into_iter().for_each(|run| assert_eq!(run.join().expect("a run").len(), 100));
        short.join().expect("a run");
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
            let filled = fill(ready, |_| None, read).expect("all that is missing");
            assert!(filled.iter().enumerate().all(|(at, read)| **read == [at as u8; 3]));
        }
        let broken = |_| Err(Error::corrupt("file", 7, "broken"));
        assert_eq!(fill(vec![None, None], |_| None, broken).unwrap_err().offset(), Some(7));
        assert_eq!(fill(vec![None], |_| None, broken).unwrap_err().offset(), Some(7));
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
