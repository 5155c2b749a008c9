//! Requests that are wrong, slow or cut: each gets a clear answer or none, nothing changes, and the
//! server goes on.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{json, Value as Json};
use vstream_serve::{Limits, ServeSettings};

use crate::support::{fill, point, settings, vector, Served};

#[test]
fn bad_requests_change_nothing_and_say_why() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    server.create("a", "Cosine");
    fill(&server, "a", 0..10);
    let points = "/collections/a/points?wait=true";
    let with = |vector: Json| json!({"points": [point(100), {"id": 101, "vector": vector}]});
    let mut zero = vec![0.0; 64];
    let bad = [
        ("PUT", points, with(json!([1.0])), "64"),
        ("PUT", points, with(json!(zero)), "zero"),
        ("PUT", points, with(json!("text")), "no list of numbers"),
        ("PUT", points, with(json!({"name": [1.0]})), "without a name"),
        ("PUT", points, json!({"points": [point(100), {"id": -1, "vector": []}]}), "negative"),
        ("PUT", points, json!({"points": [point(100), {"id": "name", "vector": []}]}), "UUID"),
        ("PUT", points, json!({}), "points or batch"),
        ("PUT", points, json!({"batch": {"ids": [1, 2], "vectors": [[1.0]]}}), "per point"),
        (
            "PUT",
            points,
            json!({"points": [point(100)], "update_mode": "insert_only"}),
            "not supported",
        ),
        (
            "PUT",
            points,
            json!({"points": [point(100), {"id": 1, "vector": vector(1), "payload": {"city": 5}}]}),
            "city",
        ),
        ("POST", "/collections/a/points/delete?wait=true", json!({}), "points or filter"),
        (
            "POST",
            "/collections/a/points/delete?wait=true",
            json!({"filter": {"musst": []}}),
            "musst",
        ),
        ("POST", "/collections/a/points/query", json!({"query": [1.0]}), "64"),
        ("POST", "/collections/a/points/query", json!({"query": vector(1), "limit": 0}), "limit"),
        (
            "POST",
            "/collections/a/points/query",
            json!({"query": vector(1), "limit": 1001}),
            "limit",
        ),
        (
            "POST",
            "/collections/a/points/query",
            json!({"query": vector(1), "using": "other"}),
            "other",
        ),
        ("POST", "/collections/a/points/query", json!({"query": {"fusion": "rrf"}}), "fusion"),
        (
            "POST",
            "/collections/a/points/query",
            json!({"query": vector(1), "prefetch": [{}]}),
            "prefetch",
        ),
        (
            "POST",
            "/collections/a/points/query",
            json!({"query": vector(1), "filter": {"must": [{"key": "city", "match": {"text": "x"}}]}}),
            "text",
        ),
        ("POST", "/collections/a/points/scroll", json!({"order_by": "city"}), "order_by"),
        ("PUT", "/collections/b", json!({}), "vectors"),
        ("PUT", "/collections/b", json!({"vectors": {"size": 0, "distance": "Dot"}}), "dimension"),
        (
            "PUT",
            "/collections/b",
            json!({"vectors": {"size": 4, "distance": "Manhattan"}}),
            "Manhattan",
        ),
        ("PUT", "/collections/b", json!({"vectors": {"x": {"size": 4, "distance": "Dot"}}}), "x"),
        ("PUT", "/collections/..%2Fb", json!({"vectors": {"size": 4, "distance": "Dot"}}), "name"),
        ("PUT", "/collections/.b", json!({"vectors": {"size": 4, "distance": "Dot"}}), "dot"),
    ];
    for (method, path, body, says) in bad {
        let (status, why) = server.refused(method, path, body.clone());
        assert_eq!(status, 400, "{method} {path} {body}: {why}");
        assert!(why.contains(says), "{method} {path} {body}: {why}");
    }
    assert_eq!(
        server
            .refused("PUT", "/collections/a", json!({"vectors": {"size": 4, "distance": "Dot"}}))
            .0,
        409
    );
    assert_eq!(
        server.refused("POST", "/collections/none/points/query", json!({"query": 1})).0,
        404
    );
    assert_eq!(server.refused("POST", "/collections/a/points/query", json!({"query": 999})).0, 404);
    zero[0] = 1.0;
    let count = server.ok("POST", "/collections/a/points/count", json!({}));
    assert_eq!(count, json!({"count": 10}), "nothing was written");
    server.running.stop();
}

