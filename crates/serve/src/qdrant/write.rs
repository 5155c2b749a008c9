//! Changes points.
//!
//! A request is checked whole before its first point changes, and answered when it is as durable as
//! the collection says; without waiting when it is in the queue, and then nobody hears of an error
//! that comes later.

use serde::Deserialize;
use serde_json::{Map, Value as Json};
use vstream_engine::NumberedWriter;

use super::call::Call;
use crate::access::Scope;
use crate::collection::{Collection, PointId};
use crate::failure::Failure;

mod change;

use change::{Change, Which};

/// A change as a request has it.
pub(crate) enum Operation {
    Upsert(Vec<NewPoint>),
    Delete(Selector),
    /// Values take the place of those under their keys.
    SetPayload(SetPayload),
    /// The payload takes the place of the one that was there.
    OverwritePayload(SetPayload),
    DeletePayload(Selector, Vec<String>),
    ClearPayload(Selector),
}

/// A point to write, whose vector was not checked yet.
pub(crate) struct NewPoint {
    pub(crate) id: PointId,
    pub(crate) vector: Vec<f32>,
    pub(crate) payload: Map<String, Json>,
}

/// Which points a request is about: one of the two is given.
#[derive(Deserialize)]
pub(crate) struct Selector {
    #[serde(default)]
    pub(crate) points: Option<Vec<PointId>>,
    #[serde(default)]
    pub(crate) filter: Option<Json>,
}

/// A payload for some points.
pub(crate) struct SetPayload {
    pub(super) payload: Map<String, Json>,
    pub(super) key: Option<String>,
    pub(super) which: Selector,
}

/// An upsert that depends on the points that are there.
pub(super) fn no_condition() -> Failure {
    Failure::bad("update_filter and update_mode are not supported")
}

/// A point whose vector is none.
pub(super) fn no_vector() -> Failure {
    Failure::bad("the vector is no list of numbers: points have one vector without a name")
}

impl Operation {
    /// * `most`: points that a request may name.
    fn change(self, of: &Collection, most: usize) -> Result<Change, Failure> {
        Ok(match self {
            Operation::Upsert(points) => Change::upsert(of, points, most)?,
            Operation::Delete(which) => Change::Delete(Which::new(of, which, most)?),
            Operation::SetPayload(set) => Change::set(of, set, false, most)?,
            Operation::OverwritePayload(set) => Change::set(of, set, true, most)?,
            Operation::DeletePayload(which, keys) => {
                Change::DeleteKeys(Which::new(of, which, most)?, keys)
            }
            Operation::ClearPayload(which) => Change::clear(of, which, most)?,
        })
    }
}

/// How far a write is.
#[derive(Clone, Copy)]
pub(crate) enum Written {
    /// It is in the queue.
    Acknowledged,
    /// It is as durable as the collection says.
    Completed,
}

/// Makes changes in order.
///
/// * `wait`: false to return when they are in the queue.
pub(crate) async fn write<O>(
    call: &Call,
    wait: Option<bool>,
    operations: Vec<O>,
) -> Result<Written, Failure>
where
    O: TryInto<Operation, Error = Failure>,
{
    let collection = call.collection(Scope::Write)?;
    let most = call.shared.limits.points;
    let changes = operations.into_iter().map(|one| one.try_into()?.change(&collection, most));
    let changes: Vec<Change> = call.reading(|| changes.collect::<Result<_, Failure>>())?;
    call.changes();
    let of = collection.clone();
    let work = move |rows: &mut NumberedWriter| change::apply(&of, rows, changes);
    if wait == Some(false) {
        let room = call.shared.admission.later(call.moment.body_bytes()).await?;
        let made = move |rows: &mut NumberedWriter| {
            let _room = room;
            // Nobody hears of an error.
            drop(work(rows));
        };
        collection.writes.acknowledged(made).await?;
        return Ok(Written::Acknowledged);
    }
    // The points take memory until they are written, whoever waits for it.
    let body = call.moment.clone();
    let made = move |rows: &mut NumberedWriter| {
        let _body = body;
        work(rows)
    };
    collection.writes.durable(made).await?;
    call.moment.wrote(&collection);
    Ok(Written::Completed)
}
