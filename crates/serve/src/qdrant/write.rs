//! Changes points.
//!
//! A request is checked whole before its first point changes, and answered when it is as durable as
//! the collection says; with `wait=false` when it is in the queue, and then nobody hears of an error
//! that comes later.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Path, Query as Params, State};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::collections::changed;
use super::near::Near;
use super::wire::{Asked, Body, Payload, Reply, Selector, Updated};
use crate::access::{Access, Scope};
use crate::collection::{Collection, PointId};
use crate::failure::Failure;
use crate::shared::Shared;

mod change;

use change::{Change, Which};

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

/// A point to write, whose vector was not checked yet.
pub(super) struct NewPoint {
    id: PointId,
    vector: Vec<f32>,
    payload: Map<String, Json>,
}

impl Upsert {
    /// The points. Errors: `BAD_REQUEST` for what is not supported.
    fn points(self) -> Result<Vec<NewPoint>, Failure> {
        let has_filter = self.update_filter.is_some_and(|filter| !filter.is_null());
        if has_filter || self.update_mode.is_some_and(|mode| mode != "upsert") {
            return Err(Failure::bad("update_filter and update_mode are not supported"));
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
            let what = "the vector is no list of numbers: points have one vector without a name";
            return Err(Failure::bad(what));
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

#[derive(Deserialize)]
pub(super) struct Batch {
    operations: Vec<Operation>,
}

/// What a handler of changes gets.
type Target = (State<Arc<Shared>>, Access, Path<String>, Params<Asked>);

pub(super) async fn upsert(target: Target, body: Body<Upsert>) -> Result<Response, Failure> {
    change(target, |of, limit| Ok(vec![Change::upsert(of, body.value.points()?, limit)?])).await
}

pub(super) async fn delete(target: Target, body: Body<Selector>) -> Result<Response, Failure> {
    change(target, |of, limit| Ok(vec![Change::Delete(Which::new(of, body.value, limit)?)])).await
}

pub(super) async fn set_payload(
    target: Target,
    body: Body<SetPayload>,
) -> Result<Response, Failure> {
    change(target, |of, limit| Ok(vec![Change::set(of, body.value, false, limit)?])).await
}

pub(super) async fn overwrite_payload(
    target: Target,
    body: Body<SetPayload>,
) -> Result<Response, Failure> {
    change(target, |of, limit| Ok(vec![Change::set(of, body.value, true, limit)?])).await
}

pub(super) async fn delete_payload(
    target: Target,
    body: Body<DeletePayload>,
) -> Result<Response, Failure> {
    change(target, |of, limit| {
        let DeletePayload { keys, which } = body.value;
        Ok(vec![Change::DeleteKeys(Which::new(of, which, limit)?, keys)])
    })
    .await
}

pub(super) async fn clear_payload(
    target: Target,
    body: Body<Selector>,
) -> Result<Response, Failure> {
    change(target, |of, limit| Ok(vec![Change::clear(of, body.value, limit)?])).await
}

pub(super) async fn batch(
    (state, access, path, params): Target,
    body: Body<Batch>,
) -> Result<Response, Failure> {
    let began = Instant::now();
    let count = body.value.operations.len();
    let target = (state, access.clone(), path, params);
    let made = |of: &Collection, limit| {
        let one = |operation| {
            Ok(match operation {
                Operation::Upsert(upsert) => Change::upsert(of, upsert.points()?, limit)?,
                Operation::Delete(which) => Change::Delete(Which::new(of, which, limit)?),
                Operation::SetPayload(set) => Change::set(of, set, false, limit)?,
                Operation::OverwritePayload(set) => Change::set(of, set, true, limit)?,
                Operation::DeletePayload(DeletePayload { keys, which }) => {
                    Change::DeleteKeys(Which::new(of, which, limit)?, keys)
                }
                Operation::ClearPayload(which) => Change::clear(of, which, limit)?,
            })
        };
        body.value.operations.into_iter().map(one).collect()
    };
    let status = make(target, made).await?;
    let all: Vec<Updated> = (0..count).map(|_| Updated { operation_id: 0, status }).collect();
    Ok(changed(access, Reply::new(began, all).into_response()))
}

/// Makes changes, and answers as for one.
async fn change(
    target: Target,
    made: impl FnOnce(&Collection, usize) -> Result<Vec<Change>, Failure>,
) -> Result<Response, Failure> {
    let began = Instant::now();
    let access = target.1.clone();
    let status = make(target, made).await?;
    let done = Updated { operation_id: 0, status };
    Ok(changed(access, Reply::new(began, done).into_response()))
}

/// Makes changes. Returns what clients call the state of them.
async fn make(
    (State(shared), access, Path(name), Params(asked)): Target,
    made: impl FnOnce(&Collection, usize) -> Result<Vec<Change>, Failure>,
) -> Result<&'static str, Failure> {
    access.may(Scope::Write, Some(&name))?;
    let collection = shared.catalog.get(&name)?;
    let changes = made(&collection, shared.limits.points)?;
    let of = collection.clone();
    let work = move |rows: &mut vstream_engine::NumberedWriter| change::apply(&of, rows, changes);
    if asked.wait == Some(false) {
        collection.writes.acknowledged(|rows| drop(work(rows))).await?;
        return Ok("acknowledged");
    }
    collection.writes.durable(work).await?;
    Ok("completed")
}
