//! What was acknowledged is there after a restart, and what others made is served.

use serde_json::json;
use vstream_engine::{
    AttributeKind, AttributesBuilder, Element, Engine, Fields, Metric, Row, Schema, Settings,
    ValueRef,
};

use crate::support::{fill, ids, point, vector, Served, DIMENSION};

#[test]
fn acknowledged_points_are_there_after_a_restart() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    server.create("a", "Cosine");
    server.create("gone", "Dot");
    fill(&server, "a", 0..1_000);
    server.ok("DELETE", "/collections/gone", json!({}));
    server.running.stop();
    let server = Served::of(dir.path());
    assert_eq!(server.running.collections, 1);
    let count = server.ok("POST", "/collections/a/points/count", json!({}));
    assert_eq!(count, json!({"count": 1_000}));
    let found = json!({"query": vector(5), "limit": 1, "with_payload": true});
    let found = server.ok("POST", "/collections/a/points/query", found);
    assert_eq!(found["points"][0]["payload"], point(5)["payload"]);
    // Writes go on, under versions that replace the ones before.
    server.ok(
        "PUT",
        "/collections/a/points?wait=true",
        json!({"points": [
            {"id": 5, "vector": vector(6), "payload": {}},
        ]}),
    );
    let read = server.ok("POST", "/collections/a/points", json!({"ids": [5]}));
    assert_eq!(read[0]["payload"], json!({}));
    server.running.stop();
}

#[test]
fn a_server_that_is_dropped_without_a_word_loses_nothing_acknowledged() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    server.create("a", "Cosine");
    fill(&server, "a", 0..500);
    // The folder as it is on the disk now, as after a power cut.
    let copy = tempfile::tempdir().expect("a folder");
    let from = dir.path().join("a");
    let to = copy.path().join("a");
    std::fs::create_dir(&to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
    server.running.stop();
    let server = Served::of(copy.path());
    let count = server.ok("POST", "/collections/a/points/count", json!({}));
    assert_eq!(count, json!({"count": 500}));
    server.running.stop();
}

#[test]
fn a_server_that_stops_leaves_a_short_log() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    let vectors = json!({"size": DIMENSION, "distance": "Cosine"});
    let body = json!({"vectors": vectors, "vstream": {"memory": 64 << 20}});
    server.ok("PUT", "/collections/a", body);
    fill(&server, "a", 0..4_000);
    let log_bytes = |server: &Served| {
        let address = server.running.metrics.expect("an address");
        let mut answer = ureq::get(format!("http://{address}/metrics")).call().expect("metrics");
        let text = answer.body_mut().read_to_string().expect("a text");
        let line = text.lines().find_map(|line| line.strip_prefix("vstream_log_bytes{"));
        line.expect("a figure").rsplit(' ').next().unwrap().parse::<u64>().expect("a number")
    };
    assert!(log_bytes(&server) > 1 << 20);
    server.running.stop();
    let server = Served::of(dir.path());
    assert!(log_bytes(&server) < 1 << 10);
    let count = server.ok("POST", "/collections/a/points/count", json!({}));
    assert_eq!(count, json!({"count": 4_000}));
    server.running.stop();
}

#[test]
fn what_others_keep_in_the_folder_stays_and_what_a_crash_left_goes() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    server.create("a", "Dot");
    server.running.stop();
    for folder in [".ssh", "papers", ".vstream-new b", ".vstream-gone c"] {
        std::fs::create_dir(dir.path().join(folder)).unwrap();
        std::fs::write(dir.path().join(folder).join("file"), b"mine").unwrap();
    }
    std::fs::write(dir.path().join(".profile"), b"mine").unwrap();
    let server = Served::of(dir.path());
    assert_eq!(server.running.collections, 1);
    server.create("b", "Dot");
    server.running.stop();
    for kept in [".ssh/file", "papers/file", ".profile"] {
        assert!(dir.path().join(kept).exists(), "{kept}");
    }
    for gone in [".vstream-new b", ".vstream-gone c"] {
        assert!(!dir.path().join(gone).exists(), "{gone}");
    }
}

#[test]
fn a_collection_of_another_face_is_served() {
    let dir = tempfile::tempdir().expect("a folder");
    let schema = Schema::new([("price", AttributeKind::I64)]).unwrap();
    let mut settings = Settings::new(DIMENSION, Metric::L2, Element::F32);
    settings.schema = std::sync::Arc::new(schema.clone());
    let mut engine = Engine::builder().dir(&dir.path().join("shop")).create(settings).unwrap();
    let mut builder = AttributesBuilder::default();
    for id in 0..200u64 {
        builder.clear();
        builder.set(&schema, 0, &ValueRef::I64(id as i64)).unwrap();
        let fields = Fields { attributes: builder.build(), ..Fields::NONE };
        let vector = vector(id);
        let row = Row { id, version: 1 << 40, code: 0, shard: 0, vector: &vector, fields };
        engine.upsert(&row).unwrap();
    }
    engine.close().unwrap();
    let server = Served::of(dir.path());
    let filter = json!({"must": [{"key": "price", "range": {"lt": 10}}]});
    let found = json!({"query": vector(3), "limit": 10, "filter": filter, "with_payload": true});
    let found = server.ok("POST", "/collections/shop/points/query", found);
    let mut all = ids(&found["points"]);
    assert_eq!(found["points"][0]["payload"], json!({"price": 3}));
    all.sort_unstable();
    assert_eq!(all, (0..10).collect::<Vec<_>>());
    // Its rows have high versions, and are replaced all the same.
    let new = json!({"points": [{"id": 3, "vector": vector(3), "payload": {"price": 77}}]});
    server.ok("PUT", "/collections/shop/points?wait=true", new);
    let read = server.ok("POST", "/collections/shop/points", json!({"ids": [3]}));
    assert_eq!(read[0]["payload"], json!({"price": 77}));
    let uuid = "5c56c793-69f3-4fbf-87e6-c4bf54c28c26";
    let bad = json!({"points": [{"id": uuid, "vector": vector(3)}]});
    let (status, why) = server.refused("PUT", "/collections/shop/points?wait=true", bad);
    assert!(status == 400 && why.contains("whole numbers"), "{why}");
    server.running.stop();
    // A folder that is a collection itself is served under its own name.
    let server = Served::of(&dir.path().join("shop"));
    let count = server.ok("POST", "/collections/shop/points/count", json!({}));
    assert_eq!(count, json!({"count": 200}));
    // Nothing else could be found in its folder later, and its own files are not the server's to drop.
    let other = json!({"vectors": {"size": 4, "distance": "Dot"}});
    assert_eq!(server.refused("PUT", "/collections/other", other).0, 400);
    assert_eq!(server.refused("DELETE", "/collections/shop", json!({})).0, 400);
    let count = server.ok("POST", "/collections/shop/points/count", json!({}));
    assert_eq!(count, json!({"count": 200}));
    server.running.stop();
}
