//! Why a request has no answer.

mod grpc;

use std::fmt;

use axum::http::{header, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use vstream_engine::{Error, ErrorKind, Refused};

pub(crate) use self::grpc::{is_grpc, status_of};

/// Why a request has no answer: a status and a sentence, which names no secret and no path outside of
/// the served folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
    /// What programs tell it by, in the header `vstream-error`; empty if the status says enough.
    kind: &'static str,
    /// The address of the server that would do it, in the header `vstream-writer`.
    writer: Option<String>,
}

/// The header that says the kind of a failure.
const KIND: &str = "vstream-error";
/// The header that names the writer of a replica.
const WRITER: &str = "vstream-writer";

impl Failure {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Failure {
        Failure { status, message: message.into(), kind: "", writer: None }
    }

    /// The server does not write. `writer`: who does, if it is known.
    pub(crate) fn read_only(writer: Option<&str>) -> Failure {
        let message = match writer {
            Some(writer) => {
                format!("this is a replica, which takes no writes: send it to {writer}")
            }
            None => "this server only reads: send it to the server whose files these are, or to the topic of the job".to_owned(),
        };
        let status = StatusCode::MISDIRECTED_REQUEST;
        Failure { status, message, kind: "read-only", writer: writer.map(str::to_owned) }
    }

    /// The collection does not have the writes that are asked for, and the time is over.
    pub(crate) fn behind(message: impl Into<String>) -> Failure {
        let failure = Failure::new(StatusCode::PRECONDITION_FAILED, message);
        Failure { kind: "behind", ..failure }
    }

    /// The log does not go back so far.
    pub(crate) fn gone(message: impl Into<String>) -> Failure {
        Failure { kind: "gone", ..Failure::new(StatusCode::GONE, message) }
    }

    /// The request is wrong: nothing was changed.
    pub(crate) fn bad(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::BAD_REQUEST, message)
    }

    /// Try again later.
    pub(crate) fn busy(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    /// A defect of the server, or of the machine.
    pub(crate) fn broken(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::CONFLICT, message)
    }

    pub(crate) fn closing() -> Failure {
        Failure::busy("the collection is being closed")
    }

    pub(crate) fn no_collection(name: &str) -> Failure {
        let what = format!("there is no collection '{name}'");
        Failure::new(StatusCode::NOT_FOUND, what)
    }

    /// All that is asked for would take too much memory.
    pub(crate) fn large_answer() -> Failure {
        let what = "the points of the answer take too much memory: ask for fewer of them";
        Failure::new(StatusCode::PAYLOAD_TOO_LARGE, what)
    }

    pub(crate) fn no_point(id: impl fmt::Display) -> Failure {
        Failure::new(StatusCode::NOT_FOUND, format!("there is no point with the id {id}"))
    }

    /// The same, with what it is about in front.
    pub(crate) fn of(mut self, what: &str) -> Failure {
        self.message = format!("{what}: {}", self.message);
        self
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::from(&error)
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Failure {
        let status = match error.kind() {
            ErrorKind::Invalid | ErrorKind::Unsupported => StatusCode::BAD_REQUEST,
            ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            ErrorKind::Corrupt | ErrorKind::Io | ErrorKind::Internal => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        Failure::new(status, error.message())
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Failure {
        Failure::bad(refused.to_string())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let body = json!({"status": {"error": self.message}, "result": null, "time": 0.0});
        let mut response = (self.status, axum::body::Body::from(body.to_string())).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if !self.kind.is_empty() {
            headers.insert(KIND, HeaderValue::from_static(self.kind));
        }
        let writer = self.writer.as_deref().map(HeaderValue::from_str);
        if let Some(Ok(writer)) = writer {
            headers.insert(WRITER, writer);
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        // Whoever asked by gRPC is answered so in the end.
        response.extensions_mut().insert(self);
        response
    }
}
