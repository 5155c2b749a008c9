//! Messages that change points, and the changes that they mean.

use super::filter;
use super::proto::points_selector::PointsSelectorOneOf;
use super::proto::points_update_operation::{self as update, Operation as Update};
use super::proto::vectors::VectorsOptions;
use super::proto::{
    vector, ClearPayloadPoints, DeletePayloadPoints, DeletePoints, Filter, PointStruct,
    PointsSelector, PointsUpdateOperation, SetPayloadPoints, ShardKeySelector, UpdateMode,
    UpsertPoints, Vector, Vectors,
};
use super::read::{no_shards, point_id, point_ids};
use super::value::{payload, Fields};
use crate::failure::Failure;
use crate::qdrant::collections::{no_multivector, no_sparse, no_such_vector};
use crate::qdrant::write::{no_condition, no_vector, NewPoint, Operation, Selector, SetPayload};

/// Points to write.
struct Upsert {
    points: Vec<PointStruct>,
    condition: Option<Filter>,
    mode: Option<i32>,
    shards: Option<ShardKeySelector>,
}

impl TryFrom<Upsert> for Operation {
    type Error = Failure;

    /// Errors: `BAD_REQUEST` for what is not supported.
    fn try_from(upsert: Upsert) -> Result<Operation, Failure> {
        no_shards(&upsert.shards)?;
        let is_plain = upsert.mode.is_none_or(|mode| mode == UpdateMode::Upsert as i32);
        if upsert.condition.is_some() || !is_plain {
            return Err(no_condition());
        }
        let point = |point: PointStruct| {
            Ok(NewPoint {
                id: point_id(point.id)?,
                vector: dense(point.vectors)?,
                payload: payload(point.payload)?,
            })
        };
        Ok(Operation::Upsert(upsert.points.into_iter().map(point).collect::<Result<_, Failure>>()?))
    }
}

/// The vector of a point. Errors: `BAD_REQUEST` unless it is one list of numbers.
fn dense(vectors: Option<Vectors>) -> Result<Vec<f32>, Failure> {
    let Vector { data, indices, vectors_count, vector } =
        match vectors.and_then(|vectors| vectors.vectors_options) {
            Some(VectorsOptions::Vector(vector)) => vector,
            Some(VectorsOptions::Vectors(named)) => {
                let names: Vec<String> = named.vectors.into_keys().collect();
                return Err(no_such_vector(&names.join(", ")));
            }
            None => return Err(no_vector()),
        };
    if indices.is_some() {
        return Err(no_sparse());
    }
    if vectors_count.is_some_and(|count| count > 1) {
        return Err(no_multivector());
    }
    match vector {
        Some(vector::Vector::Dense(dense)) => Ok(dense.data),
        // Older clients put the numbers here.
        None => Ok(data),
        Some(vector::Vector::Sparse(_)) => Err(no_sparse()),
        Some(vector::Vector::MultiDense(_)) => Err(no_multivector()),
        Some(_) => Err(no_vector()),
    }
}

/// Which points a change is about. Errors: `BAD_REQUEST` for an id or a filter that cannot be.
fn selector(
    which: Option<PointsSelector>,
    shards: &Option<ShardKeySelector>,
) -> Result<Selector, Failure> {
    no_shards(shards)?;
    let nothing = Selector { points: None, filter: None };
    Ok(match which.and_then(|which| which.points_selector_one_of) {
        // The writer says what is missing.
        None => nothing,
        Some(PointsSelectorOneOf::Points(ids)) => {
            Selector { points: Some(point_ids(ids.ids)?), ..nothing }
        }
        Some(PointsSelectorOneOf::Filter(filter)) => {
            Selector { filter: Some(filter::json(filter)?), ..nothing }
        }
    })
}

fn set_payload(
    fields: Fields,
    key: Option<String>,
    which: Selector,
) -> Result<SetPayload, Failure> {
    Ok(SetPayload { payload: payload(fields)?, key, which })
}

impl TryFrom<UpsertPoints> for Operation {
    type Error = Failure;

