//! One group. Its methods are those of a collection, so that the Python half is the same for both.

use std::collections::BTreeMap;
use std::sync::Arc;

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use vstream_engine::{
    Fields, FieldsBuffer, Filter, IdKind, Names, RowId, Schema, StoredRow, WithAttributes,
};
use vstream_group::{
    AnswerGroup, Condition, GroupHit, OwnedRow, PayloadChange, RowRef, Update, With,
    GROUP_BYTES_MAX,
};

use super::search::{GivenQuery, Prepared};
use super::store::{Shared, Writer};
use crate::failure::{detached, Failure};
use crate::fields::FieldColumns;
use crate::filters::{self, GivenFilter};
use crate::found::{values_of, Found, PyRows, Selection, Wanted};
use crate::ids::{GivenId, GivenIds, RowIds};
use crate::rows::{check_ids, slice1, Matrix};
use crate::stretches::stretches;
use crate::versions::{version_at, versions_of, GivenVersions};

/// Rows written before signals are looked at and other writers get their turn.
const STRETCH: usize = 1024;
/// Most rows of a page.
const PAGE_ROWS_MAX: usize = 10_000;

/// A group of a collection.
#[pyclass(frozen, module = "vstream._native")]
pub(crate) struct Group {
    shared: Arc<Shared>,
    name: String,
}

#[pymethods]
impl Group {
    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Adds or replaces one row; says whether it was written.
    fn upsert_one(
        &self,
        py: Python<'_>,
        one: i64,
        vector: PyReadonlyArray1<'_, f32>,
    ) -> PyResult<bool> {
        check_ids(&[one])?;
        if self.shared.ids.kind == IdKind::String {
            let message = "the collection has texts as ids: pass a str";
            return Err(Failure::invalid(message).into());
        }
        let vector = slice1(&vector)?;
        Ok(detached(py, || {
            let is_written = self.shared.write(|writer| {
                let version = writer.version(None);
                let row = RowRef { id: one as u64, version, vector, fields: Fields::NONE };
                Ok(writer.store().upsert(&self.name, &row)?)
            })?;
            self.shared.written()?;
            Ok(is_written)
        })?)
    }

    /// Adds or replaces a row per id: all rows are checked before the first one is written. Returns
    /// how many were written.
    fn upsert_many(
        &self,
        py: Python<'_>,
        ids: GivenIds<'_>,
        vectors: &Bound<'_, PyAny>,
        fields: Option<FieldColumns>,
        how: (Option<GivenFilter>, Option<Bound<'_, PyAny>>, GivenVersions<'_>),
    ) -> PyResult<usize> {
        let (condition, progress, versions) = how;
        let ids = self.shared.ids.read(ids)?;
        let versions = versions_of(versions, ids.len())?;
        let matrix = Matrix::from_python(vectors)?;
        let rows = matrix.rows(self.shared.settings.dimension)?;
        if ids.len() != rows.count() {
            let (ids, rows) = (ids.len(), rows.count());
            let message = format!("there are {ids} ids and {rows} vectors: pass one id per vector");
            return Err(Failure::invalid(message).into());
        }
        let fields = fields.unwrap_or_default();
        let encoded = detached(py, || {
            self.shared.check_open()?;
            fields.check(ids.len())?;
            rows.check(&self.shared.form)?;
            fields.check_payloads()?;
            Ok(fields.encode(self.schema(), ids.len())?)
        })?;
        let condition = condition.map(|given| self.filter(&given)).transpose()?;
        let (mut buffer, mut written) = (Vec::new(), 0);
        let told = |done: usize| match &progress {
            Some(progress) => progress.call1((done, ids.len())).map(|_| ()),
            None => Ok(()),
        };
        let done = stretches(py, ids.len(), STRETCH, told, |range| {
            self.shared.write(|writer| {
                for at in range {
                    let vector = rows.row(at, &mut buffer);
                    let fields = encoded.fields(at, &fields, ids.name(at));
                    let given = version_at(&versions, at);
                    let version = writer.version(given);
                    let row = RowRef { id: ids.get(at).id, version, vector, fields };
                    let is_written =
                        self.upsert(writer, &row, condition.as_ref(), given.is_some())?;
                    written += usize::from(is_written);
                }
                Ok(())
            })
        });
        detached(py, || self.shared.written())?;
        done.map(|()| written)
    }

