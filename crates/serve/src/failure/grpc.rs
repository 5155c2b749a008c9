//! Failures as clients of gRPC know them: its status stands in headers, and HTTP's is always 200.

use axum::http::{header, HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

use super::{Failure, KIND, WRITER};

/// What HTTP says, and what gRPC says; of several with one code, the first stands for it.
const CODES: [(StatusCode, Code); 15] = [
    (StatusCode::BAD_REQUEST, Code::InvalidArgument),
    (StatusCode::UNSUPPORTED_MEDIA_TYPE, Code::InvalidArgument),
    (StatusCode::UNAUTHORIZED, Code::Unauthenticated),
    (StatusCode::FORBIDDEN, Code::PermissionDenied),
    (StatusCode::NOT_FOUND, Code::NotFound),
    (StatusCode::CONFLICT, Code::AlreadyExists),
    (StatusCode::PAYLOAD_TOO_LARGE, Code::ResourceExhausted),
    (StatusCode::NOT_IMPLEMENTED, Code::Unimplemented),
    (StatusCode::METHOD_NOT_ALLOWED, Code::Unimplemented),
    (StatusCode::PRECONDITION_FAILED, Code::FailedPrecondition),
    (StatusCode::MISDIRECTED_REQUEST, Code::FailedPrecondition),
    (StatusCode::GONE, Code::OutOfRange),
    (StatusCode::SERVICE_UNAVAILABLE, Code::Unavailable),
    (StatusCode::GATEWAY_TIMEOUT, Code::DeadlineExceeded),
    (StatusCode::INTERNAL_SERVER_ERROR, Code::Internal),
];

impl From<Failure> for Status {
    fn from(failure: Failure) -> Status {
        let found = CODES.iter().find(|(status, _)| *status == failure.status);
        let code = found.map_or(Code::Internal, |(_, code)| *code);
        let mut headers = HeaderMap::new();
        if !failure.kind.is_empty() {
            headers.insert(KIND, HeaderValue::from_static(failure.kind));
        }
        if let Some(Ok(writer)) = failure.writer.as_deref().map(HeaderValue::from_str) {
            headers.insert(WRITER, writer);
        }
        Status::with_metadata(code, failure.message, MetadataMap::from_headers(headers))
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
