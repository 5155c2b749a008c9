//! Whether the server answers, and who it is.

use tonic::{Request, Response, Status};

use super::proto::qdrant_server::Qdrant;
use super::proto::{HealthCheckReply, HealthCheckRequest};
use crate::qdrant::collections::title;
use crate::qdrant::VERSION;

/// Answers without a key.
pub(super) struct Health;

#[tonic::async_trait]
impl Qdrant for Health {
    async fn health_check(
        &self,
        _: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckReply>, Status> {
        let reply = HealthCheckReply { title: title(), version: VERSION.to_owned(), commit: None };
        Ok(Response::new(reply))
    }
}
