//! A thread that prepares the memory of the next two slabs.
//!
//! The first touch of a huge page zeroes 2 MiB. That takes 0.1 ms, and 6 ms on a virtual machine that
//! has not used this memory before: too long for the write that happens to need a slab. If there is no
//! thread (it could not start, or the process is a fork), the first touch of a slab zeroes it.

use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use super::{out_of_memory, Mapping, SLAB};

/// Prepared slabs: one for rows, and one for their ids, codes or a second index.
const SPARE: usize = 2;

struct Spares {
    ready: Mutex<Vec<Mapping>>,
    wanted: Condvar,
}

impl Spares {
    fn lock(&self) -> MutexGuard<'_, Vec<Mapping>> {
        // Every change of the list is one call, so a poisoned list is whole.
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps [`SPARE`] slabs ready for ever. If there is no memory it waits: nobody needs them yet.
    fn run(&self) {
        let mut ready = self.lock();
        loop {
            if ready.len() < SPARE {
                drop(ready);
                let mapping = Mapping::huge().map(|mut mapping| {
                    mapping.touch();
                    mapping
                });
                ready = self.lock();
                if let Some(mapping) = mapping {
                    ready.push(mapping);
                    continue;
                }
            }
            ready = self.wanted.wait(ready).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

static SPARES: Spares = Spares { ready: Mutex::new(Vec::new()), wanted: Condvar::new() };

/// The memory of a slab, prepared if the thread had time.
pub(super) fn take() -> Mapping {
    static THREAD: OnceLock<bool> = OnceLock::new();
    let mapping = SPARES.lock().pop();
    THREAD.get_or_init(|| {
        let thread = std::thread::Builder::new().name("vstream-memory".to_owned());
        thread.spawn(|| SPARES.run()).is_ok()
    });
    SPARES.wanted.notify_one();
    mapping.or_else(Mapping::huge).unwrap_or_else(|| out_of_memory(2 * SLAB))
}
