//! One request: checks, calls, answers.

use std::sync::Arc;

use axum::extract::{Request as HttpRequest, State};
use axum::http::{header, HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{json, Map, Value as Json};

use super::id::Id;
use super::message::{Message, Request};
use super::refusal::{json_response, Refusal, BROKEN, NO_METHOD, WRONG_PARAMS};
use super::revision::{self, Era};
use super::tools;
use crate::access::{check_local, Access};
use crate::failure::Failure;
use crate::shared::{Admitted, Moment, Shared, LARGE};

/// Bytes of the longest body: it holds one call, which a model wrote.
const BODY_BYTES_MAX: u64 = 4 << 20;
/// How long a client may keep the list of tools: it changes when the server starts with other switches.
const LIST_MS: u64 = 60_000;
/// What a model reads about the server as a whole.
const INSTRUCTIONS: &str = "VStream keeps collections of points: an id, a vector and a payload of JSON. \
    Ask `collections` first: it names what there is, the dimension of vectors, and the keys to filter by. \
    Then `search` by a vector, or by the id of a point for others like it, and `get` points by id. \
    `watch` names what changed since.";

/// Answers `GET` and `DELETE`: there is no stream of its own, and no session to end.
pub(super) async fn no_stream() -> Response {
    let what = "send messages by POST: there are no streams and no sessions";
    let mut response = Failure::new(StatusCode::METHOD_NOT_ALLOWED, what).into_response();
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
    response
}

/// Answers one message.
pub(super) async fn post(
    State(shared): State<Arc<Shared>>,
    access: Access,
    moment: Moment,
    request: HttpRequest,
) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    check_local(&parts.headers)?;
    check_head(&parts.headers)?;
    let Admitted { bytes, counted } = shared.admission.body(&parts.headers, body).await?;
    moment.hold(counted);
    let read = match bytes.len() {
        LARGE.. => shared.heavy.run(move || Message::read(&bytes)).await?,
        _ => Message::read(&bytes),
    };
    let request = match read {
        Ok(Message::Request(request)) => *request,
        // What these say is about sessions, or about requests that were never made.
        Ok(Message::Notification | Message::Response) => {
            return Ok(match revision::check_header(&parts.headers) {
                Ok(_) => StatusCode::ACCEPTED.into_response(),
                Err(refusal) => refusal.answer(None),
            });
        }
        Err((id, refusal)) => return Ok(refusal.answer(id.as_ref())),
    };
    let id = request.id.clone();
    Ok(match revision::era(&parts.headers, &request) {
        Ok(era) => match result(&shared, (&access, &moment), request, era).await {
            Ok(result) => success(&id, &result),
            Err(refusal) => with_status_of(era, refusal).answer(Some(&id)),
        },
        Err(refusal) => refusal.answer(Some(&id)),
    })
}

/// Errors: `UNSUPPORTED_MEDIA_TYPE` for a body that is not said to be JSON, as no page of another site
/// can send without asking first, and `PAYLOAD_TOO_LARGE`.
fn check_head(headers: &HeaderMap) -> Result<(), Failure> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let kind = text(header::CONTENT_TYPE).and_then(|kind| kind.split(';').next()).unwrap_or("");
    if !kind.trim().eq_ignore_ascii_case("application/json") {
        let what = "send JSON, with the header 'Content-Type: application/json'";
        return Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, what));
    }
    let length = text(header::CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
    match length {
        Some(length) if length > BODY_BYTES_MAX => {
            let what =
                format!("the body has {length} bytes: a message has {BODY_BYTES_MAX} at most");
            Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, what))
        }
        _ => Ok(()),
    }
}

