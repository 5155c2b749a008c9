//! Requests to read points, as bodies of JSON.

use std::time::Instant;

use axum::extract::RawPathParams;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{json, Value as Json};

use super::wire::{Body, Reply, WithPayload, WithVector};
use crate::collection::PointId;
use crate::failure::Failure;
use crate::qdrant::call::Call;
use crate::qdrant::payload;
use crate::qdrant::points::{self, no_order, Point, Wanted};

#[derive(Deserialize)]
pub(super) struct Retrieve {
    ids: Vec<PointId>,
    with_payload: Option<WithPayload>,
    with_vector: Option<WithVector>,
}

/// What a request to read points wants: the payload unless it says otherwise.
fn wanted(
    with_payload: Option<WithPayload>,
    with_vector: &Option<WithVector>,
) -> Result<Wanted, Failure> {
    let vector = WithVector::is_wanted(with_vector)?;
    Ok(Wanted::new(with_payload.map(WithPayload::into), vector, true))
}

pub(super) async fn retrieve(call: Call, body: Body<Retrieve>) -> Result<Response, Failure> {
    let began = Instant::now();
    let Retrieve { ids, with_payload, with_vector } = body.value;
    let points = points::retrieve(&call, ids, wanted(with_payload, &with_vector)?).await?;
    Ok(Reply::new(began, points).into_response())
}

pub(super) async fn one(call: Call, params: RawPathParams) -> Result<Response, Failure> {
    let began = Instant::now();
    let id = params.iter().find(|(name, _)| *name == "id").map_or("", |(_, id)| id);
    let id = PointId::of_name(id);
    let wanted = Wanted::new(Some(payload::WithPayload::All(true)), true, true);
    let point = points::retrieve(&call, vec![id.clone()], wanted).await?.pop();
    let point = point.ok_or_else(|| Failure::no_point(id))?;
    Ok(Reply::new(began, point).into_response())
}

#[derive(Deserialize)]
pub(super) struct Scroll {
    offset: Option<PointId>,
    limit: Option<usize>,
    filter: Option<Json>,
    with_payload: Option<WithPayload>,
    with_vector: Option<WithVector>,
    order_by: Option<Json>,
}

impl TryFrom<Scroll> for points::Scroll {
    type Error = Failure;

    fn try_from(scroll: Scroll) -> Result<points::Scroll, Failure> {
        let Scroll { offset, limit, filter, with_payload, with_vector, order_by } = scroll;
        if order_by.is_some_and(|order| !order.is_null()) {
            return Err(no_order());
        }
        Ok(points::Scroll { offset, limit, filter, wanted: wanted(with_payload, &with_vector)? })
    }
}

#[derive(Serialize)]
struct Page {
    points: Vec<Point>,
    next_page_offset: Option<PointId>,
}

pub(super) async fn scroll(call: Call, body: Body<Scroll>) -> Result<Response, Failure> {
    let began = Instant::now();
    let (points, next_page_offset) = points::scroll(&call, body.value).await?;
    Ok(Reply::new(began, Page { points, next_page_offset }).into_response())
}

#[derive(Deserialize)]
pub(super) struct Count {
    filter: Option<Json>,
}

pub(super) async fn count(call: Call, body: Body<Count>) -> Result<Response, Failure> {
    let began = Instant::now();
    let count = points::count(&call, body.value.filter).await?;
    Ok(Reply::new(began, json!({"count": count})).into_response())
}
