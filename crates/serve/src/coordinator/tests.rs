use super::*;

/// 100 queries per second of a replica, one second to start.
fn seen(time_s: f64, arrivals: u64, backlog: u64, running: u32) -> Observation {
    Observation {
        time_s,
        arrivals,
        backlog,
        in_flight: 0,
        running,
        starting: 0,
        service_s: 0.01,
        start_s: 1.0,
        is_fetch: true,
    }
}

/// What a law wants, second by second, of backlogs; all that it wants run at once.
fn wanted(law: &mut dyn Law, backlogs: &[u64]) -> Vec<u32> {
    let mut running = 1;
    let each = backlogs.iter().enumerate().map(|(at, &backlog)| {
        running = law.replicas(&seen(at as f64, 0, backlog, running));
        running
    });
    each.collect()
}

fn stream_rag(window: usize, alpha: f64, release: Release) -> StreamRag {
    let settings = StreamRagSettings { window, alpha, release, ..StreamRagSettings::default() };
    StreamRag::new(settings).expect("right settings")
}

#[test]
fn stream_rag_adds_what_a_burst_needs_and_drops_it_at_once() {
    let mut law = stream_rag(5, 0.5, Release::AtOnce);
    // 5,000 / 800 is 6.25. 1,000 after 5,000 is no burst.
    assert_eq!(wanted(&mut law, &[100, 100, 100, 5_000, 1_000, 100]), [1, 1, 1, 7, 1, 1]);
    let mut law = stream_rag(5, 0.5, Release::Hold { least_s: 2.0, starts: 0.0 });
    assert_eq!(wanted(&mut law, &[100, 100, 100, 5_000, 1_000, 100, 90]), [1, 1, 1, 7, 7, 7, 1]);
    assert!(law.awaits_replicas());
}

#[test]
fn stream_rag_knows_no_burst_without_a_deviation_and_none_above_the_root_of_its_window() {
    let mut law = stream_rag(5, 0.0, Release::AtOnce);
    assert_eq!(wanted(&mut law, &[5_000; 6]), [1; 6]);
    // One among w volumes has Z = √(w − 1): 2 of 5, and 2.65 of 8.
    let burst = [0, 0, 0, 0, 0, 0, 0, 9_000];
    assert_eq!(wanted(&mut stream_rag(5, 1.99, Release::AtOnce), &burst)[7], 12);
    assert_eq!(wanted(&mut stream_rag(5, 2.01, Release::AtOnce), &burst)[7], 1);
    assert_eq!(wanted(&mut stream_rag(7, 2.5, Release::AtOnce), &burst)[7], 1);
    assert_eq!(wanted(&mut stream_rag(8, 2.5, Release::AtOnce), &burst)[7], 12);
}

#[test]
fn stream_rag_looks_once_per_period_and_before_a_fetch_alone() {
    let mut law = stream_rag(5, 0.5, Release::AtOnce);
    assert_eq!(wanted(&mut law, &[100, 100, 5_000]), [1, 1, 7]);
    assert_eq!(law.replicas(&seen(2.9, 0, 0, 7)), 7, "within the period");
    assert_eq!(law.replicas(&Observation { is_fetch: false, ..seen(3.5, 0, 0, 7) }), 7);
    assert_eq!(law.replicas(&seen(3.6, 0, 0, 7)), 1);
}

#[test]
fn passive_adds_one_per_period_above_its_threshold() {
    let settings = PassiveSettings { release: Release::AtOnce, ..PassiveSettings::default() };
    let mut law = Passive::new(settings).expect("right settings");
    let backlogs = [1_500, 1_501, 4_000, 9_000, 1_500];
    assert_eq!(wanted(&mut law, &backlogs), [1, 2, 3, 4, 1]);
    assert_eq!(law.replicas(&seen(4.5, 0, 9_000, 1)), 1, "within the period");
    let starting = Observation { starting: 3, ..seen(5.0, 0, 9_000, 1) };
    assert_eq!(law.replicas(&starting), 5, "those that start count");
}