    /// Changes what rows carry beside their vectors; says how many rows there were.
    fn update(
        &self,
        py: Python<'_>,
        ids: GivenIds<'_>,
        fields: FieldColumns,
        versions: GivenVersions<'_>,
    ) -> PyResult<usize> {
        let ids = self.shared.ids.read(ids)?;
        let versions = versions_of(versions, ids.len())?;
        let encoded = detached(py, || {
            self.shared.check_open()?;
            fields.check(ids.len())?;
            fields.check_payloads()?;
            Ok(fields.encode(self.schema(), ids.len())?)
        })?;
        let mut updated = 0;
        let work = |range: std::ops::Range<usize>| {
            self.shared.write(|writer| {
                for at in range {
                    let unset = fields.removed(self.schema(), at);
                    let payload = match (fields.has_payloads(), fields.payload(at)) {
                        (false, _) => PayloadChange::Keep,
                        (true, Some(payload)) => PayloadChange::Set(payload),
                        (true, None) => PayloadChange::Remove,
                    };
                    let update = Update { set: encoded.row(at), unset: &unset, payload };
                    let version = writer.version(version_at(&versions, at));
                    let id = ids.get(at);
                    let applied = writer.store().update(&self.name, id, version, &update)?;
                    updated += usize::from(applied.is_applied());
                }
                Ok(())
            })
        };
        let done = stretches(py, ids.len(), STRETCH, |_| Ok(()), work);
        detached(py, || self.shared.written())?;
        done.map(|()| updated)
    }

    /// Removes the rows of `ids`; says how many there were.
    fn delete(
        &self,
        py: Python<'_>,
        ids: GivenIds<'_>,
        versions: GivenVersions<'_>,
    ) -> PyResult<usize> {
        let ids = self.shared.ids.read(ids)?;
        let versions = versions_of(versions, ids.len())?;
        let mut removed = 0;
        let work = |range: std::ops::Range<usize>| {
            self.shared.write(|writer| {
                let found = self.read_rows(&ids, range.clone(), With::NOTHING)?;
                let found = range.zip(found).filter_map(|(at, row)| Some((row?.id, at)));
                // An id that comes twice is one row; its last version counts.
                let there: BTreeMap<u64, usize> = found.collect();
                for (id, at) in there {
                    let version = writer.version(version_at(&versions, at));
                    removed += usize::from(writer.store().delete(&self.name, id, version)?);
                }
                Ok(())
            })
        };
        let done = stretches(py, ids.len(), STRETCH, |_| Ok(()), work);
        detached(py, || self.shared.written())?;
        done.map(|()| removed)
    }

    /// Removes the rows that match; says how many there were.
    fn delete_where(
        &self,
        py: Python<'_>,
        condition: GivenFilter,
        version: Option<u64>,
    ) -> PyResult<u64> {
        let filter = self.filter(&condition)?;
        Ok(detached(py, || {
            let removed = self.shared.write(|writer| {
                let version = writer.version(version);
                Ok(writer.store().delete_where(&self.name, &filter, version)?)
            })?;
            self.shared.written()?;
            Ok(removed)
        })?)
    }

    /// Removes the whole group at once.
    fn drop(&self, py: Python<'_>) -> PyResult<()> {
        Ok(detached(py, || {
            self.shared.write(|writer| Ok(writer.store().drop_group(&self.name)?))?;
            self.shared.written()
        })?)
    }

