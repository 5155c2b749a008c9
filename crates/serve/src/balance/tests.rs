use std::collections::BTreeMap;
use std::future::Future;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{header, StatusCode};
use axum::response::Response;
use axum::Router;
use tower::ServiceExt;

use super::forward::{forward, Front};
use super::observe::{health, Observed};
use super::places::{Place, Places};
use super::BalanceSettings;
use crate::coordinator::{
    CommandLine, Coordinator, CoordinatorError, CoordinatorSettings, Law, Observation, Replica,
    ReplicaId, ReplicaState, Replicas, Steering, SteeringSettings,
};
use crate::failure::Failure;

const LONG: Duration = Duration::from_secs(120);
const SHORT: Duration = Duration::from_millis(20);

/// Replicas that are ready at once, at addresses that are known before.
struct Listed {
    addresses: Vec<SocketAddr>,
    running: BTreeMap<u64, SocketAddr>,
    next: u64,
}

impl Listed {
    fn new(addresses: Vec<SocketAddr>) -> Listed {
        Listed { addresses, running: BTreeMap::new(), next: 0 }
    }

    /// Nobody listens at these.
    fn nowhere(count: u16) -> Listed {
        Listed::new((1..=count).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect())
    }
}

impl Replicas for Listed {
    fn start(&mut self) -> Result<ReplicaId, CoordinatorError> {
        if self.addresses.is_empty() {
            return Err(CoordinatorError::Failing { tries: 3, wait_s: 2.0 });
        }
        let id = self.next;
        self.running.insert(id, self.addresses[id as usize % self.addresses.len()]);
        self.next += 1;
        Ok(ReplicaId(id))
    }

    fn stop(&mut self, id: ReplicaId) -> Result<(), CoordinatorError> {
        self.running.remove(&id.0).map(|_| ()).ok_or(CoordinatorError::Unknown(id))
    }

    fn list(&mut self) -> Vec<Replica> {
        let ready = |&id: &u64| Replica {
            id: ReplicaId(id),
            state: ReplicaState::Ready,
            start_s: Some(0.1),
        };
        self.running.keys().map(ready).collect()
    }

    fn address(&self, id: ReplicaId) -> Option<SocketAddr> {
        self.running.get(&id.0).copied()
    }
}

/// One more than wait.
struct OnePerWaiting;

impl Law for OnePerWaiting {
    fn name(&self) -> &'static str {
        "one per waiting"
    }

    fn replicas(&mut self, seen: &Observation) -> u32 {
        seen.backlog as u32 + 1
    }
}

fn places(replicas: Listed, least: u32, waiting_max: usize) -> Arc<Places<Listed>> {
    let bounds = CoordinatorSettings { least, cap: 8, ..CoordinatorSettings::default() };
    let coordinator = Coordinator::new(Box::new(OnePerWaiting), bounds).expect("bounds");
    let first = SteeringSettings { service_s: 0.01, start_s: 1.0, at_a_time: 1 };
    let steering = Steering::new(coordinator, replicas, first).expect("settings");
    let places = Places::new(steering, waiting_max);
    // It starts the first of them; whoever has none hears of it otherwise.
    let _ = places.tick();
    places
}

/// Runs a future on one thread, whose tasks take turns.
fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

type Waits = tokio::task::JoinHandle<Result<Place<Listed>, Failure>>;

/// A request that waits, after all tasks had a turn.
async fn waiting(places: &Arc<Places<Listed>>, wait: Duration) -> Waits {
    let places = places.clone();
    let waits = tokio::spawn(async move { places.take(wait, &[]).await });
    tokio::task::yield_now().await;
    waits
}

fn port(place: &Place<Listed>) -> u16 {
    place.address.port()
}

#[test]
fn requests_get_room_in_the_order_in_which_they_came() {
    run(async {
        let places = places(Listed::nowhere(1), 1, 10);
        let first = places.take(LONG, &[]).await.expect("room");
        let second = waiting(&places, LONG).await;
        let third = waiting(&places, LONG).await;
        assert!(!second.is_finished() && !third.is_finished());
        first.answered();
        let second = second.await.expect("a task").expect("room");
        tokio::task::yield_now().await;
        assert!(!third.is_finished(), "one at a time");
        // A request that has failed leaves its place, too.
        drop(second);
        assert_eq!(port(&third.await.expect("a task").expect("room")), 1);
    });
}

#[test]
fn what_waits_starts_replicas_and_gets_them() {
    run(async {
        let places = places(Listed::nowhere(8), 1, 10);
        let first = places.take(LONG, &[]).await.expect("room");
        let (second, third) = (waiting(&places, LONG).await, waiting(&places, LONG).await);
        assert_eq!(places.tick().expect("a decision").replicas, 3);
        // They were started after rooms were handed out: the next tick does.
        places.tick().expect("a decision");
        let rooms = [first, second.await.unwrap().unwrap(), third.await.unwrap().unwrap()];
        let mut ports = rooms.each_ref().map(port);
        ports.sort_unstable();
        assert_eq!(ports, [1, 2, 3]);
        drop(rooms);
        places.tick().expect("a decision");
        let counts = places.counts();
        assert_eq!((counts.wanted, counts.ready, counts.waiting), (1, 1, 0), "{counts:?}");
    });
}

