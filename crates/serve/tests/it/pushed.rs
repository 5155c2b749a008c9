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
    // An exact question of rows in segments reads all of them.
    let count = if name == "old" { 3 } else { 20 };
    (90_000..90_000 + count).map(|id| server.ok("POST", &path, of(id))["points"].take()).collect()
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
    let living = || {
        let path = "/collections/old/points/count";
        reader.ok("POST", path, json!({"exact": true}))["count"].take()
    };
    wait_until("the second push", || {
        asked(&reader, "news") == second[0] && living() == json!(12_998)
    });
    assert_eq!(asked(&reader, "old"), second[1]);
    reader.running.stop();

    // One collection alone.
    let one = Served::new(settings(&format!("{address}/news")));
    assert_eq!(asked(&one, "news"), second[0]);
    one.running.stop();
}

#[test]
fn collections_in_a_folder_are_served_where_they_are() {
    let place = tempfile::tempdir().expect("a folder");
    let pushed = place.path().join("pushed");
    are_served_from(&pushed.display().to_string());
    // By its path alone it is no folder of collections, and not an empty one.
    let why = Server::start(crate::support::settings(&pushed)).map(drop).expect_err("pushes");
    let whole = pushed.canonicalize().expect("a path");
    assert!(why.ends_with(&format!("file://{}", whole.display())), "{why}");
}

/// The folder of a pushed collection, with its manifests damaged.
fn damage(folder: &Path) {
    for entry in std::fs::read_dir(folder).expect("objects") {
        let path = entry.expect("an entry").path();
        if path.to_string_lossy().ends_with(".COLLECTION") {
            let mut bytes = std::fs::read(&path).expect("bytes");
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            std::fs::write(&path, bytes).expect("damaged");
        }
    }
}

/// Writes some rows and pushes them all.
fn write_and_push(folder: &Path, address: &str, ids: std::ops::Range<u64>) -> [Vec<Json>; 2] {
    let writer = Served::of(folder);
    if writer.running.collections == 0 {
        make(&writer);
    }
    fill(&writer, "news", ids.clone());
    fill(&writer, "old", ids);
    let answers = ["news", "old"].map(|name| asked(&writer, name));
    writer.running.stop();
    push_all(folder, address);
    answers
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < until, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn what_is_damaged_or_gone_keeps_nothing_else_from_being_served() {
    let (place, folder) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().unwrap());
    let address = place.path().display().to_string();
    let first = write_and_push(folder.path(), &address, 0..300);
    let old = place.path().join("old");
    damage(&old);
    let why = Server::start(settings(&format!("{address}/old"))).map(drop).expect_err("damaged");
    assert!(why.contains("'old'") && why.contains("COLLECTION"), "{why}");
    let reader = Served::new(ServeSettings {
        metrics: Some("127.0.0.1:0".parse().expect("an address")),
        ..settings(&address)
    });
    assert_eq!(reader.running.not_served.len(), 1, "{:?}", reader.running.not_served);
    assert_eq!(asked(&reader, "news"), first[0]);
    let (status, why) = reader.refused("GET", "/collections/old", json!({}));
    assert!(status == 503 && why.contains("push 1 of the collection 'old'"), "{status}: {why}");
    let broken = |reader: &Served| {
        let metrics = reader.running.metrics.expect("an address");
        let text = ureq::get(format!("http://{metrics}/metrics")).call().expect("metrics");
        let text = text.into_body().read_to_string().expect("a text");
        assert!(!text.contains("vstream_behind_seconds{"), "how old a push is, nobody knows");
        text.contains("vstream_collection_broken{collection=\"old\"} 1")
    };
    assert!(broken(&reader));

    // The next push of it is whole. The one after it is not, and the whole one is served.
    let second = write_and_push(folder.path(), &address, 300..400);
    wait_until("the second push", || {
        reader.call("GET", "/collections/old", None).0 == 200 && asked(&reader, "news") == second[0]
    });
    assert_eq!(asked(&reader, "old"), second[1]);
    let listed = reader.ok("GET", "/collections", json!({}));
    assert_eq!(listed, json!({"collections": [{"name": "news"}, {"name": "old"}]}));
    assert!(!broken(&reader));
    let body = json!({"query": vector(1), "limit": 1});
    let answer = reader.with_headers("POST", "/collections/news/points/query", &body, &[]);
    assert_eq!(answer.header("vstream-behind-ms"), "");
    std::fs::write(old.join("SNAPSHOT-0000000003"), "no list of files").expect("damaged");
    let third = write_and_push(folder.path(), &format!("{address}/.later"), 400..500);
    std::fs::rename(place.path().join(".later/news"), place.path().join("more")).expect("moved");
    wait_until("a collection that appears", || {
        reader.call("GET", "/collections/more", None).0 == 200
    });
    assert_eq!(asked(&reader, "more"), third[0]);
    wait_until("the damage is said", || broken(&reader));
    assert_eq!(asked(&reader, "old"), second[1], "what was whole is served");

    // Removed, and then pushed anew: the number begins at 1 again.
    std::fs::remove_dir_all(place.path().join("news")).expect("removed");
    wait_until("a collection that is gone", || {
        reader.call("GET", "/collections/news", None).0 == 404
    });
    std::fs::rename(place.path().join("more"), place.path().join("news")).expect("moved");
    wait_until("the new one", || reader.call("GET", "/collections/news", None).0 == 200);
    assert_eq!(asked(&reader, "news"), third[0]);
    reader.running.stop();
}

#[test]
fn what_cannot_be_served_is_said() {
    let place = tempfile::tempdir().expect("a folder");
    let address = place.path().join("pushed").display().to_string();
    let of = |settings| Server::start(settings).map(drop).expect_err("not started");
    assert!(of(settings(&format!("{address}/nowhere"))).contains("no collection was pushed"));
    assert!(!place.path().join("nowhere").exists(), "nothing is made");
    assert!(of(settings("ftp://somewhere")).contains("no kind of store"));
    let rows = tempfile::tempdir().expect("a folder");
    std::fs::write(rows.path().join("MANIFEST"), "no collection").expect("a file");
    let from = FileStore::open_dir(rows.path(), Syncing::Off).expect("a folder");
    let to = Location::parse(&address).expect("an address").open().expect("a store");
    push(&from, &["MANIFEST".to_owned()], &*to).expect("pushed");
    assert!(of(settings(&address)).contains("is no collection"), "a snapshot, or anything else");
    let follow = Some(vstream_serve::FollowSettings::new("http://127.0.0.1:1"));
    assert!(of(ServeSettings { follow, ..settings(&address) }).contains("read where it is"));
}