    /// The rows of some ids, in the order of the ids; those that are not there are left out.
    fn get<'py>(
        &self,
        py: Python<'py>,
        ids: GivenIds<'_>,
        wanted: Wanted,
        vectors: bool,
    ) -> PyResult<PyRows<'py>> {
        self.shared.check_open()?;
        let ids = self.shared.ids.read(ids)?;
        let selection = Selection::new(self.schema(), &wanted, vectors)?;
        let with = with_of(&selection);
        let rows = detached(py, || self.read_rows(&ids, 0..ids.len(), with))?;
        let rows: Vec<StoredRow> =
            rows.into_iter().flatten().map(|row| stored(row, with)).collect();
        let at = (self.schema(), &self.shared.ids, self.shared.settings.dimension);
        selection.rows(py, at, &rows)
    }

    /// A page of the rows that match, in the order of ids, and where it ended.
    fn scroll<'py>(
        &self,
        py: Python<'py>,
        condition: Option<GivenFilter>,
        page: (usize, Option<GivenId>),
        wanted: Wanted,
        vectors: bool,
    ) -> PyResult<(PyRows<'py>, Option<Bound<'py, PyAny>>)> {
        self.shared.check_open()?;
        let filter = condition.map(|given| self.filter(&given)).transpose()?;
        let (limit, after) = page;
        if !(1..=PAGE_ROWS_MAX).contains(&limit) {
            let message = format!("limit is {limit}: choose a value from 1 to {PAGE_ROWS_MAX}");
            return Err(Failure::invalid(message).into());
        }
        let after = after.map(|id| self.shared.ids.read_end(id)).transpose()?;
        let selection = Selection::new(self.schema(), &wanted, vectors)?;
        let with = with_of(&selection);
        // One more row says whether there is a next page.
        let mut rows = detached(py, || {
            let reader = &self.shared.reader;
            Ok(reader.scroll(&self.name, filter.as_ref(), after, limit + 1, with)?)
        })?;
        let has_next = rows.len() > limit;
        rows.truncate(limit);
        let rows: Vec<StoredRow> = rows.into_iter().map(|row| stored(row, with)).collect();
        let last = rows.last().filter(|_| has_next);
        let end = last.map(|row| self.shared.ids.of_row(py, row)).transpose()?;
        let at = (self.schema(), &self.shared.ids, self.shared.settings.dimension);
        Ok((selection.rows(py, at, &rows)?, end))
    }

    /// Number of rows that match.
    fn count(&self, py: Python<'_>, condition: GivenFilter) -> PyResult<u64> {
        let filter = self.filter(&condition)?;
        self.rows(py, Some(&filter))
    }

    /// Number of rows.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.rows(py, None)? as usize)
    }

    /// The best rows, with what is wanted of them.
    fn search<'py>(
        &self,
        py: Python<'py>,
        query: Option<PyReadonlyArray1<'py, f32>>,
        given: GivenQuery,
        wanted: Option<Wanted>,
    ) -> PyResult<Found<'py>> {
        self.shared.check_open()?;
        let vector = query.as_ref().map(slice1).transpose()?;
        let filter = given.filter.as_ref().map(|given| self.filter(given)).transpose()?;
        let wanted = wanted.unwrap_or_else(|| (Some(Vec::new()), false));
        let selection = Selection::new(self.schema(), &wanted, false)?;
        let with = with_of(&selection);
        let prepared = Prepared::new(&given, self.schema())?;
        let answer = detached(py, || {
            let query = prepared.query(vector, &given, filter.as_ref(), with);
            Ok(self.shared.reader.search(&self.name, &query)?)
        })?;
        let values = prepared.grouped_by().and_then(|column| {
            let value = |group: &AnswerGroup<GroupHit>| (group.value.clone(), group.rows.len());
            let values: Vec<_> = answer.groups.iter().map(value).collect();
            Some((self.schema().kind(column)?.name(), values))
        });
        let of_groups = answer.groups.into_iter().flat_map(|group| group.rows);
        let hits: Vec<GroupHit> = answer.rows.into_iter().chain(of_groups).collect();
        let distances = hits.iter().map(|hit| hit.distance.unwrap_or(f32::NAN)).collect();
        let scores: Option<Vec<f64>> = hits.iter().map(|hit| hit.score).collect();
        let scores = scores.filter(|_| given.is_ranked());
        let rows: Vec<StoredRow> = hits.into_iter().map(|hit| stored(hit.row, with)).collect();
        Ok((
            self.shared.ids.of_rows(py, &rows)?,
            PyArray1::from_vec(py, distances),
            selection.columns(py, self.schema(), &rows)?,
            selection.payloads(py, &rows),
            scores.map(|scores| PyArray1::from_vec(py, scores)),
            values
                .map(|(kind, values)| Ok::<_, PyErr>((kind, values_of(py, values)?)))
                .transpose()?,
        ))
    }

    /// Kinds by the names of attributes, by column.
    #[getter]
    fn attributes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.shared.check_open()?;
        kinds(py, self.schema())
    }

    /// Whether unknown attributes are added: never, in groups.
    #[getter]
    fn open_attributes(&self) -> bool {
        self.schema().open
    }

    /// How rows are grouped.
    #[getter]
    fn groups(&self) -> Option<&'static str> {
        Some("isolated")
    }
}

