//! A coordinator with its replicas: what is seen becomes an observation, and a decision becomes orders.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::decide::Coordinator;
use super::error::{seconds, setting, CoordinatorError};
use super::fleet::{reach, ReplicaId, ReplicaState, Replicas};
use super::observation::{Decision, Observation};
use super::routes::Routes;

/// Weight of a new service time beside those before.
const SERVICE_WEIGHT: f64 = 0.02;
/// Weight of a new start time: there are few. The first one takes the place of what was assumed.
const START_WEIGHT: f64 = 0.3;

/// What a [`Steering`] begins with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SteeringSettings {
    /// Seconds of a query on a replica, until some were measured; above 0.
    pub service_s: f64,
    /// Seconds to start a replica, until one was measured; above 0.
    pub start_s: f64,
    /// Queries at a replica at a time: 1 to 1,000; as many as it has threads.
    pub at_a_time: u32,
}

/// A coordinator that steers replicas and routes queries to them.
///
/// The caller has the queries and the clock: it says what arrived and what was answered, takes places
/// for queries, and lets a tick pass now and then, some ten per second.
pub struct Steering<R: Replicas> {
    coordinator: Coordinator,
    replicas: R,
    routes: Routes,
    settings: SteeringSettings,
    arrivals: u64,
    /// Replicas whose start was measured, and whether there was ever one.
    ready: BTreeSet<ReplicaId>,
    is_start_measured: bool,
}

impl<R: Replicas> Steering<R> {
    /// Errors: `Setting`.
    pub fn new(
        coordinator: Coordinator,
        replicas: R,
        settings: SteeringSettings,
    ) -> Result<Steering<R>, CoordinatorError> {
        seconds("the service time", settings.service_s)?;
        seconds("the start time", settings.start_s)?;
        let at_a_time = settings.at_a_time;
        let fits = (1..=1_000).contains(&at_a_time);
        setting("queries at a time", "1 to 1,000", f64::from(at_a_time), fits)?;
        let (routes, ready) = (Routes::default(), BTreeSet::new());
        let (arrivals, is_start_measured) = (0, false);
        Ok(Steering { coordinator, replicas, routes, settings, arrivals, ready, is_start_measured })
    }

    /// Queries arrived; they wait until they are picked a place.
    pub fn arrived(&mut self, queries: u64) {
        self.arrivals = self.arrivals.saturating_add(queries);
    }

    /// A place for the query that waits longest; `None` while all replicas are busy. The query counts as
    /// under way until [`Steering::done`].
    pub fn pick(&mut self) -> Option<(ReplicaId, SocketAddr)> {
        self.pick_but(&[])
    }

    /// As [`Steering::pick`], for a query that these replicas did not answer.
    pub fn pick_but(&mut self, except: &[ReplicaId]) -> Option<(ReplicaId, SocketAddr)> {
        let id = self.routes.pick(self.settings.at_a_time, except)?;
        match self.replicas.address(id) {
            Some(address) => Some((id, address)),
            // It has ended since the last tick.
            None => {
                self.routes.done(id);
                None
            }
        }
    }

    /// A query was answered.
    ///
    /// * `service_s`: seconds that it was at the replica; `None` if it has failed.
    pub fn done(&mut self, id: ReplicaId, service_s: Option<f64>) {
        self.routes.done(id);
        if let Some(time) = service_s.filter(|time| time.is_finite() && *time > 0.0) {
            // A replica with several threads answers as many in that time.
            let time = time / f64::from(self.settings.at_a_time);
            self.settings.service_s += SERVICE_WEIGHT * (time - self.settings.service_s);
        }
    }

    /// Looks at the replicas, decides, and orders what is missing or too much.
    ///
    /// * `time_s`: seconds since some fixed moment; never less than before.
    /// * `backlog`: queries that wait for a place.
    ///
    /// Errors: `Observation`; as [`reach`]. The next tick tries again what failed.
    pub fn tick(&mut self, time_s: f64, backlog: u64) -> Result<Decision, CoordinatorError> {
        let list = self.replicas.list();
        self.routes.follow(&list);
        for replica in &list {
            let Some(start_s) = replica.start_s else { continue };
            if self.ready.insert(replica.id) {
                let weight = if self.is_start_measured { START_WEIGHT } else { 1.0 };
                self.settings.start_s += weight * (start_s - self.settings.start_s);
                self.is_start_measured = true;
            }
        }
        self.ready.retain(|id| list.iter().any(|replica| replica.id == *id));
        let count = |state| list.iter().filter(|replica| replica.state == state).count() as u32;
        let decision = self.coordinator.decide(&Observation {
            time_s,
            arrivals: std::mem::take(&mut self.arrivals),
            backlog,
            in_flight: self.routes.in_flight(),
            running: count(ReplicaState::Ready),
            starting: count(ReplicaState::Starting),
            service_s: self.settings.service_s,
            start_s: self.settings.start_s,
            is_fetch: true,
        })?;
        reach(&mut self.replicas, decision.replicas)?;
        // Those that were stopped get nothing from now on.
        self.routes.follow(&self.replicas.list());
        Ok(decision)
    }

    /// A query got no answer, and its replica gets no other until the next tick has looked at it.
    pub fn lost(&mut self, id: ReplicaId) {
        self.done(id, None);
        self.routes.avoid(id);
    }

    /// Service and start time in seconds, as they were measured so far.
    pub fn measured(&self) -> (f64, f64) {
        (self.settings.service_s, self.settings.start_s)
    }

    /// The replicas.
    pub fn replicas(&mut self) -> &mut R {
        &mut self.replicas
    }
}
