//! The page of a server and of a job: who sees what, and that the figures are those of the metrics.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{json, Value as Json};
use vstream_serve::{new_key, JobPage, KeyFile, Scope, ServeSettings};

use crate::support::{fill, settings, vector, Served};

type Answer = ureq::http::Response<ureq::Body>;

/// A request with headers.
fn get(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Answer {
    let agent = ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0);
    let agent: ureq::Agent = agent.timeout_global(Some(Duration::from_secs(120))).build().into();
    let mut request = agent.get(format!("http://{address}{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.call().expect("an answer")
}

/// The events of a page, as they come.
struct Events(BufReader<Box<dyn Read + Send>>);

impl Events {
    fn of(address: SocketAddr, headers: &[(&str, &str)]) -> Events {
        let answer = get(address, "/ui/events", headers);
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Events(BufReader::new(Box::new(answer.into_body().into_reader())))
    }

    /// The next event; `None` at the end.
    fn next(&mut self) -> Option<Json> {
        let mut line = String::new();
        while self.0.read_line(&mut line).expect("a line") > 0 {
            if let Some(event) = line.strip_prefix("data: ") {
                return Some(serde_json::from_str(event).expect("JSON"));
            }
            line.clear();
        }
        None
    }

    /// The first event that is as it should be, within some seconds.
    fn wait(&mut self, is_right: impl Fn(&Json) -> bool) -> Json {
        let began = Instant::now();
        loop {
            let event = self.next().expect("an event");
            if is_right(&event) {
                return event;
            }
            assert!(began.elapsed() < Duration::from_secs(120), "no such event; the last: {event}");
        }
    }
}

/// The value of a line of the metrics.
fn metric(server: &Served, line: &str) -> f64 {
    let address = server.running.metrics.expect("metrics");
    let text = get(address, "/metrics", &[]).into_body().read_to_string().expect("a text");
    let found = text.lines().find_map(|one| one.strip_prefix(line)?.trim().parse().ok());
    found.unwrap_or_else(|| panic!("no {line} in {text}"))
}

#[test]
fn events_have_the_figures_of_the_metrics() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    server.create("a", "Cosine");
    server.create("b", "Dot");
    let mut events = Events::of(server.running.address, &[]);
    fill(&server, "a", 0..1_000);
    for id in 0..50 {
        let query = json!({"query": vector(id), "limit": 3});
        server.ok("POST", "/collections/a/points/query", query);
    }
    server.ok("POST", "/collections/a/points/delete?wait=true", json!({"points": [1, 2]}));
    server.refused("GET", "/collections/none", json!({}));
    // The figures of an event are gathered one after the other, while a write may go on.
    let log = metric(&server, "vstream_log_bytes{collection=\"a\"}");
    let event = events.wait(|event| {
        let row = &event["collections"][0];
        let is_written =
            row["engine"]["rows"] == 998 && row["engine"]["log_bytes"].as_f64() == Some(log);
        is_written && row["searches"] == 50 && event["requests"]["refused"] == 1
    });
    let row = &event["collections"][0];
    assert_eq!(
        (&row["name"], &row["dimension"], &row["metric"]),
        (&json!("a"), &json!(64), &json!("cosine"))
    );
    for (figure, line) in [
        (&row["searches"], "vstream_search_seconds_count{collection=\"a\"}"),
        (&row["engine"]["writes"], "vstream_writes_total{collection=\"a\"}"),
        (&row["engine"]["rows"], "vstream_rows{collection=\"a\"}"),
        (&row["engine"]["leaves"], "vstream_leaves{collection=\"a\"}"),
        (&row["engine"]["splits"], "vstream_leaf_splits_total{collection=\"a\"}"),
        (&row["engine"]["segments"], "vstream_segments{collection=\"a\"}"),
        (&row["engine"]["log_bytes"], "vstream_log_bytes{collection=\"a\"}"),
    ] {
        assert_eq!(figure.as_f64(), Some(metric(&server, line)), "{line}");
    }
    assert_eq!(row["engine"]["writes"], 1_002);
    assert!(row["searches_per_second"].as_f64() > Some(1.0), "{row}");
    assert!(row["writes_per_second"].as_f64() > Some(1.0), "{row}");
    assert!(row["p50"].as_f64() > Some(0.0) && row["p99"].as_f64() >= row["p50"].as_f64(), "{row}");
    assert!(row["fresh"].as_f64() > Some(0.0), "{row}");
    let slow = event["slow"].as_array().expect("a list");
    assert_eq!(slow.len(), 20, "20 of 50 are kept");
    assert!(slow.windows(2).all(|two| two[0]["took"].as_f64() >= two[1]["took"].as_f64()));
    server.ok("DELETE", "/collections/a", json!({}));
    events.wait(|event| event["collections"].as_array().is_some_and(|rows| rows.len() == 1));
    // Events that go on do not hold the end up, and they end with the server.
    let began = Instant::now();
    server.running.stop();
    assert!(began.elapsed() < Duration::from_secs(5));
    while events.next().is_some() {}
}

#[test]
fn a_key_sees_the_collections_that_it_may_read() {
    let dir = tempfile::tempdir().expect("a folder");
    let owner = new_key("owner", Scope::Admin, &[]).unwrap();
    let reader = new_key("reader", Scope::Read, &["b".to_owned()]).unwrap();
    let file = dir.path().join("keys.json");
    fs::write(&file, format!("{{\"keys\": [{}, {}]}}", owner.1, reader.1)).unwrap();
    let mut server = Served::new(ServeSettings {
        keys: Some(KeyFile::read(&file).unwrap()),
        ..settings(&dir.path().join("collections"))
    });
    server.with_key(&owner.0);
    for name in ["a", "b"] {
        server.create(name, "Dot");
        fill(&server, name, 0..3);
        let path = format!("/collections/{name}/points/query");
        server.ok("POST", &path, json!({"query": 1, "limit": 1}));
    }
    let address = server.running.address;
    for key in [&[][..], &[("api-key", "wrong")], &[("authorization", "Bearer 0")]] {
        assert_eq!(get(address, "/ui/events", key).status(), 401, "{key:?}");
        assert_eq!(get(address, "/ui/", key).status(), 200, "the page itself has no figures");
    }
    let names = |event: &Json, list: &str, name: &str| -> Vec<String> {
        let rows = event[list].as_array().expect("a list");
        rows.iter().map(|row| row[name].as_str().unwrap_or_default().to_owned()).collect()
    };
    let mut all = Events::of(address, &[("api-key", &owner.0)]);
    let event = all.wait(|event| event["slow"].as_array().is_some_and(|slow| slow.len() == 2));
    assert_eq!(names(&event, "collections", "name").len(), 2);
    assert!(event["requests"]["all"].as_u64() > Some(0));
    let mut some = Events::of(address, &[("api-key", &reader.0)]);
    let event = some.next().expect("an event");
    assert_eq!(names(&event, "collections", "name"), ["b"]);
    assert_eq!(names(&event, "slow", "collection"), ["b"]);
    assert_eq!(event["requests"], Json::Null);
    server.running.stop();
}

#[test]
fn the_page_loads_nothing_from_elsewhere_and_nobody_elses_page_holds_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    let address = server.running.address;
    let moved = get(address, "/ui", &[]);
    assert_eq!(
        (moved.status().as_u16(), &moved.headers()["location"]),
        (303, &"/ui/".parse().unwrap())
    );
    for (path, kind) in
        [("/ui/", "text/html"), ("/ui/page.css", "text/css"), ("/ui/page.js", "text/javascript")]
    {
        let answer = get(address, path, &[]);
        assert_eq!(answer.status(), 200, "{path}");
        let header = |name: &str| answer.headers()[name].to_str().expect("a text").to_owned();
        assert!(header("content-type").starts_with(kind), "{path}");
        let policy = header("content-security-policy");
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("referrer-policy"), "no-referrer");
        let text = answer.into_body().read_to_string().expect("a text");
        let elsewhere = text.replace("http://www.w3.org/2000/svg", "");
        assert!(!elsewhere.contains("http:") && !elsewhere.contains("https:"), "{path}");
        assert!(!text.contains("innerHTML") && !text.contains("<style"), "{path}");
    }
    server.running.stop();
}

