//! Health and metrics of a balancer.

use std::sync::atomic::AtomicU64;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{header, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::Router;
use prometheus_client::encoding::{text, EncodeLabelSet};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::places::{Counts, Places};
use crate::coordinator::Replicas;
use crate::failure::Failure;

type Share = Gauge<f64, AtomicU64>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfState {
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfStatus {
    status: u16,
}

/// What is counted.
pub(super) struct Observed {
    registry: Registry,
    requests: Family<OfStatus, Counter>,
    /// Tries that ended without an answer.
    pub(super) lost: Counter,
    replicas: Family<OfState, Gauge>,
    waiting: Gauge,
    service: Share,
    start: Share,
}

impl Observed {
    pub(super) fn new() -> Observed {
        let mut registry = Registry::with_prefix("vstream_balance");
        let requests = Family::default();
        registry.register("requests", "Requests by status", requests.clone());
        let lost = Counter::default();
        registry.register("lost", "Tries at replicas that gave no answer", lost.clone());
        let replicas = Family::default();
        registry.register(
            "replicas",
            "Replicas by state, and how many are wanted",
            replicas.clone(),
        );
        let waiting = Gauge::default();
        registry.register("waiting", "Requests that wait for a replica", waiting.clone());
        let (service, start) = (Share::default(), Share::default());
        let help = "Time of a request on a replica, over the requests that it works on at a time";
        registry.register("service_seconds", help, service.clone());
        registry.register("start_seconds", "Time to start a replica", start.clone());
        Observed { registry, requests, lost, replicas, waiting, service, start }
    }

    pub(super) fn answered(&self, status: StatusCode) {
        self.requests.get_or_create(&OfStatus { status: status.as_u16() }).inc();
    }

    fn text(&self, counts: &Counts) -> String {
        let states = [
            ("wanted", counts.wanted),
            ("starting", counts.starting),
            ("ready", counts.ready),
            ("stopping", counts.stopping),
        ];
        for (state, count) in states {
            self.replicas.get_or_create(&OfState { state }).set(count.into());
        }
        self.waiting.set(i64::try_from(counts.waiting).unwrap_or(i64::MAX));
        self.service.set(counts.service_s);
        self.start.set(counts.start_s);
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = text::encode(&mut out, &self.registry);
        out
    }
}

/// Whether this process lives, and whether a replica takes requests.
pub(super) fn health<R: Replicas + Send + 'static>(places: Arc<Places<R>>) -> Router {
    let healthy = || async { "healthz check passed" };
    Router::new()
        .route("/healthz", get(healthy))
        .route("/livez", get(healthy))
        .route("/readyz", get(ready::<R>))
        .with_state(places)
}

async fn ready<R: Replicas>(State(places): State<Arc<Places<R>>>) -> Result<&'static str, Failure> {
    let counts = places.counts();
    match counts.ready {
        0 => Err(Failure::busy(match counts.trouble {
            Some(trouble) => format!("no replica takes requests: {trouble}"),
            None => "no replica takes requests yet".to_owned(),
        })),
        _ => Ok("readyz check passed"),
    }
}

/// Health and metrics, for the address that needs no key.
pub(super) fn observing<R: Replicas + Send + 'static>(
    places: &Arc<Places<R>>,
    observed: &Arc<Observed>,
) -> Router {
    let (of, observed) = (places.clone(), observed.clone());
    let metrics = move || async move { shown(observed.text(&of.counts())) };
    health(places.clone()).route("/metrics", get(metrics))
}

fn shown(text: String) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}
