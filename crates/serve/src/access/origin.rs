//! Pages of the web that ask through the browser of somebody on this machine.
//!
//! A page may send requests to an address of this machine, by that address or, after it has changed what
//! its own name stands for, by its own name ("DNS rebinding"). Browsers then name the page's origin, and
//! nobody else does. So a request with an origin is let in if the page came from this machine.

use std::net::IpAddr;

use axum::http::{header, HeaderMap, StatusCode};

use crate::failure::Failure;

/// Errors: `FORBIDDEN` if a page of another machine sends the request.
pub(crate) fn check_origin(headers: &HeaderMap) -> Result<(), Failure> {
    let origins = headers.get_all(header::ORIGIN);
    if origins.iter().all(|origin| origin.to_str().is_ok_and(is_of_this_machine)) {
        return Ok(());
    }
    let what =
        "a page of another site sends this: requests of pages are let in from this machine alone";
    Err(Failure::new(StatusCode::FORBIDDEN, what))
}

/// * `origin`: a scheme, a host and perhaps a port, such as `http://localhost:8080`.
fn is_of_this_machine(origin: &str) -> bool {
    let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    let Some(rest) = rest else { return false };
    let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':').or(port.is_empty().then_some("0"))),
        None => match rest.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (rest, Some("0")),
        },
    };
    let is_loopback = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let is_port = port.is_some_and(|port| port.parse::<u16>().is_ok());
    is_port && (is_loopback || host.eq_ignore_ascii_case("localhost"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_this_machine_are_let_in_and_no_others() {
        for good in [
            "http://localhost",
            "https://LOCALHOST:8443",
            "http://127.0.0.1:6333",
            "http://127.9.9.9",
            "http://[::1]:6333",
            "http://[::1]",
        ] {
            assert!(is_of_this_machine(good), "{good}");
        }
        for bad in [
            "null",
            "",
            "http://",
            "http://localhost.evil.example",
            "http://127.0.0.1.evil.example:6333",
            "http://evil.example",
            "http://localhost@evil.example",
            "http://localhost:evil.example",
            "http://evil.example/localhost",
            "http://192.168.1.7:6333",
            "http://[::1].evil.example",
            "http://[::1",
            "file://localhost",
            "http://localhost:99999",
        ] {
            assert!(!is_of_this_machine(bad), "{bad}");
        }
    }
}
