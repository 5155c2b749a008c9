//! A subset of Qdrant's HTTP interface, enough for its official client.
//!
//! | Qdrant | here |
//! |---|---|
//! | point | row; ids are numbers and UUIDs side by side, held as string ids |
//! | payload | the row's payload, as JSON; its top-level values are attributes too, so filters need no index |
//! | distance `Cosine`, `Dot`, `Euclid` | metrics `cosine`, `inner_product`, `l2`; scores are turned round, and the root taken |
//! | `on_disk: true` | a limit to memory, so that rows lie in segments |
//! | `hnsw_ef`, `m`, quantization | nothing: the effort follows the recall target |
//! | payload index | an attribute, of which only later rows have values if no row had the key |
//!
//! What is not there is refused with a sentence, never ignored where it would change an answer:
//! several vectors per point, sparse vectors, fusion, recommendation, geography, full text.

mod collections;
mod filter;
mod near;
mod payload;
mod points;
mod search;
mod wire;
mod write;

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::routing::{delete, get, post, put};
use axum::Router;

use crate::shared::Shared;

/// The version of Qdrant's interface that this is a subset of. Clients compare it with their own.
const VERSION: &str = "1.20.0";

/// Paths that need no key.
pub(crate) fn open_routes() -> Router<Arc<Shared>> {
    Router::new().route("/", get(collections::version))
}

/// Paths that need a key.
pub(crate) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/collections", get(collections::list))
        .route(
            "/collections/{collection}",
            get(collections::info)
                .put(collections::create)
                .patch(collections::update)
                .delete(collections::drop_one),
        )
        .route("/collections/{collection}/exists", get(collections::exists))
        .route("/collections/{collection}/index", put(collections::create_index))
        .route("/collections/{collection}/index/{field}", delete(collections::delete_index))
        .route("/collections/{collection}/points", put(write::upsert).post(points::retrieve))
        .route("/collections/{collection}/points/{id}", get(points::one))
        .route("/collections/{collection}/points/delete", post(write::delete))
        .route("/collections/{collection}/points/batch", post(write::batch))
        .route(
            "/collections/{collection}/points/payload",
            post(write::set_payload).put(write::overwrite_payload),
        )
        .route("/collections/{collection}/points/payload/delete", post(write::delete_payload))
        .route("/collections/{collection}/points/payload/clear", post(write::clear_payload))
        .route("/collections/{collection}/points/scroll", post(points::scroll))
        .route("/collections/{collection}/points/count", post(points::count))
        .route("/collections/{collection}/points/query", post(search::query))
        .route("/collections/{collection}/points/query/batch", post(search::query_batch))
        .route("/collections/{collection}/points/search", post(search::search))
        .route("/collections/{collection}/points/search/batch", post(search::search_batch))
        // `Admission` counts bodies and limits them.
        .layer(DefaultBodyLimit::disable())
}