/// A page of any site could have a browser on the server's machine send it writes.
#[test]
fn a_server_without_keys_answers_no_page_of_another_site() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    let address = server.running.address;
    let own = format!("http://{address}");
    for (headers, expected) in [
        (vec![], 200),
        (vec![("origin", own.as_str())], 200),
        (vec![("origin", "http://elsewhere.example")], 403),
        (vec![("origin", "null")], 403),
        (vec![("host", "elsewhere.example")], 403),
        (vec![("host", "localhost")], 200),
    ] {
        for path in ["/collections", "/ui/events"] {
            assert_eq!(get(address, path, &headers).status(), expected, "{path} {headers:?}");
        }
    }
    server.running.stop();
}

#[test]
fn as_many_look_as_there_is_room_for() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    let address = server.running.address;
    let mut open: Vec<Events> = (0..16).map(|_| Events::of(address, &[])).collect();
    assert_eq!(get(address, "/ui/events", &[]).status(), 503);
    open.iter_mut().for_each(|events| assert!(events.next().is_some()));
    open.clear();
    let began = Instant::now();
    while get(address, "/ui/events", &[]).status() != 200 {
        assert!(began.elapsed() < Duration::from_secs(120), "who goes makes room");
        std::thread::sleep(Duration::from_millis(20));
    }
    server.running.stop();
}

#[test]
fn a_job_is_shown_to_this_machine_alone() {
    let open = JobPage::start("0.0.0.0:0".parse().unwrap(), None);
    assert!(open.err().expect("refused").contains("other machines"));
    let page = JobPage::start("127.0.0.1:0".parse().unwrap(), None).expect("a page");
    assert!(!page.is_watched());
    assert_eq!(get(page.address, "/", &[]).status(), 303);
    assert_eq!(get(page.address, "/ui/", &[]).status(), 200);
    assert_eq!(get(page.address, "/ui/events", &[("host", "elsewhere.example")]).status(), 403);
    assert_eq!(get(page.address, "/collections", &[]).status(), 404);
    let mut events = Events::of(page.address, &[]);
    assert!(page.is_watched());
    page.show("{\"vectors\":1}".to_owned());
    assert_eq!(events.next(), Some(json!({"vectors": 1})));
    page.show("{\"vectors\":2}".to_owned());
    drop(page);
    assert_eq!(events.next(), Some(json!({"vectors": 2})), "the last figures come before the end");
    assert_eq!(events.next(), None);
}
