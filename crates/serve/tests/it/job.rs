//! A server before a running job. The partitions are those of the tests of `vstream-ask`; a real job
//! stands behind a server in `JobReaderIT`.

#[path = "../../../ask/tests/it/job.rs"]
mod partitions;

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{json, Value as Json};
use vstream_serve::{JobPage, JobSettings, ServeSettings, Server};

use self::partitions::{l2, publish, serve, templates, Partition, Shared};
use crate::support::{Random, Served, DIMENSION};

const COLLECTION: &str = r#"{"dimension": 64, "metric": "l2", "seed": 7,
                             "attributes": {"colour": "keyword"}}"#;
const ROWS: u64 = 3_000;
const QUERY: &str = "/collections/news/points/query";

fn vector(random: &mut Random) -> Vec<f32> {
    (0..DIMENSION).map(|_| random.below(1 << 20) as f32 / (1 << 20) as f32).collect()
}

/// Three partitions and the job that they are of, which has published itself in the folder.
fn partitioned(folder: &Path) -> (Vec<Shared>, JobSettings) {
    let (partitions, ports) = three();
    publish(folder, &ports, COLLECTION, &templates(0, 0, &[], &[]));
    (partitions, news(folder))
}

fn three() -> (Vec<Shared>, Vec<u16>) {
    let mut random = Random(7);
    let parts = (0..3).map(|part| {
        let ids = (0..ROWS).filter(|id| id % 3 == part);
        let payload = |id| Some(json!({"number": id}).to_string().into_bytes());
        let rows = ids.map(|id| (id, id + 1, vector(&mut random), payload(id))).collect();
        serve(Partition { rows, watermark: 90, offsets: vec![5, 6], ..Partition::default() })
    });
    parts.unzip()
}

fn news(folder: &Path) -> JobSettings {
    JobSettings { collection: "news".to_owned(), ..JobSettings::new(&folder.display().to_string()) }
}

/// Three partitions, and a server before them.
fn served(folder: &Path) -> (Vec<Shared>, Served) {
    let (partitions, job) = partitioned(folder);
    let free = "127.0.0.1:0".parse().expect("an address");
    let settings = ServeSettings { metrics: Some(free), ..ServeSettings::of_job(job, free) };
    (partitions, Served::new(settings))
}

#[test]
fn queries_get_the_rows_of_the_job() {
    let folder = tempfile::tempdir().expect("a folder");
    let (partitions, server) = served(folder.path());
    let mut random = Random(8);
    for _ in 0..30 {
        let asked = vector(&mut random);
        let mut truth = Vec::new();
        for partition in &partitions {
            let partition = partition.lock().expect("a partition");
            truth.extend(partition.rows.iter().map(|row| (l2(&asked, &row.2), row.0)));
        }
        truth.sort_by(|left, right| left.0.total_cmp(&right.0));
        let body = json!({"query": asked, "limit": 10, "with_payload": true});
        let answer = server.with_headers("POST", QUERY, &body, &[]);
        assert_eq!(answer.status, 200, "{}", answer.body);
        let points = answer.body["result"]["points"].as_array().expect("points").clone();
        assert_eq!(points.len(), 10);
        for (point, (distance, id)) in points.iter().zip(truth) {
            assert_eq!(point["id"], json!(id));
            assert_eq!(point["payload"], json!({"number": id}));
            assert_eq!(point["version"], json!(id + 1));
            let score = point["score"].as_f64().expect("a score");
            assert!((score - f64::from(distance.sqrt())).abs() < 1e-5);
        }
        assert_eq!(answer.header("vstream-offsets"), "5,6");
        assert_eq!(answer.header("vstream-watermark"), "90");
        assert_eq!(answer.header("vstream-sequence"), "", "a job has none");
    }
    // A row without what was asked for would look as if it had none.
    let last = partitions.last().expect("a partition");
    last.lock().expect("a partition").leaves_out = true;
    let query = vector(&mut random);
    let body = json!({"query": query, "limit": 30, "with_payload": true});
    let (status, why) = server.refused("POST", QUERY, body);
    assert!(status == 400 && why.contains("ask for fewer rows"), "{status}: {why}");
    last.lock().expect("a partition").leaves_out = false;
    let batch =
        json!({"searches": [{"query": vector(&mut random)}, {"query": vector(&mut random)}]});
    let answers = server.ok("POST", "/collections/news/points/query/batch", batch);
    assert_eq!(answers.as_array().expect("answers").len(), 2);
}