    fn try_from(message: UpsertPoints) -> Result<Operation, Failure> {
        let UpsertPoints { points, update_filter, update_mode, shard_key_selector, .. } = message;
        let (condition, mode, shards) = (update_filter, update_mode, shard_key_selector);
        Upsert { points, condition, mode, shards }.try_into()
    }
}

impl TryFrom<DeletePoints> for Operation {
    type Error = Failure;

    fn try_from(message: DeletePoints) -> Result<Operation, Failure> {
        Ok(Operation::Delete(selector(message.points, &message.shard_key_selector)?))
    }
}

/// A payload that takes the place of another.
pub(super) struct Overwrite(pub(super) SetPayloadPoints);

impl TryFrom<SetPayloadPoints> for SetPayload {
    type Error = Failure;

    fn try_from(message: SetPayloadPoints) -> Result<SetPayload, Failure> {
        let which = selector(message.points_selector, &message.shard_key_selector)?;
        set_payload(message.payload, message.key, which)
    }
}

impl TryFrom<SetPayloadPoints> for Operation {
    type Error = Failure;

    fn try_from(message: SetPayloadPoints) -> Result<Operation, Failure> {
        Ok(Operation::SetPayload(message.try_into()?))
    }
}

impl TryFrom<Overwrite> for Operation {
    type Error = Failure;

    fn try_from(message: Overwrite) -> Result<Operation, Failure> {
        Ok(Operation::OverwritePayload(message.0.try_into()?))
    }
}

impl TryFrom<DeletePayloadPoints> for Operation {
    type Error = Failure;

    fn try_from(message: DeletePayloadPoints) -> Result<Operation, Failure> {
        let which = selector(message.points_selector, &message.shard_key_selector)?;
        Ok(Operation::DeletePayload(which, message.keys))
    }
}

impl TryFrom<ClearPayloadPoints> for Operation {
    type Error = Failure;

    fn try_from(message: ClearPayloadPoints) -> Result<Operation, Failure> {
        Ok(Operation::ClearPayload(selector(message.points, &message.shard_key_selector)?))
    }
}

impl TryFrom<PointsUpdateOperation> for Operation {
    type Error = Failure;

    /// Errors: `BAD_REQUEST` for what is not supported.
    fn try_from(message: PointsUpdateOperation) -> Result<Operation, Failure> {
        let operation = message.operation;
        Ok(match operation.ok_or_else(|| Failure::bad("an operation is empty"))? {
            Update::Upsert(list) => {
                let update::PointStructList {
                    points,
                    shard_key_selector: shards,
                    update_filter: condition,
                    update_mode: mode,
                } = list;
                Upsert { points, condition, mode, shards }.try_into()?
            }
            Update::DeleteDeprecated(which) => Operation::Delete(selector(Some(which), &None)?),
            Update::DeletePoints(delete) => {
                Operation::Delete(selector(delete.points, &delete.shard_key_selector)?)
            }
            Update::SetPayload(set) => {
                let which = selector(set.points_selector, &set.shard_key_selector)?;
                Operation::SetPayload(set_payload(set.payload, set.key, which)?)
            }
            Update::OverwritePayload(set) => {
                let which = selector(set.points_selector, &set.shard_key_selector)?;
                Operation::OverwritePayload(set_payload(set.payload, set.key, which)?)
            }
            Update::DeletePayload(delete) => {
                let which = selector(delete.points_selector, &delete.shard_key_selector)?;
                Operation::DeletePayload(which, delete.keys)
            }
            Update::ClearPayloadDeprecated(which) => {
                Operation::ClearPayload(selector(Some(which), &None)?)
            }
            Update::ClearPayload(clear) => {
                Operation::ClearPayload(selector(clear.points, &clear.shard_key_selector)?)
            }
            Update::UpdateVectors(_) | Update::DeleteVectors(_) => {
                let what = "update_vectors and delete_vectors are not supported: upsert the point";
                return Err(Failure::bad(what));
            }
        })
    }
}
