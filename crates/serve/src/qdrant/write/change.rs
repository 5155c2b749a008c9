//! What a request changes, on the thread that writes.

use std::sync::Arc;

use serde_json::{Map, Value as Json};
use vstream_engine::{
    check_fields, Attributes, AttributesBuilder, Fields, Filter, NumberedWriter, PayloadChange,
    Row, RowId, Schema, StoredRow, Update, With, WithAttributes, READ_ROWS_MAX,
};

use super::{NewPoint, Selector, SetPayload};
use crate::collection::{key, Collection, PointId, TOGETHER_MAX};
use crate::failure::Failure;
use crate::qdrant::filter;
use crate::qdrant::payload;
use crate::turns::point_done;

/// A change of some points.
pub(super) enum Change {
    Upsert(Vec<Prepared>),
    Delete(Which),
    /// Values take the place of those under their keys.
    Merge(Which, Map<String, Json>),
    /// The payload takes the place of the one that was there.
    Replace(Which, Map<String, Json>),
    DeleteKeys(Which, Vec<String>),
}

/// A point to write.
pub(super) struct Prepared {
    id: RowId,
    name: String,
    vector: Vec<f32>,
    payload: Map<String, Json>,
    bytes: Option<Vec<u8>>,
    /// Bytes of its attributes, once it is checked.
    attributes: Vec<u8>,
}

/// Points that change.
pub(super) enum Which {
    Ids(Vec<(PointId, RowId)>),
    /// The filter as it was given, and read when its turn came: writes before it may add the keys that it names.
    Matching(Json, Filter),
}

impl Which {
    /// Errors: `BAD_REQUEST` unless ids or a filter are given, or for too many ids.
    pub(super) fn new(of: &Collection, which: Selector, most: usize) -> Result<Which, Failure> {
        match (which.points, which.filter.filter(|filter| !filter.is_null())) {
            (Some(ids), None) => {
                check_count(ids.len(), most)?;
                let ids = of.meant(ids)?;
                let keys = of.ids.row_ids(&ids)?;
                Ok(Which::Ids(ids.into_iter().zip(keys).collect()))
            }
            (None, Some(filter)) => {
                let read = filter::read(of, &filter)?;
                Ok(Which::Matching(filter, read))
            }
            _ => Err(Failure::bad("give points or filter")),
        }
    }

    /// Reads the filter once more, by the attributes that there are when its turn comes. Errors: as [`Which::new`].
    fn read(&mut self, of: &Collection, schema: &Schema) -> Result<(), Failure> {
        if let Which::Matching(json, filter) = self {
            *filter = filter::read_by(schema, of, json)?;
        }
        Ok(())
    }
}

fn check_count(points: usize, most: usize) -> Result<(), Failure> {
    if points > most {
        return Err(Failure::bad(format!("there are {points} points: the limit is {most}")));
    }
    Ok(())
}

/// Errors: `BAD_REQUEST` for a text that is no UUID, unless another face has given a point this id.
fn check_new(of: &Collection, points: &[NewPoint]) -> Result<(), Failure> {
    let foreign: Vec<_> =
        points.iter().map(|point| &point.id).filter(|id| id.is_foreign()).collect();
    if foreign.is_empty() {
        return Ok(());
    }
    // The rows may be on the disk.
    tokio::task::block_in_place(|| {
        for some in foreign.chunks(READ_ROWS_MAX) {
            let keys = some.iter().map(|id| of.ids.row_id(id)).collect::<Result<Vec<_>, _>>()?;
            let rows = of.get(&keys, &With::default())?;
            if let Some((id, _)) = some.iter().zip(rows).find(|(_, row)| row.is_none()) {
                let what = format!("the id '{id}' is no UUID: a new point has a number or a UUID");
                return Err(Failure::bad(what));
            }
        }
        Ok(())
    })
}

impl Change {
    /// Errors: `BAD_REQUEST` for too many points, ids of the wrong kind or a payload that is too large. Blocks only if
    /// some ids are texts of another face.
    pub(super) fn upsert(
        of: &Collection,
        points: Vec<NewPoint>,
        most: usize,
    ) -> Result<Change, Failure> {
        check_count(points.len(), most)?;
        check_new(of, &points)?;
        let (mut points, mut ids) = (points, Vec::new());
        if points.iter().any(|point| point.id.usual().is_some()) {
            ids.extend(points.iter().map(|point| point.id.clone()));
        }
        for (point, id) in points.iter_mut().zip(of.meant(ids)?) {
            point.id = id;
        }
        let prepared = |NewPoint { id, vector, payload }: NewPoint| {
            let has_payload = !payload.is_empty();
            Ok(Prepared {
                id: of.ids.row_id(&id)?,
                name: of.ids.name(&id)?,
                vector,
                bytes: has_payload.then(|| payload::bytes(&payload)).transpose()?,
                payload,
                attributes: Vec::new(),
            })
        };
        Ok(Change::Upsert(points.into_iter().map(prepared).collect::<Result<_, Failure>>()?))
    }