#[test]
fn more_than_may_wait_are_refused_and_who_has_gone_does_not_count() {
    run(async {
        let places = places(Listed::nowhere(1), 1, 1);
        let first = places.take(LONG, &[]).await.expect("room");
        let gone = waiting(&places, LONG).await;
        let refused = places.take(LONG, &[]).await.map(|_| ()).expect_err("one waits already");
        assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
        gone.abort();
        assert!(gone.await.is_err_and(|error| error.is_cancelled()));
        let stays = waiting(&places, LONG).await;
        assert!(!stays.is_finished());
        first.answered();
        stays.await.expect("a task").expect("room that nobody else took");
    });
}

#[test]
fn who_waits_too_long_is_told_so_and_takes_no_room() {
    run(async {
        let places = places(Listed::nowhere(1), 1, 10);
        let first = places.take(LONG, &[]).await.expect("room");
        let late = places.take(SHORT, &[]).await.map(|_| ()).expect_err("no room");
        assert_eq!(late.message, "no replica had room within 0.02 s");
        first.answered();
        let next = places.take(SHORT, &[]).await.expect("room");
        let waits = waiting(&places, LONG).await;
        places.end();
        let told = waits.await.expect("a task").map(|_| ()).expect_err("the end");
        assert_eq!(told.message, "the balancer is being stopped");
        drop(next);
        assert!(places.end(), "no replica is left");
    });
}

#[test]
fn a_place_that_comes_after_its_request_has_gone_is_free_again() {
    run(async {
        let places = places(Listed::nowhere(1), 1, 10);
        let first = places.take(LONG, &[]).await.expect("room");
        let mut waits = Box::pin(places.take(LONG, &[]));
        tokio::select! {
            biased;
            _ = &mut waits => unreachable!("there is no room"),
            () = tokio::task::yield_now() => {}
        }
        // It is given the place and never looks.
        first.answered();
        drop(waits);
        places.take(SHORT, &[]).await.expect("room");
    });
}

/// A server that answers every request of a connection with its body and its name, until told to stop.
fn echo(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || echo_all(stream.expect("a connection"), name));
        }
    });
    address
}

fn echo_all(mut stream: TcpStream, name: &str) {
    let mut seen = Vec::new();
    let mut bytes = [0; 4096];
    loop {
        let Ok(read @ 1..) = stream.read(&mut bytes) else { return };
        seen.extend_from_slice(&bytes[..read]);
        let text = String::from_utf8_lossy(&seen).to_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |length| length.parse().expect("a length"));
        if body.len() < length {
            continue;
        }
        let status = if head.starts_with("get /missing ") { "404 Not Found" } else { "200 OK" };
        let said = format!("{name}: {body}|{head}");
        let answer = format!(
            "HTTP/1.1 {status}\r\nserver: {name}\r\ncontent-length: {}\r\n\r\n{said}",
            said.len()
        );
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
        seen.clear();
    }
}

/// What forwards to replicas at these addresses.
fn front(addresses: Vec<SocketAddr>) -> (Router, Arc<Places<Listed>>) {
    let least = addresses.len().max(1) as u32;
    let places = places(Listed::new(addresses), least, 10);
    // The tick before started them, and this one sees them.
    let _ = places.tick();
    let command = CommandLine { program: "/bin/false".into(), arguments: Vec::new(), ready: None };
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let settings = BalanceSettings { wait: SHORT, ..BalanceSettings::new(command, listen) };
    let front = Arc::new(Front::new(places.clone(), Arc::new(Observed::new()), settings));
    let forwarding = Router::new().fallback(forward::<Listed>).with_state(front);
    (health(places.clone()).merge(forwarding), places)
}

async fn ask(router: &Router, request: Request) -> (StatusCode, String) {
    let answer: Response = router.clone().oneshot(request).await.expect("an answer");
    let status = answer.status();
    let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await.expect("a body");
    (status, String::from_utf8(body.to_vec()).expect("a text"))
}

fn post(path: &str, body: &'static str) -> Request {
    Request::post(path)
        .header(header::CONTENT_LENGTH, body.len())
        .header("api-key", "secret")
        .header(header::CONNECTION, "close")
        .body(Body::from(body))
        .expect("a request")
}

