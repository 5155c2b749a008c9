//! Reads points: by id, in the order of ids, and how many there are.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::Value as Json;
use vstream_engine::{Filter, Schema, StoredRow, With, WithAttributes, READ_ROWS_MAX};

use super::call::Call;
use super::collections::no_such_vector;
use super::filter::ReadFilter;
use super::payload::{self, WithPayload};
use crate::catalog::blocking;
use crate::collection::{Collection, PointId};
use crate::failure::Failure;

/// Points of a page unless a request says otherwise.
const PAGE: usize = 10;

/// A point in an answer.
#[derive(Serialize)]
pub(crate) struct Point {
    pub(crate) id: PointId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) score: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) payload: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) vector: Option<Vec<f32>>,
}

/// What of a point is wanted beside its id.
#[derive(Clone)]
pub(crate) struct Wanted {
    payload: WithPayload,
    vector: bool,
}

impl Point {
    /// Bytes that it takes, about.
    pub(super) fn bytes(&self) -> usize {
        let payload = self.payload.as_ref().map_or(0, |payload| payload.get().len());
        payload + self.vector.as_ref().map_or(0, |vector| 4 * vector.len())
    }

    /// The point, and [`Point::bytes`].
    pub(super) fn sized(self) -> (Point, usize) {
        let bytes = self.bytes();
        (self, bytes)
    }
}

impl Wanted {
    /// * `default`: whether payloads are wanted if a request does not say.
    pub(crate) fn new(payload: Option<WithPayload>, vector: bool, default: bool) -> Wanted {
        Wanted { payload: payload.unwrap_or(WithPayload::All(default)), vector }
    }

    /// Whether the vector is wanted by a list of names, which could only name vectors that are not
    /// there. Errors: `BAD_REQUEST` if it does.
    pub(super) fn by_names(names: &[String]) -> Result<bool, Failure> {
        match names.iter().all(String::is_empty) {
            true => Ok(!names.is_empty()),
            false => Err(no_such_vector(&names.join(", "))),
        }
    }

    /// What to read of rows.
    pub(super) fn with(&self) -> With {
        let payload = !matches!(self.payload, WithPayload::All(false));
        // Another face may have changed attributes alone.
        let attributes = match payload {
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

/// Reads points by id; those that are not there are left out.
pub(crate) async fn retrieve(
    call: &Call,
    ids: Vec<PointId>,
    wanted: Wanted,
) -> Result<Vec<Point>, Failure> {
    let collection = call.read().await?;
    let limit = call.shared.limits.points.min(READ_ROWS_MAX);
    if ids.len() > limit {
        return Err(Failure::bad(format!("there are {} ids: the limit is {limit}", ids.len())));
    }
    let admitted = call.shared.admission.search()?;
    let of = collection.clone();
    let work = move || {
        let (collection, _admitted) = (of, admitted);
        let schema = collection.reader().schema();
        let make = &mut |row| wanted.record(&collection, &schema, row).sized();
        collection.rows(&ids, &wanted.with(), make)
    };
    let points = blocking::<Result<Vec<Point>, Failure>>(work).await??;
    call.moment.end(&collection).await?;
    Ok(points)
}

/// A page of points in the order of ids.
pub(super) struct Scroll {
    /// The first point of the page.
    pub(super) offset: Option<PointId>,
    pub(super) limit: Option<usize>,
    pub(super) filter: Option<Json>,
    pub(super) wanted: Wanted,
}

/// An order of points that is not there.
pub(super) fn no_order() -> Failure {
    Failure::bad("order_by is not supported: points come in the order of ids")
}

/// The id where a page begins. Its point may be gone since the page before named it, and then its form says where it was.
fn at_offset(collection: &Collection, id: PointId) -> Result<PointId, Failure> {
    let meant = collection.meant_by(&id)?;
    if meant == id || collection.is_of_job() {
        return Ok(meant);
    }
    let key = collection.ids.row_id(&meant)?;
    let get = || collection.get(&[key], &With::default());
    let is_there = tokio::task::block_in_place(get)?.iter().any(Option::is_some);
    Ok(if is_there { meant } else { id })
}

/// The points of a page, and the first of the next page. A page of large payloads has fewer points than were asked for.
pub(super) async fn scroll(
    call: &Call,
    asked: impl TryInto<Scroll, Error = Failure>,
) -> Result<(Vec<Point>, Option<PointId>), Failure> {
    let collection = call.read().await?;
    let Scroll { offset, limit, filter, wanted } = asked.try_into()?;
    let (limit, most) = (limit.unwrap_or(PAGE), call.shared.limits.points.min(READ_ROWS_MAX - 1));
    if !(1..=most).contains(&limit) {
        return Err(Failure::bad(format!("limit is {limit}: choose a value from 1 to {most}")));
    }
    let mut filter = call.reading(|| ReadFilter::new(&collection, filter))?;
    let offset = offset.map(|id| at_offset(&collection, id)).transpose()?;
    let first = offset.as_ref().map(|id| collection.ids.row_id(id)).transpose()?;
    let admitted = call.shared.admission.search()?;
    let of = collection.clone();
    let work = move || {
        let (collection, _admitted) = (of, admitted);
        // The offset is the first point of the page, and a scroll begins after an id.
        let after = first.and_then(|first| first.id.checked_sub(1));
        let page = |filter: Option<&Filter>| {
            let with = wanted.with();
            collection.page(filter, after, limit + 1, &with)
        };
        let (mut rows, is_cut) = filter.look(&collection, page)?;
        let schema = collection.reader().schema();
        let next = (is_cut || rows.len() > limit).then(|| rows.pop()).flatten();
        let next = next.map(|row| collection.ids.of_row(&row));
        let points = rows.into_iter().map(|row| wanted.record(&collection, &schema, row));
        Ok((points.collect(), next))
    };
    let page = blocking::<Result<(Vec<Point>, Option<PointId>), Failure>>(work).await??;
    call.moment.end(&collection).await?;
    Ok(page)
}

/// Counts exactly, also if a client would be content with less.
pub(super) async fn count(call: &Call, filter: Option<Json>) -> Result<u64, Failure> {
    let collection = call.read().await?;
    let mut filter = call.reading(|| ReadFilter::new(&collection, filter))?;
    let admitted = call.shared.admission.search()?;
    let of = collection.clone();
    let work = move || {
        let _admitted = admitted;
        filter.look(&of, |filter| of.count(filter))
    };
    let count = blocking(work).await??;
    call.moment.end(&collection).await?;
    Ok(count)
}
