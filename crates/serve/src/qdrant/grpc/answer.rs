//! Answers as messages.

use std::time::Instant;

use super::proto::point_id::PointIdOptions;
use super::proto::{
    vector_output, vectors_output, DenseVector, PointId as Id, PointsOperationResponse,
    RetrievedPoint, ScoredPoint, UpdateResult, UpdateStatus, VectorOutput, VectorsOutput,
};
use super::value::raw_fields;
use crate::collection::PointId;
use crate::qdrant::points::Point;
use crate::qdrant::write::Written;

/// Seconds since a request began.
pub(super) fn seconds(began: Instant) -> f64 {
    began.elapsed().as_secs_f64()
}

pub(super) fn id(id: PointId) -> Id {
    let id = match id {
        PointId::Number(number) => PointIdOptions::Num(number),
        PointId::Text(text) => PointIdOptions::Uuid(text),
    };
    Id { point_id_options: Some(id) }
}

fn vectors(vector: Vec<f32>) -> VectorsOutput {
    let dense = vector_output::Vector::Dense(DenseVector { data: vector });
    let vector = VectorOutput { vector: Some(dense), ..VectorOutput::default() };
    VectorsOutput { vectors_options: Some(vectors_output::VectorsOptions::Vector(vector)) }
}

/// A point that was searched for.
pub(super) fn scored(point: Point) -> ScoredPoint {
    ScoredPoint {
        id: Some(id(point.id)),
        payload: raw_fields(point.payload),
        score: point.score.unwrap_or_default(),
        version: point.version.unwrap_or_default(),
        vectors: point.vector.map(vectors),
        ..ScoredPoint::default()
    }
}

/// A point that was read.
pub(super) fn retrieved(point: Point) -> RetrievedPoint {
    RetrievedPoint {
        id: Some(id(point.id)),
        payload: raw_fields(point.payload),
        vectors: point.vector.map(vectors),
        ..RetrievedPoint::default()
    }
}

/// How far a write is.
pub(super) fn updated(written: Written) -> UpdateResult {
    let status = match written {
        Written::Acknowledged => UpdateStatus::Acknowledged,
        Written::Completed => UpdateStatus::Completed,
    };
    UpdateResult { operation_id: Some(0), status: status.into() }
}

/// The answer to one write.
pub(super) fn operation(began: Instant, written: Written) -> PointsOperationResponse {
    let (result, time) = (Some(updated(written)), seconds(began));
    PointsOperationResponse { result, time, usage: None }
}
