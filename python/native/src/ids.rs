//! Ids as Python has them: whole numbers in an array, or texts in a list.

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use vstream_engine::{IdKind, NameHash, RowId, StoredRow};

use crate::failure::Failure;
use crate::rows::{check_ids, slice1};

/// Ids as they came.
#[derive(FromPyObject)]
pub(crate) enum GivenIds<'py> {
    Numbers(PyReadonlyArray1<'py, i64>),
    Texts(Vec<String>),
}

/// An id as it came.
#[derive(FromPyObject)]
pub(crate) enum GivenId {
    Number(i64),
    Text(String),
}

/// Ids as the engine has them, with their texts in a collection of string ids.
pub(crate) struct RowIds {
    ids: Vec<RowId>,
    names: Vec<String>,
}

/// What a collection knows about its ids.
#[derive(Clone)]
pub(crate) struct IdForm {
    pub(crate) kind: IdKind,
    pub(crate) hash: NameHash,
}

impl IdForm {
    /// Reads ids. Errors: `Invalid` if they are of the other kind, out of range, or no ids.
    pub(crate) fn read(&self, given: GivenIds<'_>) -> Result<RowIds, Failure> {
        match (self.kind, given) {
            (IdKind::U64, GivenIds::Numbers(numbers)) => {
                let numbers = slice1(&numbers)?;
                check_ids(numbers)?;
                let ids = numbers.iter().map(|&id| RowId::from(id as u64)).collect();
                Ok(RowIds { ids, names: Vec::new() })
            }
            (IdKind::String, GivenIds::Texts(names)) => {
                let ids = names.iter().map(|name| self.hashed(name));
                Ok(RowIds { ids: ids.collect::<Result<_, _>>()?, names })
            }
            // An empty list of texts comes as an empty array.
            (IdKind::String, GivenIds::Numbers(numbers)) if slice1(&numbers)?.is_empty() => {
                Ok(RowIds { ids: Vec::new(), names: Vec::new() })
            }
            (IdKind::U64, GivenIds::Texts(_)) => {
                Err(Failure::invalid("the collection has numbers as ids: pass whole numbers"))
            }
            (IdKind::String, GivenIds::Numbers(_)) => {
                Err(Failure::invalid("the collection has texts as ids: pass them as str"))
            }
        }
    }

    /// Reads the id at which a page ended; the number that stands for it. One from 2^63 on comes as Python showed it, a
    /// negative number with the same bits.
    pub(crate) fn read_end(&self, given: GivenId) -> Result<u64, Failure> {
        match (self.kind, given) {
            (IdKind::U64, GivenId::Number(number)) => Ok(number as u64),
            (IdKind::String, GivenId::Text(name)) => Ok(self.hashed(&name)?.id),
            (IdKind::U64, GivenId::Text(_)) => {
                Err(Failure::invalid("the collection has numbers as ids: pass a whole number"))
            }
            (IdKind::String, GivenId::Number(_)) => {
                Err(Failure::invalid("the collection has texts as ids: pass a str"))
            }
        }
    }

    fn hashed(&self, name: &str) -> Result<RowId, Failure> {
        let hashed = self.hash.hash(name)?;
        Ok(hashed.into())
    }

    /// The ids of rows, for Python.
    pub(crate) fn of_rows<'py>(
        &self,
        py: Python<'py>,
        rows: &[StoredRow],
    ) -> PyResult<Bound<'py, PyAny>> {
        match self.kind {
            // An id above the largest int64 keeps its bit pattern, as in Java.
            IdKind::U64 => {
                let ids = rows.iter().map(|row| row.id as i64).collect();
                Ok(PyArray1::from_vec(py, ids).into_any())
            }
            IdKind::String => {
                let names: Vec<&str> = rows.iter().map(|row| row.fields.fields().name).collect();
                names.into_pyobject(py)
            }
        }
    }

    /// One id of a row, for Python.
    pub(crate) fn of_row<'py>(
        &self,
        py: Python<'py>,
        row: &StoredRow,
    ) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self.kind {
            IdKind::U64 => (row.id as i64).into_pyobject(py)?.into_any(),
            IdKind::String => row.fields.fields().name.into_pyobject(py)?.into_any(),
        })
    }
}

impl RowIds {
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn all(&self) -> &[RowId] {
        &self.ids
    }

    pub(crate) fn get(&self, row: usize) -> RowId {
        self.ids[row]
    }

    /// The text of an id, and the high half of its hash: what the row carries.
    pub(crate) fn name(&self, row: usize) -> (&str, u64) {
        self.names.get(row).map_or(("", 0), |name| (name.as_str(), self.ids[row].check))
    }
}
