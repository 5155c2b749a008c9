//! Messages that ask, and the requests that they mean.

use super::filter;
use super::proto::point_id::PointIdOptions;
use super::proto::query::Variant;
use super::proto::with_payload_selector::SelectorOptions as Payload;
use super::proto::with_vectors_selector::SelectorOptions as Vectors;
use super::proto::{
    vector_input, PointId as Id, Query, QueryPoints, ScrollPoints, SearchParams, SearchPoints,
    ShardKeySelector, VectorInput, WithPayloadSelector, WithVectorsSelector,
};
use crate::collection::PointId;
use crate::failure::Failure;
use crate::qdrant::collections::no_such_vector;
use crate::qdrant::payload::WithPayload;
use crate::qdrant::points::{no_order, Scroll, Wanted};
use crate::qdrant::search::{no_lookup, no_prefetch, no_such_query, Asked, Target};

/// The id of a point. Errors: `BAD_REQUEST` for what is none.
pub(super) fn point_id(id: Option<Id>) -> Result<PointId, Failure> {
    match id.and_then(|id| id.point_id_options) {
        Some(PointIdOptions::Num(number)) => Ok(PointId::Number(number)),
        Some(PointIdOptions::Uuid(text)) => Ok(PointId::Text(text)),
        None => Err(Failure::bad("a point has no id")),
    }
}

/// The ids of points. Errors: as [`point_id`].
pub(super) fn point_ids(ids: Vec<Id>) -> Result<Vec<PointId>, Failure> {
    ids.into_iter().map(|id| point_id(Some(id))).collect()
}

/// Errors: `BAD_REQUEST` if a request is about some shards: a collection has one.
pub(super) fn no_shards(shards: &Option<ShardKeySelector>) -> Result<(), Failure> {
    match shards {
        None => Ok(()),
        Some(_) => Err(Failure::bad("shard keys are not supported: a collection has one shard")),
    }
}

/// What of points is wanted.
///
/// * `default`: whether payloads are wanted if the message does not say.
pub(super) fn wanted(
    payload: Option<WithPayloadSelector>,
    vectors: Option<WithVectorsSelector>,
    default: bool,
) -> Result<Wanted, Failure> {
    let payload = payload.and_then(|payload| payload.selector_options);
    let payload = payload.map(|payload| match payload {
        Payload::Enable(all) => WithPayload::All(all),
        Payload::Include(keys) => WithPayload::Include(keys.fields),
        Payload::Exclude(keys) => WithPayload::Exclude(keys.fields),
    });
    let vector = match vectors.and_then(|vectors| vectors.selector_options) {
        None => false,
        Some(Vectors::Enable(all)) => all,
        Some(Vectors::Include(names)) => Wanted::by_names(&names.names)?,
    };
    Ok(Wanted::new(payload, vector, default))
}

/// A number of points. One that does not fit is above every limit.
fn count(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn is_exact(params: Option<SearchParams>) -> bool {
    params.and_then(|params| params.exact) == Some(true)
}

/// Errors: `BAD_REQUEST` unless the threshold is a number.
fn threshold(threshold: Option<f32>) -> Result<Option<f32>, Failure> {
    match threshold {
        Some(threshold) if threshold.is_nan() => Err(Failure::bad("score_threshold is no number")),
        threshold => Ok(threshold),
    }
}

/// Errors: `BAD_REQUEST` if a vector is named.
fn no_name(name: Option<String>) -> Result<(), Failure> {
    match name.filter(|name| !name.is_empty()) {
        Some(name) => Err(no_such_vector(&name)),
        None => Ok(()),
    }
}

fn target(query: Query) -> Result<Target, Failure> {
    let kind = match query.variant {
        Some(Variant::Nearest(input)) => return nearest(input),
        Some(Variant::Recommend(_)) => "recommend",
        Some(Variant::Discover(_)) => "discover",
        Some(Variant::Context(_)) => "context",
        Some(Variant::OrderBy(_)) => "order_by",
        Some(Variant::Fusion(_)) => "fusion",
        Some(Variant::Sample(_)) => "sample",
        Some(Variant::Formula(_)) => "formula",
        Some(Variant::NearestWithMmr(_)) => "mmr",
        Some(Variant::Rrf(_)) => "rrf",
        Some(Variant::RelevanceFeedback(_)) => "relevance_feedback",
        Some(Variant::Text(_)) => "text",
        None => "nothing",
    };
    Err(no_such_query(kind))
}

fn nearest(input: VectorInput) -> Result<Target, Failure> {
    use vector_input::Variant;
    let kind = match input.variant {
        Some(Variant::Dense(vector)) => return Ok(Target::Vector(vector.data)),
        Some(Variant::Id(id)) => return Ok(Target::Point(point_id(Some(id))?)),
        Some(Variant::Sparse(_)) => "sparse",
        Some(Variant::MultiDense(_)) => "multi_dense",
        Some(Variant::Document(_)) => "document",
        Some(Variant::Image(_)) => "image",
        Some(Variant::Object(_)) => "object",
        None => "nothing",
    };
    Err(no_such_query(kind))
}

impl TryFrom<QueryPoints> for Asked {
    type Error = Failure;

    /// Errors: `BAD_REQUEST` for what is not supported.
    fn try_from(query: QueryPoints) -> Result<Asked, Failure> {
        if !query.prefetch.is_empty() {
            return Err(no_prefetch());
        }
        if query.lookup_from.is_some() {
            return Err(no_lookup());
        }
        no_name(query.using)?;
        no_shards(&query.shard_key_selector)?;
        Ok(Asked {
            near: query.query.map(target).transpose()?,
            filter: filter::some(query.filter)?,
            is_exact: is_exact(query.params),
            score_threshold: threshold(query.score_threshold)?,
            limit: query.limit.map(count),
            offset: query.offset.map(count),
            wanted: wanted(query.with_payload, query.with_vectors, false)?,
        })
    }
}

impl TryFrom<SearchPoints> for Asked {
    type Error = Failure;

    /// Errors: `BAD_REQUEST` for what is not supported.
    fn try_from(search: SearchPoints) -> Result<Asked, Failure> {
        if search.sparse_indices.is_some() {
            return Err(no_such_query("sparse"));
        }
        no_name(search.vector_name)?;
        no_shards(&search.shard_key_selector)?;
        Ok(Asked {
            near: Some(Target::Vector(search.vector)),
            filter: filter::some(search.filter)?,
            is_exact: is_exact(search.params),
            score_threshold: threshold(search.score_threshold)?,
            limit: Some(count(search.limit)),
            offset: search.offset.map(count),
            wanted: wanted(search.with_payload, search.with_vectors, false)?,
        })
    }
}

impl TryFrom<ScrollPoints> for Scroll {
    type Error = Failure;

    /// Errors: `BAD_REQUEST` for what is not supported.
    fn try_from(scroll: ScrollPoints) -> Result<Scroll, Failure> {
        if scroll.order_by.is_some() {
            return Err(no_order());
        }
        no_shards(&scroll.shard_key_selector)?;
        Ok(Scroll {
            offset: scroll.offset.map(|id| point_id(Some(id))).transpose()?,
            limit: scroll.limit.map(|limit| limit as usize),
            filter: filter::some(scroll.filter)?,
            wanted: wanted(scroll.with_payload, scroll.with_vectors, true)?,
        })
    }
}
