//! Bounds of the memory and of the work that requests take together.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{header, HeaderMap, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

use crate::failure::Failure;
use crate::limits::Limits;

/// Lets so much in at a time.
pub(crate) struct Admission {
    body_bytes: u64,
    /// A permit is a KiB of bodies.
    bodies: Arc<Semaphore>,
    searches: Arc<Semaphore>,
}

/// A body, which counts as long as this lives.
pub(crate) struct Admitted {
    pub(crate) bytes: Bytes,
    _counted: OwnedSemaphorePermit,
}

impl Admission {
    pub(crate) fn new(limits: &Limits) -> Admission {
        let permits = (limits.bodies_bytes.max(limits.body_bytes) >> 10) as usize + 1;
        Admission {
            body_bytes: limits.body_bytes,
            bodies: Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS))),
            searches: Arc::new(Semaphore::new(limits.searches)),
        }
    }

    /// Reads a body. Errors: `LENGTH_REQUIRED` without a length, `PAYLOAD_TOO_LARGE`,
    /// `SERVICE_UNAVAILABLE` if other bodies take all the room, `BAD_REQUEST` if it ends early.
    pub(crate) async fn body(&self, headers: &HeaderMap, body: Body) -> Result<Admitted, Failure> {
        let length = headers.get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        let length = match length {
            Some(length) => length,
            None if headers.contains_key(header::TRANSFER_ENCODING) => {
                let what = "give the length of the body";
                return Err(Failure::new(StatusCode::LENGTH_REQUIRED, what));
            }
            None => 0,
        };
        if length > self.body_bytes {
            let what = format!("the body has {length} bytes: the limit is {}", self.body_bytes);
            return Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, what));
        }
        let permits = (length >> 10) as u32 + 1;
        let counted = self.bodies.clone().try_acquire_many_owned(permits);
        let counted = counted.map_err(|_| Failure::busy("other requests take all the memory"))?;
        let bytes = axum::body::to_bytes(body, length as usize).await;
        let bytes = bytes.map_err(|_| Failure::bad("the body did not come whole"))?;
        Ok(Admitted { bytes, _counted: counted })
    }

    /// Lets a search in. Errors: `SERVICE_UNAVAILABLE`.
    pub(crate) fn search(&self) -> Result<OwnedSemaphorePermit, Failure> {
        self.searches.clone().try_acquire_owned().map_err(|error| match error {
            TryAcquireError::NoPermits => Failure::busy("too many searches at the same time"),
            TryAcquireError::Closed => Failure::closing(),
        })
    }
}
