//! A table of tries: who may do what, with which key.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{json, Value as Json};
use vstream_serve::{new_key, KeyFile, Scope, ServeSettings, Server, TlsFiles};

use crate::support::{point, settings, Served, DIMENSION};

#[test]
fn a_key_does_what_its_scope_says_and_nothing_else() {
    let dir = tempfile::tempdir().expect("a folder");
    let made = [
        new_key("reader", Scope::Read, &[]).unwrap(),
        new_key("writer", Scope::Write, &["a".to_owned()]).unwrap(),
        new_key("owner", Scope::Admin, &[]).unwrap(),
    ];
    let entries: Vec<&str> = made.iter().map(|(_, entry)| entry.as_str()).collect();
    let file = dir.path().join("keys.json");
    fs::write(&file, format!("{{\"keys\": [{}]}}", entries.join(", "))).unwrap();
    let audit = dir.path().join("audit.log");
    let mut server = Served::new(ServeSettings {
        keys: Some(KeyFile::read(&file).unwrap()),
        audit: Some(audit.clone()),
        ..settings(&dir.path().join("collections"))
    });
    let vectors = json!({"vectors": {"size": DIMENSION, "distance": "Dot"}});
    let points = json!({"points": [point(1)]});
    let query = json!({"query": 1, "limit": 1});
    // Method, path, body; then the status for nobody, a wrong key, reader, writer, owner.
    let tries = [
        ("PUT", "/collections/a", vectors.clone(), [401, 401, 403, 403, 200]),
        ("PUT", "/collections/b", vectors, [401, 401, 403, 403, 200]),
        ("PUT", "/collections/a/points?wait=true", points.clone(), [401, 401, 403, 200, 200]),
        ("PUT", "/collections/b/points?wait=true", points, [401, 401, 403, 403, 200]),
        ("POST", "/collections/a/points/query", query.clone(), [401, 401, 200, 200, 200]),
        ("POST", "/collections/b/points/query", query, [401, 401, 200, 403, 200]),
        ("POST", "/collections/a/points/delete", json!({"points": [9]}), [401, 401, 403, 200, 200]),
        ("GET", "/collections/b", json!({}), [401, 401, 200, 403, 200]),
        ("GET", "/collections", json!({}), [401, 401, 200, 200, 200]),
        (
            "PUT",
            "/collections/a/index",
            json!({"field_name": "f", "field_schema": "float"}),
            [401, 401, 403, 200, 200],
        ),
        ("PATCH", "/collections/a", json!({}), [401, 401, 403, 403, 200]),
        ("DELETE", "/collections/a", json!({}), [401, 401, 403, 403, 200]),
        ("GET", "/metrics", json!({}), [401, 401, 200, 403, 200]),
        ("GET", "/", json!({}), [200; 5]),
        ("GET", "/healthz", json!({}), [200; 5]),
        ("GET", "/nothing", json!({}), [404; 5]),
    ];
    let keys = ["", "0123", &made[0].0, &made[1].0, &made[2].0];
    for (method, path, body, expected) in &tries {
        for (key, expected) in keys.iter().zip(expected) {
            server.with_key(key);
            let (status, answer) = server.call(method, path, Some(body));
            assert_eq!(status, *expected, "{method} {path} with '{key}': {answer}");
        }
    }
    server.with_key(&made[1].0);
    assert_eq!(server.ok("GET", "/collections", json!({})), json!({"collections": []}));
    server.running.stop();
    let log = fs::read_to_string(audit).unwrap();
    assert!(log.contains("\"key\":\"owner\"") && log.contains("\"status\":401"), "{log}");
    assert!(log.contains("\"path\":\"/collections/b/points/query\",\"status\":403"), "{log}");
    assert!(made.iter().all(|(key, _)| !log.contains(key.as_str())), "no key in the log");
    assert!(!log.contains(
        "\"key\":\"reader\",\"method\":\"POST\",\"path\":\"/collections/a/points/query\""
    ));
}

