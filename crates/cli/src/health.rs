//! `vstream health`: asks a server on this machine whether it is well.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::arguments::HealthArguments;
use crate::failure::Failure;
use crate::text;

/// Longest wait for a connection, and for each piece of the answer.
const WAIT: Duration = Duration::from_secs(3);
/// Bytes of the answer that are read at most.
const ANSWER_BYTES_MAX: u64 = 4 << 10;

/// Prints what the server says about itself. Errors: it does not answer, or not with 200.
pub(crate) fn health(arguments: &HealthArguments) -> Result<(), Failure> {
    let address = arguments.address;
    let answer = ask(arguments).map_err(|error| Failure::failed(format!("{address}: {error}")))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    if !head.starts_with("HTTP/1.1 200 ") {
        let status = head.lines().next().unwrap_or("nothing");
        return Err(Failure::failed(format!("{address} answers: {status}")));
    }
    text::print_line(body)
}

fn ask(arguments: &HealthArguments) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&arguments.address, WAIT)?;
    stream.set_read_timeout(Some(WAIT))?;
    stream.set_write_timeout(Some(WAIT))?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
