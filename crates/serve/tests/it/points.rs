//! Points are written, found, read, changed and deleted; answers are held to brute force.

use serde_json::{json, Value as Json};

use crate::support::{fill, ids, point, vector, Served};

const ROWS: u64 = 3_000;

/// The ids nearest to a vector by cosine, among those that pass.
fn nearest(wanted: &[f32], k: usize, passes: impl Fn(u64) -> bool) -> Vec<u64> {
    let norm = |v: &[f32]| v.iter().map(|x| x * x).sum::<f32>().sqrt();
    let cosine = |id: u64| {
        let v = vector(id);
        wanted.iter().zip(&v).map(|(a, b)| a * b).sum::<f32>() / norm(wanted) / norm(&v)
    };
    let mut all: Vec<(f32, u64)> =
        (0..ROWS).filter(|&id| passes(id)).map(|id| (cosine(id), id)).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all.into_iter().take(k).map(|(_, id)| id).collect()
}

fn query(server: &Served, body: Json) -> Json {
    server.ok("POST", "/collections/a/points/query", body)["points"].take()
}

#[test]
fn exact_answers_are_those_of_brute_force() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    server.create("a", "Cosine");
    fill(&server, "a", 0..ROWS);
    let exact = json!({"exact": true});
    for seed in 0..10 {
        let wanted = vector(1_000_000 + seed);
        let found = query(&server, json!({"query": wanted, "limit": 10, "params": exact}));
        assert_eq!(ids(&found), nearest(&wanted, 10, |_| true), "seed {seed}");
        let scores: Vec<f64> =
            found.as_array().unwrap().iter().map(|p| p["score"].as_f64().unwrap()).collect();
        assert!(scores.windows(2).all(|pair| pair[0] >= pair[1]) && scores[0] <= 1.0 + 1e-5);
        let filter = json!({
            "must": [{"key": "city", "match": {"value": "Lima"}}, {"key": "number", "range": {"gte": 500}}],
            "must_not": [{"key": "in.even", "match": {"value": true}}, {"key": "tags", "match": {"any": ["t1"]}}],
        });
        let passes = |id: u64| id % 3 == 1 && id >= 500 && id % 2 == 1 && id % 5 != 1;
        let body = json!({"query": wanted, "limit": 5, "params": exact, "filter": filter});
        assert_eq!(ids(&query(&server, body)), nearest(&wanted, 5, passes), "seed {seed}");
        // The second page goes on where the first ended.
        let body = json!({"query": wanted, "limit": 4, "offset": 6, "params": exact});
        assert_eq!(ids(&query(&server, body)), nearest(&wanted, 10, |_| true)[6..]);
    }
    server.running.stop();
}

#[test]
fn approximate_answers_hold_the_target() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    server.create("a", "Cosine");
    fill(&server, "a", 0..ROWS);
    let mut found = 0;
    for seed in 0..100 {
        let wanted = vector(2_000_000 + seed);
        let answer = ids(&query(&server, json!({"query": wanted, "limit": 10})));
        let truth = nearest(&wanted, 10, |_| true);
        found += answer.iter().filter(|id| truth.contains(id)).count();
    }
    assert!(found >= 930, "{found} of 1000");
    server.running.stop();
}

#[test]
fn scores_are_those_of_the_distance() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    let (a, b) = (vector(1), vector(2));
    let dot: f32 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
    let euclid = a.iter().zip(&b).map(|(a, b)| (a - b) * (a - b)).sum::<f32>().sqrt();
    for (name, distance, expected) in [("dot", "Dot", dot), ("euclid", "Euclid", euclid)] {
        server.create(name, distance);
        fill(&server, name, 2..3);
        let path = format!("/collections/{name}/points/query");
        let asked = |threshold: f32| {
            let body = json!({"query": a, "limit": 1, "score_threshold": threshold});
            server.ok("POST", &path, body)["points"].take()
        };
        let at_least = if name == "dot" { -1.0 } else { 1.0 };
        let found = asked(expected + 0.01 * at_least);
        let score = found[0]["score"].as_f64().expect("a score") as f32;
        assert!((score - expected).abs() < 1e-4, "{name}: {score}, {expected}");
        assert_eq!(asked(expected - 0.01 * at_least), json!([]), "{name}");
    }
    server.running.stop();
}

#[test]
fn points_are_read_in_pages_and_by_id() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    server.create("a", "Cosine");
    fill(&server, "a", 0..1_000);
    let uuid = "5c56c793-69f3-4fbf-87e6-c4bf54c28c26";
    let named = json!({"id": uuid, "vector": vector(7), "payload": {"city": "Rome"}});
    server.ok("PUT", "/collections/a/points?wait=true", json!({"points": [named]}));
    let mut seen = Vec::new();
    let mut offset = Json::Null;
    loop {
        let body = json!({"limit": 300, "offset": offset, "with_payload": false});
        let page = server.ok("POST", "/collections/a/points/scroll", body);
        seen.extend(page["points"].as_array().unwrap().iter().map(|p| p["id"].clone()));
        offset = page["next_page_offset"].clone();
        if offset.is_null() {
            break;
        }
    }
    assert_eq!(seen.len(), 1_001);
    assert!(seen.contains(&json!(uuid)));
    seen.sort_by_key(Json::to_string);
    seen.dedup();
    assert_eq!(seen.len(), 1_001, "each point once");
    let body = json!({"ids": [7, uuid, 5_000], "with_payload": ["city"], "with_vector": true});
    let read = server.ok("POST", "/collections/a/points", body);
    assert_eq!(read.as_array().unwrap().len(), 2);
    assert_eq!(read[0]["payload"], json!({"city": "Lima"}));
    assert_eq!(read[0]["vector"].as_array().unwrap().len(), 64);
    let (status, one) = server.call("GET", &format!("/collections/a/points/{uuid}"), None);
    assert_eq!((status, &one["result"]["payload"]["city"]), (200, &json!("Rome")));
    let none = server.call("GET", "/collections/a/points/77777", None);
    assert_eq!(none.0, 404);
    server.running.stop();
}

