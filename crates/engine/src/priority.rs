//! How many threads share work, and which compute first where there are more than processors.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use vstream_store::FileStore;

use crate::error::Error;

/// Lets other threads compute before this one, from now on: for work that is in nobody's way if it
/// takes longer.
pub fn yield_to_others() {
    const NICE: i32 = 5;
    // On Linux this concerns the thread alone. Where it is refused, it is merely less kind.
    #[cfg(target_os = "linux")]
    let _refused = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
}

/// Threads that read files of a store that is far: most of them wait.
const FAR_READERS: usize = 16;

/// Threads that read files together: one per processor, more if the files are far, or the caller's alone.
pub(crate) fn readers(in_parallel: bool, store: &FileStore) -> usize {
    match in_parallel && store.is_far() {
        true => FAR_READERS,
        false => threads(in_parallel),
    }
}

/// Threads that share work: one per processor, or the caller's alone.
pub(crate) fn threads(in_parallel: bool) -> usize {
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    if in_parallel {
        processors()
    } else {
        1
    }
}

/// Calls `make` with the numbers below `n` in so many threads, or in order in this one. Returns the results
/// in order, or the error of the least number.
pub(crate) fn in_order<T: Send>(
    n: usize,
    threads: usize,
    make: &(dyn Fn(usize) -> Result<T, Error> + Sync),
) -> Result<Vec<T>, Error> {
    if n < 2 || threads < 2 {
        return (0..n).map(make).collect();
    }
    let (next, made) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(n)));
    let work = || loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        if at >= n {
            return;
        }
        let done = make(at);
        made.lock().unwrap_or_else(PoisonError::into_inner).push((at, done));
    };
    // The scope passes a panic of a thread on.
    std::thread::scope(|scope| {
        (1..threads.min(n)).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    let mut made = made.into_inner().unwrap_or_else(PoisonError::into_inner);
    made.sort_unstable_by_key(|&(at, _)| at);
    made.into_iter().map(|(_, done)| done).collect()
}
