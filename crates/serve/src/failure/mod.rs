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
}

impl Failure {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Failure {
        Failure { status, message: message.into() }
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
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        // Whoever asked by gRPC is answered so in the end.
        response.extensions_mut().insert(self);
        response
    }
}
