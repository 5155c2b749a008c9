//! The simulation: queries, replicas and a coordinator, from event to event.
//!
//! Continuous: the query that waits longest goes to a replica that is free. Batches, as Spark makes
//! them: all that wait are planned as one, at most once per interval and when the batch before is
//! done, and fetched at once or when the replicas are there that were started for them; each replica gets an even share and answers it one by one; the answers leave together when the
//! batch is done.
//!
//! A replica that is no longer wanted answers what it has, and counts until then.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use vstream_serve::coordinator::{Coordinator, Decision, Observation};
use vstream_vector::SplitMix;

use super::outcome::Outcome;
use super::service::Service;
use super::traffic::SECOND;

/// How queries reach replicas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Transport {
    /// Each when a replica is free.
    Continuous,
    /// In batches, at most one per so many seconds.
    Batches {
        /// Above 0.
        interval_s: f64,
    },
}

/// A machine room: how fast replicas are.
#[derive(Clone, Debug)]
pub struct Room {
    /// Times of a query at the target recall, which the coordinator is told.
    pub service: Service,
    /// Times of a query at the floor of the recall.
    pub floor: Service,
    /// Seconds until a replica takes queries.
    pub start_s: f64,
    /// How queries reach replicas.
    pub transport: Transport,
    /// Seconds from one observation to the next.
    pub tick_s: f64,
    /// Recall below which a query takes the times of the floor.
    pub target: f64,
    /// Replicas at most, those that leave among them.
    pub cap: usize,
}

/// What happens, in the order in which it does where times are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Done(usize),
    Ready(usize),
    Arrival,
    Trigger,
    Tick,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Starting,
    Idle,
    /// It answers this query, and then those up to the end of its share.
    Busy {
        query: usize,
        share_end: usize,
    },
    Ended,
}

#[derive(Clone, Copy, Debug)]
struct Replica {
    from: u64,
    to: u64,
    state: State,
    /// It takes nothing more.
    is_leaving: bool,
}

struct World<'a> {
    room: &'a Room,
    arrivals: &'a [u64],
    coordinator: &'a mut Coordinator,
    random: SplitMix,
    now: u64,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    replicas: Vec<Replica>,
    /// Those that have not ended, the oldest first.
    alive: Vec<usize>,
    arrived: usize,
    /// The first query that waits; all before were fetched.
    head: usize,
    /// The first query that is not answered, in batches.
    answered: usize,
    open: usize,
    /// Arrivals that a law has seen.
    seen: usize,
    decision: Decision,
    /// A batch waits for replicas that start.
    is_awaiting: bool,
    /// The end of the batch that was planned: what came later is in the next one.
    planned: usize,
    triggered: u64,
    outcome: Outcome,
}

/// Runs queries until all are answered and the traffic is over.
///
/// * `arrivals`: ascending nanoseconds.
/// * `seconds`: of the traffic.
pub fn run(
    room: &Room,
    arrivals: &[u64],
    seconds: f64,
    coordinator: &mut Coordinator,
    seed: u64,
) -> Outcome {
    let first = Replica { from: 0, to: 0, state: State::Idle, is_leaving: false };
    let mut world = World {
        room,
        arrivals,
        coordinator,
        random: SplitMix(seed),
        now: 0,
        events: BinaryHeap::new(),
        replicas: vec![first],
        alive: vec![0],
        arrived: 0,
        head: 0,
        answered: 0,
        open: 0,
        seen: 0,
        decision: Decision {
            replicas: 1,
            batch: None,
            recall: room.target,
            awaits_replicas: false,
        },
        is_awaiting: false,
        planned: 0,
        triggered: 0,
        outcome: Outcome { answers: vec![(0, 0); arrivals.len()], ..Outcome::default() },
    };
    world.at(0, Event::Tick);
    if room.transport != Transport::Continuous {
        world.at(0, Event::Trigger);
    }
    if let Some(&first) = arrivals.first() {
        world.at(first, Event::Arrival);
    }
    world.play((seconds * SECOND) as u64);
    world.outcome
}

