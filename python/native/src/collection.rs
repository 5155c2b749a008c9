//! The collection as Python holds it.

mod encode;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use numpy::ndarray::Array2;
use numpy::{
    IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use vstream_engine::{
    inspect, inspect_collection, DeleteOrder, Durability, Engine, Fields, Filter, Grouping, IdKind,
    Journaling, PayloadChange, Query, Reader, RemoteLevel, SegmentIndex, Settings, Spread,
    SpreadOf, Update, K_MAX, READ_ROWS_MAX,
};

use crate::answers::{self, Answers, EffortChoice};
use crate::counts;
use crate::failure::{detached, Failure};
use crate::fields::FieldColumns;
use crate::filters::GivenFilter;
use crate::found::{values_of, Found, GivenSpread, IdsAndDistances, PyRows, Selection, Wanted};
use crate::ids::{GivenId, GivenIds, IdForm};
use crate::named::named;
use crate::rows::{check_ids, slice1, slice2, Matrix};
use crate::schema::{kind_of, new_schema};
use crate::stretches::stretches;
use crate::versions::{version_at, versions_of, GivenVersions};
use crate::writer::Writer;

/// Rows written before signals such as Ctrl-C are looked at and other writers get their turn.
const STRETCH: usize = 1024;
/// Queries answered before signals are looked at: an exact one may take milliseconds.
const STRETCH_QUERIES: usize = 128;

/// A directory, its durability, and the address of its remote level with the bytes that stay here.
type Place = (PathBuf, String, Option<(String, u64)>);

/// An engine, the lock of its one writer, and a reader that needs no lock.
#[pyclass(frozen, module = "vstream._native")]
pub(crate) struct Collection {
    settings: Settings,
    ids: IdForm,
    writer: Mutex<Writer>,
    reader: Reader,
    /// A copy of the writer's count, readable without its lock.
    live: AtomicU64,
}

#[pymethods]
impl Collection {
    /// An empty collection, in memory or in a directory.
    #[staticmethod]
    fn create(
        py: Python<'_>,
        dimension: usize,
        kind: (String, String, String),
        recall_target: f64,
        place: Option<Place>,
        storage: (Option<u64>, Option<u64>, String, String, Option<u64>),
    ) -> PyResult<Collection> {
        let (metric, element, schema) = kind;
        let metric = metric.parse().map_err(|e| Failure::invalid(format!("{e}")))?;
        let element = element.parse().map_err(|e| Failure::invalid(format!("{e}")))?;
        let (memory, code_memory, segments, deletes, remembered) = storage;
        let segments = SegmentIndex::from_name(&segments).map_err(Failure::from)?;
        let deletes = DeleteOrder::from_name(&deletes).map_err(Failure::from)?;
        let settings = Settings {
            recall_target,
            memory,
            code_memory,
            segments,
            deletes,
            deletes_remembered: remembered.map(Duration::from_millis),
            schema: Arc::new(new_schema(&schema)?),
            ..Settings::new(dimension, metric, element)
        };
        let made = detached(py, || {
            let Some((directory, durability, remote)) = place else {
                return Ok(Collection::new(Engine::create(settings)?));
            };
            let durability = Durability::from_name(&durability)?;
            let journaling = Journaling { durability, ..Journaling::default() };
            let mut builder = Engine::builder().dir(&directory).journaling(journaling);
            if let Some((address, disk)) = remote {
                builder = builder.remote(RemoteLevel::at(&address, disk)?);
            }
            Ok(Collection::new(builder.create(settings)?))
        });
        Ok(made?)
    }

    /// Whether a directory holds a collection.
    #[staticmethod]
    fn exists(directory: PathBuf) -> bool {
        matches!(inspect_collection(&directory), Ok(Some(_)))
    }

    /// The collection of a directory, as durable as it was made or as is said now.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        directory: PathBuf,
        durability: Option<String>,
    ) -> PyResult<Collection> {
        let made = detached(py, || {
            let chosen = durability.as_deref().map(Durability::from_name).transpose()?;
            let opened = Engine::builder()
                .dir(&directory)
                .adjust(&mut |_, journaling| {
                    journaling.durability = chosen.unwrap_or(journaling.durability);
                })
                .open();
            Ok(Collection::new(opened?))
        });
        Ok(made?)
    }

    /// A collection with the rows of a snapshot directory.
    #[staticmethod]
    fn restore(py: Python<'_>, directory: PathBuf, recall_target: f64) -> PyResult<Collection> {
        let made = detached(py, || {
            let found = inspect(&directory)?;
            let settings = Settings {
                recall_target,
                schema: found.schema.clone(),
                ..Settings::new(found.dimension, found.metric, found.element)
            };
            Ok(Collection::new(Engine::restore(settings, &directory)?))
        });
        Ok(made?)
    }

    /// Adds or replaces one row; says whether it was written.
    fn upsert_one(
        &self,
        py: Python<'_>,
        one: i64,
        vector: PyReadonlyArray1<'_, f32>,
    ) -> PyResult<bool> {
        check_ids(&[one])?;
        if self.ids.kind == IdKind::String {
            let message = "the collection has texts as ids: pass a str";
            return Err(Failure::invalid(message).into());
        }
        let vector = slice1(&vector)?;
        let upsert =
            |writer: &mut Writer| writer.upsert(one as u64, vector, Fields::NONE, (None, None));
        Ok(detached(py, || self.write(upsert))?)
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
        let ids = self.ids.read(ids)?;
        let versions = versions_of(versions, ids.len())?;
        let matrix = Matrix::from_python(vectors)?;
        let rows = matrix.rows(self.settings.dimension)?;
        if ids.len() != rows.count() {
            let (ids, rows) = (ids.len(), rows.count());
            let message = format!("there are {ids} ids and {rows} vectors: pass one id per vector");
            return Err(Failure::invalid(message).into());
        }
        let fields = fields.unwrap_or_default();
        let (encoded, condition) = detached(py, || {
            fields.check(ids.len())?;
            rows.check(&self.settings)?;
            self.encode(&fields, |schema| {
                let encoded = fields.encode(schema, ids.len())?;
                encoded.check_groups(schema)?;
                let condition = condition.map(|given| self.filter_of(schema, &given));
                Ok((encoded, condition.transpose()?))
            })
        })?;
        let (mut buffer, mut written) = (Vec::new(), 0);
        let told = |done: usize| match &progress {
            Some(progress) => progress.call1((done, ids.len())).map(|_| ()),
            None => Ok(()),
        };
        stretches(py, ids.len(), STRETCH, told, |range| {
            self.write(|writer| {
                writer.expect_upserts(range.len());
                let done = range.into_iter().try_for_each(|at| {
                    // Checks the row once more: other Python threads run between two stretches and
                    // may have changed the array.
                    let vector = rows.row(at, &mut buffer);
                    let fields = encoded.fields(at, &fields, ids.name(at));
                    let id = ids.get(at).id;
                    let how = (condition.as_ref(), version_at(&versions, at));
                    written += usize::from(writer.upsert(id, vector, fields, how)?);
                    Ok(())
                });
                writer.expect_upserts(0);
                done
            })
        })?;
        Ok(written)
    }

    /// Changes what rows carry beside their vectors; says how many rows there were.
    fn update(
        &self,
        py: Python<'_>,
        ids: GivenIds<'_>,
        fields: FieldColumns,
        versions: GivenVersions<'_>,
    ) -> PyResult<usize> {
        let ids = self.ids.read(ids)?;
        let versions = versions_of(versions, ids.len())?;
        let encoded = detached(py, || {
            fields.check(ids.len())?;
            self.encode(&fields, |schema| Ok(fields.encode(schema, ids.len())?))
        })?;
        let (schema, mut updated) = (self.reader.schema(), 0);
        stretches(
            py,
            ids.len(),
            STRETCH,
            |_| Ok(()),
            |range| {
                self.write(|writer| {
                    for at in range {
                        let unset = fields.removed(&schema, at);
                        let payload = match (fields.has_payloads(), fields.payload(at)) {
                            (false, _) => PayloadChange::Keep,
                            (true, Some(payload)) => PayloadChange::Set(payload),
                            (true, None) => PayloadChange::Remove,
                        };
                        let update = Update { set: encoded.row(at), unset: &unset, payload };
                        let version = version_at(&versions, at);
                        updated += usize::from(writer.update(ids.get(at), &update, version)?);
                    }
                    Ok(())
                })
            },
        )?;
        Ok(updated)
    }

    /// Removes the rows of `ids`; says how many there were.
    fn delete(
        &self,
        py: Python<'_>,
        ids: GivenIds<'_>,
        versions: GivenVersions<'_>,
    ) -> PyResult<usize> {
        let ids = self.ids.read(ids)?;
        let versions = versions_of(versions, ids.len())?;
        let mut removed = 0;
        stretches(
            py,
            ids.len(),
            STRETCH,
            |_| Ok(()),
            |range| {
                self.write(|writer| {
                    for at in range {
                        let version = version_at(&versions, at);
                        removed += usize::from(writer.delete(ids.get(at), version)?);
                    }
                    Ok(())
                })
            },
        )?;
        Ok(removed)
    }

    /// Removes the rows that match; says how many there were.
    fn delete_where(
        &self,
        py: Python<'_>,
        condition: GivenFilter,
        version: Option<i64>,
    ) -> PyResult<u64> {
        let filter = self.filter(&condition)?;
        let version = version.map(|version| version as u64);
        Ok(detached(py, || self.write(|writer| writer.delete_where(&filter, version)))?)
    }

    /// Adds an attribute, unless it is there with this kind.
    fn add_attribute(&self, py: Python<'_>, name: &str, kind: &str) -> PyResult<()> {
        let kind = kind_of(kind)?;
        Ok(detached(py, || self.write(|writer| writer.add_attribute(name, kind)))?)
    }

    /// The rows of some ids, in their order; unknown ids are left out.
    fn get<'py>(
        &self,
        py: Python<'py>,
        ids: GivenIds<'py>,
        wanted: Wanted,
        vectors: bool,
    ) -> PyResult<PyRows<'py>> {
        let ids = self.ids.read(ids)?;
        let schema = self.reader.schema();
        let selection = Selection::new(&schema, &wanted, vectors)?;
        let rows = detached(py, || {
            let mut rows = Vec::with_capacity(ids.len());
            let snapshot = self.reader.read_snapshot();
            for some in ids.all().chunks(READ_ROWS_MAX) {
                rows.extend(snapshot.get(some, &selection.with)?.into_iter().flatten());
            }
            Ok(rows)
        })?;
        selection.rows(py, (&schema, &self.ids, self.settings.dimension), &rows)
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
        let filter = condition.map(|given| self.filter(&given)).transpose()?;
        let (limit, after) = page;
        let after = after.map(|id| self.ids.read_end(id)).transpose()?;
        let schema = self.reader.schema();
        let selection = Selection::new(&schema, &wanted, vectors)?;
        let page = detached(py, || {
            Ok(self.reader.scroll(filter.as_ref(), after, limit, &selection.with)?)
        })?;
        let last = page.rows.last().filter(|_| page.next.is_some());
        let end = last.map(|row| self.ids.of_row(py, row)).transpose()?;
        let at = (&*schema, &self.ids, self.settings.dimension);
        Ok((selection.rows(py, at, &page.rows)?, end))
    }

    /// Number of rows that match.
    fn count(&self, py: Python<'_>, condition: GivenFilter) -> PyResult<u64> {
        let filter = self.filter(&condition)?;
        Ok(detached(py, || Ok(self.reader.count(Some(&filter))?))?)
    }

    /// Ids and distances of the nearest rows, nearest first, with what is wanted of them; fewer than
    /// `k` if fewer were found.
    fn search<'py>(
        &self,
        py: Python<'py>,
        query: PyReadonlyArray1<'py, f32>,
        how: (usize, EffortChoice),
        which: (Option<GivenFilter>, Option<f32>, Option<GivenSpread>),
        wanted: Option<Wanted>,
    ) -> PyResult<Found<'py>> {
        let ((k, effort), (condition, radius, spread)) = (how, which);
        let effort = effort.effort(self.settings.recall_target)?;
        let filter = condition.map(|given| self.filter(&given)).transpose()?;
        let filter = filter.as_ref();
        let query = Query { vector: slice1(&query)?, k, effort, filter, radius };
        if wanted.is_none() && spread.is_none() && self.ids.kind == IdKind::U64 {
            let answers = detached(py, || {
                let mut answers = Answers::default();
                answers.push(&self.reader, &query)?;
                Ok(answers)
            })?;
            let (ids, distances) = answers.into_pair(py);
            return Ok((ids.into_any(), distances, Vec::new(), None, None, None));
        }
        let schema = self.reader.schema();
        let selection =
            Selection::new(&schema, &wanted.unwrap_or_else(|| (Some(Vec::new()), false)), false)?;
        let spread = spread.map(|given| Ok::<_, Failure>((given.column(&schema)?, given)));
        let (neighbors, rows, values) = match spread.transpose()? {
            None => {
                let answer =
                    detached(py, || answers::whole(&self.reader, &query, &selection.with))?;
                (answer.neighbors, answer.rows, None)
            }
            Some((column, GivenSpread { per_value, by_value, .. })) => {
                let of = if by_value { SpreadOf::Values } else { SpreadOf::Rows };
                let spread = Spread { column, per_value, of };
                let with = &selection.with;
                let answer = detached(py, || answers::spread(&self.reader, &query, &spread, with))?;
                let kind = schema.kind(column).filter(|_| by_value).map(|kind| kind.name());
                let values = kind.map(|kind| Ok::<_, PyErr>((kind, values_of(py, answer.values)?)));
                (answer.neighbors, answer.rows, values.transpose()?)
            }
        };
        let distances = neighbors.iter().map(|row| row.distance).collect();
        Ok((
            self.ids.of_rows(py, &rows)?,
            PyArray1::from_vec(py, distances),
            selection.columns(py, &schema, &rows)?,
            selection.payloads(py, &rows),
            None,
            values,
        ))
    }

    /// Ids and distances of every row within `radius` that matches, nearest first.
    fn search_radius<'py>(
        &self,
        py: Python<'py>,
        query: PyReadonlyArray1<'py, f32>,
        radius: f32,
        condition: Option<GivenFilter>,
    ) -> PyResult<IdsAndDistances<'py>> {
        let vector = slice1(&query)?;
        let filter = condition.map(|given| self.filter(&given)).transpose()?;
        let answers = detached(py, || {
            let mut answers = Answers::default();
            answers.push_within(&self.reader, vector, radius, filter.as_ref())?;
            Ok(answers)
        })?;
        named(py, (&self.ids, &self.reader), answers)
    }

    /// As `search` for each row of `queries`, padded to `k` columns; lists of texts in a collection
    /// of string ids.
    fn search_batch<'py>(
        &self,
        py: Python<'py>,
        queries: PyReadonlyArray2<'py, f32>,
        k: usize,
        effort: EffortChoice,
        condition: Option<GivenFilter>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyArray2<f32>>)> {
        let effort = effort.effort(self.settings.recall_target)?;
        let filter = condition.map(|given| self.filter(&given)).transpose()?;
        let (count, dimension) = (queries.shape()[0], self.settings.dimension);
        if queries.shape()[1] != dimension {
            let message = format!(
                "the queries have {} dimensions, the collection {dimension}",
                queries.shape()[1]
            );
            return Err(Failure::invalid(message).into());
        }
        if !(1..=K_MAX).contains(&k) {
            let message = format!("k is {k}: choose a value from 1 to {K_MAX}");
            return Err(Failure::invalid(message).into());
        }
        let values = slice2(&queries)?;
        let is_named = self.ids.kind == IdKind::String;
        let mut answers = Answers::with_capacity(count * k);
        let mut names: Vec<Vec<Option<String>>> = Vec::new();
        stretches(
            py,
            count,
            STRETCH_QUERIES,
            |_| Ok(()),
            |range| {
                for at in range {
                    let vector = &values[at * dimension..(at + 1) * dimension];
                    let query = Query { vector, k, effort, filter: filter.as_ref(), radius: None };
                    if is_named {
                        names.push(answers.push_named(&self.reader, &query)?);
                    } else {
                        answers.push(&self.reader, &query)?;
                    }
                    answers.pad((at + 1) * k);
                }
                Ok(())
            },
        )?;
        let Answers { ids, distances } = answers;
        let whole = "a row of k places per query";
        let distances = Array2::from_shape_vec((count, k), distances).expect(whole);
        if is_named {
            return Ok((names.into_pyobject(py)?, distances.into_pyarray(py)));
        }
        let ids = Array2::from_shape_vec((count, k), ids).expect(whole);
        Ok((ids.into_pyarray(py).into_any(), distances.into_pyarray(py)))
    }

    /// Writes all rows to a directory.
    fn snapshot(&self, py: Python<'_>, directory: PathBuf) -> PyResult<()> {
        Ok(detached(py, || Ok(self.writer()?.snapshot(Path::new(&directory))?))?)
    }

    /// Forces every write to the disk.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        Ok(detached(py, || self.writer()?.flush())?)
    }

    /// Forces every write to the disk and refuses more; returns when none is under way. With a limit to
    /// memory and a long log, rows in memory become a segment first, so that the next open reads a short log.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        Ok(detached(py, || self.writer()?.close())?)
    }

    /// Counts, by the names of the fields of `vstream.Stats`. Waits for the writer.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = detached(py, || Ok(self.writer()?.stats()))?;
        counts::of(py, &stats)
    }

    /// Kinds by the names of attributes, by column.
    #[getter]
    fn attributes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let kinds = PyDict::new(py);
        for attribute in &self.reader.schema().attributes {
            kinds.set_item(&attribute.name, attribute.kind.name())?;
        }
        Ok(kinds)
    }

    /// Whether unknown attributes are added.
    #[getter]
    fn open_attributes(&self) -> bool {
        self.reader.schema().open
    }

    /// How rows are grouped.
    #[getter]
    fn groups(&self) -> Option<&'static str> {
        match self.settings.schema.grouping {
            Grouping::None => None,
            Grouping::Shared => Some("shared"),
            Grouping::Isolated => Some("isolated"),
        }
    }

    /// Rows that live. Waits for nobody.
    fn __len__(&self) -> usize {
        self.live.load(Ordering::Relaxed) as usize
    }

    /// Numbers per vector.
    #[getter]
    fn dimension(&self) -> usize {
        self.settings.dimension
    }

    /// Name of the metric.
    #[getter]
    fn metric(&self) -> &'static str {
        self.settings.metric.name()
    }

    /// Name of the element type.
    #[getter]
    fn element(&self) -> &'static str {
        self.settings.element.name()
    }

    /// Recall that automatic searches are steered to.
    #[getter]
    fn recall_target(&self) -> f64 {
        self.settings.recall_target
    }
}