#[test]
fn keda_sees_polls_alone_and_keeps_the_largest_for_its_cool_down() {
    let settings = KedaSettings { first_s: 10.0, ..KedaSettings::default() };
    let mut law = Keda::new(settings).expect("right settings");
    let at = |law: &mut Keda, time_s, backlog| law.replicas(&seen(time_s, 0, backlog, 1));
    assert_eq!(at(&mut law, 0.0, 900), 1);
    assert_eq!(at(&mut law, 9.9, 900), 1);
    assert_eq!(at(&mut law, 10.0, 901), 10);
    assert_eq!(at(&mut law, 39.0, 5_000), 10);
    assert_eq!(at(&mut law, 40.0, 0), 10);
    assert_eq!(at(&mut law, 310.0, 0), 10);
    assert_eq!(at(&mut law, 340.0, 150), 2);
}

/// Observations every tenth of a second, at a rate that is met at once.
fn steady(law: &mut dyn Law, per_tick: u64, ticks: std::ops::Range<u32>) -> u32 {
    let mut running = 1;
    for tick in ticks {
        running = law.replicas(&seen(f64::from(tick) / 10.0, per_tick, 0, running));
    }
    running
}

#[test]
fn forecast_meets_a_steady_rate_and_a_step_within_half_a_second() {
    let mut law = Forecast::new(ForecastSettings::default()).expect("right settings");
    // 200/s and two deviations of three seconds are 216/s: 2.55 replicas at 85 %.
    assert_eq!(steady(&mut law, 20, 0..50), 3);
    // 1,000/s for half a second, less two deviations of chance, is 910/s; then 945/s with two more:
    // 11.1 replicas.
    assert_eq!(steady(&mut law, 100, 50..55), 12);
    // Held for three starts.
    assert_eq!(steady(&mut law, 20, 55..84), 12);
    assert_eq!(steady(&mut law, 20, 84..150), 3);
}

#[test]
fn forecast_adds_what_drains_the_backlog_by_its_deadline() {
    let settings =
        ForecastSettings { utilisation: 1.0, drain_s: 2.0, ..ForecastSettings::default() };
    let mut law = Forecast::new(settings).expect("right settings");
    assert_eq!(law.replicas(&seen(0.0, 0, 1_000, 1)), 5);
    let mut law = Forecast::new(settings).expect("right settings");
    let both = Observation { in_flight: 100, ..seen(0.0, 0, 1_000, 1) };
    assert_eq!(law.replicas(&both), 6, "open queries count as those that wait");
}

#[test]
fn lean_takes_what_exceeds_one_replica_and_the_backlog_and_lets_go_after_a_second() {
    let mut law = Lean::new(LeanSettings::default()).expect("right settings");
    assert_eq!(steady(&mut law, 10, 0..20), 1);
    // (300 − 100) / 100 + 100 / 200 is 2.5.
    for tick in 20..30 {
        law.replicas(&seen(f64::from(tick) / 10.0, 30, 0, 1));
    }
    assert_eq!(law.replicas(&seen(3.0, 30, 100, 2)), 3);
    assert_eq!(law.replicas(&seen(4.0, 0, 0, 3)), 3);
    assert_eq!(law.replicas(&seen(4.05, 0, 0, 3)), 1);
}

#[test]
fn lean_keeps_the_replicas_that_a_steady_rate_needs() {
    let mut law = Lean::new(LeanSettings::default()).expect("right settings");
    // 120 of 100 per second: one replica, until what waits takes it two seconds.
    assert_eq!(steady(&mut law, 12, 0..200), 1);
    assert_eq!(law.replicas(&seen(20.0, 12, 170, 1)), 2);
    // Then the backlog drains, and both stay.
    for tick in 201..300 {
        assert_eq!(law.replicas(&seen(f64::from(tick) / 10.0, 12, 0, 2)), 2, "tick {tick}");
    }
    // The rate alone starts none.
    assert_eq!(law.replicas(&seen(30.0, 12, 0, 1)), 2, "it was wanted within the last second");
    for tick in 301..312 {
        law.replicas(&seen(f64::from(tick) / 10.0, 12, 0, 1));
    }
    assert_eq!(law.replicas(&seen(31.3, 12, 0, 1)), 1);
    // They go a second after a rate that one replica can take.
    let mut law = Lean::new(LeanSettings::default()).expect("right settings");
    (0..300).for_each(|tick| {
        law.replicas(&seen(f64::from(tick) / 10.0, 24, 0, 3));
    });
    let later = (300..330).map(|tick| law.replicas(&seen(f64::from(tick) / 10.0, 6, 0, 3)));
    assert_eq!(later.last(), Some(1));
}

