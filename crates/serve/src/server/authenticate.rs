//! Finds the key of a request before its body is read.
//!
//! Without keys every program of this machine may do everything, but no page that its browser shows.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{header, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::access::{check_own, Access};
use crate::failure::Failure;
use crate::shared::Shared;

/// Finds the key of a request before its body is read. Errors: `UNAUTHORIZED`; without keys
/// `FORBIDDEN`, if a page of another site sent it.
pub(super) async fn authenticate(
    State(shared): State<Arc<Shared>>,
    mut request: Request,
    next: Next,
) -> Response {
    let access = match &shared.keys {
        None => match check_own(&request) {
            Ok(()) => Access::everything(),
            Err(failure) => {
                shared.audit.refused(&request, failure.status);
                return failure.into_response();
            }
        },
        Some(keys) => match secret(&request).and_then(|secret| keys.access(secret)) {
            Some(access) => access,
            None => {
                shared.audit.refused(&request, StatusCode::UNAUTHORIZED);
                let what = "give a key, as 'api-key: KEY' or 'Authorization: Bearer KEY'";
                return Failure::new(StatusCode::UNAUTHORIZED, what).into_response();
            }
        },
    };
    request.extensions_mut().insert(access);
    next.run(request).await
}

/// The key in a request, if there is one.
fn secret(request: &Request) -> Option<&str> {
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    header(header::HeaderName::from_static("api-key")).or_else(|| {
        let (scheme, secret) = header(header::AUTHORIZATION)?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("Bearer").then_some(secret)
    })
}
