//! The nearest points of a vector, or of another point.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use vstream_engine::{Effort, Filter, Query, With, K_MAX};

use super::collections::{radius, score};
use super::filter;
use super::near::Near;
use super::points::Wanted;
use super::wire::{no_such_vector, Body, Point, Reply, WithPayload, WithVector};
use crate::access::{Access, Scope};
use crate::catalog::blocking;
use crate::collection::{Collection, PointId};
use crate::failure::Failure;
use crate::shared::Shared;

/// Points of an answer unless a request says otherwise.
const LIMIT: usize = 10;

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

/// The points of an answer, as `points/query` gives them.
#[derive(Serialize)]
struct Points {
    points: Vec<Point>,
}

pub(super) async fn query(
    State(shared): State<Arc<Shared>>,
    access: Access,
    Path(name): Path<String>,
    body: Body<Queried>,
) -> Result<Response, Failure> {
    let (began, mut all) = (Instant::now(), Vec::new());
    answer(&shared, &access, &name, vec![body.value], &mut all).await?;
    let points = all.pop().unwrap_or_default();
    Ok(Reply::new(began, Points { points }).into_response())
}

pub(super) async fn query_batch(
    State(shared): State<Arc<Shared>>,
    access: Access,
    Path(name): Path<String>,
    body: Body<Batch<Queried>>,
) -> Result<Response, Failure> {
    let (began, mut all) = (Instant::now(), Vec::new());
    answer(&shared, &access, &name, body.value.searches, &mut all).await?;
    let all: Vec<Points> = all.into_iter().map(|points| Points { points }).collect();
    Ok(Reply::new(began, all).into_response())
}

pub(super) async fn search(
    State(shared): State<Arc<Shared>>,
    access: Access,
    Path(name): Path<String>,
    body: Body<Searched>,
) -> Result<Response, Failure> {
    let (began, mut all) = (Instant::now(), Vec::new());
    answer(&shared, &access, &name, vec![body.value.into()], &mut all).await?;
    Ok(Reply::new(began, all.pop().unwrap_or_default()).into_response())
}

pub(super) async fn search_batch(
    State(shared): State<Arc<Shared>>,
    access: Access,
    Path(name): Path<String>,
    body: Body<Batch<Searched>>,
) -> Result<Response, Failure> {
    let (began, mut all) = (Instant::now(), Vec::new());
    let searches = body.value.searches.into_iter().map(Queried::from).collect();
    answer(&shared, &access, &name, searches, &mut all).await?;
    Ok(Reply::new(began, all).into_response())
}

/// Answers queries. All are checked before the first is answered.
async fn answer(
    shared: &Shared,
    access: &Access,
    name: &str,
    queries: Vec<Queried>,
    all: &mut Vec<Vec<Point>>,
) -> Result<(), Failure> {
    access.may(Scope::Read, Some(name))?;
    let collection = shared.catalog.get(name)?;
    let (count, most) = (queries.len(), shared.limits.queries);
    if count > most {
        return Err(Failure::bad(format!("there are {count} queries: the limit is {most}")));
    }
    let asked = queries.into_iter().map(|query| Ask::new(&collection, query));
    let asked: Vec<Ask> = asked.collect::<Result<_, _>>()?;
    let _admitted = shared.admission.search()?;
    if let [one] = asked.as_slice() {
        if one.is_short(&collection) {
            all.push(one.answer(&collection)?);
            return Ok(());
        }
    }
    let work = move || asked.iter().map(|one| one.answer(&collection)).collect();
    *all = blocking::<Result<Vec<Vec<Point>>, Failure>>(work).await??;
    Ok(())
}

/// A query that was checked, as far as that is possible without the rows.
struct Ask {
    near: Option<Target>,
    filter: Option<Filter>,
    effort: Effort,
    radius: Option<f32>,
    limit: usize,
    offset: usize,
    wanted: Wanted,
}

enum Target {
    Vector(Vec<f32>),
    Point(PointId),
}

