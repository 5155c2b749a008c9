//! Rows on their way to Python: columns of attributes, payloads, vectors.

use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use vstream_engine::{Schema, StoredRow, Value, ValueRef, With, WithAttributes};

use crate::failure::Failure;
use crate::ids::IdForm;

/// Names of attributes, `None` for all of them, and whether the payload is wanted.
pub(crate) type Wanted = (Option<Vec<String>>, bool);
/// Name, kind and values of an attribute.
type Column<'py> = (String, &'static str, Bound<'py, PyList>);
/// Payloads in the order of the rows.
type Payloads<'py> = Option<Vec<Option<Bound<'py, PyBytes>>>>;
/// Ids, attributes, payloads and vectors.
pub(crate) type PyRows<'py> =
    (Bound<'py, PyAny>, Vec<Column<'py>>, Payloads<'py>, Option<Bound<'py, PyArray2<f32>>>);

/// Ids and distances of an answer.
pub(crate) type IdsAndDistances<'py> = (Bound<'py, PyAny>, Bound<'py, PyArray1<f32>>);
/// Ids, distances, attributes, payloads, scores, and the values that the rows are grouped by.
pub(crate) type Found<'py> = (
    Bound<'py, PyAny>,
    Bound<'py, PyArray1<f32>>,
    Vec<Column<'py>>,
    Payloads<'py>,
    Option<Bound<'py, PyArray1<f64>>>,
    Option<(&'static str, Vec<ValueCount<'py>>)>,
);
/// A value and its number of rows.
pub(crate) type ValueCount<'py> = (Bound<'py, PyAny>, usize);

/// How rows are spread over the values of an attribute, as it came: a tuple in Python.
#[derive(FromPyObject)]
pub(crate) struct GivenSpread {
    #[pyo3(item(0))]
    attribute: String,
    #[pyo3(item(1))]
    pub(crate) per_value: usize,
    /// Whether `k` counts values.
    #[pyo3(item(2))]
    pub(crate) by_value: bool,
}

impl GivenSpread {
    /// The column. Errors: `Invalid` for a name that the schema lacks.
    pub(crate) fn column(&self, schema: &Schema) -> Result<u16, Failure> {
        column_of(schema, &self.attribute)
    }
}

fn column_of(schema: &Schema, name: &str) -> Result<u16, Failure> {
    let column = schema.column(name);
    column.ok_or_else(|| Failure::invalid(format!("the collection has no attribute '{name}'")))
}

/// Values with their numbers of rows, for Python.
pub(crate) fn values_of(
    py: Python<'_>,
    values: Vec<(Option<Value>, usize)>,
) -> PyResult<Vec<ValueCount<'_>>> {
    let value = |(value, rows): (Option<Value>, usize)| match value {
        None => Ok((py.None().into_bound(py), rows)),
        Some(value) => Ok((value_of(py, &value.as_ref())?, rows)),
    };
    values.into_iter().map(value).collect()
}

/// Columns that are read, and what the engine is asked for.
pub(crate) struct Selection {
    columns: Vec<u16>,
    pub(crate) with: With,
}

impl Selection {
    /// Errors: `Invalid` for a name that the schema lacks.
    pub(crate) fn new(
        schema: &Schema,
        (names, payload): &Wanted,
        vector: bool,
    ) -> Result<Selection, Failure> {
        let columns = match names {
            None => (0..schema.attributes.len() as u16).collect(),
            Some(names) => {
                let column = |name: &String| column_of(schema, name);
                names.iter().map(column).collect::<Result<Vec<_>, _>>()?
            }
        };
        let attributes = match names {
            None => WithAttributes::All,
            Some(_) => WithAttributes::Of(columns.clone()),
        };
        Ok(Selection { columns, with: With { attributes, payload: *payload, vector } })
    }

    /// The columns as a job is asked for them: each once, ascending.
    pub(crate) fn ascending(&self) -> Vec<u16> {
        let mut columns = self.columns.clone();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// The attributes of rows, column by column.
    pub(crate) fn columns<'py>(
        &self,
        py: Python<'py>,
        schema: &Schema,
        rows: &[StoredRow],
    ) -> PyResult<Vec<Column<'py>>> {
        let column = |&at: &u16| {
            let attribute = &schema.attributes[usize::from(at)];
            let value = |row: &StoredRow| match row.fields.fields().attributes.get(at) {
                None => Ok(py.None().into_bound(py)),
                Some(value) => value_of(py, &value),
            };
            let values = rows.iter().map(value).collect::<PyResult<Vec<_>>>()?;
            Ok((attribute.name.clone(), attribute.kind.name(), PyList::new(py, values)?))
        };
        self.columns.iter().map(column).collect()
    }

    /// The payloads of rows, if they are wanted.
    pub(crate) fn payloads<'py>(&self, py: Python<'py>, rows: &[StoredRow]) -> Payloads<'py> {
        let payload =
            |row: &StoredRow| row.fields.fields().payload.map(|bytes| PyBytes::new(py, bytes));
        self.with.payload.then(|| rows.iter().map(payload).collect())
    }

    /// Rows with all that is wanted.
    pub(crate) fn rows<'py>(
        &self,
        py: Python<'py>,
        (schema, ids, dimension): (&Schema, &IdForm, usize),
        rows: &[StoredRow],
    ) -> PyResult<PyRows<'py>> {
        let vectors = self.with.vector.then(|| {
            let values = rows.iter().flat_map(|row| row.vector.iter().flatten()).copied();
            let matrix = Array2::from_shape_vec((rows.len(), dimension), values.collect());
            matrix.expect("a vector per row").into_pyarray(py)
        });
        let columns = self.columns(py, schema, rows)?;
        Ok((ids.of_rows(py, rows)?, columns, self.payloads(py, rows), vectors))
    }
}

fn value_of<'py>(py: Python<'py>, value: &ValueRef<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        ValueRef::Keyword(text) | ValueRef::Text(text) => text.into_pyobject(py)?.into_any(),
        ValueRef::Keywords(texts) => PyList::new(py, texts)?.into_any(),
        ValueRef::I64(number) | ValueRef::Timestamp(number) => number.into_pyobject(py)?.into_any(),
        ValueRef::F64(number) => number.into_pyobject(py)?.into_any(),
        ValueRef::Bool(is_true) => is_true.into_pyobject(py)?.to_owned().into_any(),
    })
}
