//! A server of a folder of its own, and a client of it.

use std::path::Path;

use serde_json::{json, Value as Json};
use vstream_serve::{Running, ServeSettings, Server};

/// Dimensions of the collections of these tests.
pub const DIMENSION: usize = 64;

/// A server on a port that was free.
pub struct Served {
    pub running: Running,
    key: Option<String>,
}

/// An answer with its headers.
pub struct Answered {
    pub status: u16,
    pub headers: ureq::http::HeaderMap,
    pub body: Json,
}

impl Answered {
    /// The value of a header; empty without it.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("a text"))
    }
}

/// Random numbers of a seed.
pub struct Random(pub u64);

impl Random {
    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % n
    }
}

/// Settings of a server of a folder.
pub fn settings(directory: &Path) -> ServeSettings {
    let free = "127.0.0.1:0".parse().expect("an address");
    ServeSettings { metrics: Some(free), ..ServeSettings::new(directory.to_owned(), free) }
}

impl Served {
    pub fn new(settings: ServeSettings) -> Served {
        Served { running: Server::start(settings).expect("a server"), key: None }
    }

    pub fn of(directory: &Path) -> Served {
        Served::new(settings(directory))
    }

    /// Requests have this key from now on.
    pub fn with_key(&mut self, key: &str) {
        self.key = Some(key.to_owned());
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.running.address)
    }

    /// An answer with its headers, to a request with some more.
    pub fn with_headers(
        &self,
        method: &str,
        path: &str,
        body: &Json,
        headers: &[(&str, String)],
    ) -> Answered {
        let agent: ureq::Agent =
            ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let mut request = ureq::http::Request::builder().method(method).uri(self.url(path));
        request = request.header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        if let Some(key) = &self.key {
            request = request.header("api-key", key);
        }
        let request = request.body(body.to_string()).expect("a request");
        let mut response = agent.run(request).expect("an answer");
        let text = response.body_mut().read_to_string().expect("a text");
        Answered {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body: serde_json::from_str(&text).unwrap_or(Json::String(text)),
        }
    }

    /// Status and body of an answer.
    pub fn call(&self, method: &str, path: &str, body: Option<&Json>) -> (u16, Json) {
        let agent: ureq::Agent =
            ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let mut request = ureq::http::Request::builder().method(method).uri(self.url(path));
        if let Some(key) = &self.key {
            request = request.header("api-key", key);
        }
        let text = body.map_or(String::new(), Json::to_string);
        let request = request.header("content-type", "application/json").body(text);
        let mut response = agent.run(request.expect("a request")).expect("an answer");
        let status = response.status().as_u16();
        let text = response.body_mut().read_to_string().expect("a text");
        (status, serde_json::from_str(&text).unwrap_or(Json::String(text)))
    }

    /// The result of a call that is accepted.
    pub fn ok(&self, method: &str, path: &str, body: Json) -> Json {
        let (status, mut answer) = self.call(method, path, Some(&body));
        assert_eq!(status, 200, "{method} {path}: {answer}");
        answer["result"].take()
    }

    /// Status and sentence of a call that is refused.
    pub fn refused(&self, method: &str, path: &str, body: Json) -> (u16, String) {
        let (status, answer) = self.call(method, path, Some(&body));
        assert!(status >= 400, "{method} {path}: {answer}");
        (status, answer["status"]["error"].as_str().unwrap_or_default().to_owned())
    }

    /// Makes a collection.
    pub fn create(&self, name: &str, distance: &str) {
        let vectors = json!({"size": DIMENSION, "distance": distance});
        self.ok("PUT", &format!("/collections/{name}"), json!({"vectors": vectors}));
    }
}

/// The vector of an id: numbers that a generator of a fixed seed draws.
pub fn vector(id: u64) -> Vec<f32> {
    let mut state = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..DIMENSION).map(|_| next()).collect()
}

/// A point with a payload.
pub fn point(id: u64) -> Json {
    let city = ["Oslo", "Lima", "Pune"][(id % 3) as usize];
    json!({
        "id": id,
        "vector": vector(id),
        "payload": {"city": city, "number": id, "tags": [format!("t{}", id % 5)], "in": {"even": id.is_multiple_of(2)}},
    })
}

/// Writes points of some ids.
pub fn fill(server: &Served, name: &str, ids: std::ops::Range<u64>) {
    let ids: Vec<u64> = ids.collect();
    for some in ids.chunks(500) {
        let points: Vec<Json> = some.iter().map(|&id| point(id)).collect();
        let path = format!("/collections/{name}/points?wait=true");
        server.ok("PUT", &path, json!({"points": points}));
    }
}

/// The ids of points.
pub fn ids(points: &Json) -> Vec<u64> {
    let points = points.as_array().expect("points");
    points.iter().map(|point| point["id"].as_u64().expect("an id")).collect()
}