    /// Errors: as [`Which::new`].
    pub(super) fn set(
        of: &Collection,
        set: SetPayload,
        is_whole: bool,
        most: usize,
    ) -> Result<Change, Failure> {
        let which = Which::new(of, set.which, most)?;
        if set.key.is_some_and(|key| !key.is_empty()) {
            return Err(Failure::bad(
                "'key' is not supported: give the whole value of its first part",
            ));
        }
        Ok(match is_whole {
            true => Change::Replace(which, set.payload),
            false => Change::Merge(which, set.payload),
        })
    }

    /// Errors: as [`Which::new`].
    pub(super) fn clear(of: &Collection, which: Selector, most: usize) -> Result<Change, Failure> {
        Ok(Change::Replace(Which::new(of, which, most)?, Map::new()))
    }
}

/// Makes changes in order, after all were checked. Errors: of the check, when nothing is changed. Of what only the
/// points that are there can say, when other changes stay: a payload that grows too large, an id without a point.
pub(super) fn apply(
    of: &Collection,
    rows: &mut NumberedWriter,
    mut changes: Vec<Change>,
) -> Result<(), Failure> {
    let known = rows.engine().schema().attributes.len();
    let schema = checked(of, rows, &mut changes)?;
    // Filters and points of the check name columns of these.
    for attribute in &schema.attributes[known..] {
        rows.admit_attribute(&attribute.name, attribute.kind)?;
    }
    for change in changes {
        match change {
            Change::Upsert(points) => upsert(rows, &points)?,
            Change::Delete(Which::Ids(ids)) => {
                for (_, id) in ids {
                    rows.delete(id, None)?;
                }
            }
            Change::Delete(Which::Matching(_, filter)) => {
                rows.delete_where(&filter, None)?;
            }
            Change::Merge(which, values) => {
                each(of, rows, which, &mut |mut payload| {
                    values.iter().for_each(|(key, value)| {
                        payload.insert(key.clone(), value.clone());
                    });
                    payload
                })?;
            }
            Change::Replace(which, values) => {
                each(of, rows, which, &mut |_| values.clone())?;
            }
            Change::DeleteKeys(which, keys) => {
                each(of, rows, which, &mut |payload| payload::excluded(payload, &keys))?;
            }
        }
    }
    Ok(())
}

/// Checks changes as far as that is possible without the points that are there, reads filters and encodes points.
/// Returns the schema with the attributes that they need.
fn checked(
    of: &Collection,
    rows: &NumberedWriter,
    changes: &mut [Change],
) -> Result<Arc<Schema>, Failure> {
    let mut schema = rows.engine().schema().clone();
    let mut builder = AttributesBuilder::default();
    for change in changes {
        match change {
            Change::Upsert(points) => encode(rows, points, &mut schema, &mut builder)?,
            Change::Delete(which) => which.read(of, &schema)?,
            Change::DeleteKeys(which, keys) => {
                which.read(of, &schema)?;
                check_group(&schema, |group| !keys.iter().any(|key| key == group))?;
            }
            Change::Replace(which, values) => {
                which.read(of, &schema)?;
                check_group(&schema, |group| is_group(values.get(group)))?;
                payload::bytes(values)?;
                payload::extend(&mut schema, [&*values].into_iter())?;
                payload::encode(&schema, values, &mut builder)?;
            }
            Change::Merge(which, values) => {
                which.read(of, &schema)?;
                let stays = |group: &str| !values.contains_key(group);
                check_group(&schema, |group| stays(group) || is_group(values.get(group)))?;
                payload::bytes(values)?;
                payload::extend(&mut schema, [&*values].into_iter())?;
                payload::encode(&schema, values, &mut builder)?;
            }
        }
    }
    Ok(schema)
}

fn is_group(value: Option<&Json>) -> bool {
    value.and_then(Json::as_str).is_some_and(|group| !group.is_empty())
}

/// Errors: `BAD_REQUEST` where points have groups, unless they keep one.
fn check_group(schema: &Schema, keeps: impl Fn(&str) -> bool) -> Result<(), Failure> {
    let Some(column) = schema.group_column() else { return Ok(()) };
    let group = &schema.attributes[usize::from(column)].name;
    if keeps(group) {
        return Ok(());
    }
    Err(Failure::bad(format!("the payload of a point has its group under '{group}', which stays")))
}

