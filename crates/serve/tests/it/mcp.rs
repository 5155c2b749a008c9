//! The Model Context Protocol as a client sees it: what is refused, who may do what, and what comes back.

use std::fs;
use std::path::Path;

use serde_json::{json, Value as Json};
use vstream_serve::{new_key, KeyFile, Limits, Scope, ServeSettings};

use crate::hostile::raw;
use crate::support::{fill, ids, point, settings, vector, Served};

const STATELESS: &str = "2026-07-28";
const HANDSHAKE: &str = "2025-11-25";

/// Names and values.
type Headers<'a> = &'a [(&'a str, &'a str)];

/// What a client of the newest revision says about itself.
fn meta() -> Json {
    json!({
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// Status and body of an answer to a message with some headers; JSON unless they say otherwise.
fn send(server: &Served, key: Option<&str>, headers: &[(&str, &str)], body: &str) -> (u16, Json) {
    let agent: ureq::Agent =
        ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let mut request = agent.post(server.url("/mcp"));
    if !headers.iter().any(|(name, _)| *name == "content-type") {
        request = request.header("content-type", "application/json");
    }
    if let Some(key) = key {
        request = request.header("authorization", format!("Bearer {key}"));
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut response = request.send(body).expect("an answer");
    let text = response.body_mut().read_to_string().expect("a text");
    (response.status().as_u16(), serde_json::from_str(&text).unwrap_or(Json::String(text)))
}

/// The answer to a request of the newest revision, with the headers that it must have.
fn ask(server: &Served, key: Option<&str>, method: &str, mut params: Json) -> (u16, Json) {
    params["_meta"] = meta();
    let mut headers = vec![("mcp-protocol-version", STATELESS), ("mcp-method", method)];
    let name = params["name"].as_str().map(str::to_owned);
    headers.extend(name.as_deref().map(|name| ("mcp-name", name)));
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    let (status, answer) = send(server, key, &headers, &body.to_string());
    assert!(answer["id"] == 7 || status >= 400, "{method}: {answer}");
    (status, answer)
}

/// What a tool answers: its content, or its sentence.
fn call(server: &Served, key: Option<&str>, tool: &str, arguments: Json) -> Result<Json, String> {
    let params = json!({"name": tool, "arguments": arguments});
    let (status, mut answer) = ask(server, key, "tools/call", params);
    assert_eq!(status, 200, "{tool}: {answer}");
    let result = answer["result"].take();
    let text = result["content"][0]["text"].as_str().expect("a text").to_owned();
    assert_eq!(result["resultType"], "complete");
    if result["isError"] == true {
        return Err(text);
    }
    let structured = result["structuredContent"].clone();
    assert_eq!(serde_json::from_str::<Json>(&text).expect("JSON"), structured);
    Ok(structured)
}

fn with_writes(directory: &Path) -> ServeSettings {
    ServeSettings { mcp_writes: true, ..settings(directory) }
}

#[test]
fn tools_answer_as_the_paths_do() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::new(with_writes(dir.path()));
    server.create("a", "Cosine");
    fill(&server, "a", 0..300);
    let tool = |name: &str, arguments: Json| call(&server, None, name, arguments).expect(name);
    let there = tool("collections", json!({}));
    let one = json!({"name": "a", "points": 300, "dimension": 64, "distance": "Cosine"});
    assert_eq!(there, json!({"collections": [one]}));
    let described = tool("collections", json!({"collection": "a"}));
    let fields =
        json!({"city": "keyword", "number": "float", "tags": "keyword", "in.even": "bool"});
    assert_eq!(described["collections"][0]["fields"], fields);

    let found = tool("search", json!({"collection": "a", "vector": vector(5), "k": 3}));
    let same = json!({"query": vector(5), "limit": 3, "with_payload": true});
    let same = server.ok("POST", "/collections/a/points/query", same);
    assert_eq!((&found["points"], &found["distance"]), (&same["points"], &json!("Cosine")));
    let filter = json!({"must": [{"key": "city", "match": {"value": "Oslo"}}]});
    let like = json!({"collection": "a", "id": 3, "filter": filter, "k": 5, "payload": ["number"]});
    let like = tool("search", like);
    let all = ids(&like["points"]);
    assert!(all.len() == 5 && all.iter().all(|id| id % 3 == 0 && *id != 3), "{like}");
    assert_eq!(like["points"][0]["payload"], json!({"number": all[0]}));

    let got = json!({"collection": "a", "ids": [4, 999], "with_vector": true, "payload": []});
    let got = tool("get", got);
    assert_eq!((ids(&got["points"]), &got["missing"]), (vec![4], &json!([999])));
    assert_eq!(got["points"][0]["vector"].as_array().expect("a vector").len(), 64);

    let new = json!({"id": 1_000, "vector": vector(1_000), "payload": {"city": "Rome"}});
    let written = tool("upsert", json!({"collection": "a", "points": [new]}));
    assert_eq!(written, json!({"written": 1}));
    let read = tool("get", json!({"collection": "a", "ids": [1_000]}));
    assert_eq!(read["points"][0]["payload"], json!({"city": "Rome"}));
    assert_eq!(tool("delete", json!({"collection": "a", "ids": [1_000, 1, 999, 1]}))["deleted"], 2);
    let read = tool("get", json!({"collection": "a", "ids": [1_000, 1, 2]}));
    assert_eq!((ids(&read["points"]), &read["missing"]), (vec![2], &json!([1_000, 1])));
    server.running.stop();
}

#[test]
fn who_asks_again_hears_of_every_change_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::new(with_writes(dir.path()));
    server.create("a", "Cosine");
    fill(&server, "a", 0..5);
    let watch = |arguments: Json| {
        let mut all = json!({"collection": "a"});
        all.as_object_mut().unwrap().extend(arguments.as_object().unwrap().clone());
        call(&server, None, "watch", all)
    };
    let begun = watch(json!({})).expect("the sequence of now");
    assert_eq!(begun["changes"], json!([]));
    let of = |changes: &Json| -> Vec<(String, Json)> {
        let change = |one: &Json| (one["kind"].as_str().unwrap().to_owned(), one["id"].clone());
        changes.as_array().unwrap().iter().map(change).collect()
    };
    let text = |kind: &str, id: Json| (kind.to_owned(), id);

    // Nothing happens within the time.
    let quiet = watch(json!({"after": begun["sequence"], "wait_ms": 50})).expect("an answer");
    assert_eq!((&quiet["changes"], &quiet["sequence"]), (&json!([]), &begun["sequence"]));

    // A call that waits hears of the first change.
    let heard = std::thread::scope(|scope| {
        let heard = scope.spawn(|| watch(json!({"after": begun["sequence"], "wait_ms": 30_000})));
        fill(&server, "a", 5..8);
        heard.join().unwrap().expect("changes")
    });
    let all = watch(json!({"after": begun["sequence"]})).expect("changes");
    let expected: Vec<_> = (5..8).map(|id| text("upsert", json!(id))).collect();
    assert_eq!(of(&all["changes"]), expected);
    assert_eq!(all["changes"][0]["payload"], point(5)["payload"]);
    assert!(of(&heard["changes"]).starts_with(&expected[..1]), "{heard}");

    // Two at a time, also within one request's points.
    let first = watch(json!({"after": begun["sequence"], "limit": 2})).expect("changes");
    let second = watch(json!({"after": first["sequence"], "limit": 2})).expect("changes");
    assert_eq!(of(&first["changes"]), expected[..2]);
    assert_eq!(of(&second["changes"]), expected[2..]);
    assert_eq!(second["sequence"], all["sequence"]);

    let delete = json!({"collection": "a", "ids": [6]});
    call(&server, None, "delete", delete).expect("deleted");
    let last = watch(json!({"after": all["sequence"]})).expect("changes");
    assert_eq!(of(&last["changes"]), [text("delete", Json::Null)]);
    assert_eq!(last["changes"][0]["key"], all["changes"][1]["key"], "the same point");

    for wrong in [json!({"limit": 0}), json!({"limit": 101}), json!({"wait_ms": 30_001})] {
        let refused = watch(wrong.clone()).expect_err("out of bounds");
        assert!(refused.contains("choose a value"), "{wrong}: {refused}");
    }
    let ahead = watch(json!({"after": 1_000_000})).expect_err("there is no such sequence");
    assert!(ahead.contains("without 'after'"), "{ahead}");
    server.running.stop();
}

#[test]
fn both_eras_of_the_protocol_are_answered() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    let (status, about) = ask(&server, None, "server/discover", json!({}));
    let about = &about["result"];
    assert_eq!(status, 200);
    assert_eq!(about["supportedVersions"], json!([STATELESS, HANDSHAKE, "2025-06-18"]));
    assert!(about["ttlMs"].is_u64() && about["capabilities"]["tools"].is_object(), "{about}");
    let (_, tools) = ask(&server, None, "tools/list", json!({}));
    let tools = tools["result"]["tools"].as_array().expect("tools").clone();
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(
        names,
        ["collections", "search", "get", "watch"],
        "without the switch nothing writes"
    );
    assert!(tools.iter().all(|tool| tool["annotations"]["readOnlyHint"] == true));

    let hello = |asked: &str| {
        let params = json!({"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}});
        let body = json!({"jsonrpc": "2.0", "id": "x", "method": "initialize", "params": params});
        send(&server, None, &[], &body.to_string())
    };
    for (asked, agreed) in
        [("2025-06-18", "2025-06-18"), (HANDSHAKE, HANDSHAKE), ("1999", HANDSHAKE)]
    {
        let (status, answer) = hello(asked);
        assert_eq!((status, &answer["id"]), (200, &json!("x")));
        assert_eq!(answer["result"]["protocolVersion"], agreed);
        assert_eq!(answer["result"]["serverInfo"]["name"], "vstream");
        assert!(answer["result"].get("resultType").is_none());
    }
    let later = [("mcp-protocol-version", HANDSHAKE)];
    let ready = r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#;
    assert_eq!(send(&server, None, &later, ready), (202, json!("")));
    let request = |method: &str| json!({"jsonrpc": "2.0", "id": 1, "method": method}).to_string();
    assert_eq!(send(&server, None, &later, &request("ping")).1["result"], json!({}));
    let listed = send(&server, None, &later, &request("tools/list"));
    assert_eq!(listed.1["result"]["tools"], Json::Array(tools));
    // It has an answer, so its status is 200 before the newest revision, and 404 since.
    let (status, answer) = send(&server, None, &later, &request("prompts/list"));
    assert_eq!((status, &answer["error"]["code"]), (200, &json!(-32601)));
    let (status, answer) = ask(&server, None, "prompts/list", json!({}));
    assert_eq!((status, &answer["error"]["code"]), (404, &json!(-32601)));
    for method in ["GET", "DELETE"] {
        assert_eq!(server.call(method, "/mcp", None).0, 405);
    }
    server.running.stop();
}

#[test]
fn headers_must_say_what_the_body_says() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    let body = |revision: &str| {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"name": "collections", "arguments": {}, "_meta": meta});
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string()
    };
    let new = ("mcp-protocol-version", STATELESS);
    let (method, name) = (("mcp-method", "tools/call"), ("mcp-name", "collections"));
    let encoded = ("mcp-name", "=?base64?Y29sbGVjdGlvbnM=?=");
    for good in [[new, method, name], [new, method, encoded]] {
        assert_eq!(send(&server, None, &good, &body(STATELESS)).0, 200, "{good:?}");
    }
    let (older, unknown) =
        (("mcp-protocol-version", HANDSHAKE), ("mcp-protocol-version", "1900-01-01"));
    let no_meta = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let bad: [(Headers<'_>, String, i64); 11] = [
        (&[], body(STATELESS), -32020),
        (&[new, name], body(STATELESS), -32020),
        (&[new, method], body(STATELESS), -32020),
        (&[older, method, name], body(STATELESS), -32020),
        (&[new, ("mcp-method", "tools/list"), name], body(STATELESS), -32020),
        (&[new, method, ("mcp-name", "search")], body(STATELESS), -32020),
        (&[new, new, method, name], body(STATELESS), -32020),
        (&[unknown, method, name], body("1900-01-01"), -32022),
        (&[unknown], no_meta.clone(), -32022),
        (&[new, ("mcp-method", "tools/list")], no_meta.clone(), -32602),
        (&[], no_meta, -32020),
    ];
    for (headers, body, code) in bad {
        let (status, answer) = send(&server, None, headers, &body);
        assert_eq!(
            (status, answer["error"]["code"].as_i64()),
            (400, Some(code)),
            "{headers:?}: {answer}"
        );
        if code == -32022 {
            assert_eq!(answer["error"]["data"]["requested"], "1900-01-01");
            assert_eq!(answer["error"]["data"]["supported"][0], STATELESS);
        }
    }
    server.running.stop();
}

#[test]
fn a_model_is_told_what_to_do_instead() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::new(with_writes(dir.path()));
    server.create("a", "Cosine");
    fill(&server, "a", 0..10);
    let many: Vec<u64> = (0..101).collect();
    let points: Vec<Json> = (0..1_001).map(|id| json!({"id": id, "vector": [1.0]})).collect();
    let same = json!({"id": 1, "vector": vector(1)});
    let tries = [
        ("search", json!({}), "missing field `collection`"),
        ("search", json!({"collection": "none", "id": 1}), "Call 'collections'"),
        ("search", json!({"collection": "a"}), "give 'vector' or 'id'"),
        ("search", json!({"collection": "a", "id": 1, "vector": vector(1)}), "not both"),
        ("search", json!({"collection": "a", "id": 999}), "no point with the id 999"),
        ("search", json!({"collection": "a", "vector": [1.0]}), "64"),
        ("search", json!({"collection": "a", "vector": "red"}), "the arguments"),
        ("search", json!({"collection": "a", "id": 1, "k": 0}), "from 1 to 100"),
        ("search", json!({"collection": "a", "id": 1, "k": 101}), "from 1 to 100"),
        ("search", json!({"collection": "a", "id": 1, "k": -1}), "the arguments"),
        ("search", json!({"collection": "a", "id": 1, "limit": 5}), "expected one of"),
        ("search", json!({"collection": "a", "id": 1, "filter": {"musst": []}}), "musst"),
        ("get", json!({"collection": "a", "ids": many}), "from 1 to 100"),
        ("get", json!({"collection": "a", "ids": []}), "from 1 to 100"),
        ("search", json!({"collection": "a", "id": "red"}), "no point with the id red"),
        ("upsert", json!({"collection": "a", "points": [{"id": "red", "vector": []}]}), "no UUID"),
        ("upsert", json!({"collection": "a", "points": points}), "1 to 1000"),
        ("upsert", json!({"collection": "a", "points": []}), "1 to 1000"),
        ("upsert", json!({"collection": "a", "points": [same, {"id": 2, "vector": [1.0]}]}), "64"),
        ("upsert", json!({"collection": "../a", "points": [same]}), "there is no collection"),
        ("delete", json!({"collection": "a", "filter": {}}), "unknown field `filter`"),
        ("collections", json!({"collection": "none"}), "there is no collection 'none'"),
    ];
    for (tool, arguments, says) in tries {
        let why = call(&server, None, tool, arguments.clone()).expect_err(tool);
        assert!(why.contains(says), "{tool} {arguments}: {why}");
    }
    let (status, answer) = ask(&server, None, "tools/call", json!({"name": "drop"}));
    assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32602)), "{answer}");
    let count = server.ok("POST", "/collections/a/points/count", json!({}));
    assert_eq!(count, json!({"count": 10}), "nothing was written");
    // Payloads that a model could not read at once are not sent.
    let long = json!({"id": 1, "vector": vector(1), "payload": {"text": "x".repeat(60_000)}});
    let copies: Vec<Json> = (0..20)
        .map(|id| {
            let mut one = long.clone();
            one["id"] = json!(id);
            one
        })
        .collect();
    call(&server, None, "upsert", json!({"collection": "a", "points": copies})).expect("written");
    let all: Vec<u64> = (0..20).collect();
    let why = call(&server, None, "get", json!({"collection": "a", "ids": all})).expect_err("long");
    assert!(why.contains("ask for fewer points"), "{why}");
    server.running.stop();
}

