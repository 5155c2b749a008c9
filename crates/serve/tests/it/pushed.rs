//! Collections that were pushed to a store are served where they are, from push to push.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{json, Value as Json};
use vstream_serve::{PushedSettings, ServeSettings, Server};
use vstream_store::remote::{push, Location};
use vstream_store::{DirectoryLock, FileStore, Store, Syncing};

use crate::support::{fill, vector, Served, DIMENSION};

const LONG: Duration = Duration::from_secs(60);

/// Makes the collections: all rows in memory, and most of them in segments.
fn make(server: &Served) {
    server.create("news", "Cosine");
    let vectors = json!({"size": DIMENSION, "distance": "Euclid"});
    let body = json!({"vectors": vectors, "vstream": {"memory": 1 << 20}});
    server.ok("PUT", "/collections/old", body);
}

/// The answers to some exact questions.
fn asked(server: &Served, name: &str) -> Vec<Json> {
    let of = |id| json!({"query": vector(id), "limit": 10, "with_payload": true, "params": {"exact": true}});
    let path = format!("/collections/{name}/points/query");
    (90_000..90_020).map(|id| server.ok("POST", &path, of(id))["points"].take()).collect()
}

/// As `vstream snapshot push` does.
fn push_all(folder: &Path, address: &str) {
    for name in ["news", "old"] {
        let from = FileStore::open_dir(&folder.join(name), Syncing::Off).expect("a folder");
        let listed = from.list("").expect("names").into_iter().map(|entry| entry.name);
        let names: Vec<String> = listed.filter(|name| name != DirectoryLock::NAME).collect();
        let to = Location::parse(address).expect("an address").join(name);
        push(&from, &names, &*to.open().expect("a store")).expect("pushed");
    }
}

fn settings(address: &str) -> ServeSettings {
    let pushed = PushedSettings { address: address.to_owned(), every: Duration::from_millis(200) };
    ServeSettings::of_pushed(pushed, "127.0.0.1:0".parse().expect("an address"))
}

/// Pushes collections to an address twice, and reads them there.
pub(crate) fn are_served_from(address: &str) {
    let why = Server::start(settings(address)).map(drop).expect_err("nothing is there");
    assert!(why.contains("no collection was pushed to"), "{why}");

    let folder = tempfile::tempdir().expect("a folder");
    let writer = Served::of(folder.path());
    make(&writer);
    fill(&writer, "news", 0..3_000);
    fill(&writer, "old", 0..12_000);
    writer.ok("POST", "/collections/old/points/delete?wait=true", json!({"points": [7, 8]}));
    let first = ["news", "old"].map(|name| asked(&writer, name));
    writer.running.stop();
    push_all(folder.path(), address);

    let reader = Served::new(settings(address));
    assert_eq!(reader.running.collections, 2);
    assert_eq!(["news", "old"].map(|name| asked(&reader, name)), first);
    let count = reader.ok("POST", "/collections/old/points/count", json!({"exact": true}));
    assert_eq!(count["count"], json!(11_998));
    let got = reader.ok("POST", "/collections/old/points", json!({"ids": [7, 9]}));
    assert_eq!(got.as_array().expect("points").len(), 1, "one of them was deleted");
    let add = json!({"points": [{"id": 1, "vector": vector(1)}]});
    let (status, why) = reader.refused("PUT", "/collections/news/points", add);
    assert!(status == 421 && why.contains("only reads"), "{status}: {why}");

    let writer = Served::of(folder.path());
    fill(&writer, "news", 3_000..3_100);
    fill(&writer, "old", 12_000..13_000);
    let second = ["news", "old"].map(|name| asked(&writer, name));
    assert!(first[0] != second[0] && first[1] != second[1], "new rows are among the nearest");
    writer.running.stop();
    push_all(folder.path(), address);
    let until = Instant::now() + LONG;
    while ["news", "old"].map(|name| asked(&reader, name)) != second {
        assert!(Instant::now() < until, "the second push is not served");
        std::thread::sleep(Duration::from_millis(100));
    }
    reader.running.stop();

    // One collection alone.
    let one = Served::new(settings(&format!("{address}/news")));
    assert_eq!(asked(&one, "news"), second[0]);
    one.running.stop();
}

#[test]
fn collections_in_a_folder_are_served_where_they_are() {
    let place = tempfile::tempdir().expect("a folder");
    are_served_from(&place.path().join("pushed").display().to_string());
}

#[test]
fn a_pushed_collection_that_is_damaged_keeps_no_other_from_being_served() {
    let place = tempfile::tempdir().expect("a folder");
    let address = place.path().display().to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let writer = Served::of(folder.path());
    make(&writer);
    fill(&writer, "news", 0..100);
    writer.running.stop();
    push_all(folder.path(), &address);
    let mut objects = std::fs::read_dir(place.path().join("old")).expect("objects");
    let manifest = objects
        .find_map(|entry| {
            let path = entry.expect("an entry").path();
            path.to_string_lossy().ends_with(".COLLECTION").then_some(path)
        })
        .expect("a manifest");
    let mut bytes = std::fs::read(&manifest).expect("bytes");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&manifest, bytes).expect("damaged");
    let reader = Served::new(settings(&address));
    assert_eq!(reader.running.broken.len(), 1, "{:?}", reader.running.broken);
    assert_eq!(asked(&reader, "news").len(), 20);
    let (status, why) = reader.refused("GET", "/collections/old", json!({}));
    assert!(status == 503 && why.contains("'old'"), "{status}: {why}");
    reader.running.stop();
    let why = Server::start(settings(&format!("{address}/old"))).map(drop).expect_err("damaged");
    assert!(why.contains("COLLECTION"), "{why}");
}