#[test]
fn one_per_pause_goes_down_slowly_and_up_at_once() {
    let release = Release::OnePer { seconds: 3.0 };
    let settings = ForecastSettings { utilisation: 1.0, drain_s: 1.0, release };
    let mut law = Forecast::new(settings).expect("right settings");
    let found = wanted(&mut law, &[400, 0, 0, 0, 0, 0, 0, 300, 500]);
    assert_eq!(found, [4, 4, 4, 3, 3, 3, 2, 3, 5]);
}

#[test]
fn no_law_leaves_its_bounds_whatever_it_sees() {
    let settings = CoordinatorSettings { least: 2, cap: 5, ..CoordinatorSettings::default() };
    for law in laws() {
        let mut coordinator = Coordinator::new(law, settings).expect("right settings");
        for (at, backlog) in [0, u64::MAX, 3, u64::MAX, 0].into_iter().enumerate() {
            let seen = seen(40.0 * at as f64, backlog, backlog, 5);
            let decision = coordinator.decide(&seen).expect("a right observation");
            assert!((2..=5).contains(&decision.replicas), "{}: {decision:?}", coordinator.name());
        }
    }
}

fn laws() -> Vec<Box<dyn Law>> {
    vec![
        Box::new(Fixed::new(3).expect("right settings")),
        Box::new(stream_rag(10, 0.5, Release::HELD)),
        Box::new(Passive::new(PassiveSettings::default()).expect("right settings")),
        Box::new(Keda::new(KedaSettings::default()).expect("right settings")),
        Box::new(Forecast::new(ForecastSettings::default()).expect("right settings")),
        Box::new(Lean::new(LeanSettings::default()).expect("right settings")),
    ]
}

fn decided(dispatch: Dispatch, recall: RecallRange, seen: &Observation) -> Decision {
    let settings = CoordinatorSettings { dispatch, recall, ..CoordinatorSettings::default() };
    let law = Box::new(Fixed::new(1).expect("right settings"));
    let mut coordinator = Coordinator::new(law, settings).expect("right settings");
    coordinator.decide(seen).expect("a right observation")
}

#[test]
fn a_batch_is_what_running_replicas_answer_in_time() {
    let recall = RecallRange::fixed(0.95);
    let busy = seen(0.0, 0, 9_000, 4);
    assert_eq!(decided(Dispatch::Continuous, recall, &busy).batch, Some(4));
    assert_eq!(decided(Dispatch::Whole, recall, &busy).batch, None);
    assert_eq!(decided(Dispatch::CAPPED, recall, &busy).batch, Some(100));
    let slow = Observation { service_s: 3.0, ..busy };
    assert_eq!(decided(Dispatch::CAPPED, recall, &slow).batch, Some(4), "one each at least");
}

