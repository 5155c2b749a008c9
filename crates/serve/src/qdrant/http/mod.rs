//! Requests over HTTP, whose bodies are JSON.

mod collections;
mod near;
mod points;
mod search;
mod wire;
mod write;

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::routing::{delete, get, post, put};
use axum::Router;

use crate::failure::Failure;
use crate::shared::Shared;

/// Paths that need no key.
pub(super) fn open_routes() -> Router<Arc<Shared>> {
    Router::new().route("/", get(collections::version))
}

/// Calls of Qdrant about a collection that are not here.
const NOT_THERE: [&str; 15] = [
    "aliases",
    "cluster",
    "facet",
    "points/discover",
    "points/discover/batch",
    "points/query/groups",
    "points/recommend",
    "points/recommend/batch",
    "points/recommend/groups",
    "points/search/groups",
    "points/search/matrix/offsets",
    "points/search/matrix/pairs",
    "points/vectors",
    "points/vectors/delete",
    "snapshots",
];

/// Why a call of Qdrant about a collection is not here; `None` for any other request.
pub(crate) fn not_there(path: &str) -> Option<Failure> {
    let (_, call) = path.strip_prefix("/collections/")?.split_once('/')?;
    NOT_THERE.contains(&call).then(|| Failure::bad(format!("{call} is not supported")))
}

/// Paths that need a key.
pub(super) fn routes() -> Router<Arc<Shared>> {
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
