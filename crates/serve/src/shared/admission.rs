//! Bounds of the memory and of the work that requests take together.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{header, HeaderMap, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};
use tokio::time::timeout;

use super::spare::Spare;
use crate::failure::Failure;
use crate::limits::Limits;

/// Bytes before a message of gRPC: a flag, and its length with the highest byte first.
const PREFIX: usize = 5;

/// Longest wait for writes that nobody waits for.
const LATER_WAIT: Duration = Duration::from_secs(10);

/// Lets so much in at a time.
pub(crate) struct Admission {
    body_bytes: u64,
    counts: Counts,
    /// A permit is a KiB of bodies.
    bodies: Arc<Semaphore>,
    /// Of bodies that were answered before their writes were made.
    later: Arc<Semaphore>,
    searches: Arc<Semaphore>,
    spare: Arc<Spare>,
}

/// Which bytes of a body count before all are here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    /// Those that it says it has: who sends it has a key.
    Said,
    /// Those that came: nobody knows who sends it.
    Came,
}

/// A body.
pub(crate) struct Admitted {
    pub(crate) bytes: Bytes,
    /// The body counts as long as this lives: what is made of it takes memory, too.
    pub(crate) counted: Counted,
}

/// Room that a body takes.
pub(crate) struct Counted(OwnedSemaphorePermit);

impl Counted {
    /// Bytes of the body, rounded to the next KiB.
    pub(crate) fn bytes(&self) -> usize {
        self.0.num_permits() << 10
    }

    /// Takes more room, so that a body may have so many bytes. Errors: `SERVICE_UNAVAILABLE`.
    fn grow(&mut self, bytes: usize) -> Result<(), Failure> {
        let wanted = (bytes >> 10) + 1;
        let more = wanted.saturating_sub(self.0.num_permits()) as u32;
        if more > 0 {
            let more = self.0.semaphore().clone().try_acquire_many_owned(more);
            self.0.merge(more.map_err(|_| no_room())?);
        }
        Ok(())
    }
}

