//! What rows carry beside their vectors, in the blocks of a segment: attributes in columns, names,
//! payloads. Nothing here knows of files: blocks come and go as bytes.
//!
//! 1. `gather.rs` turns the rows of a new segment into blocks and a directory of them.
//! 2. `block.rs` has the blocks of columns, `wide.rs` those of names and payloads.
//! 3. `summary.rs` says of each leaf and column which values it may have.
//! 4. `filter.rs` compiles a filter for one segment, `masks.rs` applies it to the rows of a leaf.

mod block;
mod directory;
mod filter;
mod gather;
mod masks;
mod packed;
mod place;
mod summary;
mod texts;
mod wide;
mod words;

pub(crate) use block::{f64_of, i64_of, lanes, ordered_f64, ordered_i64, ColumnBlock};
pub(crate) use directory::{ColumnEntry, Counts, Directory};
pub(crate) use filter::{Compiled, SharedTexts};
pub(crate) use gather::FieldsWriter;
pub(crate) use masks::{LeafChunk, Masks};
pub(crate) use place::{number, span_of, Area, Extent, RowSpan};
pub(crate) use summary::{Mark, Summary};
pub(crate) use wide::{NamesBlock, WideBlock};
