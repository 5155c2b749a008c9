//! Changes by filters mean what the points say when their turn comes, and what is refused changes nothing.

use serde_json::{json, Value as Json};

use crate::support::{vector, Served};

fn server() -> (tempfile::TempDir, Served) {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    server.create("a", "Cosine");
    (dir, server)
}

fn point(id: u64, payload: Json) -> Json {
    json!({"id": id, "vector": vector(id), "payload": payload})
}

fn upsert(server: &Served, points: Vec<Json>) {
    server.ok("PUT", "/collections/a/points?wait=true", json!({"points": points}));
}

fn count(server: &Served, filter: Json) -> u64 {
    let body = json!({"filter": filter, "exact": true});
    server.ok("POST", "/collections/a/points/count", body)["count"].as_u64().expect("a count")
}

fn all() -> Json {
    json!({"must": []})
}

fn only(condition: Json) -> Json {
    json!({"must": [condition]})
}

/// A filter whose key no point had when the request came.
#[test]
fn a_filter_is_about_the_points_of_the_changes_before_it() {
    let is_one = json!({"key": "k", "match": {"value": 1}});
    let not_one = json!({"must_not": [is_one]});
    let upserts =
        json!({"upsert": {"points": [point(1, json!({"k": 1})), point(2, json!({"k": 2}))]}});
    let cases = [
        (json!({"delete": {"filter": {"must": [is_one]}}}), vec![2]),
        (json!({"delete": {"filter": not_one}}), vec![1]),
        (json!({"clear_payload": {"filter": not_one}}), vec![1, 2]),
        (json!({"set_payload": {"payload": {"new": true}, "filter": not_one}}), vec![1, 2]),
        (json!({"delete_payload": {"keys": ["k"], "filter": {"must": [is_one]}}}), vec![1, 2]),
    ];
    for (change, left) in cases {
        let (_dir, server) = server();
        let changes = json!({"operations": [upserts, change]});
        server.ok("POST", "/collections/a/points/batch?wait=true", changes);
        let ones = count(&server, only(json!({"has_id": [1]})));
        let twos = count(&server, only(json!({"has_id": [2]})));
        let expected = [1, 2].map(|id| u64::from(left.contains(&id)));
        assert_eq!([ones, twos], expected, "{change}");
        let with_k = count(&server, json!({"must_not": [{"is_empty": {"key": "k"}}]}));
        let loses = change.get("clear_payload").or(change.get("delete_payload")).is_some();
        assert_eq!(with_k, left.len() as u64 - u64::from(loses), "{change}");
        let new = only(json!({"key": "new", "match": {"value": true}}));
        assert_eq!(count(&server, new), u64::from(change.get("set_payload").is_some()));
        server.running.stop();
    }
    for _ in 0..20 {
        let (_dir, server) = server();
        let points: Vec<Json> = (0..100).map(|id| point(id, json!({"k": id % 2}))).collect();
        server.ok("PUT", "/collections/a/points?wait=false", json!({"points": points}));
        let delete = json!({"filter": not_one});
        server.ok("POST", "/collections/a/points/delete?wait=true", delete);
        assert_eq!(count(&server, all()), 50);
        server.running.stop();
    }
}

/// Then the changes after it do not matter.
#[test]
fn a_filter_is_read_at_its_turn() {
    let (_dir, server) = server();
    let changes = json!({"operations": [
        {"upsert": {"points": [point(1, json!({}))]}},
        {"delete": {"filter": {"must": [{"key": "k", "match": {"value": "x"}}]}}},
        {"upsert": {"points": [point(2, json!({"k": 5}))]}},
    ]});
    server.ok("POST", "/collections/a/points/batch?wait=true", changes);
    assert_eq!(count(&server, all()), 2);
    server.running.stop();
}

