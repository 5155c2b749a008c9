//! Tools by which a language model asks, over the Model Context Protocol at `/mcp`.
//!
//! | module | what it does |
//! |---|---|
//! | `endpoint` | one request: checks, calls, answers |
//! | `id`, `message` | what a body says, as JSON-RPC |
//! | `refusal` | why a message has no result, as JSON-RPC says it |
//! | `revision` | which revision of the protocol a request speaks, and what its headers must say |
//! | `tools` | what there is to call: what a model reads about it, and what it does |
//!
//! The protocol's *streamable HTTP* is a message of JSON-RPC in the body of a `POST`, and one in the
//! answer. This server keeps nothing between two requests: no session, no stream. So revision 2026-07-28,
//! which has neither, and the two before it, which begin with `initialize` and allow both, are answered
//! by the same code. The protocol's own crate is not used: it reads bodies itself, and here a key is
//! looked at and a body counted before a byte of it is read.
//!
//! Calls become the same requests that `qdrant` makes of its bodies, so that scopes, limits, admission
//! and the audit log are the same.

mod endpoint;
mod id;
mod message;
mod refusal;
mod revision;
mod tools;

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::routing::post;
use axum::Router;

pub(crate) use self::refusal::as_message;
use crate::shared::Shared;

/// The one path, which needs a key.
pub(crate) fn routes() -> Router<Arc<Shared>> {
    let only_post = post(endpoint::post).get(endpoint::no_stream).delete(endpoint::no_stream);
    // `Admission` counts bodies and limits them.
    Router::new().route("/mcp", only_post).layer(DefaultBodyLimit::disable())
}