#[test]
fn a_key_does_over_tools_what_its_scope_says() {
    let dir = tempfile::tempdir().expect("a folder");
    let made = [
        new_key("reader", Scope::Read, &["a".to_owned()]).unwrap(),
        new_key("writer", Scope::Write, &["a".to_owned()]).unwrap(),
        new_key("owner", Scope::Admin, &[]).unwrap(),
    ];
    let entries: Vec<&str> = made.iter().map(|(_, entry)| entry.as_str()).collect();
    let file = dir.path().join("keys.json");
    fs::write(&file, format!("{{\"keys\": [{}]}}", entries.join(", "))).unwrap();
    let audit = dir.path().join("audit.log");
    let mut server = Served::new(ServeSettings {
        keys: Some(KeyFile::read(&file).unwrap()),
        audit: Some(audit.clone()),
        ..with_writes(&dir.path().join("collections"))
    });
    let [reader, writer, owner] =
        [&made[0].0, &made[1].0, &made[2].0].map(|key| Some(key.as_str()));
    server.with_key(&made[2].0);
    server.create("a", "Dot");
    server.create("b", "Dot");
    for key in [None, Some("0123")] {
        let (status, answer) = ask(&server, key, "tools/list", json!({}));
        assert_eq!((status, &answer["error"]["code"]), (401, &json!(401)), "{answer}");
    }
    // Without a key not even the form of a message is looked at.
    assert_eq!(send(&server, None, &[], "nonsense").0, 401);
    for (key, count) in [(reader, 4), (writer, 6), (owner, 6)] {
        let (_, listed) = ask(&server, key, "tools/list", json!({}));
        assert_eq!(listed["result"]["tools"].as_array().expect("tools").len(), count);
    }
    let write = |of: &str| json!({"collection": of, "points": [point(1)]});
    let read = |of: &str| json!({"collection": of, "ids": [1]});
    // Tool and arguments; then whether reader, writer and owner may.
    let tries = [
        ("upsert", write("a"), [false, true, true]),
        ("upsert", write("b"), [false, false, true]),
        ("get", read("a"), [true, true, true]),
        ("get", read("b"), [false, false, true]),
        ("search", json!({"collection": "b", "id": 1}), [false, false, true]),
        ("watch", json!({"collection": "a"}), [true, true, true]),
        ("watch", json!({"collection": "b"}), [false, false, true]),
        ("collections", json!({"collection": "b"}), [false, false, true]),
        ("delete", json!({"collection": "a", "ids": [9]}), [false, true, true]),
    ];
    for (tool, arguments, may) in &tries {
        for (key, may) in [reader, writer, owner].into_iter().zip(may) {
            let answer = call(&server, key, tool, arguments.clone());
            assert_eq!(answer.is_ok(), *may, "{tool} {arguments}: {answer:?}");
            assert!(*may || answer.unwrap_err().contains("the key does not allow this"));
        }
    }
    let seen = call(&server, reader, "collections", json!({})).expect("collections");
    assert_eq!(seen["collections"].as_array().expect("a list").len(), 1, "{seen}");
    server.running.stop();
    let log = fs::read_to_string(audit).unwrap();
    let is_noted = |line: &str| {
        let line: Json = serde_json::from_str(line).expect("a line of JSON");
        let said = ["collection", "key", "method", "tool"].map(|name| line[name].clone());
        said == ["a", "writer", "POST", "upsert"].map(Json::from)
    };
    assert!(log.lines().any(is_noted), "{log}");
    assert!(!log.contains("\"key\":\"reader\""), "{log}");
    assert!(made.iter().all(|(key, _)| !log.contains(key.as_str())), "no key in the log");
}

