//! Matrices that came from numpy: borrowed in place, checked whole before anything changes.

use numpy::{
    Element as NumpyElement, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1,
    PyReadonlyArray2, PyUntypedArrayMethods,
};
use pyo3::prelude::*;
use vstream_engine::{check_row, Settings};
use vstream_vector::{Widen, F16};

use crate::failure::Failure;

/// Largest id in Python: answers are int64 arrays, in which -1 marks an empty place.
const ID_MAX: &str = "2**63 - 1";

/// Values of rows that follow each other, `dimension` apiece.
#[derive(Clone, Copy)]
pub(crate) enum Values<'a> {
    F32(&'a [f32]),
    /// Half precision, as its bits.
    F16(&'a [u16]),
    U8(&'a [u8]),
    I8(&'a [i8]),
}

/// A matrix of vectors as numpy holds it.
pub(crate) enum Matrix<'py> {
    F32(PyReadonlyArray2<'py, f32>),
    /// A float16 array, seen as uint16: so it comes from Python.
    F16(PyReadonlyArray2<'py, u16>),
    U8(PyReadonlyArray2<'py, u8>),
    I8(PyReadonlyArray2<'py, i8>),
}

impl<'py> Matrix<'py> {
    /// Errors: `TypeError` if it is no 2-d array of a type that is read in place.
    pub(crate) fn from_python(vectors: &Bound<'py, PyAny>) -> PyResult<Matrix<'py>> {
        if let Ok(bytes) = vectors.cast::<PyArray2<u8>>() {
            return Ok(Matrix::U8(bytes.try_readonly()?));
        }
        if let Ok(bytes) = vectors.cast::<PyArray2<i8>>() {
            return Ok(Matrix::I8(bytes.try_readonly()?));
        }
        if let Ok(halves) = vectors.cast::<PyArray2<u16>>() {
            return Ok(Matrix::F16(halves.try_readonly()?));
        }
        Ok(Matrix::F32(vectors.extract()?))
    }

    /// The rows, with the shape and the storage checked. Nothing is copied.
    pub(crate) fn rows(&self, dimension: usize) -> Result<Rows<'_>, Failure> {
        let shape = match self {
            Matrix::F32(array) => array.shape(),
            Matrix::F16(array) => array.shape(),
            Matrix::U8(array) => array.shape(),
            Matrix::I8(array) => array.shape(),
        };
        if shape[1] != dimension {
            return Err(Failure::invalid(format!(
                "the vectors have {} dimensions, the collection {dimension}",
                shape[1]
            )));
        }
        let values = match self {
            Matrix::F32(array) => Values::F32(slice2(array)?),
            Matrix::F16(array) => Values::F16(slice2(array)?),
            Matrix::U8(array) => Values::U8(slice2(array)?),
            Matrix::I8(array) => Values::I8(slice2(array)?),
        };
        Ok(Rows { values, dimension, count: shape[0] })
    }
}

/// Rows in numpy's memory.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    values: Values<'a>,
    dimension: usize,
    count: usize,
}

impl<'a> Rows<'a> {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Row `at`: borrowed if it is f32 already, else widened into `buffer`.
    pub(crate) fn row<'b>(&self, at: usize, buffer: &'b mut Vec<f32>) -> &'b [f32]
    where
        'a: 'b,
    {
        let range = at * self.dimension..(at + 1) * self.dimension;
        match self.values {
            Values::F32(values) => &values[range],
            Values::F16(values) => widened(&values[range], |&bits| F16(bits).widen(), buffer),
            Values::U8(values) => widened(&values[range], |&x| f32::from(x), buffer),
            Values::I8(values) => widened(&values[range], |&x| f32::from(x), buffer),
        }
    }

    /// Checks every row as the engine will, so that a bad one stops the call before the first
    /// change, and is named by its position.
    pub(crate) fn check(&self, settings: &Settings) -> Result<(), Failure> {
        let mut buffer = Vec::new();
        (0..self.count).try_for_each(|at| {
            let row = self.row(at, &mut buffer);
            check_row(row, settings)
                .map_err(|what| Failure::invalid(format!("row {at} of the vectors {what}")))
        })
    }
}

/// A row as `f32`, written to `buffer`.
fn widened<'b, T>(row: &[T], widen: impl Fn(&T) -> f32, buffer: &'b mut Vec<f32>) -> &'b [f32] {
    buffer.clear();
    buffer.extend(row.iter().map(widen));
    buffer
}

/// The values of a vector, in place.
pub(crate) fn slice1<'a, T: NumpyElement>(
    array: &'a PyReadonlyArray1<'_, T>,
) -> Result<&'a [T], Failure> {
    array.as_slice().map_err(|_| Failure::internal("a vector came neither packed nor aligned"))
}

/// The values of a matrix, row by row, in place.
pub(crate) fn slice2<'a, T: NumpyElement>(
    array: &'a PyReadonlyArray2<'_, T>,
) -> Result<&'a [T], Failure> {
    // `as_slice` alone would also take a matrix that is stored column by column.
    let packed = array.is_c_contiguous().then(|| array.as_slice().ok()).flatten();
    packed.ok_or_else(|| Failure::internal("a matrix came neither packed by rows nor aligned"))
}

/// Ids as the engine wants them; they came as int64, with uint64 seen through its bit pattern.
pub(crate) fn check_ids(ids: &[i64]) -> Result<(), Failure> {
    match ids.iter().position(|&id| id < 0) {
        None => Ok(()),
        Some(at) => Err(Failure::invalid(format!(
            "the id at position {at} is below 0 or above {ID_MAX}: choose ids from 0 to {ID_MAX}"
        ))),
    }
}

/// An answer's ids and distances as numpy arrays that own them.
pub(crate) type Pair<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<f32>>);
