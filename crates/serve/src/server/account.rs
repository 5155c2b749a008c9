//! Gives a request its time, counts it, and notes what it changed.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::failure::{is_grpc, status_of, Failure};
use crate::shared::{Moment, Shared};

/// Gives a request its time, counts it, and notes what it changed.
pub(super) async fn account(
    State(shared): State<Arc<Shared>>,
    mut request: Request,
    next: Next,
) -> Response {
    let begun = Instant::now();
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let limit = shared.limits.request;
    let is_grpc = is_grpc(request.headers());
    let moment = Moment::of(request.headers(), limit);
    let mut line = Line::new(&shared, &request, moment.as_ref().ok());
    let mut response = match &moment {
        Err(failure) => failure.clone().into_response(),
        Ok(moment) => {
            request.extensions_mut().insert(moment.clone());
            match tokio::time::timeout(limit, next.run(request)).await {
                Ok(response) => response,
                Err(_) => {
                    let what = format!("no answer within {} s", limit.as_secs());
                    Failure::new(StatusCode::GATEWAY_TIMEOUT, what).into_response()
                }
            }
        }
    };
    let matched = matched.as_ref().map_or("unknown", MatchedPath::as_str);
    if is_grpc {
        if let Some(failure) = response.extensions_mut().remove::<Failure>() {
            response = tonic::Status::from(failure).into_http();
        }
    }
    if let Ok(moment) = &moment {
        moment.say(response.headers_mut());
    }
    let status = status_of(&response);
    shared.measured.request(known(&line.method), matched, status.as_u16(), begun.elapsed());
    line.status = Some(status);
    response
}

/// The line of a request in the audit log, if it has one. It is written when the answer is there, or when the client has
/// left and nobody waits for it.
struct Line<'a> {
    shared: &'a Shared,
    method: Method,
    path: String,
    moment: Option<Moment>,
    status: Option<StatusCode>,
}

impl<'a> Line<'a> {
    fn new(shared: &'a Shared, request: &Request, moment: Option<&Moment>) -> Line<'a> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        Line { shared, method, path, moment: moment.cloned(), status: None }
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        let (audit, asked) = (&self.shared.audit, (&self.method, self.path.as_str()));
        let changed = self.moment.as_ref().and_then(Moment::take_changed);
        match (changed, self.status) {
            (Some(changed), status) => audit.changed(&changed, asked, status),
            // Without keys the page of another site was noted where it was refused.
            (None, Some(StatusCode::FORBIDDEN)) if self.shared.keys.is_some() => {
                audit.forbidden(asked, StatusCode::FORBIDDEN);
            }
            (None, _) => {}
        }
    }
}

/// The name of a method; of those that nobody defined, one for all.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::PUT => "PUT",
        Method::POST => "POST",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "OTHER",
    }
}
