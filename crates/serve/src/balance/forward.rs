//! Sends a request to a replica, and its answer back.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::uri::PathAndQuery;
use axum::http::{header, HeaderMap, HeaderName, StatusCode, Uri, Version};
use axum::response::{IntoResponse, Response};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use super::observe::Observed;
use super::places::Places;
use super::BalanceSettings;
use crate::access::check_own;
use crate::coordinator::Replicas;
use crate::failure::{is_grpc, status_of, Failure};
use crate::page::EVENTS;
use crate::shared::{Admission, Counts};

/// Replicas that a request is sent to at most: it only reads, so that it may be sent again.
const TRIES: usize = 3;
/// Of these, replicas at most whose connection broke once it was there: the request may be what ends them.
const BROKEN: usize = 2;
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
        // The replicas have the keys.
        let admission = Admission::new(&settings.limits, Counts::Came);
        Front { places, observed, admission, settings, clients: [client(false), client(true)] }
    }

    async fn answer(&self, request: Request) -> Result<Response, Failure> {
        // A replica sees this machine as the one who asks: pages of other sites are told apart here.
        if !self.settings.has_keys {
            check_own(&request)?;
        }
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
        let Some(path) = parts.uri.path_and_query().cloned() else {
            return Err(Failure::bad("the request has no path"));
        };
        without_hops(&mut parts.headers);
        // The replica's own address takes the place of this one.
        parts.headers.remove(header::HOST);
        if !self.settings.has_keys {
            parts.headers.remove(header::ORIGIN);
        }
        let (mut tried, mut broken) = (Vec::new(), 0);
        while tried.len() < TRIES && broken < BROKEN {
            let place = self.places.take(self.settings.wait, &tried).await?;
            let uri = uri_at(place.address, path.clone())?;
            match self.send(uri, &parts, body.bytes.clone()).await {
                Ok(answer) => {
                    // A replica has its whole answer when it begins to send it. What it refuses takes no
                    // time, and says nothing of the time of a search.
                    match status_of(&answer).is_success() {
                        true => place.answered(),
                        false => drop(place),
                    }
                    return Ok(answer);
                }
                Err(error) => {
                    broken += usize::from(!error.is_connect());
                    self.observed.lost.inc();
                    tried.push(place.id);
                    place.lost();
                }
            }
        }
        Err(Failure::busy("the replicas that were asked ended before they answered"))
    }

    async fn send(
        &self,
        uri: Uri,
        parts: &Parts,
        body: Bytes,
    ) -> Result<Response, hyper_util::client::legacy::Error> {
        let mut request = Request::new(Body::from(body));
        *request.method_mut() = parts.method.clone();
        *request.uri_mut() = uri;
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
    let of_one = ["/vstream.Replication/", "/vstream.Changes/", "/ui/", EVENTS];
    let mut parts = path.trim_start_matches('/').split('/');
    let is_watch = parts.next() == Some("collections")
        && parts.nth(1) == Some("watch")
        && parts.next().is_none();
    is_watch
        || ["/ui", "/metrics"].contains(&path)
        || of_one.iter().any(|one| path.starts_with(one))
}

/// A path at a replica. Errors: `BAD_REQUEST` for one that is none, such as `*`.
fn uri_at(address: SocketAddr, path: PathAndQuery) -> Result<Uri, Failure> {
    let made = Uri::builder().scheme("http").authority(address.to_string()).path_and_query(path);
    let made = made.build().map_err(|_| Failure::bad("the request has a path that is none"))?;
    match made.path().starts_with('/') {
        true => Ok(made),
        false => Err(Failure::bad("the request has a path that is none")),
    }
}

fn without_hops(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|names| names.to_str().ok())
        .flat_map(|names| names.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    named.iter().for_each(|name| drop(headers.remove(name)));
    HOPS.iter().for_each(|name| drop(headers.remove(name)));
}
