//! How soon a thread gets a processor that others use.

/// This thread has mostly short work that somebody waits for, from now on: it asks the system for short slices of
/// a processor, so that it gets one sooner when it wakes. It gets no more of the processor for that, and threads
/// that it starts do not ask.
///
/// Linux gives a thread that wakes the processor at once where its slice is shorter than that of the thread
/// which computes, and the latter has had its share; without that the wait may be 4 ms. Kernels before 6.12
/// take no notice; threads with another policy than the usual ones are left alone. Cost: two calls of the system.
pub fn answer_soon() {
    ask_for(SHORT_NS);
}

/// The shortest slice that Linux gives.
const SHORT_NS: u64 = 100_000;

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn ask_for(nanoseconds: u64) {
    if let Some(now) = attributes() {
        let is_usual = [libc::SCHED_OTHER, libc::SCHED_BATCH].contains(&(now.sched_policy as i32));
        if is_usual {
            let sched_flags = now.sched_flags | libc::SCHED_FLAG_RESET_ON_FORK as u64;
            let asked = libc::sched_attr { sched_runtime: nanoseconds, sched_flags, ..now };
            // Where it is refused, answers merely wait for longer.
            // SAFETY: the kernel reads `size` bytes of `asked`, which lives until the call returns, and changes
            // nothing but how it schedules this thread.
            let _refused =
                unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const asked, 0) };
        }
    }
}

/// How the system schedules this thread; `None` if it does not say.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn attributes() -> Option<libc::sched_attr> {
    let size = size_of::<libc::sched_attr>() as u32;
    let mut now = libc::sched_attr {
        size,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel writes at most `size` bytes to `now`, which are all its own.
    let failed = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut now, size, 0) };
    (failed == 0).then_some(now)
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn ask_for(_nanoseconds: u64) {}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_priority_and_asks_for_itself_alone() {
        let now = || attributes().expect("attributes");
        let (before, after, child) = std::thread::spawn(move || {
            let before = now();
            answer_soon();
            (before, now(), std::thread::spawn(now).join().expect("no panic"))
        })
        .join()
        .expect("no panic");
        assert_eq!(
            (after.sched_policy, after.sched_nice),
            (before.sched_policy, before.sched_nice)
        );
        // Kernels before 6.12 have no slices of threads.
        let expected = if before.sched_runtime == 0 { 0 } else { SHORT_NS };
        assert_eq!(after.sched_runtime, expected);
        for other in [child, now()] {
            assert_eq!(other.sched_runtime, before.sched_runtime);
        }
    }
}