#[test]
fn without_the_switch_no_key_writes() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    server.create("a", "Dot");
    let write = json!({"collection": "a", "points": [point(1)]});
    let why = call(&server, None, "upsert", write).expect_err("refused");
    assert!(why.contains("--mcp-writes"), "{why}");
    let why = call(&server, None, "delete", json!({"collection": "a", "ids": [1]}));
    assert!(why.expect_err("refused").contains("--mcp-writes"));
    let count = server.ok("POST", "/collections/a/points/count", json!({}));
    assert_eq!(count, json!({"count": 0}));
    let metrics = server.call("GET", "/metrics", None).1;
    let metrics = metrics.as_str().expect("a text");
    assert!(
        metrics.contains("vstream_mcp_calls_total{tool=\"upsert\",status=\"403\"} 1"),
        "{metrics}"
    );
    server.running.stop();
}

#[test]
fn pages_of_other_sites_are_let_in_nowhere() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Served::of(dir.path());
    server.create("a", "Dot");
    fill(&server, "a", 0..3);
    let list =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta()}});
    let from = |origin: &str| {
        let headers =
            [("mcp-protocol-version", STATELESS), ("mcp-method", "tools/list"), ("origin", origin)];
        send(&server, None, &headers, &list.to_string()).0
    };
    let own = format!("http://{}", server.running.address);
    for (origin, status) in [
        (own.as_str(), 200),
        // Without keys a page of another server on this machine is another site, too.
        ("http://localhost:6274", 403),
        ("http://127.0.0.1", 403),
        ("http://evil.example", 403),
        ("http://localhost.evil.example", 403),
        ("null", 403),
    ] {
        assert_eq!(from(origin), status, "{origin}");
    }
    // A form of another site needs no permission to send a text, so this would delete points.
    let delete = "POST /collections/a/points/delete?wait=true HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
        origin: http://evil.example\r\ncontent-type: text/plain\r\ncontent-length: 19\r\n\r\n{\"points\": [0,1,2]}";
    assert!(raw(&server, delete.as_bytes()).starts_with("HTTP/1.1 403"));
    assert_eq!(send(&server, None, &[("content-type", "text/plain")], &list.to_string()).0, 415);
    let count = server.ok("POST", "/collections/a/points/count", json!({}));
    assert_eq!(count, json!({"count": 3}));
    server.running.stop();
}

