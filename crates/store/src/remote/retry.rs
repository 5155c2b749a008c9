//! Retries with growing random waits and a time limit. Random waits prevent many clients from
//! retrying at the same moment.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use vstream_vector::SplitMix;

use super::objects::{Fault, FaultKind};
use crate::clock::Clock;
use crate::error::{Error, ErrorKind};

/// Time limits of calls to a remote store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Longest time of one request.
    pub attempt: Duration,
    /// Longest time of all requests of a call and the waits between them. Publishing a large file
    /// gets ten times as long, because the object store copies the file.
    pub total: Duration,
    /// Upper bound of the first wait. The bound of each further wait is twice as high.
    pub first_wait: Duration,
    /// Upper bound of any wait.
    pub wait_max: Duration,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            attempt: Duration::from_secs(10),
            total: Duration::from_secs(60),
            first_wait: Duration::from_millis(100),
            wait_max: Duration::from_secs(5),
        }
    }
}

/// Retries requests by a policy.
pub(super) struct Retry {
    policy: RetryPolicy,
    clock: Arc<dyn Clock>,
    random: Mutex<SplitMix>,
}

/// One call, which may make several requests.
pub(super) struct Call<'a> {
    retry: &'a Retry,
    begun: Duration,
    total: Duration,
    /// Number of requests that failed so far.
    pub(super) attempts: u32,
    /// True if a failed request may have taken effect.
    pub(super) is_doubtful: bool,
}

impl Retry {
    pub(super) fn new(policy: RetryPolicy, clock: Arc<dyn Clock>, seed: u64) -> Retry {
        Retry { policy, clock, random: Mutex::new(SplitMix(seed)) }
    }

    /// Begins a call whose time limit is `times` the total of the policy.
    pub(super) fn call(&self, times: u32) -> Call<'_> {
        let (begun, total) = (self.clock.now(), self.policy.total * times);
        Call { retry: self, begun, total, attempts: 0, is_doubtful: false }
    }
}

impl Call<'_> {
    fn left(&self) -> Duration {
        self.total.saturating_sub(self.retry.clock.now().saturating_sub(self.begun))
    }

    /// Time limit of the next request.
    pub(super) fn timeout(&self) -> Duration {
        self.left().min(self.retry.policy.attempt)
    }

    /// Time limit of the next request if it does the work of many.
    pub(super) fn long_timeout(&self) -> Duration {
        self.left().min(self.retry.policy.attempt * 10)
    }

    /// Handles a fault: returns when the next request may be made.
    ///
    /// Errors: the fault's own if a retry cannot help, `Unavailable` if the time limit is reached.
    pub(super) fn wait(&mut self, fault: &Fault, file: &str, doing: &str) -> Result<(), Error> {
        let kind = match fault.kind {
            FaultKind::NotFound => ErrorKind::NotFound,
            FaultKind::Exists => ErrorKind::Exists,
            FaultKind::Refused => ErrorKind::Io,
            FaultKind::Doubtful => return self.pause(fault, file, doing),
        };
        Err(Error::new(kind, file, format_args!("cannot {doing}: {}", fault.what)))
    }

    fn pause(&mut self, fault: &Fault, file: &str, doing: &str) -> Result<(), Error> {
        self.attempts += 1;
        self.is_doubtful = true;
        let RetryPolicy { first_wait, wait_max, .. } = self.retry.policy;
        let most = first_wait.saturating_mul(1 << (self.attempts - 1).min(20)).min(wait_max);
        let drawn = self.retry.random.lock().unwrap_or_else(PoisonError::into_inner).unit();
        // Waits at least half of the bound; otherwise an overloaded store gets no rest.
        let wait = most.mul_f32(0.5 + 0.5 * drawn);
        if wait >= self.left() {
            return Err(Error::new(
                ErrorKind::Unavailable,
                file,
                GaveUp { call: self, fault, doing },
            ));
        }
        self.retry.clock.sleep(wait);
        Ok(())
    }
}

struct GaveUp<'a> {
    call: &'a Call<'a>,
    fault: &'a Fault,
    doing: &'a str,
}

impl fmt::Display for GaveUp<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GaveUp { call, fault, doing } = self;
        write!(
            f,
            "cannot {doing}: no answer to {} requests within {:.1} s; the last one ended with: {}. \
             Try again later",
            call.attempts,
            call.total.as_secs_f32(),
            fault.what
        )
    }
}
