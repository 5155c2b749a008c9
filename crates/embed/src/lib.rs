//! Texts become vectors: documents are cut into chunks, and chunks are embedded by a model whose
//! files lie on this machine. *Not useful for* keeping or finding vectors.
//!
//! 1. A [`Chunker`] cuts a document at sentences and paragraphs. Each [`Chunk`] knows its place in
//!    the document and a hash of its text, so that a chunk that was embedded once stays as it is.
//! 2. A [`Model`] is a table with a vector per token, or a sentence transformer in ONNX. It turns a
//!    batch of texts into vectors of length 1.
//!
//! Pure but for the files of the model, which are read once. The runtime of ONNX is a shared library
//! that is loaded when a transformer is opened; nothing else needs it.
//!
//! A good first change: accept a table of `BF16` numbers (`src/model/table.rs`).
#![forbid(unsafe_code)]

mod chunk;
mod error;
mod model;
mod tokenizer;

pub use chunk::{
    sentences, Chunk, ChunkHash, ChunkSettings, Chunker, CHUNK_CHARS_MAX, DOCUMENT_BYTES_MAX,
};
pub use error::{EmbedError, EmbedErrorKind};
pub use model::{Model, ModelKind, ModelSettings, TEXT_BYTES_MAX};
pub use tokenizer::Tokenizer;
