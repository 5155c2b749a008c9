//! A subset of Qdrant's interface over HTTP and gRPC, enough for its official client.
//!
//! | Qdrant | here |
//! |---|---|
//! | point | row; ids are numbers and UUIDs side by side, held as string ids; other texts name points of other faces |
//! | payload | the row's payload, as JSON; its top-level values are attributes too, so filters need no index |
//! | distance `Cosine`, `Dot`, `Euclid` | metrics `cosine`, `inner_product`, `l2`; scores are turned round, and the root taken |
//! | `on_disk: true` | a limit to memory, so that rows lie in segments |
//! | `hnsw_ef`, `m`, quantization | nothing: the effort follows the recall target |
//! | payload index | an attribute, of which only later rows have values if no row had the key |
//!
//! `http` reads bodies of JSON, `grpc` messages; both make the same requests of them (`Asked`, `Operation`,
//! `New`, a filter as JSON), which the other modules check and answer. So a request means the same
//! whichever way it comes.
//!
//! What is not there is refused with a sentence, never ignored where it would change an answer:
//! several vectors per point, sparse vectors, fusion, recommendation, geography, full text.

mod call;
mod collections;
mod filter;
mod grpc;
mod http;
mod payload;
mod points;
mod search;
mod write;

use std::sync::Arc;

use axum::Router;

pub(crate) use self::call::Call;
pub(crate) use self::collections::{distance_name, index_name};
pub(crate) use self::http::not_there;
pub(crate) use self::payload::WithPayload;
pub(crate) use self::points::{retrieve, Point, Wanted};
pub(crate) use self::search::{answer, Asked, Target};
pub(crate) use self::write::{write, NewPoint, Operation, Selector};
use crate::shared::Shared;

/// The version of Qdrant's interface that this is a subset of. Clients compare it with their own.
const VERSION: &str = "1.20.0";

/// Paths that need no key.
pub(crate) fn open_routes() -> Router<Arc<Shared>> {
    http::open_routes().merge(grpc::open_routes())
}

/// Paths that need a key.
pub(crate) fn routes(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    http::routes().merge(grpc::routes(shared))
}
