//! What a body says, as JSON-RPC 2.0.

use serde::de::{Deserializer, IgnoredAny};
use serde::Deserialize;
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::id::Id;
use super::refusal::{Refusal, NO_JSON, NO_MESSAGE, WRONG_PARAMS};
use super::tools::Tool;
use crate::failure::Failure;

/// A message.
pub(super) enum Message {
    Request(Box<Request>),
    /// It has no answer.
    Notification,
    /// An answer to a request, of which this server makes none.
    Response,
}

/// What is to be done, parsed as far as the method is known.
pub(super) struct Request {
    pub(super) id: Id,
    pub(super) method: String,
    pub(super) meta: Meta,
    /// The revision that `initialize` asks for.
    pub(super) asked_revision: Option<String>,
    /// The name of the tool that `tools/call` calls.
    pub(super) name: Option<String>,
    /// That tool, or why its arguments are wrong; `None` if there is no such tool.
    pub(super) tool: Option<Result<Tool, Failure>>,
}

/// What a request of revision 2026-07-28 says about itself.
#[derive(Default, Deserialize)]
pub(super) struct Meta {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    pub(super) revision: Option<String>,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities")]
    pub(super) capabilities: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Envelope {
    jsonrpc: String,
    #[serde(default, deserialize_with = "given")]
    id: Option<Box<RawValue>>,
    method: Option<String>,
    params: Option<Box<RawValue>>,
    result: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
struct Params {
    name: Option<String>,
    arguments: Option<Box<RawValue>>,
    #[serde(rename = "protocolVersion")]
    revision: Option<String>,
    #[serde(rename = "_meta")]
    meta: Option<Meta>,
}

/// The parameters of methods that need none of the others.
#[derive(Default, Deserialize)]
struct OnlyMeta {
    #[serde(rename = "_meta")]
    meta: Option<Meta>,
}

/// A value that is there, also if it is `null`.
fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

impl Message {
    /// Reads a body. Errors: with the id of the request, if that could be read.
    pub(super) fn read(body: &[u8]) -> Result<Message, (Option<Id>, Refusal)> {
        // A list would be read as the members of a message in order.
        if body.trim_ascii_start().starts_with(b"[") {
            return Err((None, Refusal::new(NO_MESSAGE, "send one message, and no list of them")));
        }
        let envelope: Envelope = serde_json::from_slice(body).map_err(|error| {
            let is_message = error.classify() == Category::Data;
            let code = if is_message { NO_MESSAGE } else { NO_JSON };
            let what = format!("the body is no message of JSON-RPC, of which it has one: {error}");
            (None, Refusal::new(code, what))
        })?;
        let wrong = |what: &str| (None, Refusal::new(NO_MESSAGE, what));
        if envelope.jsonrpc != "2.0" {
            return Err(wrong("jsonrpc is not \"2.0\""));
        }
        let id = match &envelope.id {
            None => None,
            Some(raw) => {
                let no_id = || wrong("the id is no whole number and no short text");
                Some(Id::read(raw.get()).ok_or_else(no_id)?)
            }
        };
        match (envelope.method, id) {
            (Some(method), Some(id)) => {
                let request = Request::read(&id, method, envelope.params.as_deref());
                request.map(Box::new).map(Message::Request).map_err(|refusal| (Some(id), refusal))
            }
            (Some(_), None) => Ok(Message::Notification),
            (None, Some(_)) if envelope.result.is_some() || envelope.error.is_some() => {
                Ok(Message::Response)
            }
            (None, _) => Err(wrong("the message has no method")),
        }
    }
}

impl Request {
    fn read(id: &Id, method: String, params: Option<&RawValue>) -> Result<Request, Refusal> {
        let Params { name, arguments, revision, meta } = match method.as_str() {
            "initialize" | "tools/call" => parse(params)?,
            _ => {
                let OnlyMeta { meta } = parse(params)?;
                Params { meta, ..Params::default() }
            }
        };
        let tool = match (method.as_str(), &name) {
            ("tools/call", None) => {
                return Err(Refusal::new(WRONG_PARAMS, "params: give the name of the tool"));
            }
            ("tools/call", Some(name)) => Tool::read(name, arguments.as_deref()),
            _ => None,
        };
        let meta = meta.unwrap_or_default();
        Ok(Request { id: id.clone(), method, meta, asked_revision: revision, name, tool })
    }
}

/// Errors: parameters of the wrong types.
fn parse<'a, T: Default + Deserialize<'a>>(params: Option<&'a RawValue>) -> Result<T, Refusal> {
    let Some(params) = params else { return Ok(T::default()) };
    if !params.get().starts_with('{') {
        return Err(Refusal::new(WRONG_PARAMS, "params: give an object"));
    }
    let read = serde_json::from_str(params.get());
    read.map_err(|error| Refusal::new(WRONG_PARAMS, format!("params: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_requests_notifications_and_responses() {
        let read = |text: &str| Message::read(text.as_bytes());
        let request = read(r#"{"jsonrpc": "2.0", "id": "a", "method": "ping", "params": {}}"#);
        let Ok(Message::Request(request)) = request else { panic!("a request") };
        assert_eq!((request.id, request.method.as_str()), (Id::Text("a".to_owned()), "ping"));
        let note = r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#;
        assert!(matches!(read(note), Ok(Message::Notification)));
        let response = r#"{"jsonrpc": "2.0", "id": 1, "result": {}}"#;
        assert!(matches!(read(response), Ok(Message::Response)));
    }

    #[test]
    fn what_is_no_message_is_refused_with_a_code() {
        let long =
            format!(r#"{{"jsonrpc": "2.0", "id": "{}", "method": "ping"}}"#, "x".repeat(300));
        for (text, code) in [
            ("", NO_JSON),
            ("{", NO_JSON),
            ("\u{0}", NO_JSON),
            ("null", NO_MESSAGE),
            ("[]", NO_MESSAGE),
            (r#"[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]"#, NO_MESSAGE),
            (r#"["2.0", 1, "ping", null, null, null]"#, NO_MESSAGE),
            (r#"{"id": 1, "method": "ping"}"#, NO_MESSAGE),
            (r#"{"jsonrpc": "1.0", "id": 1, "method": "ping"}"#, NO_MESSAGE),
            (r#"{"jsonrpc": "2.0", "id": null, "method": "ping"}"#, NO_MESSAGE),
            (r#"{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}"#, NO_MESSAGE),
            (r#"{"jsonrpc": "2.0", "id": [], "method": "ping"}"#, NO_MESSAGE),
            (r#"{"jsonrpc": "2.0", "id": 1, "method": 7}"#, NO_MESSAGE),
            (r#"{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "ping"}"#, NO_MESSAGE),
            (r#"{"jsonrpc": "2.0", "id": 1}"#, NO_MESSAGE),
            (r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call"}"#, WRONG_PARAMS),
            (r#"{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}"#, WRONG_PARAMS),
            (
                r#"{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"_meta": 1}}"#,
                WRONG_PARAMS,
            ),
            (long.as_str(), NO_MESSAGE),
        ] {
            let Err((_, refusal)) = Message::read(text.as_bytes()) else { panic!("{text}") };
            assert_eq!(refusal.code(), code, "{text}: {refusal:?}");
        }
    }
}
