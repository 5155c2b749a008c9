//! Bodies as Qdrant's clients send and read them.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{header, HeaderValue};
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::access::Access;
use crate::failure::Failure;
use crate::qdrant::call::Call;
use crate::qdrant::payload;
use crate::qdrant::points::Wanted;
use crate::shared::{Admitted, Moment, Shared, LARGE};

/// A body that was read and parsed. It counts as long as the moment of the request is somebody's.
pub(super) struct Body<T> {
    pub(super) value: T,
}

impl<T: DeserializeOwned + Send + 'static> FromRequest<Arc<Shared>> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Result<Body<T>, Failure> {
        let (parts, body) = request.into_parts();
        let Admitted { bytes, counted } = shared.admission.body(&parts.headers, body).await?;
        if let Some(moment) = parts.extensions.get::<Moment>() {
            moment.hold(counted);
        }
        let value = match bytes.len() {
            // Without a body there may still be nothing to say.
            0 => serde_json::from_slice(b"{}"),
            LARGE.. => shared.heavy.run(move || serde_json::from_slice(&bytes)).await?,
            _ => serde_json::from_slice(&bytes),
        };
        let value = value.map_err(|error| Failure::bad(format!("the body is wrong: {error}")))?;
        Ok(Body { value })
    }
}

impl FromRequestParts<Arc<Shared>> for Call {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Call, Failure> {
        let access = Access::from_request_parts(parts, shared).await?;
        let params = RawPathParams::from_request_parts(parts, shared).await;
        let params = params.map_err(|error| Failure::bad(error.to_string()))?;
        let name = params.iter().find(|(name, _)| *name == "collection");
        let name = name.map_or("", |(_, name)| name).to_owned();
        let moment = Moment::from_request_parts(parts, shared).await?;
        Ok(Call { shared: shared.clone(), access, name, moment, tool: None })
    }
}

/// A result in the envelope that clients open.
pub(super) struct Reply<T> {
    result: T,
    began: Instant,
}

impl<T> Reply<T> {
    pub(super) fn new(began: Instant, result: T) -> Reply<T> {
        Reply { result, began }
    }
}

impl<T: Serialize> IntoResponse for Reply<T> {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct Envelope<'a, T> {
            result: &'a T,
            status: &'static str,
            time: f64,
        }
        let time = self.began.elapsed().as_secs_f64();
        let envelope = Envelope { result: &self.result, status: "ok", time };
        match serde_json::to_vec(&envelope) {
            Ok(bytes) => {
                let mut response = Response::new(axum::body::Body::from(bytes));
                let kind = HeaderValue::from_static("application/json");
                response.headers_mut().insert(header::CONTENT_TYPE, kind);
                response
            }
            Err(error) => Failure::broken(format!("the answer: {error}")).into_response(),
        }
    }
}

/// What a request may say after the question mark.
#[derive(Default, Deserialize)]
pub(super) struct Asked {
    /// Answer when the write is as durable as the collection says; else when it is in the queue.
    pub(super) wait: Option<bool>,
}

/// A payload, or no payload.
pub(super) type Payload = Option<Map<String, Json>>;

/// Which parts of the payload are wanted.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum WithPayload {
    All(bool),
    Keys(Vec<String>),
    Include { include: Vec<String> },
    Exclude { exclude: Vec<String> },
}

impl From<WithPayload> for payload::WithPayload {
    fn from(with: WithPayload) -> payload::WithPayload {
        match with {
            WithPayload::All(all) => payload::WithPayload::All(all),
            WithPayload::Keys(keys) | WithPayload::Include { include: keys } => {
                payload::WithPayload::Include(keys)
            }
            WithPayload::Exclude { exclude } => payload::WithPayload::Exclude(exclude),
        }
    }
}

/// Whether the vector is wanted; a list of names could only name vectors that are not there.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum WithVector {
    All(bool),
    Names(Vec<String>),
}

impl WithVector {
    pub(super) fn is_wanted(of: &Option<WithVector>) -> Result<bool, Failure> {
        match of {
            None => Ok(false),
            Some(WithVector::All(wanted)) => Ok(*wanted),
            Some(WithVector::Names(names)) => Wanted::by_names(names),
        }
    }
}

/// The result of a write.
#[derive(Serialize)]
pub(super) struct Updated {
    pub(super) operation_id: u64,
    pub(super) status: &'static str,
}
