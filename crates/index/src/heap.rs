//! The C library's heap: gives its free pages back to the system, and keeps it from being many heaps.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Least time between two calls that do something, in the whole process.
const PAUSE: Duration = Duration::from_millis(250);

/// Gives the heap's free pages back to the system: call it after work that needed much memory for a
/// short time, on a thread that nobody waits for, or that has just taken far longer.
///
/// glibc has an arena per thread or two and keeps what was freed in each, so that a process with ten
/// threads holds several times what it uses. Cost: 1 to 2 ms for 80 MB, with the lock of one arena after
/// the other; most calls within a quarter of a second of another return at once. Other C libraries
/// give pages back themselves, or have no such call: then this does nothing, as where another
/// allocator is preloaded, whose heap it does not know.
pub fn give_back_heap() {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    /// Milliseconds after `BEGUN` from which the next call does something.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = BEGUN.get_or_init(Instant::now).elapsed().as_millis() as u64;
    let next = NEXT.load(Ordering::Relaxed);
    let after = now + PAUSE.as_millis() as u64;
    let is_mine = now >= next
        && NEXT.compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    if is_mine {
        trim();
    }
}

/// Gives the process a heap per processor, and large blocks pages of their own: for programs whose memory is
/// an engine's, which call it first of all. A library leaves that to its program.
///
/// glibc makes up to eight heaps per processor, and what one thread has freed in its own another does
/// not get. Once a block of up to 32 MB was freed, it takes the next ones of that size from a heap, where
/// small blocks come to lie between them. Leaves alone what the environment sets by `MALLOC_ARENA_MAX`,
/// `MALLOC_MMAP_THRESHOLD_` and `MALLOC_TRIM_THRESHOLD_`, and all of it where that has `GLIBC_TUNABLES`. Does
/// nothing with other C libraries.
pub fn share_heaps() {
    if std::env::var_os("GLIBC_TUNABLES").is_none() {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        set_heaps(processors);
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn set_heaps(most: usize) {
    /// Blocks of at least this many bytes take pages of their own, where no heap has room for them.
    const APART: libc::c_int = 256 << 10;
    /// Free bytes at the end of a heap that it keeps.
    const KEPT: libc::c_int = 1 << 20;
    let most = libc::c_int::try_from(most).unwrap_or(libc::c_int::MAX);
    let settings = [
        ("MALLOC_ARENA_MAX", libc::M_ARENA_MAX, most),
        ("MALLOC_MMAP_THRESHOLD_", libc::M_MMAP_THRESHOLD, APART),
        ("MALLOC_TRIM_THRESHOLD_", libc::M_TRIM_THRESHOLD, KEPT),
    ];
    for (name, setting, value) in settings {
        if std::env::var_os(name).is_none() {
            // SAFETY: the call takes no pointer and changes no memory that is in use.
            unsafe { libc::mallopt(setting, value) };
        }
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn set_heaps(_most: usize) {}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn trim() {
    // SAFETY: the call takes no pointer, may be made from any thread at any time, and changes no
    // memory that is in use.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}

#[cfg(test)]
mod tests {
    /// Bytes of this process that lie in memory.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn resident() -> u64 {
        let text = std::fs::read_to_string("/proc/self/status").expect("a status");
        let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a line");
        line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).expect("KiB") << 10
    }

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn pages_between_blocks_in_use_go_back() {
        // Every hundredth block stays, so that no heap can shrink from its end.
        let mut blocks: Vec<Vec<u8>> = (0..20_000).map(|_| vec![1; 4000]).collect();
        let mut at = 0;
        blocks.retain(|_| {
            at += 1;
            at % 100 == 0
        });
        let before = resident();
        super::trim();
        let after = resident();
        assert!(after + (40 << 20) < before, "{before} bytes before, {after} after");
        assert!(blocks.iter().all(|block| block.iter().all(|&byte| byte == 1)));
        super::give_back_heap();
    }
}