/// A job that was stopped may go on with more attributes.
#[test]
fn a_job_that_has_other_attributes_is_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let (partitions, server) = served(folder.path());
    let query = json!({"query": partitions[0].lock().expect("a partition").rows[0].2, "limit": 5});
    server.ok("POST", QUERY, query.clone());
    drop(partitions);
    let (_partitions, ports) = three();
    let more = COLLECTION.replace("\"colour\"", "\"size\": \"i64\", \"colour\"");
    publish(folder.path(), &ports, &more, &templates(0, 0, &[], &[]));
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        // Until the server has read it, a question is refused: its filter would name other attributes.
        let (status, answer) = server.call("POST", QUERY, Some(&query));
        let info = server.ok("GET", "/collections/news", json!({}));
        if info["payload_schema"]["size"]["data_type"] == "integer" {
            break;
        }
        assert!(status == 200 || status == 503, "{status}: {answer}");
        assert!(Instant::now() < until, "{status}: {answer} {info}");
        std::thread::sleep(Duration::from_millis(200));
    }
    let filtered = json!({"filter": {"must": [{"key": "size", "range": {"gt": 1}}]}});
    let mut asked = query;
    asked.as_object_mut().expect("an object").extend(filtered.as_object().expect("one").clone());
    server.ok("POST", QUERY, asked);
    server.running.stop();
}