#[test]
fn effort_goes_to_the_floor_and_never_below_while_queries_wait() {
    let recall = RecallRange { target: 0.95, floor: 0.8, wait_s: 0.1 };
    let of = |backlog| decided(Dispatch::Continuous, recall, &seen(0.0, 0, backlog, 2)).recall;
    assert_eq!((of(0), of(20), of(21), of(u64::MAX)), (0.95, 0.95, 0.8, 0.8));
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    fn is_refused<T>(made: Result<T, CoordinatorError>, part: &str) {
        match made {
            Err(error @ CoordinatorError::Setting { .. }) => {
                assert!(error.to_string().contains(part), "{error}");
            }
            Err(error) => panic!("{part}: {error}"),
            Ok(_) => panic!("{part} was accepted"),
        }
    }
    let rag = StreamRagSettings::default();
    is_refused(StreamRag::new(StreamRagSettings { window: 1, ..rag }), "window");
    is_refused(StreamRag::new(StreamRagSettings { alpha: f64::NAN, ..rag }), "alpha");
    is_refused(StreamRag::new(StreamRagSettings { beta: 0.0, ..rag }), "beta");
    is_refused(StreamRag::new(StreamRagSettings { period_s: 0.0, ..rag }), "period");
    let hold = Release::Hold { least_s: -1.0, starts: 3.0 };
    is_refused(StreamRag::new(StreamRagSettings { release: hold, ..rag }), "hold");
    let passive = PassiveSettings { threshold: -1.0, ..PassiveSettings::default() };
    is_refused(Passive::new(passive), "threshold");
    let keda = KedaSettings::default();
    is_refused(Keda::new(KedaSettings { lag: 0.0, ..keda }), "lag");
    is_refused(Keda::new(KedaSettings { poll_s: f64::INFINITY, ..keda }), "poll");
    is_refused(Keda::new(KedaSettings { first_s: 31.0, ..keda }), "first poll");
    let forecast = ForecastSettings::default();
    is_refused(Forecast::new(ForecastSettings { utilisation: 1.1, ..forecast }), "utilisation");
    is_refused(Forecast::new(ForecastSettings { drain_s: 0.0, ..forecast }), "deadline");
    let release = Release::OnePer { seconds: 0.0 };
    is_refused(Lean::new(LeanSettings { release, ..LeanSettings::default() }), "pause");
    is_refused(Fixed::new(0), "replicas");
    let bounds = CoordinatorSettings::default();
    let with =
        |settings| Coordinator::new(Box::new(Fixed::new(1).expect("right settings")), settings);
    is_refused(with(CoordinatorSettings { least: 0, ..bounds }), "at least");
    is_refused(with(CoordinatorSettings { least: 13, ..bounds }), "at most");
    is_refused(with(CoordinatorSettings { cap: 1_001, ..bounds }), "at most");
    let dispatch = Dispatch::Capped { seconds: 0.0 };
    is_refused(with(CoordinatorSettings { dispatch, ..bounds }), "batch");
    let recall = RecallRange { target: 0.9, floor: 0.95, wait_s: 0.1 };
    is_refused(with(CoordinatorSettings { recall, ..bounds }), "floor");
}

#[test]
fn an_observation_that_no_clock_gives_is_refused_and_changes_nothing() {
    let law = Box::new(Fixed::new(1).expect("right settings"));
    let mut coordinator = Coordinator::new(law, CoordinatorSettings::default()).expect("right");
    let right = seen(5.0, 0, 0, 1);
    assert!(coordinator.decide(&right).is_ok());
    let wrong = [
        Observation { time_s: 4.9, ..right },
        Observation { time_s: f64::NAN, ..right },
        Observation { service_s: 0.0, ..right },
        Observation { service_s: f64::INFINITY, ..right },
        Observation { start_s: -1.0, ..right },
    ];
    for seen in wrong {
        let found = coordinator.decide(&seen);
        assert!(matches!(found, Err(CoordinatorError::Observation { .. })), "{seen:?}");
    }
    assert!(coordinator.decide(&right).is_ok());
}

