//! What a law sees, and what comes of it.

use super::error::CoordinatorError;

/// What is seen at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// Seconds since some fixed moment; never less than in the observation before.
    pub time_s: f64,
    /// Queries that arrived since the observation before.
    pub arrivals: u64,
    /// Queries that wait and were not fetched. It is read from the offsets of the topic.
    pub backlog: u64,
    /// Queries that were fetched and are not answered.
    pub in_flight: u64,
    /// Replicas that take queries.
    pub running: u32,
    /// Replicas that were started and do not take queries yet.
    pub starting: u32,
    /// Mean seconds of a query at the target recall on a replica, measured. The inverse is the rate
    /// of a replica.
    pub service_s: f64,
    /// Seconds from the order to start a replica to its first answer, measured.
    pub start_s: f64,
    /// Whether queries are about to be fetched. Always true where each is fetched for itself.
    pub is_fetch: bool,
}

impl Observation {
    /// Queries per second of a replica.
    pub fn rate_of_replica(&self) -> f64 {
        1.0 / self.service_s
    }

    /// Replicas that run or start.
    pub fn replicas(&self) -> u32 {
        self.running.saturating_add(self.starting)
    }

    /// Queries that are not answered.
    pub fn open(&self) -> f64 {
        self.backlog as f64 + self.in_flight as f64
    }

    /// Seconds that the queries that wait need on the replicas that run.
    pub fn wait_s(&self) -> f64 {
        self.backlog as f64 * self.service_s / f64::from(self.running.max(1))
    }

    /// Refuses what no clock and no counter gives.
    ///
    /// * `last_s`: the time of the observation before.
    pub(super) fn check(&self, last_s: f64) -> Result<(), CoordinatorError> {
        let right = |name, must, is: f64, is_right: bool| match is_right && is.is_finite() {
            true => Ok(()),
            false => Err(CoordinatorError::Observation { name, must, is }),
        };
        right("the time", "no earlier than before", self.time_s, self.time_s >= last_s)?;
        right("the service time", "above 0 s", self.service_s, self.service_s > 0.0)?;
        right("the start time", "0 s or more", self.start_s, self.start_s >= 0.0)
    }
}

/// What should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// Replicas that should run, those that start among them.
    pub replicas: u32,
    /// Queries that are fetched together at most; `None`: all that wait.
    pub batch: Option<u64>,
    /// Recall that queries ask for: the target or the floor of the [`RecallRange`](super::RecallRange).
    pub recall: f64,
    /// Whether a batch is fetched only when all replicas that were started take queries.
    pub awaits_replicas: bool,
}
