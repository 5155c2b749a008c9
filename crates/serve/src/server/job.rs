//! The page of a job: whoever runs the job says how it goes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::middleware::{from_fn, Next};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use axum::Router;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::connections::serve;
use crate::access::check_own;
use crate::limits::Limits;
use crate::page::{self, Feed};

/// Longest wait for those who look when the page ends.
const DRAIN: Duration = Duration::from_millis(500);

/// A page for those who watch a job. It ends when this is dropped.
pub struct JobPage {
    /// Where it listens.
    pub address: SocketAddr,
    feed: Arc<Feed<String>>,
    stop: watch::Sender<bool>,
    runtime: Runtime,
    serving: Option<JoinHandle<()>>,
}

impl JobPage {
    /// Serves the page on an address of this machine. There are no keys: the page shows how a job goes,
    /// and asks it nothing. Errors: a sentence.
    pub fn start(address: SocketAddr) -> Result<JobPage, String> {
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
        let router = router(feed.clone(), stopping.clone());
        let serving = runtime.spawn(serve(listener, router, None, limits, stopping));
        Ok(JobPage { address, feed, stop, runtime, serving: Some(serving) })
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
        if let Some(serving) = self.serving.take() {
            // A task that panicked has said so.
            let _ = self.runtime.block_on(serving);
        }
    }
}

fn router(feed: Arc<Feed<String>>, stop: watch::Receiver<bool>) -> Router {
    let events = move || async move { feed.open(stop, String::clone) };
    page::files()
        .route("/", get(|| async { Redirect::to(page::PATH) }))
        .route(page::EVENTS, get(events))
        .layer(from_fn(|request: Request, next: Next| async move {
            let checked: Result<(), Response> =
                check_own(&request).map_err(IntoResponse::into_response);
            match checked {
                Ok(()) => next.run(request).await,
                Err(refused) => refused,
            }
        }))
}