#[test]
fn hostile_bodies_get_an_answer_and_the_server_goes_on() {
    let dir = tempfile::tempdir().expect("a folder");
    let limits = Limits { body_bytes: 1 << 30, searches: 1, ..Limits::default() };
    let server = Served::new(ServeSettings { limits, ..settings(dir.path()) });
    let head =
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n";
    let large = raw(&server, format!("{head}content-length: 5000000\r\n\r\n").as_bytes());
    assert!(large.starts_with("HTTP/1.1 413") && large.contains("\"code\":413"), "{large}");
    let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n");
    assert!(raw(&server, chunked.as_bytes()).starts_with("HTTP/1.1 411"));
    let later = [("mcp-protocol-version", HANDSHAKE)];
    let deep =
        |of: &str| format!("{}{}", "[".repeat(of.len() * 10_000), "]".repeat(of.len() * 10_000));
    let arguments = |arguments: &str| {
        format!(
            "{{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"tools/call\", \"params\": {{\"name\": \"search\", \
             \"arguments\": {arguments}}}}}"
        )
    };
    let ones = format!("{{\"collection\": \"a\", \"vector\": [1{}]}}", ",1".repeat(1_000_000));
    let unread = [
        deep("x"),
        "\u{feff}{}".to_owned(),
        "{\"jsonrpc\": \"2.0\"".to_owned(),
        format!("{{\"jsonrpc\": \"2.0\", \"id\": {}, \"method\": \"ping\"}}", "9".repeat(400)),
        format!(
            "{{\"jsonrpc\": \"2.0\", \"id\": \"{}\", \"method\": \"ping\"}}",
            "x".repeat(100_000)
        ),
    ];
    for body in &unread {
        let (status, answer) = send(&server, None, &later, body);
        assert!(status == 400 && answer["error"]["message"].is_string(), "{status} {answer}");
    }
    for body in [
        arguments(&ones),
        arguments("{\"collection\": 1e999}"),
        arguments("[\"a\"]"),
        arguments("null"),
    ] {
        let (status, answer) = send(&server, None, &later, &body);
        assert_eq!((status, &answer["result"]["isError"]), (200, &json!(true)), "{answer}");
    }
    let filter = format!("{{\"collection\": \"a\", \"id\": 1, \"filter\": {}}}", deep("x"));
    let (status, answer) = send(&server, None, &later, &arguments(&filter));
    assert!(status == 400 || answer["result"]["isError"] == true, "{status} {answer}");
    let long = json!({"jsonrpc": "2.0", "id": 1, "method": "m".repeat(50_000)}).to_string();
    let (_, answer) = send(&server, None, &later, &long);
    assert!(answer.to_string().len() < 500, "what is refused is not repeated whole");
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    assert_eq!(send(&server, None, &later, &ping).0, 200);
    server.running.stop();
}
