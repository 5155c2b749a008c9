//! Hands the newest figures to everybody who looks.
//!
//! Whoever reads slowly misses figures, and never makes the server keep some: a viewer has one event
//! that waits, and is let go if it does not take that one in time.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use hyper::body::{Bytes, Frame};
use tokio::sync::{mpsc, watch, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::failure::Failure;

/// Pages that are open at the same time.
const VIEWERS: usize = 16;
/// Longest wait for a viewer to take an event.
const STALLED: Duration = Duration::from_secs(30);

/// The newest figures, and room for those who look at them.
pub(crate) struct Feed<T> {
    latest: watch::Sender<Option<Arc<T>>>,
    room: Arc<Semaphore>,
}

impl<T: Send + Sync + 'static> Feed<T> {
    pub(crate) fn new() -> Feed<T> {
        Feed { latest: watch::channel(None).0, room: Arc::new(Semaphore::new(VIEWERS)) }
    }

    pub(crate) fn show(&self, figures: T) {
        self.latest.send_replace(Some(Arc::new(figures)));
    }

    /// True while somebody looks.
    pub(crate) fn is_watched(&self) -> bool {
        self.latest.receiver_count() > 0
    }

    /// Answers a viewer with events until it goes or `stop` is true.
    ///
    /// * `text`: what it may see, as JSON on one line.
    ///
    /// Errors: `SERVICE_UNAVAILABLE` if too many look already.
    pub(crate) fn open(
        &self,
        stop: watch::Receiver<bool>,
        text: impl Fn(&T) -> String + Send + 'static,
    ) -> Result<Response, Failure> {
        let permit = self.room.clone().try_acquire_owned();
        let permit = permit.map_err(|_| Failure::busy("too many pages are open"))?;
        let (out, events) = mpsc::channel(1);
        tokio::spawn(show(self.latest.subscribe(), stop, out, text, permit));
        let headers =
            [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
        Ok((headers, Body::new(Events(events))).into_response())
    }
}

/// Sends a viewer the newest figures, whenever there are newer ones.
async fn show<T>(
    mut seen: watch::Receiver<Option<Arc<T>>>,
    mut stop: watch::Receiver<bool>,
    out: mpsc::Sender<Bytes>,
    text: impl Fn(&T) -> String,
    _permit: OwnedSemaphorePermit,
) {
    loop {
        tokio::select! {
            // The last figures come before the end.
            biased;
            changed = seen.changed() => if changed.is_err() { return },
            _ = stop.wait_for(|stop| *stop) => return,
            () = out.closed() => return,
        }
        let figures = seen.borrow_and_update().clone();
        let Some(figures) = figures else { continue };
        let event = Bytes::from(format!("data: {}\n\n", text(&figures)));
        match timeout(STALLED, out.send(event)).await {
            Ok(Ok(())) => {}
            _ => return,
        }
    }
}

/// The body of an answer that goes on.
struct Events(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Events {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}
