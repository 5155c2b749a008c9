//! A replica has what its writer has at an equal sequence, whatever ends or is cut meanwhile, and says how
//! far it is when it has not.

mod proxy;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{json, Value as Json};
use vstream_serve::{new_key, FollowSettings, KeyFile, Limits, Scope, ServeSettings, Server};

use self::proxy::Proxy;
use crate::hostile::raw;
use crate::support::{fill, point, settings, vector, Random, Served, DIMENSION};

/// Longest wait for a replica. A run that works waits for a fraction of it.
const LONG: Duration = Duration::from_secs(180);

/// A replica of the writer at an address.
fn following(directory: &Path, writer: &str) -> ServeSettings {
    ServeSettings { follow: Some(FollowSettings::new(writer)), ..settings(directory) }
}

/// Makes a collection whose rows go to segments after some hundreds.
fn create_small(server: &Served, name: &str) {
    let body = json!({
        "vectors": {"size": DIMENSION, "distance": "Cosine"},
        "vstream": {"memory": 1 << 20},
    });
    server.ok("PUT", &format!("/collections/{name}"), body);
}

/// The last write of a collection.
fn sequence(server: &Served, name: &str) -> u64 {
    let path = format!("/collections/{name}/points/count");
    let answer = server.with_headers("POST", &path, &json!({}), &[]);
    answer.header("vstream-sequence").parse().expect("a sequence")
}