#[test]
fn a_query_goes_where_fewest_are_and_never_to_one_that_stops() {
    let replica = |id, state| Replica { id: ReplicaId(id), state, start_s: None };
    use ReplicaState::{Ready, Starting, Stopping};
    let mut routes = Routes::default();
    assert_eq!(routes.pick(9, &[]), None, "nobody is there");
    routes.follow(&[replica(0, Ready), replica(1, Ready), replica(2, Starting)]);
    let picked: Vec<_> = (0..5).map(|_| routes.pick(2, &[]).map(|id| id.0)).collect();
    assert_eq!(picked, [Some(0), Some(1), Some(0), Some(1), None]);
    routes.done(ReplicaId(1));
    routes.follow(&[replica(0, Ready), replica(1, Stopping), replica(2, Ready)]);
    assert_eq!(routes.pick(2, &[ReplicaId(2)]), None, "the other one is full");
    assert_eq!(routes.pick(2, &[]), Some(ReplicaId(2)));
    assert_eq!((routes.in_flight(), routes.in_flight_of(ReplicaId(1))), (4, 1));
    routes.done(ReplicaId(1));
    routes.done(ReplicaId(1));
    assert_eq!((routes.in_flight(), routes.in_flight_of(ReplicaId(1))), (3, 0));
    routes.avoid(ReplicaId(2));
    assert_eq!((routes.pick(9, &[]), routes.in_flight()), (Some(ReplicaId(0)), 4));
    routes.follow(&[replica(0, Ready), replica(2, Ready)]);
    assert_eq!((routes.pick(9, &[]), routes.in_flight_of(ReplicaId(2))), (Some(ReplicaId(2)), 2));
}

/// Replicas on paper: ready one tick after they were ordered.
#[derive(Default)]
struct OnPaper {
    replicas: Vec<Replica>,
    ordered: u64,
}

impl Replicas for OnPaper {
    fn start(&mut self) -> Result<ReplicaId, CoordinatorError> {
        let id = ReplicaId(self.ordered);
        self.ordered += 1;
        self.replicas.push(Replica { id, state: ReplicaState::Starting, start_s: None });
        Ok(id)
    }

    fn stop(&mut self, id: ReplicaId) -> Result<(), CoordinatorError> {
        self.replicas.retain(|replica| replica.id != id);
        Ok(())
    }

    fn list(&mut self) -> Vec<Replica> {
        self.replicas.clone()
    }

    fn address(&self, id: ReplicaId) -> Option<std::net::SocketAddr> {
        let replica = self.replicas.iter().find(|replica| replica.id == id)?;
        (replica.state == ReplicaState::Ready).then(|| ([127, 0, 0, 1], 7_000).into())
    }
}

impl OnPaper {
    fn pass(&mut self) {
        for replica in &mut self.replicas {
            (replica.state, replica.start_s) = (ReplicaState::Ready, Some(2.0));
        }
    }
}

#[test]
fn steering_starts_what_a_burst_needs_routes_to_it_and_lets_it_go() {
    let law = Box::new(Lean::new(LeanSettings::default()).expect("right settings"));
    let coordinator =
        Coordinator::new(law, CoordinatorSettings::default()).expect("right settings");
    let settings = SteeringSettings { service_s: 0.01, start_s: 1.0, at_a_time: 1 };
    let mut steering =
        Steering::new(coordinator, OnPaper::default(), settings).expect("right settings");
    assert_eq!(steering.pick(), None, "nobody is there");
    steering.tick(0.0, 0).expect("paper");
    steering.replicas().pass();
    // 500 at once: (500 - 100) / 100 + 500 / 200.
    steering.arrived(500);
    assert_eq!(steering.tick(0.1, 500).expect("paper").replicas, 7);
    let (first, _) = steering.pick().expect("one is ready");
    assert_eq!(steering.pick(), None, "the others start");
    steering.replicas().pass();
    steering.tick(0.2, 499).expect("paper");
    let more: Vec<ReplicaId> = std::iter::from_fn(|| steering.pick()).map(|(id, _)| id).collect();
    assert_eq!(more.len(), 6);
    // The first that was measured counts for what was guessed, and all of them took 2 s.
    assert_eq!(steering.measured().1, 2.0);
    more.into_iter().chain([first]).for_each(|id| steering.done(id, Some(0.02)));
    assert!((steering.measured().0 - (0.02 - 0.01 * 0.98f64.powi(7))).abs() < 1e-12);
    steering.tick(5.0, 0).expect("paper");
    assert_eq!(steering.tick(6.1, 0).expect("paper").replicas, 1);
    assert_eq!(steering.replicas().list().len(), 1);
}