/// What a server answers to some bytes.
pub fn raw(server: &Served, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.running.address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    // An end of the connection is an answer too.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn limits_are_kept_and_the_server_goes_on() {
    let dir = tempfile::tempdir().expect("a folder");
    let limits = Limits {
        body_bytes: 100_000,
        points: 50,
        queries: 3,
        collections: 1,
        head: Duration::from_millis(300),
        request: Duration::from_millis(900),
        ..Limits::default()
    };
    let server = Served::new(ServeSettings { limits, ..settings(dir.path()) });
    server.create("a", "Cosine");
    let path = "/collections/a/points";
    let head = format!("POST {path}/query HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    let large = raw(&server, format!("{head}content-length: 100001\r\n\r\n").as_bytes());
    assert!(large.starts_with("HTTP/1.1 413"), "{large}");
    let chunks = format!("{head}transfer-encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n");
    let chunked = raw(&server, chunks.as_bytes());
    assert!(chunked.starts_with("HTTP/1.1 411"), "{chunked}");
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let deep = format!("{head}content-length: {}\r\n\r\n{deep}", deep.len());
    assert!(raw(&server, deep.as_bytes()).starts_with("HTTP/1.1 400"));
    // Nothing, half a head, half a body: the connection ends, or an answer says so.
    assert_eq!(raw(&server, b""), "");
    let half = raw(&server, b"POST / HT");
    assert!(half.is_empty() || half.starts_with("HTTP/1.1 4"), "{half}");
    assert_eq!(raw(&server, b"PR"), "");
    let body = raw(&server, format!("{head}content-length: 500\r\n\r\n{{").as_bytes());
    assert!(body.starts_with("HTTP/1.1 504"), "{body}");
    assert!(raw(&server, b"\x16\x03\x01\x02\x00 is no HTTP\r\n\r\n").contains("400"));
    let many: Vec<Json> = (0..51).map(point).collect();
    let (status, why) = server.refused("PUT", path, json!({"points": many}));
    assert!(status == 400 && why.contains("50"), "{why}");
    let (status, why) = server.refused(
        "POST",
        &format!("{path}/query/batch"),
        json!({"searches": [{}, {}, {}, {}]}),
    );
    assert!(status == 400 && why.contains("limit is 3"), "{why}");
    let other = json!({"vectors": {"size": 4, "distance": "Dot"}});
    assert!(server.refused("PUT", "/collections/b", other).1.contains("limit"));
    let count = server.ok("POST", "/collections/a/points/count", json!({}));
    assert_eq!(count, json!({"count": 0}));
    server.running.stop();
}

/// A connection that has got an answer and is open for more; `None` if the server closed it.
fn answered_and_open(server: &Served) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(server.running.address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let read = stream.read(&mut [0; 4_096]).unwrap_or(0);
    if read == 0 {
        std::thread::sleep(Duration::from_millis(20));
        return None;
    }
    Some(stream)
}

#[test]
fn connections_above_the_limit_are_closed_at_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let limits = Limits { connections: 8, ..Limits::default() };
    let server = Served::new(ServeSettings { limits, ..settings(dir.path()) });
    let get = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    assert!(raw(&server, get).starts_with("HTTP/1.1 200"));
    // One that was let in and answered, and stays open. The server may not have ended the
    // connection before yet when its client has seen the end: then one is closed, and comes again.
    let mut held = Vec::new();
    for _ in 0..100 {
        held.extend(answered_and_open(&server));
        if held.len() == 8 {
            break;
        }
    }
    assert_eq!(held.len(), 8);
    assert_eq!(raw(&server, get), "");
    // When others end there is room again.
    drop(held);
    let is_let_in = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        raw(&server, get).starts_with("HTTP/1.1 200")
    });
    assert!(is_let_in);
    server.running.stop();
}