#[test]
fn a_job_says_what_it_is_and_what_it_cannot_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let (partitions, server) = served(folder.path());
    let listed = server.ok("GET", "/collections", json!({}));
    assert_eq!(listed, json!({"collections": [{"name": "news"}]}));
    let info = server.ok("GET", "/collections/news", json!({}));
    assert_eq!(info["points_count"], Json::Null, "the job does not say");
    assert_eq!(info["config"]["params"]["vectors"]["size"], json!(64));
    // Official clients refuse null there.
    let colour = json!({"data_type": "keyword", "points": 0});
    assert_eq!(info["payload_schema"]["colour"], colour);
    let asked = vec![0.5; DIMENSION];
    for (method, path, body, status, part) in [
        (
            "PUT",
            "/collections/news/points",
            json!({"points": [{"id": 1, "vector": asked}]}),
            421,
            "topic",
        ),
        ("DELETE", "/collections/news", json!({}), 421, "topic"),
        (
            "PUT",
            "/collections/other",
            json!({"vectors": {"size": 4, "distance": "Dot"}}),
            421,
            "topic",
        ),
        ("POST", "/collections/news/points/scroll", json!({}), 400, "does not list"),
        ("POST", "/collections/news/points/count", json!({}), 400, "count them"),
        ("POST", "/collections/news/points", json!({"ids": [1]}), 400, "by id"),
        ("POST", QUERY, json!({"query": 17}), 400, "by id"),
        ("POST", QUERY, json!({"query": asked, "with_vector": true}), 400, "no vectors"),
        ("POST", QUERY, json!({"query": [1, 2]}), 400, "2 elements"),
        ("POST", "/collections/old/points/query", json!({"query": asked}), 404, "old"),
    ] {
        let (got, why) = server.refused(method, path, body);
        assert!(got == status && why.contains(part), "{method} {path}: {got} {why}");
    }
    let body = json!({"query": asked});
    let ask = |name: &'static str, value: &str| {
        let answer = server.with_headers("POST", QUERY, &body, &[(name, value.to_owned())]);
        (answer.status, answer.body["status"]["error"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(ask("vstream-min-watermark", "80").0, 200);
    assert!(ask("vstream-min-watermark", "soon").1.contains("give whole numbers"));
    assert!(ask("vstream-min-offsets", "1,x").1.contains("give whole numbers"));
    assert!(ask("vstream-min-sequence", "1").1.contains("a job has no sequences"));
    for partition in &partitions {
        let busy = Some((2, "The partition has no time.".to_owned()));
        partition.lock().expect("a partition").without = busy;
    }
    let (status, why) = ask("vstream-wait-ms", "300");
    assert!(status == 503 && why.contains("The partition has no time."), "{status}: {why}");
}

#[test]
fn many_searches_at_once_share_a_few_connections() {
    let folder = tempfile::tempdir().expect("a folder");
    let (partitions, server) = served(folder.path());
    std::thread::scope(|scope| {
        for client in 0..40 {
            let server = &server;
            scope.spawn(move || {
                let mut random = Random(client);
                for _ in 0..5 {
                    let body = json!({"query": vector(&mut random), "limit": 3});
                    let points = server.ok("POST", QUERY, body)["points"].take();
                    assert_eq!(points.as_array().expect("points").len(), 3);
                }
            });
        }
    });
    for partition in &partitions {
        let partition = partition.lock().expect("a partition");
        assert_eq!(partition.asked, 200);
        assert!(partition.connections <= 16, "{} connections", partition.connections);
    }
}

#[test]
fn the_page_of_a_job_asks_it_as_soon_as_it_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let free = "127.0.0.1:0".parse().expect("an address");
    let hasty =
        JobSettings { deadline: std::time::Duration::from_millis(200), ..news(folder.path()) };
    let page = JobPage::start(free, Some(hasty)).expect("a page");
    assert_eq!(page.asks(), Some("news"));
    let agent = ureq::Agent::config_builder().http_status_as_error(false).build();
    let agent: ureq::Agent = agent.into();
    let ask = |path: &str, body: &Json, origin: &str| {
        let request = agent.post(format!("http://{}{path}", page.address));
        let request = request.header("content-type", "application/json").header("origin", origin);
        let mut answer = request.send(body.to_string()).expect("an answer");
        let text = answer.body_mut().read_to_string().expect("a text");
        (answer.status().as_u16(), serde_json::from_str::<Json>(&text).unwrap_or(Json::Null))
    };
    let own = format!("http://{}", page.address);
    let mut random = Random(9);
    let asked = vector(&mut random);
    let body = json!({"query": asked, "limit": 5, "with_payload": true});
    let (status, early) = ask(QUERY, &body, &own);
    let why = early["status"]["error"].as_str().unwrap_or_default();
    assert!(status == 503 && why.contains("no job has published"), "{status}: {early}");
    let (partitions, _) = partitioned(folder.path());
    let (status, answer) = ask(QUERY, &body, &own);
    assert_eq!(status, 200, "{answer}");
    let mut truth = Vec::new();
    for partition in &partitions {
        let partition = partition.lock().expect("a partition");
        truth.extend(partition.rows.iter().map(|row| (l2(&asked, &row.2), row.0)));
    }
    truth.sort_by(|left, right| left.0.total_cmp(&right.0));
    let points = answer["result"]["points"].as_array().expect("points");
    assert_eq!(points.len(), 5);
    for (point, (_, id)) in points.iter().zip(truth) {
        assert_eq!((&point["id"], &point["payload"]), (&json!(id), &json!({"number": id})));
    }
    // The box asks, and nothing else of a server is there; nor is it for pages of others.
    assert_eq!(ask("/collections/old/points/query", &body, &own).0, 404);
    assert_eq!(ask("/collections/news/points/scroll", &json!({}), &own).0, 404);
    assert_eq!(ask("/mcp", &json!({}), &own).0, 404);
    assert_eq!(ask(QUERY, &body, "http://elsewhere.example").0, 403);
    let renamed = agent.post(format!("http://{}{QUERY}", page.address));
    let renamed = renamed.header("host", "elsewhere.example").send(body.to_string());
    assert_eq!(renamed.expect("an answer").status(), 403);
}

#[test]
fn without_a_job_the_server_does_not_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let of = |job| ServeSettings::of_job(job, "127.0.0.1:0".parse().expect("an address"));
    let hasty = JobSettings {
        deadline: std::time::Duration::from_millis(50),
        ..JobSettings::new(&folder.path().display().to_string())
    };
    let why = Server::start(of(hasty)).map(drop).expect_err("there is no job");
    assert!(why.contains("no job has published where it answers"), "{why}");
    let named = JobSettings { collection: "a/b".to_owned(), ..JobSettings::new("x") };
    let why = Server::start(of(named)).map(drop).expect_err("that is no name");
    assert!(why.contains("is no name of a collection"), "{why}");
}