/// Checks points and encodes their attributes.
fn encode(
    rows: &NumberedWriter,
    points: &mut [Prepared],
    schema: &mut Arc<Schema>,
    builder: &mut AttributesBuilder,
) -> Result<(), Failure> {
    for point in points.iter() {
        rows.engine().check(&point.vector)?;
    }
    payload::extend(schema, points.iter().map(|point| &point.payload))?;
    for point in points {
        payload::encode(schema, &point.payload, builder)?;
        let attributes = builder.build();
        check_fields(&fields(point, attributes), schema)?;
        let encoded = attributes.bytes().to_vec();
        point.attributes = encoded;
        point_done();
    }
    Ok(())
}

/// Writes points that were checked.
fn upsert(rows: &mut NumberedWriter, points: &[Prepared]) -> Result<(), Failure> {
    rows.engine_mut().expect_upserts(points.len());
    let done = upsert_each(rows, points);
    rows.engine_mut().expect_upserts(0);
    done
}

fn upsert_each(rows: &mut NumberedWriter, points: &[Prepared]) -> Result<(), Failure> {
    for point in points {
        let attributes = Attributes::decode(&point.attributes);
        let attributes = attributes.map_err(|_| Failure::broken("attributes of this server"))?;
        let fields = fields(point, attributes);
        let vector = &point.vector;
        let row = Row { id: point.id.id, version: 0, code: 0, shard: 0, vector, fields };
        rows.upsert_checked(&row)?;
        point_done();
    }
    Ok(())
}

fn fields<'a>(point: &'a Prepared, attributes: Attributes<'a>) -> Fields<'a> {
    let payload = point.bytes.as_deref();
    Fields { name: &point.name, check: point.id.check, attributes, payload }
}

/// Changes the payloads of points. Errors: `NOT_FOUND` with the first id that has no point, after all
/// others were changed.
fn each(
    of: &Collection,
    rows: &mut NumberedWriter,
    which: Which,
    change: &mut dyn FnMut(Map<String, Json>) -> Map<String, Json>,
) -> Result<(), Failure> {
    let with = With { attributes: WithAttributes::All, payload: true, vector: false };
    let schema = rows.engine().schema().clone();
    match which {
        Which::Ids(ids) => {
            let mut missing = None;
            for some in ids.chunks(TOGETHER_MAX) {
                let keys: Vec<RowId> = some.iter().map(|(_, key)| *key).collect();
                let found = of.reader().get(&keys, &with)?;
                for ((id, key), row) in some.iter().zip(found) {
                    match row {
                        Some(row) => rewrite(rows, &schema, (*key, &row), change)?,
                        None => missing = missing.or(Some(id)),
                    }
                }
            }
            missing.map_or(Ok(()), |id| Err(Failure::no_point(id)))
        }
        Which::Matching(_, filter) => {
            // All pages are of one moment: a change may make a row match, or no longer.
            let (moment, mut after) = (of.reader().read_snapshot(), None);
            loop {
                let page = moment.scroll(Some(&filter), after, READ_ROWS_MAX, &With::default())?;
                let keys: Vec<RowId> = page.rows.iter().map(key).collect();
                for some in keys.chunks(TOGETHER_MAX) {
                    for (key, row) in some.iter().zip(moment.get(some, &with)?) {
                        row.map_or(Ok(()), |row| rewrite(rows, &schema, (*key, &row), change))?;
                    }
                }
                after = page.next;
                if after.is_none() {
                    return Ok(());
                }
            }
        }
    }
}

/// Changes the payload of one point, and its attributes with it.
fn rewrite(
    rows: &mut NumberedWriter,
    schema: &Schema,
    (id, row): (RowId, &StoredRow),
    change: &mut dyn FnMut(Map<String, Json>) -> Map<String, Json>,
) -> Result<(), Failure> {
    let before = row.fields.fields();
    let payload = change(payload::of_row(schema, &before));
    let mut builder = AttributesBuilder::default();
    payload::encode(schema, &payload, &mut builder)?;
    let set = builder.build();
    let unset: Vec<u16> =
        before.attributes.columns().filter(|&column| set.get(column).is_none()).collect();
    let bytes = payload::bytes(&payload)?;
    let payload = match payload.is_empty() {
        true => PayloadChange::Remove,
        false => PayloadChange::Set(&bytes),
    };
    rows.update(id, &Update { set, unset: &unset, payload }, None)?;
    Ok(())
}
