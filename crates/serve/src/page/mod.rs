//! A page that shows how a server or a job is doing, in a browser.
//!
//! | path | what it is |
//! |---|---|
//! | `/ui/` | the page: three files of the binary, the same for everybody, so they need no key |
//! | `/ui/events` | what it shows, as server-sent events; behind keys like everything else |
//!
//! The page sends its key in a header, as every client does, so it reads the events with `fetch`: the
//! browser's own reader of events can send a key in the address alone. It asks queries through the
//! interface, with the same key. Its policy forbids it to load anything from elsewhere, or to be put
//! into the page of somebody else.
//!
//! Nothing is counted for the page that metrics do not count anyway. Rates and percentiles are made by
//! one task, which runs only while somebody looks (`sample`), and `feed` hands them out.

mod feed;
mod figures;
mod sample;

use std::sync::Arc;

use axum::http::header;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use axum::Router;
use tokio::sync::watch;

pub(crate) use self::feed::Feed;
use self::sample::Watching;
use crate::access::Access;
use crate::shared::Shared;

const HTML: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// What a browser may do with the page: use its own files and ask its own server, and nothing else.
const POLICY: &str =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'";

/// Where the page is.
pub(crate) const PATH: &str = "/ui/";
/// Where its events are.
pub(crate) const EVENTS: &str = "/ui/events";

/// The page: paths that need no key.
pub(crate) fn files<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/ui", get(|| async { Redirect::to(PATH) }))
        .route(PATH, get(|| async { file("text/html; charset=utf-8", HTML) }))
        .route("/ui/page.css", get(|| async { file("text/css; charset=utf-8", STYLE) }))
        .route("/ui/page.js", get(|| async { file("text/javascript; charset=utf-8", SCRIPT) }))
}

/// The events of a server: a path that needs a key.
///
/// * `stop`: true when the server ends, which ends the events.
pub(crate) fn events(shared: &Arc<Shared>, stop: watch::Receiver<bool>) -> Router<Arc<Shared>> {
    let watching = Arc::new(Watching::new(shared.clone(), stop));
    Router::new().route(EVENTS, get(move |access: Access| watching.open(access)))
}

fn file(kind: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // The next version of the command has other files at the same paths.
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, text).into_response()
}
