//! The page of a job: whoever runs the job says how it goes, and its box asks the job's partitions.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::middleware::{from_fn, Next};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::Router;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{watch, OnceCell};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tower::ServiceExt;

use super::connections::serve;
use crate::access::check_own;
use crate::catalog::blocking;
use crate::collection::JobSettings;
use crate::failure::Failure;
use crate::limits::Limits;
use crate::observe::Audit;
use crate::page::{self, Feed};
use crate::settings::ServeSettings;

/// Longest wait for those who look when the page ends.
const DRAIN: Duration = Duration::from_millis(500);
/// What the box of the page asks.
const QUERY: &str = "/collections/{name}/points/query";

/// A page for those who watch a job. It ends when this is dropped.
pub struct JobPage {
    /// Where it listens.
    pub address: SocketAddr,
    /// The collection that its box asks, if it has one.
    asks: Option<String>,
    feed: Arc<Feed<String>>,
    stop: watch::Sender<bool>,
    running: Option<(Runtime, JoinHandle<()>)>,
}

impl JobPage {
    /// Serves the page on an address of this machine. There are no keys: whoever is on this machine sees how
    /// the job goes, and may ask it if the page has a box.
    ///
    /// * `asked`: the job that a box of the page asks, from the first question on; `None`: no box.
    ///
    /// Errors: a sentence.
    pub fn start(address: SocketAddr, asked: Option<JobSettings>) -> Result<JobPage, String> {
        if !address.ip().is_loopback() {
            return Err(format!(
                "{address} can be reached from other machines, and the page of a job needs no key: \
                 choose an address of 127.0.0.1"
            ));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .thread_name("page")
            .build()
            .map_err(|error| format!("no threads: {error}"))?;
        let taken = |error: std::io::Error| format!("{address}: {error}");
        let listener = runtime.block_on(TcpListener::bind(address)).map_err(taken)?;
        let address = listener.local_addr().map_err(taken)?;
        let (stop, stopping) = watch::channel(false);
        let feed = Arc::new(Feed::new());
        let limits = Limits { connections: 64, drain: DRAIN, ..Limits::default() };
        let asks = asked.as_ref().map(|job| job.collection.clone());
        let asked = asked.map(|job| Arc::new(Asked::new(job, address, &limits, &stopping)));
        let router = router(feed.clone(), asked, stopping.clone());
        let serving = runtime.spawn(serve(listener, router, None, limits, stopping));
        Ok(JobPage { address, asks, feed, stop, running: Some((runtime, serving)) })
    }

    /// The collection that the box of the page asks, if it has one.
    pub fn asks(&self) -> Option<&str> {
        self.asks.as_deref()
    }

    /// True while somebody looks; only then is it worth to call [`JobPage::show`].
    pub fn is_watched(&self) -> bool {
        self.feed.is_watched()
    }

    /// Shows how the job is now.
    ///
    /// * `figures`: an object of JSON on one line, with the keys that `page/page.js` reads of a job.
    pub fn show(&self, figures: String) {
        self.feed.show(figures);
    }
}

impl Drop for JobPage {
    fn drop(&mut self) {
        // Nobody listens if the server has ended.
        let _ = self.stop.send(true);
        if let Some((runtime, serving)) = self.running.take() {
            // A task that panicked has said so.
            let _ = runtime.block_on(serving);
            // A job that has ended answers nobody: who still waits for it is not waited for.
            runtime.shutdown_background();
        }
    }
}

fn router(
    feed: Arc<Feed<String>>,
    asked: Option<Arc<Asked>>,
    stop: watch::Receiver<bool>,
) -> Router {
    let events = move || async move { feed.open(stop, String::clone) };
    let mut paths = page::files()
        .route("/", get(|| async { Redirect::to(page::PATH) }))
        .route(page::EVENTS, get(events));
    if let Some(asked) = asked {
        let ask = move |request: Request| async move { asked.answer(request).await };
        paths = paths.route(QUERY, post(ask));
    }
    paths.layer(from_fn(|request: Request, next: Next| async move {
        let checked: Result<(), Response> =
            check_own(&request).map_err(IntoResponse::into_response);
        match checked {
            Ok(()) => next.run(request).await,
            Err(refused) => refused,
        }
    }))
}

/// The job behind the box.
struct Asked {
    settings: ServeSettings,
    stop: watch::Receiver<bool>,
    /// What a server of the job answers with. Made at the first question: the job starts after its page.
    interface: OnceCell<Router>,
}

impl Asked {
    fn new(
        job: JobSettings,
        address: SocketAddr,
        limits: &Limits,
        stop: &watch::Receiver<bool>,
    ) -> Asked {
        let settings =
            ServeSettings { limits: limits.clone(), ..ServeSettings::of_job(job, address) };
        Asked { settings, stop: stop.clone(), interface: OnceCell::new() }
    }

    async fn answer(&self, request: Request) -> Response {
        let opened = self.interface.get_or_try_init(|| self.open());
        match timeout(self.settings.limits.request, opened).await {
            Ok(Ok(interface)) => interface.clone().oneshot(request).await.into_response(),
            Ok(Err(failure)) => failure.into_response(),
            // Others who asked before wait for the job too, one after the other.
            Err(_) => Failure::busy("the job does not answer yet").into_response(),
        }
    }

    /// Errors: `SERVICE_UNAVAILABLE` if the job does not answer yet; the next question tries it again.
    async fn open(&self) -> Result<Router, Failure> {
        let settings = self.settings.clone();
        let catalog = blocking(move || super::catalog(&settings)).await??;
        let audit = Audit::open(None).map_err(Failure::broken)?;
        let shared = super::shared(&self.settings, Arc::new(catalog), audit, &self.stop);
        Ok(super::answering(&shared.map_err(Failure::broken)?, &self.stop))
    }
}