#[test]
fn what_cannot_be_asked_for_deletes_nothing() {
    let (_dir, server) = server();
    let mut deep = json!({"end": 1});
    for level in (1..10).rev() {
        deep = json!({format!("l{level}"): deep});
    }
    let payload = json!({
        "place": {"lat": 1.5, "lon": 2.5, "of": {"country": "no"}}, "items": [{"sku": 1}, {"sku": 2}],
        "mixed": [1, null, "x"], "nested": [[1, 2]], "deep": deep, "none": null, "no": [], "bare": {}, "a.b": 7,
    });
    upsert(&server, vec![point(1, payload)]);
    let near = json!({"center": {"lat": 1.5, "lon": 2.5}, "radius": 10.0});
    for condition in [
        json!({"key": "place", "geo_radius": near}),
        json!({"key": "nowhere", "geo_radius": near}),
        json!({"key": "nowhere", "match": {"text": "word"}}),
        json!({"key": "nowhere", "range": {"above": 1}}),
        json!({"key": "nowhere", "like": 1}),
        json!({"key": "items[].sku", "match": {"value": 1}}),
        json!({"key": "\"nowhere", "match": {"value": 1}}),
        json!({"key": "deep.l1.l2.l3.l4.l5.l6.l7.l8.l9.end", "match": {"value": 1}}),
        json!({"is_empty": {"key": "deep.l1.l2.l3.l4.l5.l6.l7.l8"}}),
        json!({"key": "place", "values_count": {"lt": 1}}),
        json!({"key": "place", "values_count": {"gt": 0}}),
    ] {
        for filter in [only(condition.clone()), json!({"must_not": [condition]})] {
            let delete = json!({"filter": filter});
            let refused = server.refused("POST", "/collections/a/points/delete?wait=true", delete);
            assert!(refused.0 == 400 && !refused.1.is_empty(), "{condition}: {refused:?}");
        }
    }
    let deepest = "deep.l1.l2.l3.l4.l5.l6.l7";
    for key in ["place", "place.of", "items", "mixed", "nested", "bare", "deep", "deep.l1", deepest]
    {
        for asked in ["is_empty", "is_null"] {
            for condition in [json!({asked: {"key": key}}), json!({"key": key, asked: true})] {
                let what = format!("{condition}");
                assert_eq!(count(&server, only(condition.clone())), 0, "{what}");
                assert_eq!(count(&server, json!({"must_not": [condition]})), 1, "{what}");
            }
        }
    }
    for (key, empty, null) in [("none", 1, 1), ("no", 1, 0), ("nowhere", 1, 1)] {
        assert_eq!(count(&server, only(json!({"is_empty": {"key": key}}))), empty, "{key}");
        assert_eq!(count(&server, only(json!({"is_null": {"key": key}}))), null, "{key}");
    }
    assert_eq!(count(&server, only(json!({"key": "mixed", "match": {"any": ["x", "1"]}}))), 1);
    assert_eq!(count(&server, only(json!({"key": "\"a.b\"", "match": {"value": 7}}))), 1);
    for none in [
        json!({"key": "nowhere", "range": {"gt": 1}}),
        json!({"key": "nowhere", "match": {"value": "x", "text": null}}),
        json!({"key": "nowhere", "match": {"any": ["a", 1]}}),
        json!({"key": "a1.a2.a3.a4.a5.a6.a7.a8", "match": {"value": 1}}),
    ] {
        assert_eq!(count(&server, only(none)), 0);
    }
    // A list of objects where other points have a number stays payload.
    upsert(&server, vec![point(2, json!({"n": 1})), point(3, json!({"n": [{"of": 1}]}))]);
    assert_eq!(count(&server, all()), 3);
    server.running.stop();
}

#[test]
fn a_refused_request_changes_nothing() {
    let (_dir, server) = server();
    upsert(&server, vec![point(1, json!({"price": 5})), point(2, json!({"price": 6}))]);
    let short = json!({"id": 8, "vector": [1.0], "payload": {}});
    let wrong = point(9, json!({"price": "dear", "fresh": "text"}));
    for operations in [
        json!([{"delete": {"points": [1]}}, {"set_payload": {"payload": {"price": "dear"}, "points": [2]}}]),
        json!([{"upsert": {"points": [point(7, json!({}))]}}, {"upsert": {"points": [short]}}]),
        json!([{"delete": {"points": [1]}}, {"upsert": {"points": [wrong]}}]),
        json!([{"delete": {"points": [1]}}, {"delete": {"filter": {"must": [{"key": "price", "match": {"value": "x"}}]}}}]),
        json!([
            {"upsert": {"points": [point(7, json!({"born": "text"}))]}},
            {"delete_payload": {"keys": ["price"], "filter": {"must": [{"key": "born", "range": {"gt": 1}}]}}},
        ]),
        json!([
            {"overwrite_payload": {"payload": {"new": "text"}, "points": [1]}},
            {"delete": {"filter": {"must": [{"key": "new", "range": {"gt": 1}}]}}},
        ]),
    ] {
        let body = json!({"operations": operations});
        let refused = server.refused("POST", "/collections/a/points/batch?wait=true", body);
        assert_eq!(refused.0, 400, "{operations}: {refused:?}");
        assert_eq!(count(&server, json!({"must": [{"key": "price", "range": {"gt": 4}}]})), 2);
        assert_eq!(count(&server, all()), 2);
    }
    // Nor does a key have a type by it.
    upsert(&server, vec![point(10, json!({"fresh": 5, "new": 1}))]);
    assert_eq!(count(&server, only(json!({"key": "fresh", "range": {"gt": 4}}))), 1);
    server.running.stop();
}

