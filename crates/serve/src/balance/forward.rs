//! Sends a request to a replica, and its answer back.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{header, HeaderMap, HeaderName, StatusCode, Uri, Version};
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, SizeHint};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use super::observe::Observed;
use super::places::{Place, Places};
use super::BalanceSettings;
use crate::coordinator::Replicas;
use crate::failure::{is_grpc, status_of, Failure};
use crate::page::EVENTS;
use crate::shared::Admission;

/// Replicas that a request is sent to at most: it only reads, so that it may be sent again.
const TRIES: usize = 3;
/// What belongs to one connection, and not to a request or an answer.
const HOPS: [HeaderName; 6] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// What forwards requests.
pub(super) struct Front<R: Replicas> {
    places: Arc<Places<R>>,
    observed: Arc<Observed>,
    admission: Admission,
    settings: BalanceSettings,
    /// For requests of HTTP/1.1 and of HTTP/2.
    clients: [Client<HttpConnector, Body>; 2],
}

impl<R: Replicas + Send + 'static> Front<R> {
    pub(super) fn new(
        places: Arc<Places<R>>,
        observed: Arc<Observed>,
        settings: BalanceSettings,
    ) -> Front<R> {
        let client = |is_http2| {
            let mut connector = HttpConnector::new();
            connector.set_nodelay(true);
            Client::builder(TokioExecutor::new()).http2_only(is_http2).build(connector)
        };
        let admission = Admission::new(&settings.limits);
        Front { places, observed, admission, settings, clients: [client(false), client(true)] }
    }

    async fn answer(&self, request: Request) -> Result<Response, Failure> {
        let (mut parts, body) = request.into_parts();
        if goes_on(parts.uri.path()) {
            return Err(Failure::new(
                StatusCode::NOT_IMPLEMENTED,
                "what goes on until its client ends it is not forwarded: ask a server of its own",
            ));
        }
        let body = match is_grpc(&parts.headers) {
            true => self.admission.message(body).await?,
            false => self.admission.body(&parts.headers, body).await?,
        };
        without_hops(&mut parts.headers);
        // The replica's own address takes its place.
        parts.headers.remove(header::HOST);
        let mut tried = Vec::new();
        while tried.len() < TRIES {
            let place = self.places.take(self.settings.wait, &tried).await?;
            match self.send(&place, &parts, body.bytes.clone()).await {
                Ok(answer) => return Ok(held(answer, place)),
                Err(_) => {
                    self.observed.lost.inc();
                    tried.push(place.id);
                    drop(place);
                    self.places.refresh();
                }
            }
        }
        Err(Failure::busy("the replicas that were asked ended before they answered"))
    }

    async fn send(
        &self,
        place: &Place<R>,
        parts: &Parts,
        body: Bytes,
    ) -> Result<Response, hyper_util::client::legacy::Error> {
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let uri = format!("http://{}{path}", place.address);
        let mut request = Request::new(Body::from(body));
        *request.method_mut() = parts.method.clone();
        *request.uri_mut() = uri.parse::<Uri>().unwrap_or_default();
        *request.headers_mut() = parts.headers.clone();
        let is_http2 = parts.version == Version::HTTP_2;
        *request.version_mut() = if is_http2 { Version::HTTP_2 } else { Version::HTTP_11 };
        let mut answer = self.clients[usize::from(is_http2)].request(request).await?;
        without_hops(answer.headers_mut());
        Ok(answer.map(Body::new))
    }
}

/// Forwards a request within the time that any has.
pub(super) async fn forward<R: Replicas + Send + 'static>(
    State(front): State<Arc<Front<R>>>,
    request: Request,
) -> Response {
    let (is_grpc, limit) = (is_grpc(request.headers()), front.settings.limits.request);
    let answered = tokio::time::timeout(limit, front.answer(request)).await;
    let answered = answered.unwrap_or_else(|_| {
        let what = format!("no answer within {} s", limit.as_secs());
        Err(Failure::new(StatusCode::GATEWAY_TIMEOUT, what))
    });
    let response = match answered {
        Ok(response) => response,
        Err(failure) if is_grpc => tonic::Status::from(failure).into_http(),
        Err(failure) => failure.into_response(),
    };
    front.observed.answered(status_of(&response));
    response
}

/// Whether an answer to this goes on until the client ends it, or shows one server.
fn goes_on(path: &str) -> bool {
    let of_one = ["/vstream.Replication/", "/vstream.Changes/", "/ui"];
    path.ends_with("/watch") || path == EVENTS || of_one.iter().any(|one| path.starts_with(one))
}

fn without_hops(headers: &mut HeaderMap) {
    HOPS.iter().for_each(|name| drop(headers.remove(name)));
}

/// An answer that holds the place of its request until its last byte.
fn held<R: Replicas + Send + 'static>(answer: Response, place: Place<R>) -> Response {
    // What a replica refuses takes no time, and says nothing of the time of a search.
    let counts = status_of(&answer).is_success();
    answer.map(|body| Body::new(Held { body, place: Some(place), counts }))
}

struct Held<R: Replicas> {
    body: Body,
    place: Option<Place<R>>,
    counts: bool,
}

impl<R: Replicas> Held<R> {
    fn end(&mut self) {
        if let Some(place) = self.place.take() {
            if self.counts {
                place.answered();
            }
        }
    }
}

impl<R: Replicas + Send + 'static> HttpBody for Held<R> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Ready(None) => self.end(),
            Poll::Ready(Some(Err(_))) => self.place = None,
            _ => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<R: Replicas> Drop for Held<R> {
    fn drop(&mut self) {
        // Whoever knows the length does not ask for the end.
        if self.body.is_end_stream() {
            self.end();
        }
    }
}
