//! A client of a server: one connection, requests one after the other.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value as Json;

use crate::runbook::RunbookError;

/// Bytes read at a time.
const CHUNK: usize = 64 << 10;

/// One connection that is kept.
pub struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Client {
    /// Connects. Errors: `Io`.
    pub fn connect(address: SocketAddr) -> Result<Client, RunbookError> {
        let failed = |error| RunbookError::Io(format!("Cannot connect to {address}: {error}."));
        let stream = TcpStream::connect(address).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        Ok(Client { stream, received: Vec::new() })
    }

    /// Sends a request and returns the body of the answer. Errors: `Io`, also for a refusal.
    pub fn call(&mut self, request: &[u8]) -> Result<&[u8], RunbookError> {
        let failed = |error| RunbookError::Io(format!("The connection broke: {error}."));
        self.stream.write_all(request).map_err(failed)?;
        self.received.clear();
        loop {
            let had = self.received.len();
            self.received.resize(had + CHUNK, 0);
            let read = self.stream.read(&mut self.received[had..]).map_err(failed)?;
            self.received.truncate(had + read);
            if read == 0 {
                return Err(RunbookError::Io("The server closed the connection.".to_owned()));
            }
            if let Some((head, length)) = whole(&self.received) {
                if self.received.len() >= head + length {
                    let body = &self.received[head..head + length];
                    if self.received.starts_with(b"HTTP/1.1 200") {
                        return Ok(body);
                    }
                    let text = String::from_utf8_lossy(body);
                    return Err(RunbookError::Io(format!("The server refused: {text}")));
                }
            }
        }
    }

    /// Sends a request, and returns the sequence that the head of the answer says. Errors: as
    /// [`Client::call`].
    pub fn sequence(&mut self, request: &[u8]) -> Result<u64, RunbookError> {
        self.call(request)?;
        let head = self.received.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(0);
        let text = String::from_utf8_lossy(&self.received[..head]);
        let mut lines = text.lines().filter_map(|line| line.split_once(": "));
        let found = lines.find(|(name, _)| *name == "vstream-sequence");
        let sequence = found.and_then(|(_, sequence)| sequence.trim().parse().ok());
        sequence.ok_or_else(|| RunbookError::Io("The answer says no sequence.".to_owned()))
    }

    /// Sends a request and reads the answer as JSON. Errors: as [`Client::call`].
    pub fn json(&mut self, request: &[u8]) -> Result<Json, RunbookError> {
        let body = self.call(request)?;
        serde_json::from_slice(body)
            .map_err(|error| RunbookError::Io(format!("The answer is no JSON: {error}.")))
    }
}

/// A request as it goes over the connection.
pub fn request(method: &str, path: &str, body: &str) -> Vec<u8> {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    (head + body).into_bytes()
}

/// Where the body of an answer begins and how long it is, once the head is there.
fn whole(received: &[u8]) -> Option<(usize, usize)> {
    let head = received.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&received[..head]).ok()?;
    let mut lines = text.lines().filter_map(|line| line.split_once(": "));
    let length = lines.find(|(name, _)| name.eq_ignore_ascii_case("content-length"))?.1;
    Some((head, length.trim().parse().ok()?))
}