#[test]
fn metrics_and_health_need_no_key_and_have_a_port_of_their_own() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    server.create("a", "Cosine");
    fill(&server, "a", 0..20);
    let get = |path: &str| {
        let metrics = server.running.metrics.expect("an address");
        let mut answer = ureq::get(format!("http://{metrics}{path}")).call().expect("an answer");
        answer.body_mut().read_to_string().expect("a text")
    };
    assert!(get("/healthz").contains("passed") && get("/readyz").contains("passed"));
    let text = get("/metrics");
    assert!(text.contains("vstream_rows{collection=\"a\"} 20"), "{text}");
    assert!(text.contains("path=\"/collections/{collection}/points\",status=\"200\""), "{text}");
    // On the port of the interface they need the key that everything there needs.
    assert_eq!(server.call("GET", "/metrics", None).0, 200);
    let elsewhere = server.running.metrics.expect("an address");
    for path in ["/collections", "/mcp"] {
        let answer = ureq::get(format!("http://{elsewhere}{path}")).call();
        assert!(matches!(answer, Err(ureq::Error::StatusCode(404))), "{path}");
    }
    server.running.stop();
}

/// Who asks for a collection may be gone before it is made, or dropped: it is there then, or gone, and nothing in between.
#[test]
fn a_change_of_collections_goes_to_its_end_whoever_waits() {
    let dir = tempfile::tempdir().expect("a folder");
    // Less than the syncs of making one take.
    let limits = Limits { request: Duration::from_micros(500), ..Limits::default() };
    let server = Served::new(ServeSettings { limits, ..settings(dir.path()) });
    let until = std::time::Instant::now() + Duration::from_secs(60);
    let wait_for = |name: &str, is_wanted: bool| loop {
        let answer = server.call("GET", &format!("/collections/{name}/exists"), None).1;
        let is_there = answer["result"]["exists"] == json!(is_wanted);
        if is_there && dir.path().join(name).exists() == is_wanted {
            return;
        }
        assert!(std::time::Instant::now() < until, "{name}: {is_wanted} is not so: {answer}");
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut unanswered = 0;
    for at in 0..10 {
        let name = format!("c{at}");
        let (path, body) =
            (format!("/collections/{name}"), json!({"vectors": {"size": 4, "distance": "Dot"}}));
        unanswered += u32::from(server.call("PUT", &path, Some(&body)).0 == 504);
        wait_for(&name, true);
        unanswered += u32::from(server.call("DELETE", &path, None).0 == 504);
        wait_for(&name, false);
    }
    assert!(unanswered > 0, "nobody was gone");
    server.running.stop();
}

/// A thousand points may each have a payload of 1 MiB: an answer has so many bytes at most, and a change of all reads some
/// at a time.
#[test]
fn answers_and_changes_of_large_payloads_are_bounded() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    let vectors = json!({"vectors": {"size": 64, "distance": "Dot", "on_disk": true}});
    server.ok("PUT", "/collections/a", vectors);
    let text = "x".repeat(1_040_000);
    let rows = 264;
    for from in (0..rows).step_by(24) {
        let points: Vec<Json> = (from..(from + 24).min(rows))
            .map(|id| json!({"id": id, "vector": vector(id), "payload": {"text": text, "n": id}}))
            .collect();
        server.ok("PUT", "/collections/a/points?wait=true", json!({"points": points}));
    }
    let set = json!({"payload": {"seen": true}, "filter": {"must": []}});
    server.ok("POST", "/collections/a/points/payload?wait=true", set);
    let ids: Vec<u64> = (0..rows).collect();
    let near =
        |limit: u64, with: Json| json!({"query": vector(1), "limit": limit, "with_payload": with});
    let query = "/collections/a/points/query";
    let large = [
        (query, near(rows, json!(true))),
        (query, json!({"limit": rows, "with_payload": true})),
        ("/collections/a/points", json!({"ids": ids, "with_payload": true})),
    ];
    for (path, body) in large {
        let (status, why) = server.refused("POST", path, body);
        assert!(status == 413 && why.contains("fewer"), "{path}: {status} {why}");
    }
    let seen = server.ok("POST", query, near(rows, json!(["seen", "n"])));
    let points = seen["points"].as_array().expect("points");
    assert_eq!(points.len(), rows as usize);
    assert!(points.iter().all(|one| one["payload"] == json!({"seen": true, "n": one["id"]})));
    let all = server.ok("POST", query, near(3, json!(true)));
    assert!(all["points"]
        .as_array()
        .expect("points")
        .iter()
        .all(|one| one["payload"]["text"] == text.as_str()));
    server.running.stop();
}