impl Admission {
    pub(crate) fn new(limits: &Limits, counts: Counts) -> Admission {
        let permits = |bytes: u64| {
            let permits = (bytes.max(limits.body_bytes) >> 10) as usize + 1;
            Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)))
        };
        Admission {
            body_bytes: limits.body_bytes,
            counts,
            bodies: permits(limits.bodies_bytes),
            later: permits(limits.bodies_bytes / 2),
            searches: Arc::new(Semaphore::new(limits.searches)),
            spare: Arc::default(),
        }
    }

    /// Reads a body. Errors: `LENGTH_REQUIRED` without a length, `UNSUPPORTED_MEDIA_TYPE` if it is compressed,
    /// `PAYLOAD_TOO_LARGE`, `SERVICE_UNAVAILABLE` if other bodies take all the room, `BAD_REQUEST` if it ends early.
    pub(crate) async fn body(
        &self,
        headers: &HeaderMap,
        mut body: Body,
    ) -> Result<Admitted, Failure> {
        if headers.get(header::CONTENT_ENCODING).is_some_and(|how| how != "identity") {
            let what = "bodies are not compressed: leave out Content-Encoding";
            return Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, what));
        }
        let length = headers.get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        let length = match length {
            Some(length) => length,
            // Without a body, a request says so.
            None if !body.is_end_stream() => {
                let what = "give the length of the body, as Content-Length";
                return Err(Failure::new(StatusCode::LENGTH_REQUIRED, what));
            }
            None => 0,
        };
        let mut counted = self.count(length)?;
        let first = frame(&mut body).await?.unwrap_or_default();
        let bytes = self.whole(first, body, &mut counted, (length as usize, cut)).await?;
        Ok(Admitted { bytes, counted })
    }

    /// Reads the one message of a request of gRPC, with its prefix.
    ///
    /// gRPC gives no length of the body, but its first five bytes have that of the message. So the
    /// message is counted before it is read, as bodies are: until then a request holds what one frame
    /// of HTTP/2 holds. Messages that are compressed stay so, and are refused by the service.
    ///
    /// Errors: as [`Admission::body`].
    pub(crate) async fn message(&self, mut body: Body) -> Result<Admitted, Failure> {
        let mut first = Bytes::new();
        while first.len() < PREFIX {
            let some = frame(&mut body).await?.ok_or_else(cut)?;
            first = if first.is_empty() { some } else { [first, some].concat().into() };
        }
        let length = first[1..PREFIX].iter().fold(0, |length, byte| length << 8 | u64::from(*byte));
        let mut counted = self.count(length)?;
        let all = PREFIX + length as usize;
        let more = || Failure::bad("a request has one message");
        let bytes = self.whole(first, body, &mut counted, (all, more)).await?;
        if bytes.len() != all {
            return Err(cut());
        }
        Ok(Admitted { bytes, counted })
    }

    /// Reads the rest of a body, which is copied only where it comes in several frames. Errors: `more` if there
    /// are more bytes than expected, `BAD_REQUEST` if it ends early.
    async fn whole(
        &self,
        first: Bytes,
        mut body: Body,
        counted: &mut Counted,
        (expected, more): (usize, impl Fn() -> Failure),
    ) -> Result<Bytes, Failure> {
        if first.len() > expected {
            return Err(more());
        }
        let mut buffer = None;
        while let Some(some) = frame(&mut body).await? {
            if some.is_empty() {
                continue;
            }
            let buffer = buffer.get_or_insert_with(|| {
                let room = match self.counts {
                    Counts::Said => expected,
                    Counts::Came => first.len() + some.len(),
                };
                let mut buffer = self.spare.take(room);
                buffer.bytes.extend_from_slice(&first);
                buffer
            });
            if buffer.bytes.len() + some.len() > expected {
                return Err(more());
            }
            if self.counts == Counts::Came {
                counted.grow(buffer.bytes.len() + some.len())?;
            }
            buffer.bytes.extend_from_slice(&some);
        }
        Ok(buffer.map_or(first, Bytes::from_owner))
    }

    /// Counts a body. Errors: `PAYLOAD_TOO_LARGE`, and `SERVICE_UNAVAILABLE` if other bodies take all
    /// the room.
    fn count(&self, length: u64) -> Result<Counted, Failure> {
        if length > self.body_bytes {
            let what = format!("the body has {length} bytes: the limit is {}", self.body_bytes);
            return Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, what));
        }
        let now = if self.counts == Counts::Said { length } else { 0 };
        let counted = self.bodies.clone().try_acquire_many_owned((now >> 10) as u32 + 1);
        counted.map(Counted).map_err(|_| no_room())
    }

    /// Room for writes whose request is answered before they are made, which may come faster than they are made: waits
    /// for it. Errors: `SERVICE_UNAVAILABLE` if there is none within some seconds.
    pub(crate) async fn later(&self, bytes: usize) -> Result<Counted, Failure> {
        let room = self.later.clone().acquire_many_owned((bytes >> 10) as u32 + 1);
        match timeout(LATER_WAIT, room).await {
            Ok(Ok(room)) => Ok(Counted(room)),
            Ok(Err(_)) => Err(Failure::closing()),
            Err(_) => Err(Failure::busy("writes that nobody waits for take all the memory")),
        }
    }

    /// Lets a search in. Errors: `SERVICE_UNAVAILABLE`.
    pub(crate) fn search(&self) -> Result<OwnedSemaphorePermit, Failure> {
        self.searches.clone().try_acquire_owned().map_err(|error| match error {
            TryAcquireError::NoPermits => Failure::busy("too many searches at the same time"),
            TryAcquireError::Closed => Failure::closing(),
        })
    }
}

/// The next bytes of a body. Errors: `BAD_REQUEST` if it ends early.
async fn frame(body: &mut Body) -> Result<Option<Bytes>, Failure> {
    loop {
        match poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await {
            None => return Ok(None),
            Some(Err(_)) => return Err(cut()),
            // Trailers have no bytes.
            Some(Ok(frame)) => {
                if let Ok(bytes) = frame.into_data() {
                    return Ok(Some(bytes));
                }
            }
        }
    }
}

fn no_room() -> Failure {
    Failure::busy("other requests take all the memory")
}

fn cut() -> Failure {
    Failure::bad("the body did not come whole")
}
