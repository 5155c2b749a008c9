//! Models and chunks of texts as Python holds them.

use std::path::PathBuf;

use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray2};
use pyo3::prelude::*;
use vstream_embed::{ChunkSettings, Chunker, ModelSettings};

use crate::failure::{detached, Failure};

/// Texts embedded before signals such as Ctrl-C are looked at: some seconds of a transformer.
const STRETCH: usize = 256;

/// A chunk: its first character, the one behind its last, and its hash.
type Place = (usize, usize, String);

/// A model of texts.
#[pyclass(frozen, module = "vstream._native")]
pub(crate) struct Model {
    model: vstream_embed::Model,
}

#[pymethods]
impl Model {
    /// Opens the model at a path.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        runtime: Option<PathBuf>,
        tokens_max: usize,
        threads: usize,
    ) -> PyResult<Model> {
        let settings = ModelSettings { runtime, tokens_max, threads };
        let model = detached(py, || Ok(vstream_embed::Model::open(&path, &settings)?))?;
        Ok(Model { model })
    }

    /// `static` or `transformer`.
    #[getter]
    fn kind(&self) -> &'static str {
        self.model.kind().name()
    }

    /// Numbers per vector.
    #[getter]
    fn dimension(&self) -> usize {
        self.model.dimension()
    }

    /// Digits that change with the files of the model.
    #[getter]
    fn fingerprint(&self) -> &str {
        self.model.fingerprint()
    }

    /// A matrix with a vector per text.
    fn embed<'py>(
        &self,
        py: Python<'py>,
        texts: Vec<String>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let mut vectors = Vec::with_capacity(texts.len() * self.model.dimension());
        for stretch in texts.chunks(STRETCH) {
            let stretch: Vec<&str> = stretch.iter().map(String::as_str).collect();
            detached(py, || Ok(self.model.embed(&stretch, &mut vectors)?))?;
            py.check_signals()?;
        }
        let shape = (texts.len(), self.model.dimension());
        let matrix = Array2::from_shape_vec(shape, vectors)
            .map_err(|error| Failure::internal(error.to_string()))?;
        Ok(matrix.into_pyarray(py))
    }
}

/// Cuts a text into chunks of at most `size` characters.
#[pyfunction]
pub(crate) fn split(
    py: Python<'_>,
    text: String,
    size: usize,
    overlap: usize,
) -> PyResult<Vec<Place>> {
    let chunker = Chunker::new(ChunkSettings { size, overlap }).map_err(Failure::from)?;
    let chunks = detached(py, || Ok(chunker.chunks(&text)?))?;
    let place =
        |chunk: vstream_embed::Chunk| (chunk.chars.start, chunk.chars.end, chunk.hash.to_string());
    Ok(chunks.into_iter().map(place).collect())
}

/// The sentences of a text: their first characters, and those behind their last.
#[pyfunction]
pub(crate) fn sentences(text: &str) -> Vec<(usize, usize)> {
    vstream_embed::sentences(text).into_iter().map(|place| (place.start, place.end)).collect()
}
