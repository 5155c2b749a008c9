//! What a server accepts at most.

use std::time::Duration;

/// What a server accepts at most. All are checked before anything changes.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of the body of a request.
    pub body_bytes: u64,
    /// Bytes of the bodies that are being read or worked on, in all.
    pub bodies_bytes: u64,
    /// Points in one request, and points that one request reads.
    pub points: usize,
    /// Queries in one request.
    pub queries: usize,
    /// Collections.
    pub collections: usize,
    /// Open connections; further ones are closed at once.
    pub connections: usize,
    /// Requests that search or read at the same time; further ones are refused with 503.
    pub searches: usize,
    /// Streams that go on until their client ends them, such as those of replicas: one per collection and
    /// replica. Further ones are refused with 503.
    pub streams: usize,
    /// Bytes of logs of a collection that are kept for replicas and watchers that lag, after a checkpoint has
    /// replaced them. None are kept before the first of them asks.
    pub follow_bytes: u64,
    /// Time to read the head of a request, and to wait for the next one on a connection.
    pub head: Duration,
    /// Time for a request, its body included.
    pub request: Duration,
    /// Time after which a connection ends whose client takes nothing of what it asked for.
    pub stall: Duration,
    /// Time that a shutdown waits for requests that are being answered.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            body_bytes: 32 << 20,
            bodies_bytes: 256 << 20,
            points: 10_000,
            queries: 1_000,
            collections: 1_000,
            connections: 4_096,
            searches: 1_024,
            streams: 2_048,
            follow_bytes: 128 << 20,
            head: Duration::from_secs(30),
            request: Duration::from_secs(60),
            stall: Duration::from_secs(60),
            drain: Duration::from_secs(10),
        }
    }
}
