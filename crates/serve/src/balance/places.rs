//! Which replica gets a request, and when. A request waits here until a replica has room.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::coordinator::{CoordinatorError, Decision, ReplicaId, ReplicaState, Replicas, Steering};
use crate::failure::Failure;

/// What waits, and the replicas it waits for.
pub(super) struct Places<R: Replicas> {
    state: Mutex<State<R>>,
    /// Requests that may wait.
    waiting_max: usize,
    begun: Instant,
}

struct State<R: Replicas> {
    steering: Steering<R>,
    /// The one that waits longest first. Some of them may have gone away.
    waiting: VecDeque<oneshot::Sender<Place<R>>>,
    counts: Counts,
}

/// How the fleet is doing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Counts {
    /// Replicas that should run.
    pub(super) wanted: u32,
    pub(super) starting: u32,
    pub(super) ready: u32,
    pub(super) stopping: u32,
    pub(super) waiting: u64,
    /// Seconds of a request on a replica, and of a start, as they were measured.
    pub(super) service_s: f64,
    pub(super) start_s: f64,
    /// Why the last look at the fleet failed, if it did.
    pub(super) trouble: Option<String>,
}

/// Room for one request at a replica. Dropped, it is free again, and the request counts as failed.
pub(super) struct Place<R: Replicas> {
    pub(super) address: SocketAddr,
    pub(super) id: ReplicaId,
    since: Instant,
    /// `None` once it has been given back.
    places: Option<Arc<Places<R>>>,
}

impl<R: Replicas> Places<R> {
    pub(super) fn new(steering: Steering<R>, waiting_max: usize) -> Arc<Places<R>> {
        let (waiting, counts) = (VecDeque::new(), Counts::default());
        let state = Mutex::new(State { steering, waiting, counts });
        Arc::new(Places { state, waiting_max, begun: Instant::now() })
    }

    fn lock(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room for a request that arrives now. Errors: `SERVICE_UNAVAILABLE` if too many wait, if no replica
    /// has room for it within `wait`, or if all of this ends.
    ///
    /// * `tried`: replicas that did not answer it; one of these only if it must wait.
    pub(super) async fn take(
        self: &Arc<Self>,
        wait: Duration,
        tried: &[ReplicaId],
    ) -> Result<Place<R>, Failure> {
        let waits = {
            let mut state = self.lock();
            state.steering.arrived(u64::from(tried.is_empty()));
            // A second try goes ahead of those that wait: it has waited before.
            if state.waiting.is_empty() || !tried.is_empty() {
                if let Some((id, address)) = state.steering.pick_but(tried) {
                    return Ok(self.place(id, address));
                }
            }
            if state.waiting.len() >= self.waiting_max {
                state.forget_the_gone();
            }
            if state.waiting.len() >= self.waiting_max {
                let what = format!("{} requests wait for a replica already", state.waiting.len());
                return Err(Failure::busy(what));
            }
            let (gives, waits) = oneshot::channel();
            state.waiting.push_back(gives);
            // Those before it may have gone away.
            self.hand_out(&mut state);
            waits
        };
        match tokio::time::timeout(wait, waits).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) => Err(Failure::busy("the balancer is being stopped")),
            Err(_) => {
                let trouble = self.lock().counts.trouble.clone().unwrap_or_default();
                let what = format!("no replica had room within {} s", wait.as_secs_f64());
                Err(Failure::busy(match trouble.is_empty() {
                    true => what,
                    false => format!("{what}: {trouble}"),
                }))
            }
        }
    }

    /// Looks at the fleet, orders what is missing or too much, and hands out what room there is now.
    pub(super) fn tick(self: &Arc<Self>) -> Result<Decision, CoordinatorError> {
        let mut state = self.lock();
        state.forget_the_gone();
        let (time_s, backlog) = (self.begun.elapsed().as_secs_f64(), state.waiting.len() as u64);
        let decided = state.steering.tick(time_s, backlog);
        self.hand_out(&mut state);
        state.count(decided.as_ref());
        decided
    }

    /// How the fleet was doing at the last tick.
    pub(super) fn counts(&self) -> Counts {
        self.lock().counts.clone()
    }

    /// Orders every replica to end; true once none is left.
    pub(super) fn end(&self) -> bool {
        let mut state = self.lock();
        state.waiting.clear();
        let replicas = state.steering.replicas();
        let left = replicas.list();
        for replica in &left {
            // One that does not hear it is killed when its time is over.
            let _ = replicas.stop(replica.id);
        }
        left.is_empty()
    }

    fn place(self: &Arc<Self>, id: ReplicaId, address: SocketAddr) -> Place<R> {
        Place { address, id, since: Instant::now(), places: Some(self.clone()) }
    }

    fn hand_out(self: &Arc<Self>, state: &mut State<R>) {
        while !state.waiting.is_empty() {
            let Some((id, address)) = state.steering.pick() else { return };
            let mut place = self.place(id, address);
            loop {
                let Some(gives) = state.waiting.pop_front() else {
                    // Its drop would wait for the lock that is held here.
                    place.places = None;
                    return state.steering.done(id, None);
                };
                match gives.send(place) {
                    Ok(()) => break,
                    // It has gone away; the next one gets it.
                    Err(back) => place = back,
                }
            }
        }
    }

    /// A request has left its replica.
    fn left(self: &Arc<Self>, id: ReplicaId, service: Option<Duration>) {
        let mut state = self.lock();
        state.steering.done(id, service.map(|time| time.as_secs_f64()));
        self.hand_out(&mut state);
    }
}

impl<R: Replicas> State<R> {
    fn forget_the_gone(&mut self) {
        self.waiting.retain(|gives| !gives.is_closed());
    }

    fn count(&mut self, decided: Result<&Decision, &CoordinatorError>) {
        let list = self.steering.replicas().list();
        let count = |state| list.iter().filter(|replica| replica.state == state).count() as u32;
        let (service_s, start_s) = self.steering.measured();
        self.counts = Counts {
            wanted: decided.map_or(self.counts.wanted, |decision| decision.replicas),
            starting: count(ReplicaState::Starting),
            ready: count(ReplicaState::Ready),
            stopping: count(ReplicaState::Stopping),
            waiting: self.waiting.len() as u64,
            service_s,
            start_s,
            trouble: decided.err().map(ToString::to_string),
        };
    }
}

impl<R: Replicas> Place<R> {
    /// The replica gave no answer: it gets nothing more until the next tick has looked at it.
    pub(super) fn lost(mut self) {
        if let Some(places) = self.places.take() {
            places.lock().steering.lost(self.id);
        }
    }

    /// The request was answered.
    pub(super) fn answered(mut self) {
        if let Some(places) = self.places.take() {
            places.left(self.id, Some(self.since.elapsed()));
        }
    }
}

impl<R: Replicas> Drop for Place<R> {
    fn drop(&mut self) {
        if let Some(places) = self.places.take() {
            places.left(self.id, None);
        }
    }
}
