//! A restore in a background thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::restore::Restore;
use crate::error::Error;

impl Restore {
    /// Starts a thread that fetches all pending files.
    pub fn fetch(&self) -> Result<Fetching, Error> {
        let (restore, control) = (self.clone(), Arc::new(Control::default()));
        let worker = control.clone();
        let work = move || {
            let keep_going = || !worker.is_stopped.load(Ordering::Relaxed);
            let mut done = Ok(true);
            while keep_going() && matches!(done, Ok(true)) {
                done = restore.fetch_next_while(&keep_going);
            }
            let mut end = worker.end.lock().unwrap_or_else(PoisonError::into_inner);
            *end = Some(done.map(|_| ()));
            worker.has_ended.notify_all();
        };
        let thread = std::thread::Builder::new().name("vstream-fetch".to_owned()).spawn(work);
        let thread = thread
            .map_err(|e| Error::io(self.shared.local.describe(""), "begin a thread for", &e))?;
        Ok(Fetching { control, thread: Some(thread) })
    }
}

/// A restore in a background thread. Dropping it stops the thread; a new one may be started later.
pub struct Fetching {
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Control {
    is_stopped: AtomicBool,
    end: Mutex<Option<Result<(), Error>>>,
    has_ended: Condvar,
}

impl Fetching {
    /// Waits until all files are fetched. Errors: as [`Restore::fetch_next`].
    pub fn wait(self) -> Result<(), Error> {
        let mut end = self.control.end.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match end.take() {
                Some(end) => return end,
                None => {
                    let ended = self.control.has_ended.wait(end);
                    end = ended.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        self.control.is_stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread has already printed its panic.
            let _ = thread.join();
        }
    }
}