#[test]
fn a_request_is_forwarded_as_it_is_and_so_is_its_answer() {
    run(async {
        let (router, places) = front(vec![echo("one")]);
        let (status, said) = ask(&router, post("/collections/a/points/query?x=1", "body")).await;
        assert_eq!(status, StatusCode::OK);
        assert!(
            said.starts_with("one: body|post /collections/a/points/query?x=1 http/1.1"),
            "{said}"
        );
        assert!(said.contains("api-key: secret") && !said.contains("connection: close"), "{said}");
        assert_eq!(said.matches("host: ").count(), 1, "{said}");
        let missing = Request::get("/missing").body(Body::empty()).expect("a request");
        assert_eq!(ask(&router, missing).await.0, StatusCode::NOT_FOUND);
        // Its place is free again after every answer.
        for _ in 0..5 {
            assert_eq!(ask(&router, post("/x", "")).await.0, StatusCode::OK);
        }
        places.tick().expect("a decision");
        assert!(places.counts().service_s < 0.01, "it was measured: {:?}", places.counts());
    });
}

#[test]
fn a_request_that_a_replica_does_not_answer_is_answered_by_another() {
    run(async {
        let nobody = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("one");
        let (router, _) = front(vec![nobody, echo("two")]);
        for _ in 0..4 {
            let (status, said) = ask(&router, post("/x", "again")).await;
            assert_eq!((status, said.starts_with("two: again")), (StatusCode::OK, true), "{said}");
        }
        let (router, _) = front(vec![nobody]);
        let (status, said) = ask(&router, post("/x", "")).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        // It waits for another one, or for the next look at this one.
        assert!(said.contains("no replica had room within"), "{said}");
    });
}

#[test]
fn pages_of_other_sites_are_told_apart_before_a_replica_sees_this_machine() {
    run(async {
        let (router, _) = front(vec![echo("one")]);
        let with = |name, value: &'static str| {
            let request = Request::get("/collections").header(name, value);
            request.body(Body::empty()).expect("a request")
        };
        let (status, _) = ask(&router, with(header::HOST, "evil.example:6333")).await;
        assert_eq!(status, StatusCode::FORBIDDEN);
        let own = |origin: &'static str| {
            let request = Request::post("/x").header(header::HOST, "127.0.0.1:6333");
            let request = request.header(header::CONTENT_LENGTH, 0).header(header::ORIGIN, origin);
            request.body(Body::empty()).expect("a request")
        };
        assert_eq!(ask(&router, own("http://evil.example")).await.0, StatusCode::FORBIDDEN);
        let (status, said) = ask(&router, own("http://127.0.0.1:6333")).await;
        assert_eq!(status, StatusCode::OK);
        // To the replica it would be that of another server.
        assert!(!said.contains("origin: ") && said.matches("host: ").count() == 1, "{said}");
    });
}

#[test]
fn a_replica_that_gave_no_answer_gets_nothing_until_it_was_looked_at() {
    run(async {
        let places = places(Listed::nowhere(2), 2, 10);
        let first = places.take(LONG, &[]).await.expect("room");
        let lost = port(&first);
        first.lost();
        let other = places.take(LONG, &[]).await.expect("room");
        assert_ne!(port(&other), lost);
        let waits = waiting(&places, LONG).await;
        assert!(!waits.is_finished(), "the other one is busy");
        places.tick().expect("a decision");
        assert_eq!(port(&waits.await.expect("a task").expect("room")), lost);
    });
}

#[test]
fn what_goes_on_is_refused_and_bodies_have_a_limit() {
    run(async {
        let (router, _) = front(vec![echo("one")]);
        for path in ["/collections/a/watch", "/ui/", "/vstream.Replication/Follow", "/metrics"] {
            let (status, _) = ask(&router, post(path, "")).await;
            assert_eq!(status, StatusCode::NOT_IMPLEMENTED, "{path}");
        }
        // A collection may have any name.
        assert_eq!(ask(&router, post("/collections/watch", "")).await.0, StatusCode::OK);
        let star = Request::builder().method("OPTIONS").uri("*").body(Body::empty());
        let (status, _) = ask(&router, star.expect("a request")).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        let long = Request::post("/x").header(header::CONTENT_LENGTH, 33 << 20);
        let (status, _) = ask(&router, long.body(Body::empty()).expect("a request")).await;
        assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
        let grpc = Request::post("/qdrant.Points/Query")
            .header(header::CONTENT_TYPE, "application/grpc")
            .body(Body::from(&[0u8, 1, 0, 0, 0][..]))
            .expect("a request");
        let answer = router.clone().oneshot(grpc).await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK);
        assert!(answer.headers().contains_key("grpc-status"), "as gRPC says it");
    });
}

#[test]
fn it_is_ready_when_a_replica_is() {
    run(async {
        let get = |path: &str| Request::get(path).body(Body::empty()).expect("a request");
        let (router, _) = front(vec![echo("one")]);
        assert_eq!(ask(&router, get("/readyz")).await.0, StatusCode::OK);
        let (router, _) = front(Vec::new());
        let (status, said) = ask(&router, get("/readyz")).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(said.contains("no replica takes requests: "), "{said}");
        assert_eq!(ask(&router, get("/livez")).await.0, StatusCode::OK);
    });
}