/// The result of a request, as JSON.
async fn result(
    shared: &Arc<Shared>,
    (access, moment): (&Access, &Moment),
    request: Request,
    era: Era,
) -> Result<String, Refusal> {
    let result = match (era, request.method.as_str()) {
        (Era::WithHandshake, "initialize") => {
            let mut about = about();
            let agreed = revision::agreed(request.asked_revision.as_deref());
            about.insert("protocolVersion".to_owned(), json!(agreed));
            about.insert("serverInfo".to_owned(), server_info());
            about
        }
        (Era::WithHandshake, "ping") => Map::new(),
        (Era::Stateless, "server/discover") => {
            let mut about = about();
            about.insert("supportedVersions".to_owned(), json!(revision::all()));
            kept(&mut about);
            about
        }
        (_, "tools/list") => {
            let mut list = Map::new();
            let tools = tools::list(shared.mcp_writes, access);
            list.insert("tools".to_owned(), Json::Array(tools));
            if era == Era::Stateless {
                kept(&mut list);
            }
            list
        }
        (_, "tools/call") => {
            let name = request.name.unwrap_or_default();
            let Some(tool) = request.tool else {
                let name: String = name.chars().take(64).collect();
                let what = format!("there is no tool '{name}': tools/list names those there are");
                return Err(Refusal::new(WRONG_PARAMS, what));
            };
            let answer = tools::call(shared, (access, moment), tool).await;
            return called(answer, era);
        }
        (_, method) => {
            let method: String = method.chars().take(64).collect();
            let what = format!("the method '{method}' is not supported");
            return Err(Refusal::new(NO_METHOD, what).with_status(StatusCode::NOT_FOUND));
        }
    };
    Ok(Json::Object(completed(result, era)).to_string())
}

/// What a call answered, as a result of the protocol: once as text for the model and once as it is.
fn called(answer: Result<Box<RawValue>, String>, era: Era) -> Result<String, Refusal> {
    #[derive(Serialize)]
    struct Text<'a> {
        r#type: &'static str,
        text: &'a str,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Called<'a> {
        content: [Text<'a>; 1],
        #[serde(skip_serializing_if = "Option::is_none")]
        structured_content: Option<&'a RawValue>,
        is_error: bool,
        #[serde(flatten)]
        more: Map<String, Json>,
    }
    let (text, structured) = match &answer {
        Ok(answer) => (answer.get(), Some(answer.as_ref())),
        Err(sentence) => (sentence.as_str(), None),
    };
    let called = Called {
        content: [Text { r#type: "text", text }],
        structured_content: structured,
        is_error: structured.is_none(),
        more: completed(Map::new(), era),
    };
    let text = serde_json::to_string(&called);
    text.map_err(|error| Refusal::new(BROKEN, format!("the answer: {error}")))
}

/// What the server is and can do.
fn about() -> Map<String, Json> {
    let about = json!({"capabilities": {"tools": {}}, "instructions": INSTRUCTIONS});
    about.as_object().cloned().unwrap_or_default()
}

fn server_info() -> Json {
    json!({"name": "vstream", "title": "VStream", "version": env!("CARGO_PKG_VERSION")})
}

/// How long a client may keep a result, for which keys: the list of tools depends on the key.
fn kept(result: &mut Map<String, Json>) {
    result.insert("ttlMs".to_owned(), json!(LIST_MS));
    result.insert("cacheScope".to_owned(), json!("private"));
}

/// A result with what every result of a revision has.
fn completed(mut result: Map<String, Json>, era: Era) -> Map<String, Json> {
    if era == Era::Stateless {
        result.insert("resultType".to_owned(), json!("complete"));
        let info = json!({"io.modelcontextprotocol/serverInfo": server_info()});
        result.insert("_meta".to_owned(), info);
    }
    result
}

/// * `result`: JSON.
fn success(id: &Id, result: &str) -> Response {
    let id = json!(id);
    json_response(
        StatusCode::OK,
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}"),
    )
}

/// Before 2026-07-28 an answer to a request that was understood has the status 200, also if it refuses.
fn with_status_of(era: Era, refusal: Refusal) -> Refusal {
    match era {
        Era::Stateless => refusal,
        Era::WithHandshake => refusal.with_status(StatusCode::OK),
    }
}
