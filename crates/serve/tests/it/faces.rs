//! Rows that a program wrote in its own process, where ids are any text and attributes are beside the payload.

use std::path::Path;
use std::sync::Arc;

use serde_json::{json, Value as Json};
use vstream_engine::{
    AttributeKind, AttributesBuilder, Element, Engine, Fields, IdKind, Metric, NameHash, Row,
    Schema, Settings, ValueRef,
};

use crate::support::{point, vector, Served, DIMENSION};

const ROWS: u64 = 60;

fn schema(is_open: bool) -> Schema {
    let attributes = [
        ("price", AttributeKind::F64),
        ("color", AttributeKind::Keyword),
        ("in.stock", AttributeKind::I64),
    ];
    let schema = Schema::new(attributes).expect("a schema");
    Schema { id: IdKind::String, id_key: NameHash::random_key(), open: is_open, ..schema }
}

/// Rows `doc-0` and so on: each with attributes, each second one with a payload too.
fn fill(dir: &Path, schema: &Schema) {
    fill_with(dir, schema, (0..ROWS).map(|at| format!("doc-{at}")));
}

/// The same rows under other ids.
fn fill_with(dir: &Path, schema: &Schema, names: impl Iterator<Item = String>) {
    let mut settings = Settings::new(DIMENSION, Metric::L2, Element::F32);
    settings.schema = Arc::new(schema.clone());
    let mut engine = Engine::builder().dir(dir).create(settings).expect("an engine");
    let mut builder = AttributesBuilder::default();
    for (at, name) in (0..).zip(names) {
        builder.clear();
        for (column, value) in
            [ValueRef::F64(at as f64 + 0.5), ValueRef::Keyword("red"), ValueRef::I64(at as i64)]
                .iter()
                .enumerate()
        {
            builder.set(schema, column as u16, value).expect("a value");
        }
        let id = schema.name_hash().hash(&name).expect("a name");
        let payload = format!("{{\"title\": \"number {at}\", \"in\": {{\"stock\": -1}}}}");
        let fields = Fields {
            name: &name,
            check: id.check,
            attributes: builder.build(),
            payload: (at % 2 == 0).then_some(payload.as_bytes()),
        };
        let vector = vector(at);
        let row = Row { id: id.id, version: 1, code: 0, shard: 0, vector: &vector, fields };
        engine.upsert(&row).expect("a good row");
    }
    engine.close().expect("closed");
}

fn count(server: &Served, filter: Json) -> Json {
    server.ok("POST", "/collections/shop/points/count", json!({"filter": filter}))["count"].take()
}

fn payload(server: &Served, id: &str) -> Json {
    let body = json!({"ids": [id], "with_payload": true});
    server.ok("POST", "/collections/shop/points", body)[0]["payload"].take()
}

/// A payload that changes in part keeps what it was not asked about, and shows what filters find.
#[test]
fn attributes_beside_a_payload_stay_when_it_changes() {
    for is_open in [false, true] {
        let dir = tempfile::tempdir().expect("a folder");
        fill(&dir.path().join("shop"), &schema(is_open));
        let server = Served::of(dir.path());
        let both = |title: Json, color: &str, price: f64| {
            let stock = price as u64;
            json!({"title": title, "color": color, "price": price, "in": {"stock": stock}})
        };
        assert_eq!(payload(&server, "doc-4"), both(json!("number 4"), "red", 4.5));
        let alone = json!({"color": "red", "price": 5.5, "in.stock": 5});
        assert_eq!(payload(&server, "doc-5"), alone);
        let all = json!({"must": [{"key": "price", "range": {"gt": 0}}]});
        assert_eq!(count(&server, all.clone()), json!(ROWS));
        let set = json!({"payload": {"color": "green"}, "points": ["doc-4", "doc-5"]});
        server.ok("POST", "/collections/shop/points/payload?wait=true", set);
        let cut = json!({"keys": ["title"], "points": ["doc-6"]});
        server.ok("POST", "/collections/shop/points/payload/delete?wait=true", cut);
        assert_eq!(payload(&server, "doc-4"), both(json!("number 4"), "green", 4.5));
        let alone = json!({"color": "green", "price": 5.5, "in.stock": 5});
        assert_eq!(payload(&server, "doc-5"), alone);
        let without = json!({"color": "red", "price": 6.5, "in": {"stock": 6}});
        assert_eq!(payload(&server, "doc-6"), without);
        assert_eq!(count(&server, all), json!(ROWS));
        let green = json!({"must": [{"key": "color", "match": {"value": "green"}}]});
        assert_eq!(count(&server, green), json!(2));
        let stock = json!({"must": [{"key": "in.stock", "range": {"gte": 4, "lte": 6}}]});
        assert_eq!(count(&server, stock), json!(3));
        // An answer to a query has the same payloads.
        let asked = json!({"query": vector(4), "limit": 1, "with_payload": true});
        let found = server.ok("POST", "/collections/shop/points/query", asked);
        let expected = both(json!("number 4"), "green", 4.5);
        assert_eq!(found["points"][0]["payload"], expected);
        server.running.stop();
    }
}