impl Ask {
    /// Errors: `BAD_REQUEST` for what is not supported, or out of bounds.
    fn new(collection: &Collection, query: Queried) -> Result<Ask, Failure> {
        let is_given = |json: &Option<Json>| {
            json.as_ref().is_some_and(|json| !json.is_null() && *json != Json::Array(Vec::new()))
        };
        if is_given(&query.prefetch) {
            return Err(Failure::bad("prefetch is not supported: a query has one step"));
        }
        if is_given(&query.lookup_from) {
            return Err(Failure::bad("lookup_from is not supported"));
        }
        if let Some(using) = query.using.filter(|using| !using.is_empty()) {
            return Err(no_such_vector(&using));
        }
        let near = query.query.map(target).transpose()?;
        let (limit, offset) = (query.limit.unwrap_or(LIMIT), query.offset.unwrap_or(0));
        // The point itself is one of its nearest.
        let all = limit.saturating_add(offset).saturating_add(1);
        if limit == 0 || all > K_MAX + 1 {
            return Err(Failure::bad(format!(
                "limit is {limit} and offset {offset}: their sum is 1 to {K_MAX}"
            )));
        }
        let is_exact = query.params.and_then(|params| params.exact) == Some(true);
        let metric = collection.settings.metric;
        Ok(Ask {
            near,
            filter: filter::read_some(collection, &query.filter)?,
            effort: if is_exact { Effort::Exact } else { Effort::Auto },
            radius: query.score_threshold.map(|threshold| radius(metric, threshold)),
            limit,
            offset,
            wanted: Wanted::new(query.with_payload, &query.with_vector, false)?,
        })
    }

    fn is_short(&self, collection: &Collection) -> bool {
        let Some(Target::Vector(vector)) = &self.near else { return false };
        collection.answers_at_once(&self.query(vector, self.limit + self.offset))
    }

    fn query<'a>(&'a self, vector: &'a [f32], k: usize) -> Query<'a> {
        Query {
            vector,
            k: k.min(K_MAX),
            effort: self.effort,
            filter: self.filter.as_ref(),
            radius: self.radius,
        }
    }

    /// Answers. Errors: `BAD_REQUEST` for a wrong vector, `NOT_FOUND` for an unknown point.
    fn answer(&self, collection: &Collection) -> Result<Vec<Point>, Failure> {
        match &self.near {
            Some(Target::Vector(vector)) => self.nearest(collection, vector, None),
            Some(Target::Point(id)) => {
                let key = collection.ids.row_id(id)?;
                let with = With { vector: true, ..With::default() };
                let row = collection.get(&[key], &with)?.pop().flatten();
                let vector = row.and_then(|row| row.vector);
                let vector = vector.ok_or_else(|| Failure::no_point(id))?;
                self.nearest(collection, &vector, Some(id))
            }
            // Without a query, points come in the order of ids.
            None => {
                let schema = collection.reader().schema();
                let (with, all) = (self.wanted.with(&schema), self.limit + self.offset);
                let rows = collection.scroll(self.filter.as_ref(), None, all, &with)?.rows;
                let points = rows.into_iter().skip(self.offset).map(|row| Point {
                    score: Some(0.0),
                    ..self.wanted.point(collection, &schema, row)
                });
                Ok(points.collect())
            }
        }
    }

    /// The nearest points of a vector.
    ///
    /// * `without`: a point that is not in the answer: the one that the vector is of.
    fn nearest(
        &self,
        collection: &Collection,
        vector: &[f32],
        without: Option<&PointId>,
    ) -> Result<Vec<Point>, Failure> {
        let schema = collection.reader().schema();
        let all = self.limit + self.offset;
        let k = all + usize::from(without.is_some());
        let answer = collection.answer(&self.query(vector, k), &self.wanted.with(&schema))?;
        let metric = collection.settings.metric;
        let points = answer.neighbors.iter().zip(answer.rows).map(|(found, row)| Point {
            score: Some(score(metric, found.distance)),
            ..self.wanted.point(collection, &schema, row)
        });
        let others = points.filter(|point| without != Some(&point.id));
        Ok(others.take(all).skip(self.offset).collect())
    }
}

fn target(near: Near) -> Result<Target, Failure> {
    match near {
        Near::Vector(vector) => Ok(Target::Vector(vector)),
        Near::Id(id) => Ok(Target::Point(id)),
        Near::Other(kind) => Err(Failure::bad(format!(
            "a query by '{kind}' is not supported: give a vector or the id of a point"
        ))),
    }
}
