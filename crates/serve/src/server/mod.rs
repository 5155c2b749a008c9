//! The server: starts, answers, stops.

mod account;
mod authenticate;
mod connections;
mod impatient;
mod job;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{header, HeaderMap, StatusCode, Uri};
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::Router;
use tokio::runtime::Runtime;
use tokio::sync::{watch, Semaphore};
use tokio::task::JoinHandle;

use self::account::account;
use self::authenticate::authenticate;
pub(crate) use self::connections::{bind, serve, threads};
pub use self::job::JobPage;
pub(crate) use self::tls::acceptor;
use crate::access::{Access, Scope};
use crate::catalog::Catalog;
use crate::collection::Collection;
use crate::failure::{is_grpc, Failure};
use crate::mcp;
use crate::observe::{Audit, Measured};
use crate::page;
use crate::replica::{follow_job, Follower, Refresher};
use crate::settings::ServeSettings;
use crate::shared::{Admission, Counts, Heavy, Leases, Shared};
use crate::{feed, qdrant};

/// How long a scrape waits for figures of collections.
const FIGURES_WAIT: Duration = Duration::from_secs(2);
/// How long a stop waits for threads whose work nobody waits for.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// Starts servers.
pub struct Server;

/// A server that answers.
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    /// Where health and metrics are.
    pub metrics: Option<SocketAddr>,
    /// Collections that it opened.
    pub collections: usize,
    /// Collections that did not open, and folders of isolated groups: a sentence each. The others are served.
    pub not_served: Vec<String>,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    serving: Vec<JoinHandle<()>>,
    runtime: Runtime,
}

impl Server {
    /// Opens the collections of a folder and answers requests. Errors: a sentence; nothing listens
    /// then.
    pub fn start(settings: ServeSettings) -> Result<Running, String> {
        settings.check()?;
        let tls = settings.tls.as_ref().map(acceptor).transpose()?;
        let audit = Audit::open(settings.audit.as_deref())?;
        let catalog = Arc::new(catalog(&settings).map_err(|failure| failure.message)?);
        let served = catalog.clone();
        let pushed = settings.pushed.as_ref();
        let refresher =
            pushed.map(|pushed| Refresher::start(&catalog, &pushed.address, pushed.every));
        let refresher = refresher.transpose().map_err(|failure| failure.message)?;
        if settings.follow.is_some() && catalog.is_collection() {
            return Err(
                "the folder is one collection: a replica needs a folder of collections".into()
            );
        }
        let collections = catalog.all().len();
        let not_served = catalog.not_served();
        let (stop, stopping) = watch::channel(false);
        let shared = shared(&settings, catalog, audit, &stopping)?;
        let limits = shared.limits.clone();
        let follow = settings.follow.as_ref();
        let follower = follow.map(|follow| Follower::new(follow, &shared)).transpose()?;
        let runtime = threads("serve", settings.limits.searches)?;
        let bind = |address| bind(&runtime, address);
        let (listener, address) = bind(settings.listen)?;
        let mut serving = Vec::new();
        let metrics = match settings.metrics {
            None => None,
            Some(metrics) => {
                let (listener, local) = bind(metrics)?;
                let router = observing().with_state(shared.clone());
                let serve = serve(listener, router, None, limits.clone(), stopping.clone());
                serving.push(runtime.spawn(serve));
                Some(local)
            }
        };
        let router = answering(&shared, &stopping);
        serving.extend(follower.map(|follower| runtime.spawn(follower.run())));
        serving.extend(refresher.map(|refresher| runtime.spawn(refresher.run(stopping.clone()))));
        if let Some(job) = settings.job {
            serving.push(runtime.spawn(follow_job(served, job, stopping.clone())));
        }
        serving.push(runtime.spawn(serve(listener, router, tls, limits, stopping)));
        Ok(Running { address, metrics, collections, not_served, shared, stop, serving, runtime })
    }
}

/// What the requests of a server share. Errors: it has no threads.
fn shared(
    settings: &ServeSettings,
    catalog: Arc<Catalog>,
    audit: Audit,
    stopping: &watch::Receiver<bool>,
) -> Result<Arc<Shared>, String> {
    let limits = settings.limits.clone();
    Ok(Arc::new(Shared {
        catalog,
        role: settings.role(),
        keys: settings.keys.clone(),
        admission: Admission::new(&limits, Counts::Said),
        heavy: Heavy::start()?,
        audit,
        measured: Measured::new(),
        mcp_writes: settings.mcp_writes,
        leases: Leases::default(),
        streams: Arc::new(Semaphore::new(limits.streams)),
        stopping: stopping.clone(),
        limits,
    }))
}

/// The collections of a server; none yet of one that reads a store.
fn catalog(settings: &ServeSettings) -> Result<Catalog, Failure> {
    match (&settings.job, &settings.pushed) {
        (Some(job), _) => Catalog::of_job(job),
        (None, Some(_)) => Ok(Catalog::of_pushed()),
        (None, None) => Catalog::open(&settings.directory, &settings.limits, settings.opening()),
    }
}

impl Running {
    /// Why this replica does not have everything that its writer had so long `ago`; `None` if it has, or
    /// follows nobody. Times are those of both clocks.
    pub fn lacks(&self, ago: Duration) -> Option<String> {
        self.shared.role.lacks(&self.shared.catalog, ago)
    }