#[test]
fn a_bearer_token_is_a_key() {
    let dir = tempfile::tempdir().expect("a folder");
    let (key, entry) = new_key("reader", Scope::Read, &[]).unwrap();
    let file = dir.path().join("keys.json");
    fs::write(&file, format!("{{\"keys\": [{entry}]}}")).unwrap();
    let server = Served::new(ServeSettings {
        keys: Some(KeyFile::read(&file).unwrap()),
        ..settings(&dir.path().join("collections"))
    });
    let get = |value: &str| {
        let agent: ureq::Agent =
            ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let request = agent.get(server.url("/collections")).header("authorization", value);
        request.call().expect("an answer").status().as_u16()
    };
    assert_eq!(get(&format!("Bearer {key}")), 200);
    for wrong in [key.clone(), format!("Basic {key}"), format!("Bearer {key}0"), String::new()] {
        assert_eq!(get(&wrong), 401, "{wrong}");
    }
    server.running.stop();
}

#[test]
fn what_strangers_could_reach_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let everywhere = "0.0.0.0:0".parse().unwrap();
    let open = ServeSettings { listen: everywhere, ..settings(dir.path()) };
    let why = Server::start(open).err().expect("refused");
    assert!(why.contains("keys and a certificate"), "{why}");
    let metrics = ServeSettings { metrics: Some(everywhere), ..settings(dir.path()) };
    assert!(Server::start(metrics).err().expect("refused").contains("metrics"));
    let missing = dir.path().join("none.pem");
    let tls = TlsFiles { certificate: missing.clone(), key: missing };
    let no_files = ServeSettings { tls: Some(tls), ..settings(dir.path()) };
    assert!(Server::start(no_files).err().expect("refused").contains("certificate"));
}

/// The audit log has changes that failed when other points had changed, and those whose client did not wait.
#[test]
fn changes_that_were_begun_have_a_line_however_they_end() {
    let dir = tempfile::tempdir().expect("a folder");
    let audit = dir.path().join("audit.log");
    let server = Served::new(ServeSettings {
        audit: Some(audit.clone()),
        ..settings(&dir.path().join("collections"))
    });
    server.create("a", "Dot");
    for from in (0..20_000).step_by(2_000) {
        let points: Vec<Json> = (from..from + 2_000).map(point).collect();
        server.ok("PUT", "/collections/a/points?wait=true", json!({"points": points}));
    }
    let lines = || -> Vec<Json> {
        let log = fs::read_to_string(&audit).expect("a log");
        log.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    };
    let is_of = |line: &Json, status: Json| {
        line["path"] == "/collections/a/points/payload" && line["status"] == status
    };
    let partly = json!({"payload": {"seen": true}, "points": [1, 99_999_999]});
    let (status, answer) =
        server.call("POST", "/collections/a/points/payload?wait=true", Some(&partly));
    assert_eq!(status, 404, "{answer}");
    let seen = server.ok("GET", "/collections/a/points/1", json!({}));
    assert_eq!(seen["payload"]["seen"], true, "it was changed: {seen}");
    assert!(lines().iter().any(|line| is_of(line, json!(404))), "{:?}", lines());
    // A request that was refused before it began has none.
    let wrong = json!({"payload": {"seen": true}});
    assert_eq!(server.call("POST", "/collections/a/points/payload", Some(&wrong)).0, 400);
    assert!(!lines().iter().any(|line| is_of(line, json!(400))), "{:?}", lines());

    let body = json!({"payload": {"seen": false}, "filter": {"must": []}}).to_string();
    let head = format!(
        "POST /collections/a/points/payload?wait=true HTTP/1.1\r\nhost: localhost\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let until = Instant::now() + Duration::from_secs(60);
    while !lines().iter().any(|line| is_of(line, Json::Null)) {
        assert!(Instant::now() < until, "no line of a client that left: {:?}", lines().last());
        let mut stream = TcpStream::connect(server.running.address).expect("a connection");
        stream.write_all(head.as_bytes()).expect("a request");
        std::thread::sleep(Duration::from_millis(20));
    }
    server.running.stop();
}
