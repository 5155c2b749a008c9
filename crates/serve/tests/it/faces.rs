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
    let mut settings = Settings::new(DIMENSION, Metric::L2, Element::F32);
    settings.schema = Arc::new(schema.clone());
    let mut engine = Engine::builder().dir(dir).create(settings).expect("an engine");
    let mut builder = AttributesBuilder::default();
    for at in 0..ROWS {
        builder.clear();
        for (column, value) in
            [ValueRef::F64(at as f64 + 0.5), ValueRef::Keyword("red"), ValueRef::I64(at as i64)]
                .iter()
                .enumerate()
        {
            builder.set(schema, column as u16, value).expect("a value");
        }
        let name = format!("doc-{at}");
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

/// A store of isolated groups is no collection, and nothing is made in its place.
#[test]
fn isolated_groups_are_not_served_and_say_so() {
    let dir = tempfile::tempdir().expect("a folder");
    let mail = dir.path().join("mail");
    std::fs::create_dir(&mail).expect("a folder");
    std::fs::write(mail.join("GROUPS"), "a manifest").expect("a file");
    let server = Served::of(dir.path());
    server.create("a", "Dot");
    assert!(server.running.broken[0].contains("'mail' holds isolated groups"));
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
    server.running.stop();
    let alone = vstream_serve::Server::start(crate::support::settings(&mail)).map(|_| ());
    assert!(alone.expect_err("no collection").contains("holds isolated groups"));
    assert_eq!(std::fs::read_dir(&mail).expect("a folder").count(), 1);
}
