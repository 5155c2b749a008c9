//! How many threads share work, and which compute first where there are more than processors.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use vstream_store::FileStore;

use crate::error::Error;

/// Lets other threads compute before this one, from now on: for work that is in nobody's way if it
/// takes longer.
pub fn yield_to_others() {
    const NICE: i32 = 5;
    // On Linux this concerns the thread alone. Where it is refused, it is merely less kind.
    #[cfg(target_os = "linux")]
    {
        let this = Some(rustix::thread::gettid());
        if rustix::process::getpriority_process(this).is_ok_and(|nice| nice < NICE) {
            let _refused = rustix::process::setpriority_process(this, NICE);
        }
    }
}

/// Threads that read files of a store that is far, most of which wait, and the rows of these files together: a
/// table of ids takes some 25 bytes for each while it is made.
const FAR_READERS: usize = 16;
const FAR_ROWS: u64 = 4 << 20;

/// Threads that read segments together: one per processor, more if the files are far, or the caller's alone.
///
/// * `rows`: most rows of a segment.
pub(crate) fn readers(in_parallel: bool, store: &FileStore, rows: u64) -> usize {
    let own = threads(in_parallel);
    match in_parallel && store.is_far() {
        true => ((FAR_ROWS / rows.max(1)) as usize).min(FAR_READERS).max(own),
        false => own,
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

/// Calls `make` with the numbers below `n` in so many threads, or in order in this one, until one fails. Returns
/// the results in order, or the error of the least number.
pub(crate) fn in_order<T: Send>(
    n: usize,
    threads: usize,
    make: &(dyn Fn(usize) -> Result<T, Error> + Sync),
) -> Result<Vec<T>, Error> {
    if n < 2 || threads < 2 {
        return (0..n).map(make).collect();
    }
    let (next, made) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(n)));
    // Numbers are taken in order: those below the one that failed are taken, and are made.
    let has_failed = AtomicBool::new(false);
    let work = || loop {
        if has_failed.load(Ordering::Relaxed) {
            return;
        }
        let at = next.fetch_add(1, Ordering::Relaxed);
        if at >= n {
            return;
        }
        let done = make(at);
        has_failed.fetch_or(done.is_err(), Ordering::Relaxed);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Results are in order; an error is that of the least number that fails, and little is tried after it.
    #[test]
    fn what_is_made_together_is_in_order_and_ends_at_an_error() {
        for threads in [1, 3, 16] {
            let made = in_order(500, threads, &|at| Ok(at * 2)).expect("all");
            assert!(made.iter().enumerate().all(|(at, &double)| double == 2 * at));
            let tried = AtomicUsize::new(0);
            let failed = in_order::<()>(5_000, threads, &|at| {
                tried.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(std::time::Duration::from_micros(20));
                if at % 100 == 40 {
                    Err(Error::invalid(at.to_string()))
                } else {
                    Ok(())
                }
            });
            let message = failed.expect_err("an error").to_string();
            assert!(message.contains("40") && !message.contains("140"), "{message}");
            let tried = tried.into_inner();
            assert!(tried < 1_000, "{tried} are tried with {threads} threads");
        }
    }
}