impl Group {
    /// Errors: `Invalid` for a name that is empty or too long.
    pub(super) fn new(shared: Arc<Shared>, name: String) -> Result<Group, Failure> {
        if !(1..=GROUP_BYTES_MAX).contains(&name.len()) {
            return Err(Failure::invalid(format!(
                "the name of a group has {} bytes: use 1 to {GROUP_BYTES_MAX}",
                name.len()
            )));
        }
        Ok(Group { shared, name })
    }

    fn schema(&self) -> &Schema {
        &self.shared.settings.schema
    }

    fn filter(&self, given: &GivenFilter) -> Result<Filter, Failure> {
        let hash = (self.shared.ids.kind == IdKind::String).then_some(&self.shared.ids.hash);
        filters::read(Names { schema: self.schema(), hash }, given)
    }

    fn upsert(
        &self,
        writer: &mut Writer,
        row: &RowRef<'_>,
        filter: Option<&Filter>,
        has_version: bool,
    ) -> Result<bool, Failure> {
        // A version of ours is above all that were written since the collection was opened.
        if filter.is_none() && !has_version {
            return Ok(writer.store().upsert(&self.name, row)?);
        }
        let condition = Condition { filter, ..Condition::default() };
        Ok(writer.store().upsert_if(&self.name, row, &condition)?.is_applied())
    }

    fn rows(&self, py: Python<'_>, filter: Option<&Filter>) -> PyResult<u64> {
        self.shared.check_open()?;
        Ok(detached(py, || Ok(self.shared.reader.count(&self.name, filter)?))?)
    }

    /// Rows by ids; a row whose text is another one is not the row.
    fn read_rows(
        &self,
        ids: &RowIds,
        range: std::ops::Range<usize>,
        with: With,
    ) -> Result<Vec<Option<OwnedRow>>, Failure> {
        let wanted: &[RowId] = &ids.all()[range];
        let numbers: Vec<u64> = wanted.iter().map(|id| id.id).collect();
        let mut rows = self.shared.reader.get(&self.name, &numbers, with)?;
        for (row, id) in rows.iter_mut().zip(wanted) {
            if row.as_ref().is_some_and(|row| row.check != id.check) {
                *row = None;
            }
        }
        Ok(rows)
    }
}

/// What the store is asked for.
fn with_of(selection: &Selection) -> With {
    let with = &selection.with;
    let attributes = match &with.attributes {
        WithAttributes::None => false,
        WithAttributes::All => true,
        WithAttributes::Of(columns) => !columns.is_empty(),
    };
    With { attributes, payload: with.payload, vector: with.vector }
}

/// A row in the form in which a collection shows its rows.
fn stored(row: OwnedRow, with: With) -> StoredRow {
    let fields = Fields {
        name: &row.name,
        check: row.check,
        attributes: row.attributes(),
        payload: row.payload.as_deref(),
    };
    let fields = FieldsBuffer::from(&fields);
    let OwnedRow { id, version, vector, .. } = row;
    StoredRow { id, version, vector: with.vector.then_some(vector), fields }
}

/// Kinds by the names of attributes, by column.
pub(super) fn kinds<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyDict>> {
    let kinds = PyDict::new(py);
    for attribute in &schema.attributes {
        kinds.set_item(&attribute.name, attribute.kind.name())?;
    }
    Ok(kinds)
}