impl Collection {
    fn new(engine: Engine) -> Collection {
        let (settings, reader) = (engine.settings().clone(), engine.reader());
        let ids = IdForm { kind: settings.schema.id, hash: settings.schema.name_hash() };
        let writer = Writer::new(engine);
        let live = AtomicU64::new(writer.live());
        Collection { settings, ids, writer: Mutex::new(writer), reader, live }
    }

    /// Reads a filter for the present schema.
    fn filter(&self, given: &GivenFilter) -> Result<Filter, Failure> {
        self.filter_of(&self.reader.schema(), given)
    }

    /// Never called with the interpreter lock: its holder may be waiting for this one.
    fn writer(&self) -> Result<MutexGuard<'_, Writer>, Failure> {
        self.writer.lock().map_err(|_| {
            Failure::internal(
                "a defect of the engine stopped an earlier write half-way: go on with a copy that \
                 was saved before",
            )
        })
    }

    /// Runs `work` as the writer and publishes the count, also if it failed half-way; then waits,
    /// beside other writers, until what was written is as durable as the collection promises.
    fn write<T>(&self, work: impl FnOnce(&mut Writer) -> Result<T, Failure>) -> Result<T, Failure> {
        let mut writer = self.writer()?;
        let done = work(&mut writer);
        self.live.store(writer.live(), Ordering::Relaxed);
        let commit = writer.begin_commit();
        drop(writer);
        commit?.wait()?;
        done
    }
}
