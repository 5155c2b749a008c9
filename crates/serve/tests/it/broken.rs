//! A collection that does not open keeps nobody from the others.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use vstream_serve::{FollowSettings, ServeSettings, Server};

use crate::support::{fill, settings, Served};

/// Cuts the files that say what a collection is.
pub fn damage(collection: &Path) {
    let files =
        fs::read_dir(collection).expect("a folder").map(|file| file.expect("a file").path());
    let manifests: Vec<_> = files
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.to_lowercase().contains("manifest") || name.to_lowercase().contains("collection")
        })
        .collect();
    assert!(!manifests.is_empty(), "there is something to damage");
    for path in manifests {
        fs::write(path, b"not what was written").expect("a file");
    }
}

#[test]
fn one_that_does_not_open_says_why_and_the_others_are_served() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    for name in ["a", "b", "c"] {
        server.create(name, "Dot");
        fill(&server, name, 0..20);
    }
    server.running.stop();
    damage(&dir.path().join("b"));

    let server = Served::of(dir.path());
    assert_eq!((server.running.collections, server.running.not_served.len()), (2, 1));
    let told = &server.running.not_served[0];
    assert!(told.contains("the collection 'b' does not open"), "{told}");
    for name in ["a", "c"] {
        let count = server.ok("POST", &format!("/collections/{name}/points/count"), json!({}));
        assert_eq!(count, json!({"count": 20}));
    }
    let listed = server.ok("GET", "/collections", json!({}));
    assert_eq!(listed["collections"].as_array().expect("a list").len(), 3);
    assert_eq!(server.ok("GET", "/collections/b/exists", json!({})), json!({"exists": true}));
    let point = json!({"points": [{"id": 1, "vector": vec![1.0; 64]}]});
    for (method, path, body) in [
        ("GET", "/collections/b", json!({})),
        ("POST", "/collections/b/points/query", json!({"query": 1})),
        ("PUT", "/collections/b/points?wait=true", point),
        // Its rows may yet be saved, so it is not dropped.
        ("DELETE", "/collections/b", json!({})),
    ] {
        let (status, why) = server.refused(method, path, body);
        assert!(
            status == 503 && why.contains("the collection 'b' does not open"),
            "{status}: {why}"
        );
        assert!(why.contains("the server starts again"), "{why}");
    }
    let new = json!({"vectors": {"size": 4, "distance": "Dot"}});
    assert_eq!(server.refused("PUT", "/collections/b", new.clone()).0, 409);
    server.ok("PUT", "/collections/d", new);

    let ready = server.call("GET", "/readyz", None);
    assert_eq!(ready.0, 200, "the others can be asked");
    assert!(ready.1.as_str().expect("a text").ends_with("did not open: 1"), "{}", ready.1);
    let metrics = server.call("GET", "/metrics", None).1;
    let metrics = metrics.as_str().expect("a text");
    assert!(metrics.contains("vstream_collection_broken{collection=\"b\"} 1"), "{metrics}");
    assert!(metrics.contains("vstream_rows{collection=\"a\"} 20"), "{metrics}");
    server.running.stop();
    assert!(dir.path().join("b").is_dir());
}

/// Else the writer's collection of the same name would take its place.
#[test]
fn a_folder_whose_collections_do_not_open_is_none_for_a_replica() {
    let (dir, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("one"));
    let (server, writer) = (Served::of(dir.path()), Served::of(other.path()));
    for server in [&server, &writer] {
        server.create("a", "Dot");
        fill(server, "a", 0..20);
    }
    server.running.stop();
    damage(&dir.path().join("a"));
    let follow = Some(FollowSettings::new(&writer.url("")));
    let replica = ServeSettings { follow, ..settings(dir.path()) };
    let why = Server::start(replica).err().expect("refused");
    assert!(why.contains("choose an empty folder"), "{why}");
    assert!(dir.path().join("a").is_dir() && !dir.path().join(".vstream-replica").exists());
    writer.running.stop();
}

#[test]
fn a_name_of_the_greatest_length_is_made_copied_and_dropped() {
    let (dir, copy) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("one"));
    let server = Served::of(dir.path());
    let new = json!({"vectors": {"size": 64, "distance": "Dot"}});
    let long = server.refused("PUT", &format!("/collections/{}", "n".repeat(241)), new);
    assert!(long.0 == 400 && long.1.contains("240 bytes"), "{long:?}");
    let name = "n".repeat(240);
    server.create(&name, "Dot");
    fill(&server, &name, 0..20);
    let follow = Some(FollowSettings::new(&server.url("")));
    let replica = Served::new(ServeSettings { follow, ..settings(copy.path()) });
    let path = format!("/collections/{name}/points/count");
    let deadline = Instant::now() + Duration::from_secs(60);
    while replica.call("POST", &path, Some(&json!({}))).1["result"] != json!({"count": 20}) {
        assert!(Instant::now() < deadline, "the replica has no copy");
        std::thread::sleep(Duration::from_millis(20));
    }
    replica.running.stop();
    assert_eq!(server.ok("DELETE", &format!("/collections/{name}"), json!({})), json!(true));
    assert_eq!(server.ok("GET", "/collections", json!({}))["collections"], json!([]));
    server.running.stop();
}

#[test]
fn a_folder_that_another_server_has_is_not_served() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    server.create("a", "Dot");
    let why = Server::start(settings(dir.path())).err().expect("refused");
    assert!(why.contains("the collection 'a' does not open"), "{why}");
    server.running.stop();
}

#[test]
fn one_that_would_be_served_alone_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    server.create("a", "Dot");
    server.running.stop();
    damage(&dir.path().join("a"));
    let why = Server::start(settings(&dir.path().join("a"))).err().expect("refused");
    assert!(why.contains("'a' does not open"), "{why}");
}
