//! The collection of all groups.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use vstream_engine::{Durability, Grouping, IdKind, Schema};
use vstream_group::{inspect_groups, GroupSettings, GroupStore};
use vstream_store::{FileStore, Memory, Syncing};

use super::group::Group;
use super::store::Shared;
use crate::failure::{detached, Failure};

/// Isolated groups in a directory or in memory.
#[pyclass(frozen, module = "vstream._native")]
pub(crate) struct Groups {
    shared: Arc<Shared>,
}

/// Bytes of memory for new rows and for the cache, as the caller said.
type Sizes = (Option<usize>, Option<usize>);

#[pymethods]
impl Groups {
    /// An empty collection of groups, in memory or in a directory.
    #[staticmethod]
    fn create(
        py: Python<'_>,
        dimension: usize,
        kind: (String, String, String),
        place: Option<(PathBuf, String)>,
        sizes: Sizes,
    ) -> PyResult<Groups> {
        let (metric, element, schema) = kind;
        let metric = metric.parse().map_err(|e| Failure::invalid(format!("{e}")))?;
        let element = element.parse().map_err(|e| Failure::invalid(format!("{e}")))?;
        let mut settings = GroupSettings::new(dimension, metric, element);
        settings.schema = Schema::from_json(&schema).map_err(Failure::from)?;
        if settings.schema.grouping != Grouping::Isolated || settings.schema.open {
            let message = "a collection of groups is isolated and its attributes are given";
            return Err(Failure::internal(message).into());
        }
        let settings = sized(settings, sizes)?;
        let shared = detached(py, || {
            let Some((directory, durability)) = place else {
                let store = FileStore::new(Arc::new(Memory::new()), Syncing::Off);
                let store = GroupStore::open(store, settings)?;
                return Shared::start(store, None, Durability::None);
            };
            let durability = Durability::from_name(&durability)?;
            if inspect_groups(&directory)?.is_some() {
                let message = "the directory holds a collection of groups already: open it";
                return Err(Failure::invalid(message));
            }
            check_free(&directory)?;
            settings.validate()?;
            let store = GroupStore::open_dir(&directory, settings)?;
            Shared::start(store, Some(&directory), durability)
        })?;
        Ok(Groups { shared })
    }

    /// Whether a directory holds a collection of groups.
    #[staticmethod]
    fn exists(directory: PathBuf) -> bool {
        matches!(inspect_groups(&directory), Ok(Some(_)))
    }

    /// The collection of a directory, with attributes added at the end.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        directory: PathBuf,
        durability: String,
        sizes: Sizes,
        more: Vec<(String, String)>,
    ) -> PyResult<Groups> {
        let shared = detached(py, || {
            let durability = Durability::from_name(&durability)?;
            let Some(found) = inspect_groups(&directory)? else {
                let place = directory.display();
                let message = format!("there is no collection of groups in {place}: create it");
                return Err(Failure::invalid(message));
            };
            let mut settings = sized(found.settings, sizes)?;
            for (name, kind) in more {
                settings.schema.add(&name, crate::schema::kind_of(&kind)?)?;
            }
            let store = GroupStore::open_dir(&directory, settings)?;
            Shared::start(store, Some(&directory), durability)
        })?;
        Ok(Groups { shared })
    }

    /// One group, which need not have rows.
    fn group(&self, name: String) -> PyResult<Group> {
        self.shared.check_open()?;
        Ok(Group::new(self.shared.clone(), name)?)
    }

    /// Names and numbers of rows of some groups behind one.
    fn groups(
        &self,
        py: Python<'_>,
        after: Option<String>,
        limit: usize,
    ) -> PyResult<Vec<(String, u64)>> {
        self.shared.check_open()?;
        let page = detached(py, || Ok(self.shared.reader.groups(after.as_deref(), limit)?))?;
        Ok(page.into_iter().map(|group| (group.name, group.rows)).collect())
    }

    /// Makes every write so far durable.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        Ok(detached(py, || self.shared.commit())?)
    }

    /// Writes new rows to the disk as a run.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        Ok(detached(py, || {
            self.shared.write(|writer| Ok(writer.store().flush()?))?;
            self.shared.written()
        })?)
    }

    /// Commits, ends the thread and gives the directory back.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        Ok(detached(py, || self.shared.close())?)
    }

    /// Counts, by the names of the fields of `vstream.GroupStats`.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = detached(py, || self.shared.write(|writer| Ok(writer.store().stats())))?;
        let counts = PyDict::new(py);
        counts.set_item("run_rows", stats.rows)?;
        counts.set_item("new_rows", stats.memtable_rows)?;
        counts.set_item("tombstones", stats.tombstones)?;
        counts.set_item("runs", stats.runs)?;
        counts.set_item("run_bytes", stats.run_bytes)?;
        counts.set_item("run_memory_bytes", stats.run_memory)?;
        counts.set_item("new_bytes", stats.memtable_bytes)?;
        counts.set_item("cache_bytes", stats.cache_bytes)?;
        counts.set_item("flushed_bytes", stats.flushed_bytes)?;
        counts.set_item("merged_bytes", stats.merged_bytes)?;
        Ok(counts)
    }

    /// Kinds by the names of attributes, by column.
    #[getter]
    fn attributes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.shared.check_open()?;
        super::group::kinds(py, &self.shared.settings.schema)
    }

    /// Numbers per vector.
    #[getter]
    fn dimension(&self) -> usize {
        self.shared.settings.dimension
    }

    /// Name of the metric.
    #[getter]
    fn metric(&self) -> &'static str {
        self.shared.settings.metric.name()
    }

    /// Name of the element type.
    #[getter]
    fn element(&self) -> &'static str {
        self.shared.settings.element.name()
    }

    /// Kind of the ids.
    #[getter]
    fn id(&self) -> &'static str {
        match self.shared.ids.kind {
            IdKind::U64 => "u64",
            IdKind::String => "string",
        }
    }
}

fn sized(settings: GroupSettings, (memory, cache): Sizes) -> Result<GroupSettings, Failure> {
    if memory == Some(0) {
        return Err(Failure::invalid("memory is 0: new rows need some"));
    }
    Ok(GroupSettings {
        memory: memory.unwrap_or(settings.memory),
        cache: cache.unwrap_or(settings.cache),
        ..settings
    })
}

/// Errors: `Invalid` if the directory holds a collection of another kind.
fn check_free(directory: &std::path::Path) -> Result<(), Failure> {
    match vstream_engine::inspect_collection(directory) {
        Ok(Some(_)) => {
            Err(Failure::invalid("the directory holds a collection without groups already"))
        }
        Ok(None) | Err(_) => Ok(()),
    }
}
