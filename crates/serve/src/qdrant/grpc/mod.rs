//! Requests over gRPC, on the port of HTTP.
//!
//! Messages become the requests that bodies of JSON become: filters and payloads by way of JSON, so that
//! they mean the same, and vectors as they are. The services answer the methods in `proto/`; the rest
//! of Qdrant's is refused as unimplemented, and what a message asks for that is not there as invalid.

mod answer;
mod change;
mod collections;
mod filter;
mod health;
mod points;
mod proto;
mod read;
mod value;

use std::sync::Arc;

use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::post_service;
use axum::Router;
use tonic::{Request, Status};

use self::proto::collections_server::CollectionsServer;
use self::proto::points_server::PointsServer;
use self::proto::qdrant_server::QdrantServer;
use super::call::Call;
use crate::failure::Failure;
use crate::grpc::{access, admit, admit_small, mounted};
use crate::shared::{Moment, Shared};

/// Answers the methods of the services.
#[derive(Clone)]
struct Face(Arc<Shared>);

/// Bytes of the longest message that asks for the server's health: it says nothing.
const HEALTH_BYTES: usize = 64;

/// Paths that need no key.
pub(super) fn open_routes() -> Router<Arc<Shared>> {
    let health = QdrantServer::new(health::Health).max_decoding_message_size(HEALTH_BYTES);
    let health = post_service(health);
    mounted("/qdrant.Qdrant/", |router, path| router.route(path, health.clone()))
        .layer(from_fn(admit_small))
}

/// Paths that need a key.
pub(super) fn routes(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    let bytes = shared.limits.body_bytes as usize;
    let collections = CollectionsServer::new(Face(shared.clone())).max_decoding_message_size(bytes);
    let points = PointsServer::new(Face(shared.clone())).max_decoding_message_size(bytes);
    let (collections, points) = (post_service(collections), post_service(points));
    mounted("/qdrant.Collections/", |router, path| router.route(path, collections.clone()))
        .merge(mounted("/qdrant.Points/", |router, path| router.route(path, points.clone())))
        .layer(from_fn_with_state(shared.clone(), admit))
}

impl Face {
    /// Opens a request.
    ///
    /// * `name`: the name of the collection in the message, which is taken out of it.
    fn open<M>(
        &self,
        request: Request<M>,
        name: impl FnOnce(&mut M) -> &mut String,
    ) -> Result<(Call, M), Status> {
        let access = access(&request)?;
        let moment = request.extensions().get::<Moment>().cloned();
        let moment = moment.ok_or_else(|| Failure::broken("a path without a moment"))?;
        let mut message = request.into_inner();
        let name = std::mem::take(name(&mut message));
        Ok((Call { shared: self.0.clone(), access, name, moment, tool: None }, message))
    }
}
