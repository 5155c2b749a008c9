//! What all services of gRPC share: their paths, and the room that messages take.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::Router;
use tonic::{Request, Status};

use crate::access::Access;
use crate::failure::{is_grpc, Failure};
use crate::shared::{Admitted, Moment, Shared, LARGE};

/// The paths of all methods.
const PATHS: &[&str] = &include!(concat!(env!("OUT_DIR"), "/paths.rs"));

/// The methods of one service, each at a path of its own, so that metrics count them apart.
pub(crate) fn mounted(
    service: &str,
    mount: impl Fn(Router<Arc<Shared>>, &str) -> Router<Arc<Shared>>,
) -> Router<Arc<Shared>> {
    let paths = PATHS.iter().filter(|path| path.starts_with(service));
    paths.fold(Router::new(), |router, path| mount(router, path))
}

/// Reads the message of a request, which counts as long as the moment of the request is somebody's. A large one is decoded, and its
/// points are checked, where that keeps no query waiting.
pub(crate) async fn admit(
    State(shared): State<Arc<Shared>>,
    request: HttpRequest,
    next: Next,
) -> Response {
    if !is_grpc(request.headers()) {
        return other_kind().into_response();
    }
    let (parts, body) = request.into_parts();
    let moment = parts.extensions.get::<Moment>().cloned();
    match shared.admission.message(body).await {
        Ok(Admitted { bytes, counted }) => {
            let length = bytes.len();
            if let Some(moment) = &moment {
                moment.hold(counted);
            }
            let request = HttpRequest::from_parts(parts, Body::from(bytes));
            let response = match length {
                LARGE.. => shared.heavy.answer(next.run(request)).await,
                _ => Ok(next.run(request).await),
            };
            response.unwrap_or_else(IntoResponse::into_response)
        }
        Err(failure) => failure.into_response(),
    }
}

/// Lets a request through whose message has no bytes, or few. It takes no room: whoever has no key may send it.
pub(crate) async fn admit_small(request: HttpRequest, next: Next) -> Response {
    match is_grpc(request.headers()) {
        true => next.run(request).await,
        false => other_kind().into_response(),
    }
}

fn other_kind() -> Failure {
    Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the path is one of gRPC")
}

/// Who sends a request.
pub(crate) fn access<M>(request: &Request<M>) -> Result<Access, Status> {
    let access = request.extensions().get::<Access>().cloned();
    access.ok_or_else(|| Failure::broken("a path without authentication").into())
}
