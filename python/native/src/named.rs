//! Answers with ids as Python has them.

use numpy::PyArray1;
use pyo3::prelude::*;
use vstream_engine::{IdKind, Reader, RowId, With, READ_ROWS_MAX};

use crate::answers::Answers;
use crate::failure::detached;
use crate::found::IdsAndDistances;
use crate::ids::IdForm;

/// Ids as Python has them, with distances.
pub(crate) fn named<'py>(
    py: Python<'py>,
    (form, reader): (&IdForm, &Reader),
    answers: Answers,
) -> PyResult<IdsAndDistances<'py>> {
    if form.kind == IdKind::U64 {
        let (ids, distances) = answers.into_pair(py);
        return Ok((ids.into_any(), distances));
    }
    let ids: Vec<RowId> = answers.ids.iter().map(|&id| RowId::from(id as u64)).collect();
    let (mut kept, mut distances) = (Vec::new(), Vec::new());
    let snapshot = reader.read_snapshot();
    for (ids, near) in ids.chunks(READ_ROWS_MAX).zip(answers.distances.chunks(READ_ROWS_MAX)) {
        let rows = detached(py, || Ok(snapshot.get(ids, &With::default())?))?;
        // A row that was deleted after the search has no text any more.
        for (row, distance) in rows.into_iter().zip(near) {
            if let Some(row) = row {
                kept.push(row);
                distances.push(*distance);
            }
        }
    }
    Ok((form.of_rows(py, &kept)?, PyArray1::from_vec(py, distances)))
}
