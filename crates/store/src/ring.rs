//! Several reads with one call to the operating system and without threads: io_uring.
//!
//! A query wants some fifty small reads at once. Threads that make them have to be woken, and where processors are
//! busy each waits for its turn; here the kernel has all reads at once, and the caller sleeps until they are there.
//! Each thread that reads has a ring of its own, made with its first reads and closed with the thread.
//!
//! A kernel may refuse rings, as the default rules of many containers do. Then, and for a read that failed or came
//! short, the caller reads as if there were no ring.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::{opcode, types, IoUring, Probe};

use crate::buffer::Buffer;

/// Reads in flight at once, and those of a thread that lets others go first.
const ENTRIES: u32 = 64;
const FEW: u32 = 8;

/// Times that a round waits again, where that was not possible for the moment.
const TRIES: usize = 10_000;

/// A read as the operating system makes it.
pub struct PlannedRead {
    file: Arc<File>,
    offset: u64,
    buffer: Buffer,
    /// The wanted part of what is read.
    skip: usize,
    bytes: usize,
}

impl PlannedRead {
    /// A read that fills `buffer` from `offset`, of which `bytes` bytes after the first `skip` are wanted. `None` if
    /// it is longer than a single read may be.
    pub(crate) fn new(
        (file, offset): (Arc<File>, u64),
        buffer: Buffer,
        (skip, bytes): (usize, usize),
    ) -> Option<PlannedRead> {
        let is_single = i32::try_from(buffer.len()).is_ok();
        is_single.then_some(PlannedRead { file, offset, buffer, skip, bytes })
    }

    /// What is wanted, if that many bytes were read.
    fn finish(self, read: usize) -> Option<Buffer> {
        (read >= self.skip + self.bytes).then(|| self.buffer.narrow(self.skip, self.bytes))
    }
}

/// The ring of a thread.
enum Ring {
    Untried,
    Ready(Box<IoUring>),
    Refused,
}

thread_local! {
    static RING: RefCell<Ring> = const { RefCell::new(Ring::Untried) };
    static AT_ONCE: Cell<u32> = const { Cell::new(ENTRIES) };
}

#[cfg(test)]
thread_local! {
    /// Most reads that this thread had in flight.
    static MOST: Cell<usize> = const { Cell::new(0) };
}

/// From now on this thread has few reads in flight at once, so that those of others need not queue behind them.
pub fn read_few_at_once() {
    AT_ONCE.set(FEW);
}

impl Ring {
    fn ready(&mut self) -> Option<&mut IoUring> {
        if let Ring::Untried = self {
            *self = made().map_or(Ring::Refused, |ring| Ring::Ready(Box::new(ring)));
        }
        match self {
            Ring::Ready(ring) => Some(ring),
            _ => None,
        }
    }
}

/// A ring, if the kernel has them and knows reads: before 5.6 it has and does not.
fn made() -> Option<IoUring> {
    let ring = IoUring::new(ENTRIES).ok()?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe).ok()?;
    probe.is_supported(opcode::Read::CODE).then_some(ring)
}

/// True if this thread has a ring, or gets one.
pub(crate) fn is_there() -> bool {
    RING.try_with(|ring| ring.borrow_mut().ready().is_some()).unwrap_or(false)
}

/// Makes reads at the same time, and returns them in the given order; `None` for one that failed or came short.
pub(crate) fn read_all(mut planned: Vec<PlannedRead>) -> Vec<Option<Buffer>> {
    let read = RING.try_with(|ring| {
        let mut ring = ring.borrow_mut();
        let read = run(ring.ready()?, &mut planned);
        if read.is_err() {
            *ring = Ring::Refused;
        }
        Some(read)
    });
    match read {
        Ok(Some(Ok(read))) => planned.into_iter().zip(read).map(|(of, n)| of.finish(n)).collect(),
        Ok(Some(Err(_))) => {
            let count = planned.len();
            // The kernel may still write to the buffers: their memory is never used again.
            planned.into_iter().for_each(|read| std::mem::forget(read.buffer));
            (0..count).map(|_| None).collect()
        }
        _ => planned.iter().map(|_| None).collect(),
    }
}

/// Bytes that each read got, 0 if it failed. Errors: those of waiting for the ring; reads may be in flight then.
fn run(ring: &mut IoUring, planned: &mut [PlannedRead]) -> io::Result<Vec<usize>> {
    let mut read = vec![0; planned.len()];
    let (mut begun, mut done, mut tries) = (0, 0, 0);
    let at_once = AT_ONCE.get() as usize;
    while done < planned.len() {
        let mut queue = ring.submission();
        while begun < planned.len() && begun - done < at_once {
            let PlannedRead { file, offset, buffer, .. } = &mut planned[begun];
            let into = buffer.as_mut();
            let entry = opcode::Read::new(
                types::Fd(file.as_raw_fd()),
                into.as_mut_ptr(),
                into.len() as u32,
            );
            let entry = entry.offset(*offset).build().user_data(begun as u64);
            // SAFETY: the file is open while the entry is submitted, and the buffer stays where it is until the read is
            // done, since `planned` has both, the loop ends only then, and after an error buffers are never freed.
            // Nobody else looks at the buffer meanwhile.
            if unsafe { queue.push(&entry) }.is_err() {
                break;
            }
            begun += 1;
        }
        drop(queue);
        #[cfg(test)]
        MOST.set(MOST.get().max(begun - done));
        // While there are more to begin, half of those in flight make room for them.
        let in_flight = begun - done;
        let awaited = if begun < planned.len() { in_flight.div_ceil(2) } else { in_flight };
        match ring.submit_and_wait(awaited) {
            Ok(_) => {}
            // A signal, or the kernel lacks memory or wants what is done to be taken first.
            Err(error) if is_passing(&error) && tries < TRIES => {
                tries += 1;
                std::thread::yield_now();
            }
            Err(error) => return Err(error),
        }
        for completed in ring.completion() {
            read[completed.user_data() as usize] = usize::try_from(completed.result()).unwrap_or(0);
            done += 1;
        }
    }
    Ok(read)
}

fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy
    )
}

#[cfg(test)]
mod tests;
