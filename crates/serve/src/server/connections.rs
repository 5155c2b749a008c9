//! Accepts connections and ends them.
//!
//! A connection counts from its first byte. Whoever sends nothing, or half of something, is let go
//! after [`Limits::head`], and whoever takes nothing of an answer after [`Limits::stall`]; a request as a whole has
//! [`Limits::request`] (`account.rs`).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{watch, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use vstream_engine::answer_soon;

use super::impatient::Impatient;
use crate::limits::Limits;

/// The first bytes of HTTP/2; no request of HTTP/1 begins with them.
const PREFACE: &[u8] = b"PRI";
/// Requests on one connection of HTTP/2 at the same time.
const STREAMS: u32 = 256;
/// Pause after an accept that failed: too many files are open, most likely.
const PAUSE: Duration = Duration::from_millis(50);

/// Threads that may wait, beside those of as many searches as are let in: for reads of files, changes of collections, and
/// what replicas fetch.
const WAITING_THREADS: usize = 128;

/// Threads with this name that answer.
///
/// * `searches`: that may wait for the disk at the same time.
///
/// Errors: a sentence.
pub(crate) fn threads(name: &str, searches: usize) -> Result<Runtime, String> {
    let mut threads = tokio::runtime::Builder::new_multi_thread();
    threads.max_blocking_threads(searches + WAITING_THREADS);
    let runtime = threads.enable_all().thread_name(name).on_thread_start(answer_soon).build();
    runtime.map_err(|error| format!("no threads: {error}"))
}

/// Listens at an address; also returns it, with the port that was free if it has none. Errors: a sentence.
pub(crate) fn bind(
    runtime: &Runtime,
    address: SocketAddr,
) -> Result<(TcpListener, SocketAddr), String> {
    let failed = |error| format!("{address}: {error}");
    let listener = runtime.block_on(TcpListener::bind(address)).map_err(failed)?;
    let local = listener.local_addr().map_err(failed)?;
    Ok((listener, local))
}

/// Serves connections until told to stop; then waits for requests that are being answered, for
/// [`Limits::drain`] at most.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    tls: Option<TlsAcceptor>,
    limits: Limits,
    mut stop: watch::Receiver<bool>,
) {
    let open = Arc::new(Semaphore::new(limits.connections));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        // Without room the connection is closed at once: a client that waits would not know why.
        let Ok(permit) = open.clone().try_acquire_owned() else { continue };
        let (router, tls, limits) = (router.clone(), tls.clone(), limits.clone());
        tokio::spawn(connection(stream, router, tls, limits, stop.clone(), permit));
    }
    drop(listener);
    // A connection gives its permit back when it ends.
    let _ = timeout(limits.drain, open.acquire_many(limits.connections as u32)).await;
}

/// One connection, from its first byte on.
async fn connection(
    stream: TcpStream,
    router: Router,
    tls: Option<TlsAcceptor>,
    limits: Limits,
    mut stop: watch::Receiver<bool>,
    _permit: OwnedSemaphorePermit,
) {
    let head = limits.head;
    // Answers are small, and nobody waits for more of them.
    let _ = stream.set_nodelay(true);
    match tls {
        None => {
            // Whoever has sent nothing has nothing to wait for.
            let begun = tokio::select! {
                begun = timeout(head, begins_http2(&stream)) => begun,
                _ = stop.wait_for(|stop| *stop) => return,
            };
            let Ok(Some(is_http2)) = begun else { return };
            let stream = Impatient::new(stream, limits.stall);
            answer(stream, router, is_http2, head, stop).await;
        }
        Some(tls) => {
            let stream = Impatient::new(stream, limits.stall);
            let begun = tokio::select! {
                begun = timeout(head, tls.accept(stream)) => begun,
                _ = stop.wait_for(|stop| *stop) => return,
            };
            let Ok(Ok(stream)) = begun else { return };
            let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            answer(stream, router, is_http2, head, stop).await;
        }
    }
}

/// Whether a connection begins as HTTP/2 does; `None` if it ends before that is known.
async fn begins_http2(stream: &TcpStream) -> Option<bool> {
    let mut first = [0; PREFACE.len()];
    loop {
        let read = stream.peek(&mut first).await.ok()?;
        if read == 0 {
            return None;
        }
        if read == first.len() || !PREFACE.starts_with(&first[..read]) {
            return Some(first[..read] == *PREFACE);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn answer<S>(
    stream: S,
    router: Router,
    is_http2: bool,
    head: Duration,
    mut stop: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let builder = Builder::new(TokioExecutor::new());
    let mut builder = if is_http2 { builder.http2_only() } else { builder.http1_only() };
    builder.http1().timer(TokioTimer::new()).header_read_timeout(head);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(head)
        .keep_alive_timeout(head);
    let connection =
        builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    tokio::select! {
        // What a client does wrong ends its connection, and no other.
        _ = connection.as_mut() => return,
        _ = stop.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