/// What a server hands out as an id it takes back.
#[test]
fn any_text_that_is_an_id_is_asked_for_by_it() {
    let dir = tempfile::tempdir().expect("a folder");
    fill(&dir.path().join("shop"), &schema(true));
    let server = Served::of(dir.path());
    let (mut seen, mut offset) = (Vec::new(), Json::Null);
    loop {
        let page = json!({"limit": 7, "offset": offset});
        let mut page = server.ok("POST", "/collections/shop/points/scroll", page);
        seen.extend(page["points"].as_array().expect("points").iter().map(|one| one["id"].clone()));
        offset = page["next_page_offset"].take();
        if offset.is_null() {
            break;
        }
    }
    seen.sort_by_key(Json::to_string);
    let mut all: Vec<Json> = (0..ROWS).map(|at| json!(format!("doc-{at}"))).collect();
    all.sort_by_key(Json::to_string);
    assert_eq!(seen, all);
    let one = server.ok("GET", "/collections/shop/points/doc-7", json!({}));
    assert_eq!(one["id"], json!("doc-7"));
    let near = json!({"query": "doc-7", "limit": ROWS});
    let near = server.ok("POST", "/collections/shop/points/query", near);
    let near = near["points"].as_array().expect("points");
    assert!(near.len() == ROWS as usize - 1 && near.iter().all(|one| one["id"] != json!("doc-7")));
    assert_eq!(
        count(&server, json!({"must": [{"has_id": ["doc-7", "doc-8", "doc-x"]}]})),
        json!(2)
    );
    // A point that is there is replaced and deleted by its id; a new one has a number or a UUID.
    let moved = json!({"id": "doc-7", "vector": vector(1_000), "payload": {"title": "moved"}});
    server.ok("PUT", "/collections/shop/points?wait=true", json!({"points": [moved]}));
    assert_eq!(payload(&server, "doc-7"), json!({"title": "moved"}));
    server.ok("POST", "/collections/shop/points/delete?wait=true", json!({"points": ["doc-8"]}));
    assert_eq!(count(&server, json!({})), json!(ROWS - 1));
    server.ok("PUT", "/collections/shop/points?wait=true", json!({"points": [point(5)]}));
    let new = json!({"points": [{"id": "doc-x", "vector": vector(2)}]});
    for (method, path, body) in
        [("PUT", "points?wait=true", new.clone()), ("PUT", "points?wait=false", new)]
    {
        let (status, why) = server.refused(method, &format!("/collections/shop/{path}"), body);
        assert!(status == 400 && why.contains("is no UUID"), "{method} {path}: {status} {why}");
    }
    for (method, path, body) in [
        ("POST", "points/query", json!({"query": "doc-8"})),
        ("GET", "points/doc-8", json!({})),
        ("POST", "points/payload", json!({"payload": {"color": "blue"}, "points": ["doc-8"]})),
    ] {
        let (status, why) = server.refused(method, &format!("/collections/shop/{path}"), body);
        assert!(status == 404 && why.contains("id doc-8"), "{method} {path}: {status} {why}");
    }
    // As with any other id, one without a point is left out, and may be deleted once more.
    let read = server.ok("POST", "/collections/shop/points", json!({"ids": ["doc-9", "doc-8"]}));
    assert_eq!(read.as_array().map(Vec::len), Some(1));
    server.ok("POST", "/collections/shop/points/delete?wait=true", json!({"points": ["doc-8"]}));
    assert_eq!(count(&server, json!({})), json!(ROWS));
    server.running.stop();
}