/// Whoever has no key may ask for the server's health, and takes no room for that.
#[test]
fn messages_without_a_key_take_no_room() {
    let dir = tempfile::tempdir().expect("a folder");
    let limits = Limits { body_bytes: 100_000, bodies_bytes: 150_000, ..Limits::default() };
    let server = Served::new(ServeSettings { limits, ..settings(dir.path()) });
    server.create("a", "Dot");
    let head = "POST /qdrant.Qdrant/HealthCheck HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/grpc\r\n\
                content-length: 90005\r\n\r\n";
    let begun = [head.as_bytes(), &[0], &90_000u32.to_be_bytes()[..], &[0; 100]].concat();
    let open: Vec<TcpStream> = (0..4)
        .map(|_| {
            let mut stream = TcpStream::connect(server.running.address).expect("a connection");
            stream.write_all(&begun).expect("a part of a request");
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    let points: Vec<Json> = (0..60).map(point).collect();
    server.ok("PUT", "/collections/a/points?wait=true", json!({"points": points}));
    drop(open);
    server.running.stop();
}

/// An answer takes memory until its client has it.
#[test]
fn a_client_that_takes_nothing_is_let_go() {
    let dir = tempfile::tempdir().expect("a folder");
    let limits = Limits { stall: Duration::from_secs(2), ..Limits::default() };
    let server = Served::new(ServeSettings { limits, ..settings(dir.path()) });
    server.create("a", "Dot");
    let text = "x".repeat(1_000_000);
    for from in [0, 25] {
        let points: Vec<Json> = (from..from + 25)
            .map(|id| json!({"id": id, "vector": vector(id), "payload": {"text": text}}))
            .collect();
        server.ok("PUT", "/collections/a/points?wait=true", json!({"points": points}));
    }
    let body = json!({"query": vector(1), "limit": 50, "with_payload": true}).to_string();
    let head = format!(
        "POST /collections/a/points/query HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let ask = |pause: Duration| {
        let mut stream = TcpStream::connect(server.running.address).expect("a connection");
        stream.write_all(head.as_bytes()).expect("a request");
        std::thread::sleep(pause);
        let mut answer = Vec::new();
        // It may have been cut.
        let _ = stream.read_to_end(&mut answer);
        answer.len()
    };
    assert!(ask(Duration::ZERO) > 50_000_000, "whoever reads gets all");
    assert!(ask(Duration::from_secs(8)) < 40_000_000, "whoever does not, what was on its way");
    server.running.stop();
}

/// A batch whose client is gone is worked on no longer.
#[test]
fn nobody_works_for_nobody() {
    let dir = tempfile::tempdir().expect("a folder");
    let filled = Served::of(dir.path());
    filled.create("a", "Dot");
    for from in (0..60_000).step_by(1_000) {
        fill(&filled, "a", from..from + 1_000);
    }
    filled.running.stop();
    let limits = Limits { request: Duration::from_millis(300), ..Limits::default() };
    let server = Served::new(ServeSettings { limits, ..settings(dir.path()) });
    let searches = |exact: usize| -> Vec<Json> {
        let one = |id| json!({"query": vector(id as u64), "limit": 10, "params": {"exact": true}});
        (0..exact).map(one).collect()
    };
    let batch = json!({"searches": searches(1_000)});
    assert_eq!(server.call("POST", "/collections/a/points/query/batch", Some(&batch)).0, 504);
    let counted = || {
        let metrics = server.running.metrics.expect("an address");
        let mut answer = ureq::get(format!("http://{metrics}/metrics")).call().expect("an answer");
        let text = answer.body_mut().read_to_string().expect("a text");
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("vstream_search_seconds_count{collection=\"a\"} "));
        line.map_or(0, |count| count.parse::<u64>().expect("a count"))
    };
    std::thread::sleep(Duration::from_millis(300));
    let first = counted();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(counted(), first, "it goes on");
    assert!(first < 1_000, "it came to its end");
    server.running.stop();
}
