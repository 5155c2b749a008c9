//! Changes as they happen, over HTTP and over gRPC.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{json, Value as Json};
use tokio::runtime::Runtime;
use tonic::transport::Endpoint;
use tonic::Code;

use self::proto::changed::Kind;
use self::proto::changes_client::ChangesClient;
use self::proto::WatchRequest;
use crate::support::{fill, point, vector, Served};

#[expect(clippy::allow_attributes, reason = "the build makes this")]
mod proto {
    include!(concat!(env!("OUT_DIR"), "/own/vstream.rs"));
}

/// An open stream of events.
struct Events(BufReader<TcpStream>);

impl Events {
    fn open(server: &Served, path: &str, more: &str) -> Events {
        let mut stream = TcpStream::connect(server.running.address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\n{more}\r\n").unwrap();
        Events(BufReader::new(stream))
    }

    /// Kind and content of the next event.
    fn next(&mut self) -> (String, Json) {
        let mut kind = String::new();
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).expect("a line") > 0, "the stream ended");
            if let Some(rest) = line.strip_prefix("event: ") {
                kind = rest.trim().to_owned();
            } else if let Some(rest) = line.strip_prefix("data: ") {
                return (kind, serde_json::from_str(rest).expect("JSON"));
            }
        }
    }
}

fn written(server: &Served, method: &str, path: &str, body: &Json) -> u64 {
    let answer = server.with_headers(method, path, body, &[]);
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.header("vstream-sequence").parse().expect("a sequence")
}

#[test]
fn who_watches_is_told_of_every_change_in_order() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    server.create("a", "Cosine");
    fill(&server, "a", 0..3);
    let mut now = Events::open(&server, "/collections/a/watch?with_vector=true", "");
    let mut all = Events::open(&server, "/collections/a/watch?after=0", "");
    for id in 0..3 {
        let (kind, data) = all.next();
        assert_eq!((kind.as_str(), &data["id"]), ("upsert", &json!(id)));
        assert_eq!(data["payload"], point(id)["payload"]);
        assert_eq!(data["sequence"], id + 1);
    }
    // The three came in one request, and who knows the first is not told of it again.
    let (_, data) = Events::open(&server, "/collections/a/watch?after=1", "").next();
    assert_eq!(data["sequence"], 2);
    let path = "/collections/a/points";
    let wait = "?wait=true";
    // The one that began now has begun when it says so.
    let mut line = String::new();
    while !line.starts_with(": ") {
        line.clear();
        now.0.read_line(&mut line).expect("a sign of life");
    }
    let upsert = json!({"points": [{"id": 7, "vector": vector(7), "payload": {"x": 1}}]});
    let first = written(&server, "PUT", &format!("{path}{wait}"), &upsert);
    let update = json!({"payload": {"x": 2}, "points": [7]});
    let second = written(&server, "POST", &format!("{path}/payload{wait}"), &update);
    let third = written(&server, "POST", &format!("{path}/delete{wait}"), &json!({"points": [7]}));
    assert_eq!((second, third), (first + 1, first + 2));
    let mut keys = Vec::new();
    for (events, has_vector) in [(&mut now, true), (&mut all, false)] {
        let (kind, data) = events.next();
        assert_eq!((kind.as_str(), &data["sequence"]), ("upsert", &json!(first)));
        assert_eq!(data["vector"].is_array(), has_vector);
        keys.push(data["key"].clone());
        let (kind, data) = events.next();
        assert_eq!((kind.as_str(), &data["payload"]), ("update", &json!({"x": 2})));
        keys.push(data["key"].clone());
        let (kind, data) = events.next();
        assert_eq!((kind.as_str(), &data["sequence"]), ("delete", &json!(third)));
        keys.push(data["key"].clone());
    }
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    // A browser that goes on says the last event that it saw.
    let last = format!("last-event-id: {second}\r\n");
    let (kind, _) = Events::open(&server, "/collections/a/watch", &last).next();
    assert_eq!(kind, "delete");
    let (kind, why) = Events::open(&server, "/collections/a/watch?after=99", "").next();
    assert!(kind == "end" && why["error"].as_str().unwrap().contains("write 99"), "{why}");
    over_grpc(&server, second, third);
    // Streams end with the server, at once.
    let begun = std::time::Instant::now();
    server.running.stop();
    assert!(begun.elapsed() < Duration::from_secs(5));
}

fn over_grpc(server: &Served, after: u64, last: u64) {
    let runtime = Runtime::new().expect("threads");
    runtime.block_on(async {
        let channel = Endpoint::from_shared(server.url("")).expect("an address").connect_lazy();
        let mut client = ChangesClient::new(channel);
        let ask = |collection: &str, after| WatchRequest {
            collection: collection.to_owned(),
            after: Some(after),
        };
        let mut stream = client.watch(ask("a", after)).await.expect("a stream").into_inner();
        let reply = stream.message().await.expect("a message").expect("a message");
        let [deleted] = reply.changes.as_slice() else { panic!("{reply:?}") };
        assert_eq!((deleted.kind(), deleted.sequence), (Kind::Delete, last));
        let gone = client.watch(ask("a", last + 9)).await.expect("a stream").into_inner();
        let gone = { gone }.message().await.expect_err("the log has no such write");
        assert_eq!(gone.code(), Code::OutOfRange);
        let none = client.watch(ask("none", 0)).await.expect_err("no such collection");
        assert_eq!(none.code(), Code::NotFound);
    });
}
