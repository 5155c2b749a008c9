//! Failures as clients of gRPC know them: its status stands in headers, and HTTP's is always 200.

use axum::http::{header, HeaderMap, StatusCode};
use axum::response::Response;
use tonic::{Code, Status};

use super::Failure;

/// What HTTP says, and what gRPC says; of several with one code, the first stands for it.
const CODES: [(StatusCode, Code); 12] = [
    (StatusCode::BAD_REQUEST, Code::InvalidArgument),
    (StatusCode::UNSUPPORTED_MEDIA_TYPE, Code::InvalidArgument),
    (StatusCode::UNAUTHORIZED, Code::Unauthenticated),
    (StatusCode::FORBIDDEN, Code::PermissionDenied),
    (StatusCode::NOT_FOUND, Code::NotFound),
    (StatusCode::CONFLICT, Code::AlreadyExists),
    (StatusCode::PAYLOAD_TOO_LARGE, Code::ResourceExhausted),
    (StatusCode::NOT_IMPLEMENTED, Code::Unimplemented),
    (StatusCode::METHOD_NOT_ALLOWED, Code::Unimplemented),
    (StatusCode::SERVICE_UNAVAILABLE, Code::Unavailable),
    (StatusCode::GATEWAY_TIMEOUT, Code::DeadlineExceeded),
    (StatusCode::INTERNAL_SERVER_ERROR, Code::Internal),
];

impl From<Failure> for Status {
    fn from(failure: Failure) -> Status {
        let found = CODES.iter().find(|(status, _)| *status == failure.status);
        Status::new(found.map_or(Code::Internal, |(_, code)| *code), failure.message)
    }
}

/// Whether a request is one of gRPC.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// The status of an answer in HTTP's terms, whichever way it was given.
pub(crate) fn status_of(response: &Response) -> StatusCode {
    let code = response.headers().get(Status::GRPC_STATUS);
    let Some(code) = code.map(|code| Code::from_bytes(code.as_bytes())) else {
        return response.status();
    };
    let found = CODES.iter().find(|(_, other)| *other == code);
    match code {
        Code::Ok => StatusCode::OK,
        _ => found.map_or(StatusCode::INTERNAL_SERVER_ERROR, |(status, _)| *status),
    }
}
