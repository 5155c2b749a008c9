//! Which revision of the protocol a request speaks, and what its headers must say.
//!
//! Since 2026-07-28 every request names its revision in its body and in a header, and other headers
//! repeat the method and the tool, so that those between can route it. Both must say the same: else they
//! would let something pass that is not what they saw. Before, a client asks for a revision once, by
//! `initialize`, and names the one it got in the header of every later request.

use axum::http::HeaderMap;
use serde_json::json;

use super::message::Request;
use super::refusal::{Refusal, HEADER_MISMATCH, NO_REVISION, WRONG_PARAMS};

/// The revision without sessions.
pub(super) const STATELESS: &str = "2026-07-28";
/// Those that begin with `initialize`, newest first. The ones before allow several messages in a body.
const WITH_HANDSHAKE: [&str; 2] = ["2025-11-25", "2025-06-18"];

const REVISION: &str = "mcp-protocol-version";
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";

/// How a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Era {
    Stateless,
    WithHandshake,
}

/// All revisions, newest first.
pub(super) fn all() -> Vec<&'static str> {
    std::iter::once(STATELESS).chain(WITH_HANDSHAKE).collect()
}

/// The revision that an `initialize` gets: the one it asks for, or the newest that it could.
pub(super) fn agreed(asked: Option<&str>) -> &'static str {
    let found = WITH_HANDSHAKE.into_iter().find(|one| Some(*one) == asked);
    found.unwrap_or(WITH_HANDSHAKE[0])
}

/// The revision that a message names in its header, if it names one. Errors: one that is not supported.
pub(super) fn check_header(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    match header(headers, REVISION)? {
        Some(revision) if !all().contains(&revision) => Err(not_supported(revision)),
        other => Ok(other),
    }
}

/// How a request is answered. Errors: headers that are missing or say something else than the body, or
/// a revision that is not supported.
pub(super) fn era(headers: &HeaderMap, request: &Request) -> Result<Era, Refusal> {
    let named = header(headers, REVISION)?;
    if request.meta.revision.is_some() || named == Some(STATELESS) {
        return check_stateless(headers, request, named).map(|()| Era::Stateless);
    }
    match named {
        Some(revision) if !WITH_HANDSHAKE.contains(&revision) => Err(not_supported(revision)),
        None if request.method != "initialize" => {
            let all = all().join(", ");
            let what = format!("give the header MCP-Protocol-Version: one of {all}");
            Err(Refusal::new(HEADER_MISMATCH, what))
        }
        _ => Ok(Era::WithHandshake),
    }
}

fn check_stateless(
    headers: &HeaderMap,
    request: &Request,
    named: Option<&str>,
) -> Result<(), Refusal> {
    let (Some(revision), Some(_)) = (&request.meta.revision, &request.meta.capabilities) else {
        let what = "params._meta: give io.modelcontextprotocol/protocolVersion and \
                    io.modelcontextprotocol/clientCapabilities";
        return Err(Refusal::new(WRONG_PARAMS, what));
    };
    let differs = |header: &str, what: &str| {
        let what = format!("the header {header} is missing, or is not {what}");
        Err(Refusal::new(HEADER_MISMATCH, what))
    };
    if named != Some(revision) {
        return differs("MCP-Protocol-Version", "the protocolVersion of params._meta");
    }
    if header(headers, METHOD)? != Some(&request.method) {
        return differs("Mcp-Method", "the method of the body");
    }
    if let Some(name) = request.name.as_ref().filter(|_| request.method == "tools/call") {
        let given = header(headers, NAME)?;
        if given != Some(name) && given != Some(encoded(name).as_str()) {
            return differs("Mcp-Name", "the name of the tool in the body");
        }
    }
    if revision != STATELESS {
        return Err(not_supported(revision));
    }
    Ok(())
}

fn not_supported(revision: &str) -> Refusal {
    let requested: String = revision.chars().take(64).collect();
    let supported = all();
    let what = format!("the revision is not supported: choose one of {}", supported.join(", "));
    let data = json!({"supported": supported, "requested": requested});
    Refusal::new(NO_REVISION, what).with_data(data)
}

/// The value of a header. Errors: several values, or one that is no text: readers could differ about it.
fn header<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let (first, second) = (values.next(), values.next());
    match (first.map(|value| value.to_str()), second) {
        (None, _) => Ok(None),
        (Some(Ok(value)), None) => Ok(Some(value)),
        _ => Err(Refusal::new(HEADER_MISMATCH, format!("the header {name} is not one text"))),
    }
}

/// A text as headers carry one that they could not carry as it is: its bytes in base 64.
fn encoded(text: &str) -> String {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = "=?base64?".to_owned();
    for three in text.as_bytes().chunks(3) {
        let bits =
            (0..3).fold(0u32, |bits, at| bits << 8 | three.get(at).copied().map_or(0, u32::from));
        for at in 0..4 {
            let sign = SIGNS[(bits >> (18 - 6 * at)) as usize & 63];
            out.push(if at <= three.len() { char::from(sign) } else { '=' });
        }
    }
    out + "?="
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_encoded_as_the_protocol_shows() {
        for (text, expected) in [
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ] {
            assert_eq!(encoded(text), expected);
        }
    }

    #[test]
    fn a_client_gets_the_revision_that_it_asks_for_or_the_newest() {
        assert_eq!(agreed(Some("2025-06-18")), "2025-06-18");
        for other in [None, Some("2024-11-05"), Some("2026-07-28"), Some("nonsense")] {
            assert_eq!(agreed(other), "2025-11-25", "{other:?}");
        }
    }
}
