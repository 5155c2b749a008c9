//! Requests that are wrong, slow, cut or without a key.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::time::Duration;

use vstream_vector::SplitMix;

use super::{Tally, COLLECTION};

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Makes one such request, and counts it if it was answered as if it were right.
pub(super) fn one(address: SocketAddr, key: &str, random: &mut SplitMix, tally: &Tally) {
    tally.hostile.fetch_add(1, Ordering::Relaxed);
    let head =
        format!("PUT /collections/{COLLECTION}/points?wait=true HTTP/1.1\r\nhost: localhost\r\n");
    let keyed = format!("{head}api-key: {key}\r\n");
    let point = r#"{"points": [{"id": 1, "vector": [1, 2], "payload": {"n": 0}}]}"#;
    let long = point.len();
    let request = match random.next() % 8 {
        // No key; a key that is none.
        0 => format!("{head}content-length: {long}\r\n\r\n{point}"),
        1 => format!("{head}api-key: {}0\r\ncontent-length: {long}\r\n\r\n{point}", &key[1..]),
        // A vector of another length; no JSON; a body that never comes whole; half a head.
        2 => format!("{keyed}content-length: {long}\r\n\r\n{point}"),
        3 => format!("{keyed}content-length: 9\r\n\r\n{{\"points\""),
        4 => format!("{keyed}content-length: {}\r\n\r\n{point}", long + 100),
        5 => head.clone(),
        // More than is allowed; no HTTP at all.
        6 => format!("{keyed}content-length: 999999999999\r\n\r\n"),
        _ => "\u{1}\u{2}\u{3} something else\r\n\r\n".to_owned(),
    };
    let Ok(mut stream) = TcpStream::connect(address) else { return };
    let is_set = stream.set_read_timeout(Some(PATIENCE)).is_ok();
    let is_slow = random.next().is_multiple_of(4);
    let bytes = request.as_bytes();
    let half = bytes.len() / 2;
    let sent = if is_slow && is_set {
        let first = stream.write_all(&bytes[..half]);
        std::thread::sleep(Duration::from_millis(random.next() % 300));
        first.and_then(|()| stream.write_all(&bytes[half..]))
    } else {
        stream.write_all(bytes)
    };
    // Some do not wait for the answer.
    if sent.is_err() || random.next().is_multiple_of(2) {
        return;
    }
    let mut answer = [0; 512];
    let read = stream.read(&mut answer).unwrap_or(0);
    if answer[..read].starts_with(b"HTTP/1.1 200") {
        tally.let_in.fetch_add(1, Ordering::Relaxed);
        eprintln!("let in: {}", request.replace(key, "KEY"));
    }
}
