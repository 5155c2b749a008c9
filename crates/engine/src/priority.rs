//! How many threads share work, and which compute first where there are more than processors.

/// Lets other threads compute before this one, from now on: for work that is in nobody's way if it
/// takes longer.
pub fn yield_to_others() {
    const NICE: i32 = 5;
    // On Linux this concerns the thread alone. Where it is refused, it is merely less kind.
    #[cfg(target_os = "linux")]
    let _refused = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
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