#[test]
fn calls_that_are_not_there_and_bodies_that_are_compressed_are_refused_with_a_sentence() {
    let (_dir, server) = server();
    let calls = ["recommend", "discover", "query/groups", "recommend/batch", "search/matrix/pairs"];
    for call in calls.map(|call| format!("points/{call}")).into_iter().chain(["facet".to_owned()]) {
        let path = format!("/collections/a/{call}");
        let (status, why) = server.refused("POST", &path, json!({}));
        assert!(status == 400 && why == format!("{call} is not supported"), "{status}: {why}");
    }
    let from = json!({"vectors": {"size": 4, "distance": "Dot"}, "init_from": {"collection": "a"}});
    let (status, why) = server.refused("PUT", "/collections/b", from);
    assert!(status == 400 && why.contains("init_from"), "{status}: {why}");
    let gzip = [("content-encoding", "gzip".to_owned())];
    let answer = server.with_headers("POST", "/collections/a/points/count", &json!({}), &gzip);
    let body = answer.body.to_string();
    assert!(answer.status == 415 && body.contains("compressed"), "{body}");
    server.running.stop();
}

#[test]
fn pages_have_as_many_points_as_were_asked_for() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    server.create("a", "Cosine");
    let uuid = |id: u64| json!(format!("00000000-0000-0000-0000-{id:012}"));
    let named = |id: u64| json!({"id": uuid(id), "vector": vector(id), "payload": {"n": id}});
    upsert(
        &server,
        (0..500).map(named).chain((500..1_000).map(|id| point(id, json!({"n": id})))).collect(),
    );
    let gone = json!({"points": (0..100).map(uuid).collect::<Vec<Json>>()});
    server.ok("POST", "/collections/a/points/delete?wait=true", gone);
    for limit in [1, 31, 32, 33, 64, 899, 900, 901, 5_000] {
        for with_payload in [true, false] {
            let (mut seen, mut offset) = (Vec::new(), Json::Null);
            loop {
                let body = json!({"limit": limit, "offset": offset, "with_payload": with_payload});
                let page = server.ok("POST", "/collections/a/points/scroll", body);
                let points = page["points"].as_array().expect("points");
                seen.extend(points.iter().map(|point| point["id"].to_string()));
                offset = page["next_page_offset"].clone();
                if offset.is_null() {
                    break;
                }
                assert_eq!(points.len(), limit, "only the last is short");
            }
            let all = seen.len();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!((all, seen.len()), (900, 900), "{limit}");
            if limit == 1 {
                break;
            }
        }
    }
    server.running.stop();
}

/// A page of large payloads ends early, and the next goes on: no answer is as large as a client likes.
#[test]
fn pages_of_large_payloads_are_bounded() {
    let (_dir, server) = server();
    for id in 0..100 {
        upsert(&server, vec![point(id, json!({"text": "x".repeat(900_000), "n": id}))]);
    }
    let (mut seen, mut offset, mut pages) = (Vec::new(), Json::Null, 0);
    loop {
        let body = json!({"limit": 1_000, "offset": offset, "with_payload": ["n"]});
        let page = server.ok("POST", "/collections/a/points/scroll", body);
        let points = page["points"].as_array().expect("points");
        assert!(points.len() < 40, "{}", points.len());
        seen.extend(points.iter().map(|point| point["payload"]["n"].as_u64().expect("a number")));
        (offset, pages) = (page["next_page_offset"].clone(), pages + 1);
        if offset.is_null() {
            break;
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..100).collect::<Vec<u64>>());
    assert!(pages >= 3, "{pages}");
    server.running.stop();
}

#[test]
fn thresholds_and_limits_hold_to_the_last_point() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    server.create("a", "Euclid");
    let points: Vec<Json> = (0..1_200).map(|id| point(id, json!({}))).collect();
    upsert(&server, points);
    let ask = |body: Json| -> Vec<Json> {
        let found = server.ok("POST", "/collections/a/points/query", body);
        found["points"].as_array().expect("points").clone()
    };
    for seed in 0..20 {
        let body = json!({"query": vector(70_000 + seed), "limit": 10, "params": {"exact": true}});
        let found = ask(body.clone());
        let mut within = body;
        within["score_threshold"] = found[9]["score"].clone();
        assert_eq!(ask(within).len(), 10, "seed {seed}");
    }
    let near = ask(json!({"query": 5, "limit": 1_000}));
    assert_eq!(near.len(), 1_000);
    assert!(near.iter().all(|point| point["id"] != json!(5)));
    server.running.stop();
}
