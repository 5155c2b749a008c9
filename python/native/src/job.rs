//! A running job as Python asks it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use vstream_ask::{
    Answer, CollectionSettings, Effort, Frontier, JobReaders, Question, ReadOptions,
};
use vstream_engine::{Filter, IdKind, Names, StoredRow};

use crate::failure::{detached, Failure};
use crate::filters::{self, GivenFilter};
use crate::found::{Found, Selection, Wanted};
use crate::ids::IdForm;
use crate::rows::slice1;

/// Threads that ask at once; others wait.
const READERS_MAX: usize = 16;

/// Least offsets and watermark of an answer, whether rows of a remote level may be missing, and milliseconds.
type Terms = (Vec<i64>, Option<i64>, bool, u64);
/// An answer, and how much of the stream is behind it: offsets, watermark, whether rows are missing.
type JobFound<'py> = (Found<'py>, Vec<i64>, Option<i64>, bool);

/// Connections to a job.
#[pyclass(frozen, module = "vstream._native")]
pub(crate) struct Job {
    /// `None` once it is closed.
    readers: Mutex<Option<Arc<JobReaders>>>,
    /// What the collection was like when this connected.
    of: CollectionSettings,
    ids: IdForm,
}

#[pymethods]
impl Job {
    /// Connects to the job with these checkpoints.
    #[staticmethod]
    fn connect(
        py: Python<'_>,
        checkpoints: &str,
        search: &str,
        access: (String, Option<PathBuf>),
        deadline_ms: u64,
    ) -> PyResult<Job> {
        let (key, certificates) = access;
        let deadline = Duration::from_millis(deadline_ms);
        let options = ReadOptions { key, certificates, deadline };
        let (readers, of) =
            detached(py, || Ok(JobReaders::connect(checkpoints, search, options, READERS_MAX)?))?;
        let ids = IdForm { kind: of.schema.id, hash: of.schema.name_hash() };
        Ok(Job { readers: Mutex::new(Some(Arc::new(readers))), of, ids })
    }

    /// The nearest rows.
    fn search<'py>(
        &self,
        py: Python<'py>,
        query: PyReadonlyArray1<'py, f32>,
        how: (usize, Option<usize>, bool),
        which: (Option<GivenFilter>, Option<f32>, Option<Wanted>),
        terms: Terms,
    ) -> PyResult<JobFound<'py>> {
        let (k, probes, is_exact) = how;
        let effort = match (probes, is_exact) {
            (Some(_), true) => {
                let why = "probes and exact exclude each other: pass one of them";
                return Err(Failure::invalid(why).into());
            }
            (Some(0), _) => {
                return Err(Failure::invalid("probes is 0: visit at least one leaf").into())
            }
            (Some(leaves), _) => Effort::Leaves(u32::try_from(leaves).unwrap_or(u32::MAX)),
            (None, true) => Effort::Exact,
            (None, false) => Effort::Auto,
        };
        let (condition, radius, wanted) = which;
        let filter = condition.map(|given| self.filter(&given)).transpose()?;
        let wanted = wanted.unwrap_or((Some(Vec::new()), false));
        let selection = Selection::new(&self.of.schema, &wanted, false)?;
        let (offsets, watermark, may_be_partial, deadline_ms) = terms;
        let least = Frontier { watermark: watermark.unwrap_or(Frontier::NO_TIME), offsets };
        let question = Question {
            effort,
            filter: filter.as_ref(),
            radius,
            columns: &selection.ascending(),
            payload: selection.with.payload,
            least: Some(&least),
            of: Some(&self.of),
            ..Question::new(slice1(&query)?, k)
        };
        let readers = self.readers()?;
        let due = Instant::now() + Duration::from_millis(deadline_ms);
        let answer = detached(py, || Ok(readers.search(&question, due)?.whole(may_be_partial)?))?;
        self.found(py, answer, &selection)
    }

    /// Ends the connections, once the questions that are asked now have their answers.
    fn close(&self) {
        *self.readers.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Kinds by the names of attributes, by column.
    #[getter]
    fn attributes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let kinds = PyDict::new(py);
        for attribute in &self.of.schema.attributes {
            kinds.set_item(&attribute.name, attribute.kind.name())?;
        }
        Ok(kinds)
    }

    /// Numbers per vector.
    #[getter]
    fn dimension(&self) -> usize {
        self.of.dimension
    }

    /// Name of the metric.
    #[getter]
    fn metric(&self) -> &'static str {
        self.of.metric.name()
    }
}

impl Job {
    fn readers(&self) -> Result<Arc<JobReaders>, Failure> {
        let readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.clone().ok_or_else(Failure::closed_job)
    }

    fn filter(&self, given: &GivenFilter) -> Result<Filter, Failure> {
        let hash = (self.ids.kind == IdKind::String).then_some(&self.ids.hash);
        filters::read(Names { schema: &self.of.schema, hash }, given)
    }

    /// An answer, for Python.
    fn found<'py>(
        &self,
        py: Python<'py>,
        answer: Answer,
        selection: &Selection,
    ) -> PyResult<JobFound<'py>> {
        let Answer { rows, frontier, is_partial, .. } = answer;
        let distances = PyArray1::from_vec(py, rows.iter().map(|row| row.distance).collect());
        let stored = |row: vstream_ask::Row| StoredRow {
            id: row.id,
            version: row.version,
            vector: None,
            fields: row.fields,
        };
        let rows: Vec<StoredRow> = rows.into_iter().map(stored).collect();
        let columns = selection.columns(py, &self.of.schema, &rows)?;
        let payloads = selection.payloads(py, &rows);
        let found = (self.ids.of_rows(py, &rows)?, distances, columns, payloads, None, None);
        let watermark = (frontier.watermark != Frontier::NO_TIME).then_some(frontier.watermark);
        Ok((found, frontier.offsets, watermark, is_partial))
    }
}
