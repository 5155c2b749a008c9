//! Threads for large requests: reading one takes milliseconds, for which a thread that answers queries
//! must not be away.

use std::future::Future;

use tokio::runtime::Runtime;
use tokio::task::{AbortHandle, JoinHandle};

use crate::failure::Failure;
use crate::turns::take_turns;

/// Requests of fewer bytes are read where they came in.
pub(crate) const LARGE: usize = 32 << 10;

/// A thread per processor, which lets others compute first. What waits here is bounded by the bytes of
/// all bodies.
pub(crate) struct Heavy {
    /// There until this is dropped.
    runtime: Option<Runtime>,
}

impl Heavy {
    /// Starts the threads; they end with this. Errors: a sentence.
    pub(crate) fn start() -> Result<Heavy, String> {
        let threads = tokio::runtime::Builder::new_multi_thread()
            .thread_name("heavy")
            .on_thread_start(take_turns)
            .enable_time()
            .build();
        let runtime = threads.map_err(|error| format!("there is no thread: {error}"))?;
        Ok(Heavy { runtime: Some(runtime) })
    }

    /// Runs something there. Errors: `INTERNAL_SERVER_ERROR` if it panics.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        self.answer(async move { work() }).await
    }

    /// Answers a request there; the answer ends unfinished with the future that waits for it. Errors:
    /// `INTERNAL_SERVER_ERROR` if it panics.
    pub(crate) async fn answer<T: Send + 'static>(
        &self,
        request: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Failure> {
        let ended = || Failure::broken("a thread for large requests ended");
        let task: JoinHandle<T> = self.runtime.as_ref().ok_or_else(ended)?.spawn(request);
        let _ends = Ends(task.abort_handle());
        task.await.map_err(|_| ended())
    }
}

impl Drop for Heavy {
    /// Waits for nothing: whoever drops this may be a task, which must not wait for threads.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Ends a task when nobody waits for it any more.
struct Ends(AbortHandle);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.abort();
    }
}