impl World<'_> {
    fn at(&mut self, time: u64, event: Event) {
        self.events.push(Reverse((time, event)));
    }

    fn play(&mut self, traffic_end: u64) {
        while let Some(Reverse((time, event))) = self.events.pop() {
            let is_over = self.arrived == self.arrivals.len() && self.open == 0;
            if is_over && self.head == self.arrived && time >= traffic_end {
                break;
            }
            self.outcome.replica_ns += (time - self.now) * self.alive.len() as u64;
            self.now = time;
            match event {
                Event::Arrival => self.arrive(),
                Event::Ready(replica) => self.ready(replica),
                Event::Done(replica) => self.done(replica),
                Event::Trigger => self.trigger(),
                Event::Tick => {
                    self.decide(self.room.transport == Transport::Continuous);
                    self.at(self.now + (self.room.tick_s * SECOND) as u64, Event::Tick);
                }
            }
            if self.room.transport == Transport::Continuous {
                self.dispatch();
            }
        }
        let last = self.outcome.answers.iter().map(|&(_, answered)| answered).max();
        self.outcome.end = traffic_end.max(last.unwrap_or(0)).max(self.now);
        self.outcome.replica_ns += (self.outcome.end - self.now) * self.alive.len() as u64;
        for &replica in &self.alive {
            self.replicas[replica].to = self.outcome.end;
        }
        let spans = self.replicas.iter().map(|replica| (replica.from, replica.to));
        self.outcome.spans = spans.collect();
    }

    fn arrive(&mut self) {
        self.outcome.answers[self.arrived].0 = self.now;
        self.arrived += 1;
        if let Some(&next) = self.arrivals.get(self.arrived) {
            self.at(next, Event::Arrival);
        }
    }

    fn ready(&mut self, replica: usize) {
        // It may have been stopped before it was ready.
        if self.replicas[replica].state == State::Starting {
            self.replicas[replica].state = State::Idle;
        }
        if self.is_awaiting && self.count(|state| state == State::Starting) == 0 {
            self.is_awaiting = false;
            self.fetch();
        }
    }

    fn done(&mut self, replica: usize) {
        let State::Busy { query, share_end } = self.replicas[replica].state else { return };
        self.open -= 1;
        self.outcome.answers[query].1 = self.now;
        if query + 1 < share_end {
            return self.take(replica, query + 1, share_end);
        }
        self.replicas[replica].state = State::Idle;
        if self.replicas[replica].is_leaving {
            self.end(replica);
        }
        if let (Transport::Batches { interval_s }, 0) = (self.room.transport, self.open) {
            // All leave together.
            for query in self.answered..self.head {
                self.outcome.answers[query].1 = self.now;
            }
            self.answered = self.head;
            let next = self.triggered + (interval_s * SECOND) as u64;
            self.at(next.max(self.now), Event::Trigger);
        }
    }

    /// A replica begins with a query.
    fn take(&mut self, replica: usize, query: usize, share_end: usize) {
        let is_floor = self.decision.recall < self.room.target;
        self.outcome.at_floor += usize::from(is_floor);
        let service = if is_floor { &self.room.floor } else { &self.room.service };
        let time = service.draw(&mut self.random);
        self.outcome.taken.push((self.now, query));
        self.replicas[replica].state = State::Busy { query, share_end };
        self.at(self.now + time, Event::Done(replica));
    }

    fn dispatch(&mut self) {
        for at in 0..self.alive.len() {
            if self.head == self.arrived {
                return;
            }
            let replica = self.alive[at];
            if self.replicas[replica].state == State::Idle {
                self.open += 1;
                self.take(replica, self.head, self.head + 1);
                self.head += 1;
            }
        }
    }

    fn trigger(&mut self) {
        (self.triggered, self.planned) = (self.now, self.arrived);
        self.decide(true);
        self.is_awaiting =
            self.decision.awaits_replicas && self.count(|state| state == State::Starting) > 0;
        if !self.is_awaiting {
            self.fetch();
        }
    }

    fn fetch(&mut self) {
        let Transport::Batches { interval_s } = self.room.transport else { return };
        let waiting = self.planned - self.head;
        let most = self.decision.batch.map_or(usize::MAX, |most| most as usize);
        let batch = waiting.min(most.max(1));
        if batch == 0 {
            return self.at(self.now + (interval_s * SECOND) as u64, Event::Trigger);
        }
        let idle: Vec<usize> = self.alive.iter().copied().filter(|&at| self.is_idle(at)).collect();
        let share = batch.div_ceil(idle.len());
        let end = self.head + batch;
        self.open = batch;
        for replica in idle {
            if self.head < end {
                let share_end = (self.head + share).min(end);
                self.take(replica, self.head, share_end);
                self.head = share_end;
            }
        }
    }

    fn is_idle(&self, replica: usize) -> bool {
        self.replicas[replica].state == State::Idle
    }

    /// Replicas that stay, in this state.
    fn count(&self, is_so: impl Fn(State) -> bool) -> usize {
        let alive = self.alive.iter().map(|&replica| &self.replicas[replica]);
        alive.filter(|replica| !replica.is_leaving && is_so(replica.state)).count()
    }

    /// Asks the law, and starts or stops replicas.
    fn decide(&mut self, is_fetch: bool) {
        let starting = self.count(|state| state == State::Starting) as u32;
        let backlog = (self.arrived - self.head) as u64;
        let seen = Observation {
            time_s: self.now as f64 / SECOND,
            arrivals: (self.arrived - self.seen) as u64,
            backlog,
            in_flight: self.open as u64,
            running: self.count(|_| true) as u32 - starting,
            starting,
            service_s: self.room.service.mean(),
            start_s: self.room.start_s,
            is_fetch,
        };
        self.seen = self.arrived;
        self.decision = self.coordinator.decide(&seen).expect("time goes on, and all is counted");
        let (now, wanted) = (self.count(|_| true), self.decision.replicas as usize);
        let free = self.room.cap.saturating_sub(self.alive.len());
        for _ in 0..wanted.saturating_sub(now).min(free) {
            let replica = self.replicas.len();
            let from = self.now;
            self.replicas.push(Replica { from, to: 0, state: State::Starting, is_leaving: false });
            self.alive.push(replica);
            self.at(from + (self.room.start_s * SECOND) as u64, Event::Ready(replica));
        }
        for _ in wanted..now {
            self.leave();
        }
        self.outcome.course.push((self.now, self.alive.len() as u32, backlog));
    }

    /// The replica that is missed least stops: one that starts, one that is idle, one that is busy; the
    /// newest of these.
    fn leave(&mut self) {
        let stays = self.alive.iter().filter(|&&at| !self.replicas[at].is_leaving);
        let least = stays.max_by_key(|&&at| {
            let rank = match self.replicas[at].state {
                State::Starting => 2,
                State::Idle => 1,
                State::Busy { .. } | State::Ended => 0,
            };
            (rank, at)
        });
        let replica = *least.expect("more than are wanted");
        self.replicas[replica].is_leaving = true;
        if !matches!(self.replicas[replica].state, State::Busy { .. }) {
            self.end(replica);
        }
    }

    fn end(&mut self, replica: usize) {
        self.replicas[replica].state = State::Ended;
        self.replicas[replica].to = self.now;
        self.alive.retain(|&other| other != replica);
    }
}
