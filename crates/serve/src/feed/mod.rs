//! What is written, for replicas and for those who watch.
//!
//! A stream reads the log of a collection from its files, up to what is on the disk, and waits where the
//! log ends. So the thread that writes does nothing for it, and a client that does not read holds one
//! message in memory: when the log has gone on without it, it is told to begin again.

mod replication;
mod stream;
mod watch;

use std::sync::Arc;

use axum::middleware::from_fn_with_state;
use axum::routing::{get, post_service};
use axum::Router;

pub(crate) use self::watch::recent;
use crate::grpc::{admit, mounted};
use crate::proto::changes_server::ChangesServer;
use crate::proto::replication_server::ReplicationServer;
use crate::shared::Shared;

/// Paths that need a key.
pub(crate) fn routes(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    let replication = post_service(ReplicationServer::new(replication::Face(shared.clone())));
    let changes = post_service(ChangesServer::new(watch::Face(shared.clone())));
    mounted("/vstream.Replication/", |router, path| router.route(path, replication.clone()))
        .merge(mounted("/vstream.Changes/", |router, path| router.route(path, changes.clone())))
        .layer(from_fn_with_state(shared.clone(), admit))
        .merge(Router::new().route("/collections/{collection}/watch", get(watch::events)))
}