/// Waits until a replica has a collection.
fn wait_for(server: &Served, name: &str) {
    let until = Instant::now() + LONG;
    while server.call("GET", &format!("/collections/{name}"), None).0 != 200 {
        assert!(
            Instant::now() < until,
            "the replica has no collection '{name}': {:?}",
            ready(server)
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until a replica has no such collection.
fn wait_for_none(server: &Served, name: &str) {
    let until = Instant::now() + LONG;
    while server.call("GET", &format!("/collections/{name}"), None).0 != 404 {
        assert!(Instant::now() < until, "the replica has a collection '{name}'");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Who copies once must know that there is nobody to copy from.
#[test]
fn a_writer_that_says_nothing_is_noticed() {
    let dir = tempfile::tempdir().expect("a folder");
    let writer = Served::of(&dir.path().join("writer"));
    writer.create("a", "Cosine");
    let replica = Served::new(following(&dir.path().join("replica"), &writer.url("")));
    wait_for(&replica, "a");
    std::thread::sleep(Duration::from_secs(3));
    assert!(replica.running.unheard() < Duration::from_secs(3), "the writer is there");
    assert_eq!(writer.running.unheard(), Duration::ZERO);
    replica.running.stop();
    writer.running.stop();
    let alone = Served::new(following(&dir.path().join("alone"), "http://127.0.0.1:1"));
    let until = Instant::now() + LONG;
    while alone.running.unheard() < Duration::from_millis(500) {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(10));
    }
    let why = alone.running.lacks(Duration::ZERO).expect("nothing is here");
    assert!(why.contains("the last error"), "{why}");
    alone.running.stop();
}

fn ready(server: &Served) -> (u16, Json) {
    server.call("GET", "/readyz", None)
}

/// Every point of a collection, as soon as it has a write.
fn points(server: &Served, name: &str, min_sequence: u64) -> Vec<Json> {
    let (mut all, mut offset) = (Vec::new(), Json::Null);
    let path = format!("/collections/{name}/points/scroll");
    loop {
        let body = json!({"limit": 1000, "offset": offset, "with_vector": true});
        let headers = [
            ("vstream-min-sequence", min_sequence.to_string()),
            ("vstream-wait-ms", LONG.as_millis().to_string()),
        ];
        let answer = server.with_headers("POST", &path, &body, &headers);
        assert_eq!(answer.status, 200, "{} {:?}", answer.body, ready(server));
        let result = &answer.body["result"];
        all.extend(result["points"].as_array().expect("points").iter().cloned());
        offset = result["next_page_offset"].clone();
        if offset.is_null() {
            return all;
        }
    }
}

/// Compares every point of every collection of the writer.
fn compare(writer: &Served, replica: &Served, seed: u64) {
    let names = writer.ok("GET", "/collections", json!({}));
    for one in names["collections"].as_array().expect("collections") {
        let name = one["name"].as_str().expect("a name");
        wait_for(replica, name);
        let until = Instant::now() + LONG;
        let epoch_may_differ = || Instant::now() < until;
        loop {
            let (ours, theirs) =
                (points(writer, name, 0), points(replica, name, sequence(writer, name)));
            if ours == theirs {
                break;
            }
            // A collection of the same name that was dropped since may have had higher sequences.
            assert!(
                epoch_may_differ(),
                "seed {seed}: '{name}' has {} points here and {} there",
                theirs.len(),
                ours.len()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// One random change of a collection.
fn change(server: &Served, name: &str, random: &mut Random) {
    let path = |rest: &str| format!("/collections/{name}/points{rest}?wait=true");
    let first = random.below(3_000);
    let ids: Vec<u64> = (first..first + 1 + random.below(60)).collect();
    match random.below(10) {
        0 | 1 => {
            server.ok("POST", &path("/delete"), json!({"points": ids}));
        }
        2 => {
            let filter =
                json!({"must": [{"key": "number", "range": {"gte": first, "lt": first + 20}}]});
            server.ok("POST", &path("/delete"), json!({"filter": filter}));
        }
        3 | 4 => {
            let filter =
                json!({"must": [{"key": "number", "range": {"gte": first, "lt": first + 50}}]});
            let key = format!("key{}", random.below(6));
            let payload = json!({"payload": {key: random.below(100)}, "filter": filter});
            server.ok("POST", &path("/payload"), payload);
        }
        _ => {
            let made = |id: u64| {
                let mut made = point(id);
                made["vector"] = json!(vector(id ^ random_bits(first)));
                made
            };
            let points: Vec<Json> = ids.into_iter().map(made).collect();
            server.ok("PUT", &path(""), json!({"points": points}));
        }
    }
}

fn random_bits(of: u64) -> u64 {
    of.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
}

#[test]
fn a_replica_has_what_its_writer_has_whatever_ends_meanwhile() {
    let seed = 20_261_126;
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut random = Random(seed);
    let mut writer = Served::of(dir.path());
    let proxy = Proxy::start(writer.running.address);
    create_small(&writer, "a");
    writer.create("b", "Dot");
    fill(&writer, "a", 0..1_500);
    let mut replica = Served::new(following(copy.path(), &proxy.url()));
    for round in 0..60 {
        for name in ["a", "b"] {
            change(&writer, name, &mut random);
        }
        match random.below(12) {
            0 => proxy.cut(),
            1 => {
                replica.running.stop();
                replica = Served::new(following(copy.path(), &proxy.url()));
            }
            2 => {
                writer.running.stop();
                writer = Served::of(dir.path());
                proxy.point_to(writer.running.address);
            }
            3 => {
                writer.ok("DELETE", "/collections/b", json!({}));
                writer.create("b", "Cosine");
            }
            4 => fill(&writer, "a", 3_000..3_900),
            _ => {}
        }
        if round % 20 == 19 {
            compare(&writer, &replica, seed);
        }
    }
    writer.ok("DELETE", "/collections/b", json!({}));
    wait_for_none(&replica, "b");
    compare(&writer, &replica, seed);
    // Searches of both see the same rows.
    let query = json!({"query": vector(7), "limit": 10, "params": {"exact": true}});
    let ask = |server: &Served| server.ok("POST", "/collections/a/points/query", query.clone());
    assert_eq!(ask(&writer), ask(&replica), "seed {seed}");
    let get = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let metrics = raw(&writer, get);
    let has_none = metrics.contains("vstream_segments{collection=\"a\"} 0");
    assert!(metrics.contains("vstream_segments{collection=\"a\"}") && !has_none, "{metrics}");
    replica.running.stop();
    writer.running.stop();
}

#[test]
fn a_replica_begins_again_when_the_log_has_gone_on_without_it() {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let limits = Limits { follow_bytes: 0, ..Limits::default() };
    let writer = Served::new(ServeSettings { limits, ..settings(dir.path()) });
    let proxy = Proxy::start(writer.running.address);
    create_small(&writer, "a");
    fill(&writer, "a", 0..500);
    let replica = Served::new(following(copy.path(), &proxy.url()));
    assert_eq!(points(replica_with(&replica, "a"), "a", sequence(&writer, "a")).len(), 500);
    proxy.close();
    // Each of these fills the memory more than once, so logs are replaced by segments.
    fill(&writer, "a", 0..8_000);
    let behind = replica.with_headers("POST", "/collections/a/points/count", &json!({}), &[]);
    assert_eq!(behind.body["result"]["count"], 500, "it answers while it is alone");
    proxy.point_to(writer.running.address);
    assert_eq!(points(&replica, "a", sequence(&writer, "a")), points(&writer, "a", 0));
    replica.running.stop();
    writer.running.stop();
}

/// The replica, when it has the collection.
fn replica_with<'a>(replica: &'a Served, name: &str) -> &'a Served {
    wait_for(replica, name);
    replica
}

#[test]
fn a_replica_that_lags_says_so_and_refuses_writes() {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let writer = Served::of(dir.path());
    let proxy = Proxy::start(writer.running.address);
    writer.create("a", "Cosine");
    fill(&writer, "a", 0..100);
    let behind_max = Duration::from_millis(700);
    let follow = FollowSettings { behind_max, ..FollowSettings::new(&proxy.url()) };
    let replica = Served::new(ServeSettings { follow: Some(follow), ..settings(copy.path()) });
    assert_eq!(points(replica_with(&replica, "a"), "a", sequence(&writer, "a")).len(), 100);
    let until = Instant::now() + LONG;
    while ready(&replica).0 != 200 {
        assert!(Instant::now() < until, "{:?}", ready(&replica));
        std::thread::sleep(Duration::from_millis(20));
    }
    let of_replica = tempfile::tempdir().unwrap();
    let second = Served::new(following(of_replica.path(), &replica.url("")));
    assert_eq!(points(replica_with(&second, "a"), "a", sequence(&writer, "a")).len(), 100);
    // Writes go elsewhere, and the answer says where.
    let write = json!({"points": [point(1)]});
    let refused = replica.with_headers("PUT", "/collections/a/points?wait=true", &write, &[]);
    assert_eq!((refused.status, refused.header("vstream-error")), (421, "read-only"));
    assert_eq!(refused.header("vstream-writer"), proxy.url());
    for (method, path) in [("DELETE", "/collections/a"), ("PUT", "/collections/b")] {
        let body = json!({"vectors": {"size": 4, "distance": "Dot"}});
        assert_eq!(replica.call(method, path, Some(&body)).0, 421, "{method} {path}");
    }
    proxy.close();
    let wrote = writer.with_headers("PUT", "/collections/a/points?wait=true", &write, &[]);
    let written: u64 = wrote.header("vstream-sequence").parse().expect("a sequence");
    assert_eq!(wrote.header("vstream-behind-ms"), "0");
    std::thread::sleep(behind_max + Duration::from_millis(300));
    let (status, why) = ready(&replica);
    assert!(
        status == 503 && why["status"]["error"].as_str().unwrap().contains("ms behind"),
        "{why}"
    );
    let count = |headers: &[(&str, String)]| {
        replica.with_headers("POST", "/collections/a/points/count", &json!({}), headers)
    };
    let old = count(&[]);
    assert!(old.header("vstream-behind-ms").parse::<u64>().unwrap() >= 700, "{:?}", old.headers);
    assert!(old.header("vstream-sequence").parse::<u64>().unwrap() < written);
    // Who follows a replica is as far behind as that.
    let of_second = second.with_headers("POST", "/collections/a/points/count", &json!({}), &[]);
    let behind = of_second.header("vstream-behind-ms").parse::<u64>().unwrap();
    assert!(behind >= 700, "{:?}", of_second.headers);
    second.running.stop();
    // Whoever needs a later write waits, and is told that it did not come.
    let (needs, wait) =
        (("vstream-min-sequence", written.to_string()), ("vstream-wait-ms", "50".to_owned()));
    let begun = Instant::now();
    let refused = count(&[needs.clone(), wait]);
    assert_eq!((refused.status, refused.header("vstream-error")), (412, "behind"));
    assert!(begun.elapsed() >= Duration::from_millis(50));
    proxy.point_to(writer.running.address);
    let long = ("vstream-wait-ms", LONG.as_millis().to_string());
    let waited = count(&[needs, long]);
    assert_eq!(waited.status, 200, "{}", waited.body);
    let fresh = writer.with_headers(
        "POST",
        "/collections/a/points/query",
        &json!({"query": vector(1), "limit": 1}),
        &[("vstream-freshness", "committed".to_owned())],
    );
    assert_eq!(fresh.status, 200);
    for (name, value) in [("vstream-freshness", "old"), ("vstream-min-sequence", "-1")] {
        assert_eq!(count(&[(name, value.to_owned())]).status, 400, "{name}: {value}");
    }
    replica.running.stop();
    writer.running.stop();
}

/// Every file below a folder, with its length and the time of its last change.
fn listing(folder: &Path) -> BTreeMap<PathBuf, (u64, SystemTime)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let (path, found) = entry.map(|entry| (entry.path(), entry.metadata().unwrap())).unwrap();
        all.insert(path.clone(), (found.len(), found.modified().unwrap()));
        if found.is_dir() {
            all.extend(listing(&path));
        }
    }
    all
}

#[test]
fn a_folder_that_is_only_read_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Served::of(dir.path());
    create_small(&writer, "a");
    writer.create("b", "Dot");
    fill(&writer, "a", 0..1_200);
    fill(&writer, "b", 0..300);
    fs::create_dir(dir.path().join(".vstream-gone c")).unwrap();
    // Whatever the writer has begun in the background comes to its end.
    let mut before = listing(dir.path());
    loop {
        std::thread::sleep(Duration::from_millis(300));
        // A checkpoint takes its steps between two requests.
        for name in ["a", "b"] {
            writer.ok("GET", &format!("/collections/{name}"), json!({}));
        }
        let now = listing(dir.path());
        if now == std::mem::replace(&mut before, now.clone()) {
            break;
        }
    }
    // The writer has the folder open and locked.
    let reader = Served::new(ServeSettings { read_only: true, ..settings(dir.path()) });
    for name in ["a", "b"] {
        assert_eq!(points(&reader, name, 0), points(&writer, name, 0));
        assert_eq!(sequence(&reader, name), sequence(&writer, name));
    }
    let (status, why) =
        reader.refused("PUT", "/collections/a/points", json!({"points": [point(1)]}));
    assert!(status == 421 && why.contains("only reads"), "{why}");
    // With the writer's address it follows in memory.
    let follow = Some(FollowSettings::new(&writer.url("")));
    let replica = Served::new(ServeSettings { read_only: true, follow, ..settings(dir.path()) });
    wait_for(&replica, "a");
    reader.running.stop();
    assert_eq!(listing(dir.path()), before, "nothing was written");
    fill(&writer, "a", 1_200..1_300);
    assert_eq!(points(&replica, "a", sequence(&writer, "a")), points(&writer, "a", 0));
    replica.running.stop();
    writer.running.stop();
}

#[test]
fn a_replica_needs_a_key_for_it() {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let scopes = [("reader", Scope::Read), ("writer", Scope::Write), ("replica", Scope::Follow)];
    let made: Vec<_> = scopes.map(|(name, scope)| new_key(name, scope, &[]).unwrap()).to_vec();
    let owner = new_key("owner", Scope::Admin, &[]).unwrap();
    let entries: Vec<&str> = made.iter().chain([&owner]).map(|(_, entry)| entry.as_str()).collect();
    let file = dir.path().join("keys.json");
    fs::write(&file, format!("{{\"keys\": [{}]}}", entries.join(", "))).unwrap();
    let mut writer = Served::new(ServeSettings {
        keys: Some(KeyFile::read(&file).unwrap()),
        ..settings(&dir.path().join("collections"))
    });
    writer.with_key(&owner.0);
    writer.create("a", "Cosine");
    fill(&writer, "a", 0..10);
    let replica = |key: Option<&str>| {
        let follow = FollowSettings::new(&writer.url(""));
        let follow = FollowSettings { key: key.map(str::to_owned), ..follow };
        Served::new(ServeSettings { follow: Some(follow), ..settings(copy.path()) })
    };
    for key in [None, Some("0123"), Some(made[0].0.as_str()), Some(made[1].0.as_str())] {
        let replica = replica(key);
        let until = Instant::now() + LONG;
        loop {
            let (status, why) = ready(&replica);
            assert_eq!(status, 503, "{key:?}");
            let why = why["status"]["error"].as_str().unwrap().to_owned();
            if why.contains("give a key") || why.contains("does not allow") {
                break;
            }
            assert!(Instant::now() < until, "{key:?}: {why}");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(replica.ok("GET", "/collections", json!({})), json!({"collections": []}));
        replica.running.stop();
    }
    let allowed = replica(Some(&made[2].0));
    wait_for(&allowed, "a");
    assert_eq!(points(&allowed, "a", sequence(&writer, "a")).len(), 10);
    allowed.running.stop();
    // A key of a replica writes nothing.
    writer.with_key(&made[2].0);
    assert_eq!(writer.call("PUT", "/collections/a/points", Some(&json!({"points": []}))).0, 403);
    writer.running.stop();
}

#[test]
fn what_cannot_be_followed_is_refused_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    for (writer, says) in [
        ("localhost:6333", "no address"),
        ("ftp://localhost", "no address"),
        ("https://localhost:6333", "certificate"),
    ] {
        let why = Server::start(following(dir.path(), writer)).err().expect("refused");
        assert!(why.contains(says), "{writer}: {why}");
    }
    // The collections of a writer are no copies, which a replica drops when its writer has them no more.
    let dir = tempfile::tempdir().unwrap();
    let writer = Served::of(dir.path());
    writer.create("a", "Dot");
    writer.running.stop();
    let refused = Server::start(following(dir.path(), "http://127.0.0.1:1"));
    let why = refused.err().expect("refused");
    assert!(why.contains("empty folder"), "{why}");
    let one = Server::start(following(&dir.path().join("a"), "http://127.0.0.1:1"));
    assert!(one.err().expect("refused").contains("folder"));
}

/// What a writer cannot open it does not have, and a copy of it may be the only one that is left.
#[test]
fn a_copy_stays_while_its_writer_cannot_open_the_collection() {
    let dir = tempfile::tempdir().expect("a folder");
    let of = |name: &str| dir.path().join(name);
    let writer = Served::of(&of("writer"));
    let proxy = Proxy::start(writer.running.address);
    for name in ["a", "b"] {
        writer.create(name, "Dot");
        fill(&writer, name, 0..50);
    }
    let middle = Served::new(following(&of("middle"), &proxy.url()));
    let last = Served::new(following(&of("last"), &middle.url("")));
    for name in ["a", "b"] {
        assert_eq!(points(replica_with(&last, name), name, sequence(&writer, name)).len(), 50);
    }
    let before = points(&last, "b", 0);
    writer.running.stop();
    crate::broken::damage(&of("writer").join("b"));
    let writer = Served::of(&of("writer"));
    assert_eq!((writer.running.collections, writer.running.not_served.len()), (1, 1));
    proxy.point_to(writer.running.address);
    // What comes now comes after the list of collections.
    fill(&writer, "a", 50..60);
    assert_eq!(points(&last, "a", sequence(&writer, "a")).len(), 60);
    assert_eq!((points(&middle, "b", 0), points(&last, "b", 0)), (before.clone(), before.clone()));
    let why = middle.running.lacks(Duration::from_secs(600)).expect("it lacks a collection");
    assert!(why.contains("'b'") && why.contains("does not open"), "{why}");
    assert!(last.running.lacks(Duration::from_secs(600)).is_some(), "it may lack one");

    // One that begins while its own writer lacks a collection has no say in what others drop.
    middle.running.stop();
    fs::remove_dir_all(of("middle")).expect("removed");
    let middle = Served::new(following(&of("middle"), &proxy.url()));
    last.running.stop();
    let last = Served::new(following(&of("last"), &middle.url("")));
    fill(&writer, "a", 60..70);
    assert_eq!(points(replica_with(&last, "a"), "a", sequence(&writer, "a")).len(), 70);
    assert_eq!(points(&last, "b", 0), before);

    // The writer drops it after all, once it is there again.
    writer.running.stop();
    fs::remove_dir_all(of("writer").join("b")).expect("removed");
    let writer = Served::of(&of("writer"));
    proxy.point_to(writer.running.address);
    wait_for_none(&last, "b");
    wait_for(&last, "a");
    [last, middle, writer].into_iter().for_each(|server| server.running.stop());
}

/// A copy that does not open is fetched again, and is as any other then.
#[test]
fn a_damaged_copy_is_fetched_again() {
    let dir = tempfile::tempdir().expect("a folder");
    let (of_writer, of_copy) = (dir.path().join("writer"), dir.path().join("copy"));
    let writer = Served::of(&of_writer);
    for name in ["a", "b"] {
        writer.create(name, "Dot");
        fill(&writer, name, 0..50);
    }
    let replica = Served::new(following(&of_copy, &writer.url("")));
    for name in ["a", "b"] {
        assert_eq!(points(replica_with(&replica, name), name, sequence(&writer, name)).len(), 50);
    }
    replica.running.stop();
    ["a", "b"].iter().for_each(|name| crate::broken::damage(&of_copy.join(name)));
    // One of them is gone when it asks.
    writer.ok("DELETE", "/collections/b", json!({}));
    let replica = Served::new(following(&of_copy, &writer.url("")));
    assert_eq!(points(replica_with(&replica, "a"), "a", sequence(&writer, "a")).len(), 50);
    wait_for_none(&replica, "b");
    let metrics = replica.call("GET", "/metrics", None).1;
    let metrics = metrics.as_str().expect("a text");
    assert!(!metrics.contains("vstream_collection_broken{"), "{metrics}");
    writer.ok("DELETE", "/collections/a", json!({}));
    wait_for_none(&replica, "a");
    replica.running.stop();
    writer.running.stop();
}