#[test]
fn payloads_change_and_filters_follow() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    server.create("a", "Cosine");
    fill(&server, "a", 0..300);
    let count = |filter: Json| {
        let body = json!({"filter": filter, "exact": true});
        server.ok("POST", "/collections/a/points/count", body)["count"].as_u64().unwrap()
    };
    let city = |name: &str| json!({"must": [{"key": "city", "match": {"value": name}}]});
    let empty = |key: &str| json!({"must": [{"is_empty": {"key": key}}]});
    assert_eq!(count(city("Oslo")), 100);
    assert_eq!((count(empty("new")), count(city("Nowhere"))), (300, 0));
    let set = json!({"payload": {"city": "Oslo", "new": {"deep": 5}}, "points": [1, 999, 4, 998]});
    // As Qdrant does: the others change, and the first that is not there is named.
    let refused = server.refused("POST", "/collections/a/points/payload?wait=true", set);
    assert!(refused.0 == 404 && refused.1.contains("999"), "{refused:?}");
    assert_eq!((count(city("Oslo")), count(city("Lima"))), (102, 98));
    assert_eq!(count(json!({"must": [{"key": "new.deep", "range": {"gt": 4, "lt": 6}}]})), 2);
    assert_eq!(count(empty("new.deep")), 298);
    let read = server.ok("POST", "/collections/a/points", json!({"ids": [4]}));
    let expected = json!({"city": "Oslo", "number": 4, "tags": ["t4"], "in": {"even": true}, "new": {"deep": 5}});
    assert_eq!(read[0]["payload"], expected);
    let keys = json!({"keys": ["city", "new.deep"], "filter": city("Oslo")});
    server.ok("POST", "/collections/a/points/payload/delete?wait=true", keys);
    assert_eq!(
        (count(city("Oslo")), count(empty("city")), count(empty("new.deep"))),
        (0, 102, 300)
    );
    let over = json!({"payload": {"only": true}, "filter": city("Lima")});
    server.ok("PUT", "/collections/a/points/payload?wait=true", over);
    assert_eq!(count(json!({"must": [{"key": "only", "match": {"value": true}}]})), 98);
    assert_eq!((count(city("Lima")), count(empty("number"))), (0, 98));
    let clear = json!({"filter": {"must": [{"key": "only", "match": {"value": true}}]}});
    server.ok("POST", "/collections/a/points/payload/clear?wait=true", clear);
    assert_eq!((count(empty("only")), count(json!(null))), (300, 300));
    // A text that is too long to be a keyword is compared all the same.
    let long = |last: &str| format!("{}{last}", "a long text, ".repeat(60));
    let set = json!({"payload": {"text": long("x")}, "points": [1]});
    server.ok("POST", "/collections/a/points/payload?wait=true", set);
    let is = |text: String| json!({"must": [{"key": "text", "match": {"value": text}}]});
    assert_eq!((count(is(long("x"))), count(is(long("y")))), (1, 0));
    server.running.stop();
}

#[test]
fn points_are_deleted_by_id_and_by_filter() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    server.create("a", "Cosine");
    fill(&server, "a", 0..300);
    let count =
        || server.ok("POST", "/collections/a/points/count", json!({}))["count"].as_u64().unwrap();
    let delete = "/collections/a/points/delete?wait=true";
    server.ok("POST", delete, json!({"points": [0, 1, 2, 12345]}));
    assert_eq!(count(), 297);
    let lima = json!({"must": [{"key": "city", "match": {"value": "Lima"}}]});
    server.ok("POST", delete, json!({"filter": lima}));
    assert_eq!(count(), 198);
    let operations = json!({"operations": [
        {"upsert": {"points": [point(1)]}},
        {"set_payload": {"payload": {"city": "Rome"}, "points": [1]}},
        {"delete": {"points": [3]}},
    ]});
    let done = server.ok("POST", "/collections/a/points/batch?wait=true", operations);
    assert_eq!(done.as_array().unwrap().len(), 3);
    assert_eq!(count(), 198);
    let rome = json!({"filter": {"must": [{"key": "city", "match": {"value": "Rome"}}]}});
    let found = server.ok("POST", "/collections/a/points/scroll", rome);
    assert_eq!(ids(&found["points"]), [1]);
    server.running.stop();
}

#[test]
fn a_point_is_searched_for_by_its_id_and_is_not_in_the_answer() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    server.create("a", "Cosine");
    fill(&server, "a", 0..ROWS);
    let by_id = query(&server, json!({"query": 17, "limit": 5, "params": {"exact": true}}));
    assert_eq!(ids(&by_id), nearest(&vector(17), 6, |id| id != 17)[..5]);
    let nearest_to = json!({"query": {"nearest": 17}, "limit": 5, "params": {"exact": true}});
    assert_eq!(query(&server, nearest_to), by_id);
    let both = json!({"searches": [{"query": 17, "limit": 5}, {"query": vector(17), "limit": 1}]});
    let both = server.ok("POST", "/collections/a/points/query/batch", both);
    assert_eq!(ids(&both[1]["points"]), [17]);
    server.running.stop();
}
