//! Counts of a collection, for Python.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use vstream_engine::Stats;

/// Counts by the names of the fields of `vstream.Stats`.
pub(crate) fn of<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let recall =
        stats.recall.map(|found| (found.recall, found.margin, found.audits, found.evidence.name()));
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
