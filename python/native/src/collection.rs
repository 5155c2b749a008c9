//! The collection as Python holds it.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use numpy::ndarray::Array2;
use numpy::{
    IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use vstream_engine::{
    inspect, DeleteOrder, Durability, Engine, Journaling, Query, Reader, Settings, K_MAX,
};

use crate::answers::{Answers, EffortChoice};
use crate::failure::{detached, Failure};
use crate::rows::{check_ids, slice1, slice2, Matrix, Pair};
use crate::writer::Writer;

/// Rows written before signals such as Ctrl-C are looked at and other writers get their turn.
const STRETCH: usize = 1024;
/// Queries answered before signals are looked at: an exact one may take milliseconds.
const STRETCH_QUERIES: usize = 128;

/// Matrices of ids and distances, a row per query.
type Pairs<'py> = (Bound<'py, PyArray2<i64>>, Bound<'py, PyArray2<f32>>);

/// An engine, the lock of its one writer, and a reader that needs no lock.
#[pyclass(frozen, module = "vstream._native")]
pub(crate) struct Collection {
    settings: Settings,
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
        kind: (String, String),
        recall_target: f64,
        place: Option<(PathBuf, String)>,
        storage: (Option<u64>, Option<u64>, String),
    ) -> PyResult<Collection> {
        let (metric, element) = kind;
        let metric = metric.parse().map_err(|e| Failure::invalid(format!("{e}")))?;
        let element = element.parse().map_err(|e| Failure::invalid(format!("{e}")))?;
        let (memory, code_memory, deletes) = storage;
        let deletes = DeleteOrder::from_name(&deletes).map_err(Failure::from)?;
        let settings = Settings {
            recall_target,
            memory,
            code_memory,
            deletes,
            ..Settings::new(dimension, metric, element)
        };
        let made = detached(py, || {
            let Some((directory, durability)) = place else {
                return Ok(Collection::new(Engine::create(settings)?));
            };
            let durability = Durability::from_name(&durability)?;
            let journaling = Journaling { durability, ..Journaling::default() };
            Ok(Collection::new(
                Engine::builder().dir(&directory).journaling(journaling).create(settings)?,
            ))
        });
        Ok(made?)
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
                ..Settings::new(found.dimension, found.metric, found.element)
            };
            Ok(Collection::new(Engine::restore(settings, &directory)?))
        });
        Ok(made?)
    }

    /// Adds or replaces one row.
    fn upsert_one(
        &self,
        py: Python<'_>,
        one: i64,
        vector: PyReadonlyArray1<'_, f32>,
    ) -> PyResult<()> {
        check_ids(&[one])?;
        let vector = slice1(&vector)?;
        Ok(detached(py, || self.write(|writer| writer.upsert(one as u64, vector)))?)
    }

    /// Adds or replaces a row per id: all rows are checked before the first one is written.
    fn upsert_many(
        &self,
        py: Python<'_>,
        ids: PyReadonlyArray1<'_, i64>,
        vectors: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let ids = slice1(&ids)?;
        let matrix = Matrix::from_python(vectors)?;
        let rows = matrix.rows(self.settings.dimension)?;
        if ids.len() != rows.count() {
            let (ids, rows) = (ids.len(), rows.count());
            let message = format!("there are {ids} ids and {rows} vectors: pass one id per vector");
            return Err(Failure::invalid(message).into());
        }
        detached(py, || {
            check_ids(ids)?;
            rows.check(&self.settings)
        })?;
        let mut buffer = Vec::new();
        stretches(py, ids.len(), STRETCH, |range| {
            self.write(|writer| {
                for at in range {
                    // Checks the row once more: other Python threads run between two stretches and
                    // may have changed the array.
                    writer.upsert(ids[at] as u64, rows.row(at, &mut buffer))?;
                }
                Ok(())
            })
        })
    }

    /// Removes the rows of `ids`; says how many there were.
    fn delete(&self, py: Python<'_>, ids: PyReadonlyArray1<'_, i64>) -> PyResult<usize> {
        let ids = slice1(&ids)?;
        check_ids(ids)?;
        let mut removed = 0;
        stretches(py, ids.len(), STRETCH, |range| {
            self.write(|writer| {
                for &id in &ids[range] {
                    removed += usize::from(writer.delete(id as u64)?);
                }
                Ok(())
            })
        })?;
        Ok(removed)
    }

    /// Ids and distances of the nearest rows, nearest first; fewer than `k` if fewer were found.
    fn search<'py>(
        &self,
        py: Python<'py>,
        query: PyReadonlyArray1<'py, f32>,
        k: usize,
        effort: EffortChoice,
    ) -> PyResult<Pair<'py>> {
        let effort = effort.effort(self.settings.recall_target)?;
        let query = Query { vector: slice1(&query)?, k, effort, filter: None, radius: None };
        let answers = detached(py, || {
            let mut answers = Answers::default();
            answers.push(&self.reader, &query)?;
            Ok(answers)
        })?;
        let Answers { ids, distances } = answers;
        Ok((PyArray1::from_vec(py, ids), PyArray1::from_vec(py, distances)))
    }

    /// Ids and distances of every row within `radius`, nearest first.
    fn search_radius<'py>(
        &self,
        py: Python<'py>,
        query: PyReadonlyArray1<'py, f32>,
        radius: f32,
    ) -> PyResult<Pair<'py>> {
        let vector = slice1(&query)?;
        let answers = detached(py, || {
            let mut answers = Answers::default();
            answers.push_within(&self.reader, vector, radius)?;
            Ok(answers)
        })?;
        let Answers { ids, distances } = answers;
        Ok((PyArray1::from_vec(py, ids), PyArray1::from_vec(py, distances)))
    }

    /// As `search` for each row of `queries`, padded to `k` columns.
    fn search_batch<'py>(
        &self,
        py: Python<'py>,
        queries: PyReadonlyArray2<'py, f32>,
        k: usize,
        effort: EffortChoice,
    ) -> PyResult<Pairs<'py>> {
        let effort = effort.effort(self.settings.recall_target)?;
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
        let mut answers = Answers::with_capacity(count * k);
        stretches(py, count, STRETCH_QUERIES, |range| {
            for at in range {
                let vector = &values[at * dimension..(at + 1) * dimension];
                answers.push(&self.reader, &Query { vector, k, effort, filter: None, radius: None })?;
                answers.pad((at + 1) * k);
            }
            Ok(())
        })?;
        let Answers { ids, distances } = answers;
        let whole = "a row of k places per query";
        let ids = Array2::from_shape_vec((count, k), ids).expect(whole);
        let distances = Array2::from_shape_vec((count, k), distances).expect(whole);
        Ok((ids.into_pyarray(py), distances.into_pyarray(py)))
    }

    /// Writes all rows to a directory.
    fn snapshot(&self, py: Python<'_>, directory: PathBuf) -> PyResult<()> {
        Ok(detached(py, || Ok(self.writer()?.snapshot(Path::new(&directory))?))?)
    }

    /// Forces every write to the disk.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        Ok(detached(py, || self.writer()?.flush())?)
    }

    /// Forces every write to the disk and refuses more; returns when none is under way.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        Ok(detached(py, || self.writer()?.close())?)
    }

    /// Counts, by the names of the fields of `vstream.Stats`. Waits for the writer.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = detached(py, || Ok(self.writer()?.stats()))?;
        let recall = stats
            .recall
            .map(|found| (found.recall, found.margin, found.audits, found.evidence.name()));
        let counts = PyDict::new(py);
        counts.set_item("live_rows", stats.index.live)?;
        counts.set_item("deleted_rows", stats.index.dead)?;
        counts.set_item("leaves", stats.index.leaves)?;
        counts.set_item("probes", stats.probes)?;
        counts.set_item("refine", stats.refine)?;
        counts.set_item("memory_bytes", stats.index.memory_bytes)?;
        counts.set_item("splits", stats.index.splits)?;
        counts.set_item("merges", stats.index.merges)?;
        counts.set_item("rewrites", stats.index.rewrites)?;
        counts.set_item("moved_rows", stats.index.moved)?;
        counts.set_item("recall", recall)?;
        Ok(counts)
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
        let writer = Writer::new(engine);
        let live = AtomicU64::new(writer.live());
        Collection { settings, writer: Mutex::new(writer), reader, live }
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

/// Runs `work` over `0..count` in stretches, each without the interpreter lock; between two of
/// them a pending signal, such as Ctrl-C, ends the call.
fn stretches(
    py: Python<'_>,
    count: usize,
    stretch: usize,
    mut work: impl FnMut(Range<usize>) -> Result<(), Failure> + Send,
) -> PyResult<()> {
    let mut start = 0;
    while start < count {
        let end = (start + stretch).min(count);
        detached(py, || work(start..end))?;
        py.check_signals()?;
        start = end;
    }
    Ok(())
}
