//! A thread of the engine that works beside the writer, and its result.

use std::sync::mpsc::{sync_channel, Receiver, TryRecvError};
use std::thread::JoinHandle;

/// A thread and the result of its work, which may be taken before the thread has ended.
///
/// A thread that has given its result still gives its memory back to its heap, and waits while another thread holds
/// that heap to give pages back: up to 200 ms, which no commit should wait for.
pub(crate) struct Background<T> {
    thread: JoinHandle<()>,
    result: Receiver<T>,
}

impl<T: Send + 'static> Background<T> {
    /// Begins `work` on a thread named `name`. Errors: those of the operating system.
    pub(crate) fn begin(
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> std::io::Result<Background<T>> {
        let (give, result) = sync_channel(1);
        // What `work` holds is dropped before its result is there. Who gave the thread up takes no result.
        let thread = move || drop(give.send(work()));
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(thread)?;
        Ok(Background { thread, result })
    }

    /// The result if it is there, without waiting; an error if it never will be, since the work has panicked.
    pub(crate) fn poll(&self) -> Option<Result<T, Panicked>> {
        match self.result.try_recv() {
            Ok(result) => Some(Ok(result)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(Panicked)),
        }
    }

    /// Waits for the result, and for the end of the thread.
    pub(crate) fn wait(self) -> Result<T, Panicked> {
        let result = self.result.recv().map_err(|_| Panicked);
        // A panic was the end of `work`, and has sent nothing.
        let _ = self.thread.join();
        result
    }
}

/// The work panicked, and printed why.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Panicked;

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_result_is_there_once_what_the_work_held_is_gone() {
        let (go, wait) = channel::<()>();
        let held = Arc::new(());
        let holds = held.clone();
        let begun = Background::begin("test", move || {
            let _ = wait.recv();
            Arc::strong_count(&holds)
        });
        let begun = begun.expect("a thread");
        assert_eq!(begun.poll(), None);
        go.send(()).expect("a thread that waits");
        let found = loop {
            match begun.poll() {
                None => std::thread::yield_now(),
                Some(found) => break found,
            }
        };
        assert_eq!((found, Arc::strong_count(&held)), (Ok(2), 1));
    }

    #[test]
    fn a_panic_is_a_result_too() {
        let begin =
            || Background::<u8>::begin("test", || panic!("as this test wants")).expect("a thread");
        assert_eq!(begin().wait(), Err(Panicked));
        let begun = begin();
        while begun.poll().is_none() {
            std::thread::yield_now();
        }
        assert_eq!(Background::begin("test", || 7).expect("a thread").wait(), Ok(7));
    }
}
