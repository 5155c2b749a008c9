//! Tells apart who reaches a server: programs may, pages of other sites may not.
//!
//! A browser on this machine sends requests wherever a page tells it to. A page of another site can send
//! some that change rows, though not read the answers; and one whose name is made to point to this
//! machine after it was loaded ("DNS rebinding") could read them, too. Both say so themselves: the first
//! by `Origin`, the second by `Host`, which has the name of that site. Programs send no `Origin`, and name
//! the machine by its number or as `localhost`.
//!
//! | | a server without keys ([`check_own`]) | tools, with keys or without ([`check_local`]) |
//! |---|---|---|
//! | `Host` | this machine's numbers, `localhost` | any |
//! | `Origin` | none, or the server's own | none, or any of this machine |

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{header, HeaderMap, StatusCode};

use crate::failure::Failure;

/// Errors: `FORBIDDEN` if a page of another site sent this.
pub(crate) fn check_own(request: &Request) -> Result<(), Failure> {
    let text = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    // HTTP/2 has it in the address of the request.
    let in_address = request.uri().authority().map(Authority::as_str);
    let Some(host) = in_address.or_else(|| text(header::HOST)) else { return Ok(()) };
    if !is_this_machine(host) {
        let what = "without keys a server answers to localhost and to numbers of addresses alone: \
                    another name may be one that a site made up";
        return Err(Failure::new(StatusCode::FORBIDDEN, what));
    }
    let is_own = |origin: &str| {
        origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")) == Some(host)
    };
    if request.headers().contains_key(header::ORIGIN) && !text(header::ORIGIN).is_some_and(is_own) {
        let what = "a page of another site sent this, and the server has no keys";
        return Err(Failure::new(StatusCode::FORBIDDEN, what));
    }
    Ok(())
}

/// True for `localhost`, names below it, and numbers.
fn is_this_machine(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    let name = name.to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost") || name.parse::<IpAddr>().is_ok()
}

/// Errors: `FORBIDDEN` if a page of another machine sends the request.
pub(crate) fn check_local(headers: &HeaderMap) -> Result<(), Failure> {
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
    use axum::body::Body;

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

    fn is_let_in(host: &str, origin: Option<&str>) -> bool {
        let mut request = Request::builder().uri("/collections").header("host", host);
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        check_own(&request.body(Body::empty()).expect("a request")).is_ok()
    }

    #[test]
    fn programs_of_this_machine_and_the_servers_own_page_are_let_in() {
        for host in ["localhost:6333", "127.0.0.1:6333", "[::1]:6333", "LOCALHOST", "a.localhost:1"]
        {
            assert!(is_let_in(host, None), "{host}");
            assert!(is_let_in(host, Some(&format!("http://{host}"))), "{host}");
        }
    }

    #[test]
    fn pages_of_other_sites_are_not() {
        for host in
            ["evil.example:6333", "localhost.evil.example", "127.0.0.1.evil.example", "", "@"]
        {
            assert!(!is_let_in(host, None), "{host}");
        }
        for origin in
            ["http://evil.example", "null", "", "http://127.0.0.1:8080", "file://127.0.0.1:6333"]
        {
            assert!(!is_let_in("127.0.0.1:6333", Some(origin)), "{origin}");
        }
    }
}
