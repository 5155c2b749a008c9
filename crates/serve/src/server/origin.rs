//! Tells apart who reaches a server without keys: programs of this machine may, pages of others may not.
//!
//! A browser on this machine sends requests wherever a page tells it to. A page of another site can send
//! some that change rows, though not read the answers; and one whose name is made to point to this
//! machine after it was loaded could read them, too. Both say so themselves: the first by `Origin`, the
//! second by `Host`, which has the name of that site. Programs send no `Origin`, and name the machine by
//! its number or as `localhost`.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{header, StatusCode};

use crate::failure::Failure;

/// Errors: `FORBIDDEN` if a page of another site sent this.
pub(super) fn check(request: &Request) -> Result<(), Failure> {
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

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn is_let_in(host: &str, origin: Option<&str>) -> bool {
        let mut request = Request::builder().uri("/collections").header("host", host);
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        check(&request.body(Body::empty()).expect("a request")).is_ok()
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