    /// How long the writer of this replica has said nothing; it says something every second. Nothing where
    /// there is none.
    pub fn unheard(&self) -> Duration {
        self.shared.role.unheard()
    }

    /// Takes no more connections, answers the requests that are here, and closes all collections.
    pub fn stop(self) {
        let Running { shared, stop, serving, runtime, .. } = self;
        // Nobody listens if all have ended.
        let _ = stop.send(true);
        runtime.block_on(async {
            for serving in serving {
                // A task that panicked has said so.
                let _ = serving.await;
            }
        });
        shared.leases.end(None);
        shared.catalog.close();
        // A push that is being opened now is waited for no longer.
        runtime.shutdown_timeout(LAST_WAIT);
    }
}

/// The interface.
fn answering(shared: &Arc<Shared>, stop: &watch::Receiver<bool>) -> Router {
    let keyed = from_fn_with_state(shared.clone(), authenticate);
    let behind_keys = qdrant::routes(shared)
        .route("/metrics", get(metrics_with_key))
        .merge(feed::routes(shared))
        .merge(page::events(shared, stop.clone()))
        .layer(keyed.clone());
    qdrant::open_routes()
        .merge(mcp::routes().layer(keyed).layer(map_response(mcp::as_message)))
        .merge(health(shared.keys.is_none()))
        .merge(page::files())
        .merge(behind_keys)
        .fallback(unknown)
        .method_not_allowed_fallback(unknown_method)
        .layer(from_fn_with_state(shared.clone(), account))
        .with_state(shared.clone())
}

/// Health and metrics.
fn observing() -> Router<Arc<Shared>> {
    health(true).route("/metrics", get(metrics)).fallback(|| async { nothing() })
}

/// * `names_all`: whether who asks may learn the names of collections and the address of the writer.
fn health(names_all: bool) -> Router<Arc<Shared>> {
    let healthy = || async { "healthz check passed" };
    let ready = move |State(shared): State<Arc<Shared>>| async move { ready(&shared, names_all) };
    Router::new()
        .route("/healthz", get(healthy))
        .route("/livez", get(healthy))
        .route("/readyz", get(ready))
}

/// Whether queries should come here: not to a replica that is too far behind. A collection that did not
/// open does not keep the others from being asked. Which one it is needs a key.
fn ready(shared: &Shared, names_all: bool) -> Result<String, Failure> {
    if let Some(why) = shared.role.not_ready(&shared.catalog) {
        let secret = "this replica is behind its writer, or lacks a collection: its port for metrics says more";
        return Err(Failure::busy(if names_all { why } else { secret.to_owned() }));
    }
    let passed = "readyz check passed";
    Ok(match shared.catalog.broken().len() {
        0 => passed.to_owned(),
        broken => format!("{passed}; collections that did not open: {broken}"),
    })
}

/// Metrics on the port of the interface, for a key that may read all collections: they name them.
async fn metrics_with_key(shared: State<Arc<Shared>>, access: Access) -> Result<Response, Failure> {
    access.may(Scope::Read, None)?;
    Ok(metrics(shared).await)
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    shared.measured.broken(shared.catalog.broken().into_keys());
    // A job has metrics of its own.
    let asked = shared.catalog.all().into_iter().filter(|one| !one.is_of_job());
    let asked = asked.map(|one| tokio::spawn(measure(shared.clone(), one)));
    let asked: Vec<JoinHandle<()>> = asked.collect();
    // One whose writes take long keeps its last figures, and keeps nobody from those of the others.
    let all = async {
        for one in asked {
            // A task that panicked has said so.
            let _ = one.await;
        }
    };
    let _ = tokio::time::timeout(FIGURES_WAIT, all).await;
    shared.measured.streams(shared.limits.streams - shared.streams.available_permits());
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], shared.measured.text()).into_response()
}

/// Asks a collection for its figures, unless it owes an answer.
async fn measure(shared: Arc<Shared>, collection: Arc<Collection>) {
    let Some(_asking) = collection.begin_to_ask() else { return };
    // One that is being dropped has no figures.
    match collection.stats().await {
        Ok(stats) => {
            shared.measured.collection(&collection.name, &stats);
            shared.measured.progress(&collection.name, &collection.progress);
        }
        Err(_) if shared.catalog.find(&collection.name).is_none() => {
            shared.measured.forget(&collection.name);
        }
        // Another one has just taken its place.
        Err(_) => {}
    }
}

async fn unknown(headers: HeaderMap, uri: Uri) -> Failure {
    if is_grpc(&headers) {
        let what = format!("the method {} is not supported", uri.path());
        return Failure::new(StatusCode::NOT_IMPLEMENTED, what);
    }
    qdrant::not_there(uri.path()).unwrap_or_else(nothing)
}

fn nothing() -> Failure {
    Failure::new(StatusCode::NOT_FOUND, "there is nothing at this path")
}

async fn unknown_method(uri: Uri) -> Failure {
    let none = || Failure::new(StatusCode::METHOD_NOT_ALLOWED, "the path has no such method");
    qdrant::not_there(uri.path()).unwrap_or_else(none)
}
