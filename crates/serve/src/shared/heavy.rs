//! Threads for large bodies: parsing one takes milliseconds, for which a thread that answers queries
//! must not be away.

use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use crate::failure::Failure;
use crate::turns::take_turns;

/// Bodies of fewer bytes are parsed where they were read.
pub(crate) const LARGE: usize = 32 << 10;

type Work = Box<dyn FnOnce() + Send>;

/// A thread per processor, which lets others compute first. What waits here is bounded by the bytes of
/// all bodies.
pub(crate) struct Heavy {
    work: Sender<Work>,
}

impl Heavy {
    /// Starts the threads; they end with this. Errors: a sentence.
    pub(crate) fn start() -> Result<Heavy, String> {
        let (work, waiting) = channel::<Work>();
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let waiting = waiting.clone();
            let thread = std::thread::Builder::new().name("parse".to_owned());
            let started = thread.spawn(move || {
                take_turns();
                while let Some(work) = next(&waiting) {
                    work();
                }
            });
            started.map_err(|error| format!("there is no thread: {error}"))?;
        }
        Ok(Heavy { work })
    }

    /// Runs something there. Errors: `INTERNAL_SERVER_ERROR` if it panics.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let (done, result) = oneshot::channel();
        let work: Work = Box::new(move || {
            // Nobody waits any more if the connection is gone.
            let _ = done.send(work());
        });
        self.work.send(work).map_err(|_| Failure::broken("there is no thread for large bodies"))?;
        result.await.map_err(|_| Failure::broken("a thread for large bodies ended"))
    }
}

fn next(waiting: &Mutex<Receiver<Work>>) -> Option<Work> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}
