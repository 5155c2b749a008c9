//! A connection that is made again when it breaks.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection with a key.
pub(super) struct Client {
    agent: ureq::Agent,
    address: SocketAddr,
    key: String,
}

/// What came back.
#[derive(Debug)]
pub(super) enum Answer {
    /// Status and body.
    Came(u16, Value),
    /// Nothing: the server may have done it or not.
    Broke,
}

impl Answer {
    /// 0 if nothing came.
    pub(super) fn status(&self) -> u16 {
        match self {
            Answer::Came(status, _) => *status,
            Answer::Broke => 0,
        }
    }
}

impl Client {
    pub(super) fn new(address: SocketAddr, key: &str) -> Client {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .max_idle_connections_per_host(1);
        Client { agent: config.build().into(), address, key: key.to_owned() }
    }

    pub(super) fn call(&mut self, method: &str, path: &str, body: &Value) -> Answer {
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address))
            .header("api-key", &self.key)
            .body(body.to_string());
        let Ok(request) = request else { return Answer::Broke };
        let Ok(mut response) = self.agent.run(request) else { return Answer::Broke };
        let status = response.status().as_u16();
        // An answer that was cut is none.
        let text = response.body_mut().read_to_string();
        match text.ok().and_then(|text| serde_json::from_str(&text).ok()) {
            Some(body) => Answer::Came(status, body),
            None => Answer::Broke,
        }
    }
}
