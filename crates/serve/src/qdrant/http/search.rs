//! Queries as bodies of JSON.

use std::time::Instant;

use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::near::Near;
use super::wire::{Body, Reply, WithPayload, WithVector};
use crate::failure::Failure;
use crate::qdrant::call::Call;
use crate::qdrant::collections::no_such_vector;
use crate::qdrant::points::{Point, Wanted};
use crate::qdrant::search::{answer, no_lookup, no_prefetch, no_such_query, Asked, Target};

#[derive(Default, Deserialize)]
struct Params {
    exact: Option<bool>,
}

/// A query by `points/query`.
#[derive(Deserialize)]
pub(super) struct Queried {
    query: Option<Near>,
    prefetch: Option<Json>,
    using: Option<String>,
    filter: Option<Json>,
    params: Option<Params>,
    score_threshold: Option<f32>,
    limit: Option<usize>,
    offset: Option<usize>,
    with_payload: Option<WithPayload>,
    with_vector: Option<WithVector>,
    lookup_from: Option<Json>,
}

/// A query by `points/search`, which is older.
#[derive(Deserialize)]
pub(super) struct Searched {
    vector: Vec<f32>,
    filter: Option<Json>,
    params: Option<Params>,
    score_threshold: Option<f32>,
    limit: usize,
    offset: Option<usize>,
    with_payload: Option<WithPayload>,
    with_vector: Option<WithVector>,
}

impl From<Searched> for Queried {
    fn from(searched: Searched) -> Queried {
        Queried {
            query: Some(Near::Vector(searched.vector)),
            prefetch: None,
            using: None,
            filter: searched.filter,
            params: searched.params,
            score_threshold: searched.score_threshold,
            limit: Some(searched.limit),
            offset: searched.offset,
            with_payload: searched.with_payload,
            with_vector: searched.with_vector,
            lookup_from: None,
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Batch<T> {
    searches: Vec<T>,
}

impl TryFrom<Queried> for Asked {
    type Error = Failure;

    /// Errors: `BAD_REQUEST` for what is not supported.
    fn try_from(query: Queried) -> Result<Asked, Failure> {
        let is_given = |json: &Option<Json>| {
            json.as_ref().is_some_and(|json| !json.is_null() && *json != Json::Array(Vec::new()))
        };
        if is_given(&query.prefetch) {
            return Err(no_prefetch());
        }
        if is_given(&query.lookup_from) {
            return Err(no_lookup());
        }
        if let Some(using) = query.using.filter(|using| !using.is_empty()) {
            return Err(no_such_vector(&using));
        }
        Ok(Asked {
            near: query.query.map(target).transpose()?,
            filter: query.filter,
            is_exact: query.params.and_then(|params| params.exact) == Some(true),
            score_threshold: query.score_threshold,
            limit: query.limit,
            offset: query.offset,
            wanted: Wanted::new(
                query.with_payload.map(WithPayload::into),
                WithVector::is_wanted(&query.with_vector)?,
                false,
            ),
        })
    }
}

impl TryFrom<Searched> for Asked {
    type Error = Failure;

    fn try_from(searched: Searched) -> Result<Asked, Failure> {
        Queried::from(searched).try_into()
    }
}

fn target(near: Near) -> Result<Target, Failure> {
    match near {
        Near::Vector(vector) => Ok(Target::Vector(vector)),
        Near::Id(id) => Ok(Target::Point(id)),
        Near::Other(kind) => Err(no_such_query(&kind)),
    }
}

/// The points of an answer, as `points/query` gives them.
#[derive(Serialize)]
struct Points {
    points: Vec<Point>,
}

pub(super) async fn query(call: Call, body: Body<Queried>) -> Result<Response, Failure> {
    let began = Instant::now();
    let points = answer(&call, vec![body.value]).await?.pop().unwrap_or_default();
    Ok(Reply::new(began, Points { points }).into_response())
}

pub(super) async fn query_batch(
    call: Call,
    body: Body<Batch<Queried>>,
) -> Result<Response, Failure> {
    let began = Instant::now();
    let all = answer(&call, body.value.searches).await?;
    let all: Vec<Points> = all.into_iter().map(|points| Points { points }).collect();
    Ok(Reply::new(began, all).into_response())
}

pub(super) async fn search(call: Call, body: Body<Searched>) -> Result<Response, Failure> {
    let began = Instant::now();
    let points = answer(&call, vec![body.value]).await?.pop().unwrap_or_default();
    Ok(Reply::new(began, points).into_response())
}

pub(super) async fn search_batch(
    call: Call,
    body: Body<Batch<Searched>>,
) -> Result<Response, Failure> {
    let began = Instant::now();
    Ok(Reply::new(began, answer(&call, body.value.searches).await?).into_response())
}