/// Another face gives points ids that look like UUIDs or numbers in forms that this one would never write.
#[test]
fn an_id_of_any_form_means_the_point_that_has_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let upper = "5C56C793-69F3-4FBF-87E6-C4BF54C28C26";
    let hex = "0123456789abcdef0123456789abcdef";
    let usual = "01234567-89ab-cdef-0123-456789abcdef";
    let alone = "aaaaaaaa-69f3-4fbf-87e6-c4bf54c28c26";
    let names = [upper, hex, usual, alone, "17", "017"];
    fill_with(&dir.path().join("shop"), &schema(true), names.into_iter().map(str::to_owned));
    let server = Served::of(dir.path());
    let as_handed_out = |name: &str| if name == "17" { json!(17) } else { json!(name) };
    let path = |name: &str| format!("/collections/shop/points/{name}");
    for name in names {
        let one = server.ok("GET", &path(name), json!({}));
        assert_eq!(one["id"], as_handed_out(name));
        let near = server.ok("POST", &path("query"), json!({"query": name, "limit": 10}));
        let near = near["points"].as_array().expect("points");
        assert!(near.len() == 5 && near.iter().all(|one| one["id"] != as_handed_out(name)));
        assert_eq!(count(&server, json!({"must": [{"has_id": [name]}]})), json!(1), "{name}");
    }
    // A UUID in another form means the point of the usual one, unless a point has that form.
    assert_eq!(server.ok("GET", &path(&alone.to_uppercase()), json!({}))["id"], json!(alone));
    assert_eq!(server.call("GET", &path(&upper.to_lowercase()), None).0, 404);
    let (mut seen, mut offset) = (Vec::new(), Json::Null);
    while seen.len() <= names.len() {
        let page = json!({"limit": 1, "offset": offset});
        let mut page = server.ok("POST", &path("scroll"), page);
        seen.push(page["points"][0]["id"].take());
        offset = page["next_page_offset"].take();
        if offset.is_null() {
            break;
        }
    }
    let mut all: Vec<Json> = names.into_iter().map(as_handed_out).collect();
    [&mut seen, &mut all].into_iter().for_each(|ids| ids.sort_by_key(Json::to_string));
    assert_eq!(seen, all);
    // Each is replaced and deleted by its own form, and a new point gets the usual one.
    let moved = |id: &str| json!({"id": id, "vector": vector(9), "payload": {"title": "moved"}});
    let new = "bbbbbbbb69f34fbf87e6c4bf54c28c26";
    let points = json!({"points": [moved(upper), moved(hex), moved(new)]});
    server.ok("PUT", "/collections/shop/points?wait=true", points);
    assert_eq!(count(&server, json!({})), json!(names.len() + 1));
    assert_eq!(
        (payload(&server, upper), payload(&server, hex)["title"].take()),
        (json!({"title": "moved"}), json!("moved"))
    );
    assert_ne!(payload(&server, usual)["title"], json!("moved"));
    let found = server.ok("GET", &path(new), json!({}));
    assert_eq!(found["id"], json!("bbbbbbbb-69f3-4fbf-87e6-c4bf54c28c26"));
    server.ok("POST", &path("delete?wait=true"), json!({"points": [upper, hex]}));
    let left = json!({"ids": [upper, hex, usual, alone, usual]});
    let left = server.ok("POST", "/collections/shop/points", left);
    let left = left.as_array().expect("points").iter().map(|one| one["id"].clone());
    // The delete of one form left the other alone, which the form that is gone means now.
    assert_eq!(left.collect::<Vec<_>>(), [json!(usual), json!(alone)]);
    server.running.stop();
}

/// The name of a value may have dots itself.
#[test]
fn a_key_with_a_dot_is_found_shown_and_removed() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    server.create("shop", "Cosine");
    let payload_of = |wanted: Json| {
        let body = json!({"ids": [1], "with_payload": wanted});
        server.ok("POST", "/collections/shop/points", body)[0]["payload"].take()
    };
    let both = json!({"a.b": 1, "a": {"c": 2}});
    let point = json!({"id": 1, "vector": vector(1), "payload": both});
    server.ok("PUT", "/collections/shop/points?wait=true", json!({"points": [point]}));
    assert_eq!(payload_of(json!(["a.b", "a.c"])), both);
    let cut = json!({"keys": ["a.b"], "points": [1]});
    server.ok("POST", "/collections/shop/points/payload/delete?wait=true", cut);
    assert_eq!(payload_of(json!(true)), json!({"a": {"c": 2}}));
    assert_eq!(count(&server, json!({"must": [{"key": "a.b", "match": {"value": 1}}]})), json!(0));
    server.running.stop();
}

/// A store of isolated groups is no collection, and nothing is made in its place.
#[test]
fn isolated_groups_are_not_served_and_say_so() {
    let dir = tempfile::tempdir().expect("a folder");
    let mail = dir.path().join("mail");
    std::fs::create_dir(&mail).expect("a folder");
    std::fs::write(mail.join("GROUPS"), "a manifest").expect("a file");
    let server = Served::of(dir.path());
    server.create("a", "Dot");
    assert!(server.running.not_served[0].contains("'mail' holds isolated groups"));
    let made = json!({"vectors": {"size": 4, "distance": "Dot"}});
    let refusals = [
        ("GET", "/collections/mail", json!({}), 400),
        ("POST", "/collections/mail/points/query", json!({"query": 1}), 400),
        ("PUT", "/collections/mail", made, 409),
        ("DELETE", "/collections/mail", json!({}), 400),
    ];
    for (method, path, body, expected) in refusals {
        let (status, why) = server.refused(method, path, body);
        assert_eq!(status, expected, "{method} {path}: {why}");
        assert!(expected == 409 || why.ends_with("in Python or in Rust"), "{why}");
    }
    // Nothing is wrong with them: no alert says so.
    let text_of = |path| server.call("GET", path, None).1.as_str().expect("a text").to_owned();
    assert_eq!(text_of("/readyz"), "readyz check passed");
    let metrics = text_of("/metrics");
    assert!(metrics.contains("{collection=\"a\"}") && !metrics.contains("mail"), "{metrics}");
    server.running.stop();
    let alone = vstream_serve::Server::start(crate::support::settings(&mail)).map(|_| ());
    assert!(alone.expect_err("no collection").contains("holds isolated groups"));
    assert_eq!(std::fs::read_dir(&mail).expect("a folder").count(), 1);
}
