//! Changes of points, as bodies of JSON.

use std::time::Instant;

use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::near::Near;
use super::wire::{Asked, Body, Payload, Reply, Updated};
use crate::collection::PointId;
use crate::failure::Failure;
use crate::qdrant::call::Call;
use crate::qdrant::write::{self, no_condition, no_vector, NewPoint, Selector, Written};
use crate::shared::Asks;

/// Points to write, in one of two forms.
#[derive(Deserialize)]
pub(super) struct Upsert {
    points: Option<Vec<Given>>,
    batch: Option<Columns>,
    #[serde(default)]
    update_filter: Option<Json>,
    #[serde(default)]
    update_mode: Option<String>,
}

/// A point to write.
#[derive(Deserialize)]
struct Given {
    id: PointId,
    vector: Near,
    #[serde(default)]
    payload: Payload,
}

#[derive(Deserialize)]
struct Columns {
    ids: Vec<PointId>,
    vectors: Vec<Vec<f32>>,
    #[serde(default)]
    payloads: Option<Vec<Payload>>,
}

impl Upsert {
    /// The points. Errors: `BAD_REQUEST` for what is not supported.
    fn points(self) -> Result<Vec<NewPoint>, Failure> {
        let has_filter = self.update_filter.is_some_and(|filter| !filter.is_null());
        if has_filter || self.update_mode.is_some_and(|mode| mode != "upsert") {
            return Err(no_condition());
        }
        match (self.points, self.batch) {
            (Some(points), None) => points.into_iter().map(Given::point).collect(),
            (None, Some(columns)) => columns.points(),
            _ => Err(Failure::bad("give points or batch")),
        }
    }
}

impl Given {
    fn point(self) -> Result<NewPoint, Failure> {
        let Near::Vector(vector) = self.vector else {
            return Err(no_vector());
        };
        Ok(NewPoint { id: self.id, vector, payload: self.payload.unwrap_or_default() })
    }
}

impl Columns {
    fn points(self) -> Result<Vec<NewPoint>, Failure> {
        let Columns { ids, vectors, payloads } = self;
        let payloads = payloads.unwrap_or_else(|| ids.iter().map(|_| None).collect());
        let (count, found) = (ids.len(), (vectors.len(), payloads.len()));
        if found != (count, count) {
            return Err(Failure::bad(format!(
                "there are {count} ids, {} vectors and {} payloads: give one per point",
                found.0, found.1
            )));
        }
        let points = ids.into_iter().zip(vectors).zip(payloads);
        let point = |((id, vector), payload): ((_, _), Payload)| NewPoint {
            id,
            vector,
            payload: payload.unwrap_or_default(),
        };
        Ok(points.map(point).collect())
    }
}

/// A payload for some points.
#[derive(Deserialize)]
pub(super) struct SetPayload {
    payload: Map<String, Json>,
    #[serde(default)]
    key: Option<String>,
    #[serde(flatten)]
    which: Selector,
}

impl From<SetPayload> for write::SetPayload {
    fn from(set: SetPayload) -> write::SetPayload {
        let SetPayload { payload, key, which } = set;
        write::SetPayload { payload, key, which }
    }
}

/// Keys of the payload of some points.
#[derive(Deserialize)]
pub(super) struct DeletePayload {
    keys: Vec<String>,
    #[serde(flatten)]
    which: Selector,
}

/// One of several changes.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Operation {
    Upsert(Upsert),
    Delete(Selector),
    SetPayload(SetPayload),
    OverwritePayload(SetPayload),
    DeletePayload(DeletePayload),
    ClearPayload(Selector),
}

impl TryFrom<Operation> for write::Operation {
    type Error = Failure;

    fn try_from(operation: Operation) -> Result<write::Operation, Failure> {
        Ok(match operation {
            Operation::Upsert(upsert) => write::Operation::Upsert(upsert.points()?),
            Operation::Delete(which) => write::Operation::Delete(which),
            Operation::SetPayload(set) => write::Operation::SetPayload(set.into()),
            Operation::OverwritePayload(set) => write::Operation::OverwritePayload(set.into()),
            Operation::DeletePayload(DeletePayload { keys, which }) => {
                write::Operation::DeletePayload(which, keys)
            }
            Operation::ClearPayload(which) => write::Operation::ClearPayload(which),
        })
    }
}

#[derive(Deserialize)]
pub(super) struct Batch {
    operations: Vec<Operation>,
}

type Waits = Asks<Asked>;

pub(super) async fn upsert(
    call: Call,
    asks: Waits,
    body: Body<Upsert>,
) -> Result<Response, Failure> {
    change(call, asks, Operation::Upsert(body.value)).await
}

pub(super) async fn delete(
    call: Call,
    asks: Waits,
    body: Body<Selector>,
) -> Result<Response, Failure> {
    change(call, asks, Operation::Delete(body.value)).await
}

pub(super) async fn set_payload(
    call: Call,
    asks: Waits,
    body: Body<SetPayload>,
) -> Result<Response, Failure> {
    change(call, asks, Operation::SetPayload(body.value)).await
}

pub(super) async fn overwrite_payload(
    call: Call,
    asks: Waits,
    body: Body<SetPayload>,
) -> Result<Response, Failure> {
    change(call, asks, Operation::OverwritePayload(body.value)).await
}

pub(super) async fn delete_payload(
    call: Call,
    asks: Waits,
    body: Body<DeletePayload>,
) -> Result<Response, Failure> {
    change(call, asks, Operation::DeletePayload(body.value)).await
}

pub(super) async fn clear_payload(
    call: Call,
    asks: Waits,
    body: Body<Selector>,
) -> Result<Response, Failure> {
    change(call, asks, Operation::ClearPayload(body.value)).await
}

pub(super) async fn batch(call: Call, asks: Waits, body: Body<Batch>) -> Result<Response, Failure> {
    let began = Instant::now();
    let count = body.value.operations.len();
    let status = name(write::write(&call, asks.0.wait, body.value.operations).await?);
    let all: Vec<Updated> = (0..count).map(|_| Updated { operation_id: 0, status }).collect();
    Ok(Reply::new(began, all).into_response())
}

/// Makes one change.
async fn change(call: Call, asks: Waits, operation: Operation) -> Result<Response, Failure> {
    let began = Instant::now();
    let status = name(write::write(&call, asks.0.wait, vec![operation]).await?);
    let done = Updated { operation_id: 0, status };
    Ok(Reply::new(began, done).into_response())
}

/// The name that clients have for the state of a write.
fn name(written: Written) -> &'static str {
    match written {
        Written::Acknowledged => "acknowledged",
        Written::Completed => "completed",
    }
}
