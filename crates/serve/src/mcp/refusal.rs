//! Why a message has no result, as JSON-RPC says it.

use axum::http::{header, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{json, Value as Json};

use super::id::Id;
use crate::failure::Failure;

/// The codes of JSON-RPC and of the protocol.
pub(super) const NO_JSON: i64 = -32700;
pub(super) const NO_MESSAGE: i64 = -32600;
pub(super) const NO_METHOD: i64 = -32601;
pub(super) const WRONG_PARAMS: i64 = -32602;
pub(super) const BROKEN: i64 = -32603;
pub(super) const HEADER_MISMATCH: i64 = -32020;
pub(super) const NO_REVISION: i64 = -32022;

/// Why a message has no result.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    code: i64,
    message: String,
    data: Option<Box<Json>>,
}

impl Refusal {
    /// Answered with 400.
    pub(super) fn new(code: i64, message: impl Into<String>) -> Refusal {
        let message = message.into();
        Refusal { status: StatusCode::BAD_REQUEST, code, message, data: None }
    }

    pub(super) fn with_data(self, data: Json) -> Refusal {
        Refusal { data: Some(Box::new(data)), ..self }
    }

    pub(super) fn with_status(self, status: StatusCode) -> Refusal {
        Refusal { status, ..self }
    }

    /// * `id`: that of the request; `None`, which is `null`, if it could not be read.
    pub(super) fn answer(self, id: Option<&Id>) -> Response {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(data) = self.data {
            error["data"] = *data;
        }
        let body = json!({"jsonrpc": "2.0", "id": id, "error": error});
        json_response(self.status, body.to_string())
    }
}

/// Requests that were refused before a message was read: in JSON-RPC, under the same status. Its code is that of the status, which is outside of what JSON-RPC and the protocol reserve.
pub(crate) async fn as_message(mut response: Response) -> Response {
    let Some(failure) = response.extensions_mut().remove::<Failure>() else { return response };
    let code = match failure.status {
        StatusCode::BAD_REQUEST => NO_MESSAGE,
        StatusCode::INTERNAL_SERVER_ERROR => BROKEN,
        status => i64::from(status.as_u16()),
    };
    let refusal = Refusal::new(code, failure.message).with_status(failure.status);
    let mut answer = refusal.answer(None);
    // What the first answer said beside its body, such as when to try again, holds for this one.
    for name in [header::RETRY_AFTER, header::ALLOW] {
        if let Some(value) = response.headers_mut().remove(&name) {
            answer.headers_mut().insert(name, value);
        }
    }
    answer
}

pub(super) fn json_response(status: StatusCode, body: String) -> Response {
    let mut response = (status, body).into_response();
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
impl Refusal {
    pub(super) fn code(&self) -> i64 {
        self.code
    }
}
