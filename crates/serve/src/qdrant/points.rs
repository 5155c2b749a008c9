//! Reads points: by id, in the order of ids, and how many there are.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{json, Value as Json};
use vstream_engine::{Schema, StoredRow, With, WithAttributes, READ_ROWS_MAX};

use super::filter;
use super::payload;
use super::wire::{Body, Point, Reply, WithPayload, WithVector};
use crate::access::{Access, Scope};
use crate::catalog::blocking;
use crate::collection::{Collection, PointId};
use crate::failure::Failure;
use crate::shared::Shared;

/// Points of a page unless a request says otherwise.
const PAGE: usize = 10;

/// What of a point is wanted beside its id.
#[derive(Clone)]
pub(super) struct Wanted {
    payload: WithPayload,
    vector: bool,
}

impl Wanted {
    /// * `default`: whether payloads are wanted if a request does not say.
    pub(super) fn new(
        payload: Option<WithPayload>,
        vector: &Option<WithVector>,
        default: bool,
    ) -> Result<Wanted, Failure> {
        let payload = payload.unwrap_or(WithPayload::All(default));
        Ok(Wanted { payload, vector: WithVector::is_wanted(vector)? })
    }

    /// What to read of the rows of a collection.
    pub(super) fn with(&self, schema: &Schema) -> With {
        let payload = !matches!(self.payload, WithPayload::All(false));
        // Rows that came through this interface have their attributes in their payloads.
        let attributes = match payload && !schema.open {
            true => WithAttributes::All,
            false => WithAttributes::None,
        };
        With { attributes, payload, vector: self.vector }
    }

    /// The point of a row.
    pub(super) fn point(&self, of: &Collection, schema: &Schema, row: StoredRow) -> Point {
        let payload = payload::wanted(schema, &row.fields.fields(), &self.payload);
        let (id, version) = (of.ids.of_row(&row), Some(row.version));
        Point { id, version, score: None, payload, vector: row.vector }
    }

    /// The record of a row: a point that was not searched for has no version.
    fn record(&self, of: &Collection, schema: &Schema, row: StoredRow) -> Point {
        Point { version: None, ..self.point(of, schema, row) }
    }
}

#[derive(Deserialize)]
pub(super) struct Retrieve {
    ids: Vec<PointId>,
    with_payload: Option<WithPayload>,
    with_vector: Option<WithVector>,
}

pub(super) async fn retrieve(
    State(shared): State<Arc<Shared>>,
    access: Access,
    Path(name): Path<String>,
    body: Body<Retrieve>,
) -> Result<Response, Failure> {
    let began = Instant::now();
    access.may(Scope::Read, Some(&name))?;
    let collection = shared.catalog.get(&name)?;
    let Retrieve { ids, with_payload, with_vector } = &body.value;
    let limit = shared.limits.points.min(READ_ROWS_MAX);
    if ids.len() > limit {
        return Err(Failure::bad(format!("there are {} ids: the limit is {limit}", ids.len())));
    }
    let wanted = Wanted::new(with_payload.clone(), with_vector, true)?;
    let points = read(&shared, collection, ids.clone(), wanted).await?;
    Ok(Reply::new(began, points).into_response())
}

pub(super) async fn one(
    State(shared): State<Arc<Shared>>,
    access: Access,
    Path((name, id)): Path<(String, String)>,
) -> Result<Response, Failure> {
    let began = Instant::now();
    access.may(Scope::Read, Some(&name))?;
    let collection = shared.catalog.get(&name)?;
    let json = id.parse::<u64>().map_or_else(|_| Json::from(id.as_str()), Json::from);
    let id: PointId =
        serde_json::from_value(json).map_err(|error| Failure::bad(error.to_string()))?;
    let wanted = Wanted { payload: WithPayload::All(true), vector: true };
    let point = read(&shared, collection, vec![id.clone()], wanted).await?.pop();
    let point = point.ok_or_else(|| Failure::no_point(id))?;
    Ok(Reply::new(began, point).into_response())
}

/// Reads points by id; those that are not there are left out.
async fn read(
    shared: &Shared,
    collection: Arc<Collection>,
    ids: Vec<PointId>,
    wanted: Wanted,
) -> Result<Vec<Point>, Failure> {
    let _admitted = shared.admission.search()?;
    let work = move || {
        let schema = collection.reader().schema();
        let rows = collection.get(&collection.ids.row_ids(&ids)?, &wanted.with(&schema))?;
        let rows = rows.into_iter().flatten();
        Ok(rows.map(|row| wanted.record(&collection, &schema, row)).collect())
    };
    blocking(work).await?
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

pub(super) async fn scroll(
    State(shared): State<Arc<Shared>>,
    access: Access,
    Path(name): Path<String>,
    body: Body<Scroll>,
) -> Result<Response, Failure> {
    let began = Instant::now();
    access.may(Scope::Read, Some(&name))?;
    let collection = shared.catalog.get(&name)?;
    let Scroll { offset, limit, filter, with_payload, with_vector, order_by } = &body.value;
    if order_by.as_ref().is_some_and(|order| !order.is_null()) {
        return Err(Failure::bad("order_by is not supported: points come in the order of ids"));
    }
    let (limit, most) = (limit.unwrap_or(PAGE), shared.limits.points.min(READ_ROWS_MAX - 1));
    if !(1..=most).contains(&limit) {
        return Err(Failure::bad(format!("limit is {limit}: choose a value from 1 to {most}")));
    }
    let wanted = Wanted::new(with_payload.clone(), with_vector, true)?;
    let filter = filter::read_some(&collection, filter)?;
    let first = offset.as_ref().map(|id| collection.ids.row_id(id)).transpose()?;
    let _admitted = shared.admission.search()?;
    let work = move || {
        let schema = collection.reader().schema();
        // The offset is the first point of the page, and a scroll begins after an id.
        let after = first.and_then(|first| first.id.checked_sub(1));
        let with = wanted.with(&schema);
        let mut rows = collection.scroll(filter.as_ref(), after, limit + 1, &with)?.rows;
        let next = (rows.len() > limit).then(|| rows.pop()).flatten();
        let next = next.map(|row| collection.ids.of_row(&row));
        let points = rows.into_iter().map(|row| wanted.record(&collection, &schema, row));
        Ok::<_, Failure>((points.collect::<Vec<_>>(), next))
    };
    let (points, next) = blocking(work).await??;
    let points = serde_json::value::to_raw_value(&points);
    let points = points.map_err(|error| Failure::broken(error.to_string()))?;
    #[derive(serde::Serialize)]
    struct Page {
        points: Box<serde_json::value::RawValue>,
        next_page_offset: Option<PointId>,
    }
    Ok(Reply::new(began, Page { points, next_page_offset: next }).into_response())
}

#[derive(Deserialize)]
pub(super) struct Count {
    filter: Option<Json>,
}

/// Counts exactly, also if a client would be content with less.
pub(super) async fn count(
    State(shared): State<Arc<Shared>>,
    access: Access,
    Path(name): Path<String>,
    body: Body<Count>,
) -> Result<Response, Failure> {
    let began = Instant::now();
    access.may(Scope::Read, Some(&name))?;
    let collection = shared.catalog.get(&name)?;
    let filter = filter::read_some(&collection, &body.value.filter)?;
    let _admitted = shared.admission.search()?;
    let work = move || collection.reader().count(filter.as_ref());
    let count = blocking(work).await??;
    Ok(Reply::new(began, json!({"count": count})).into_response())
}
