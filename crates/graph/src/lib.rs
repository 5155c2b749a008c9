//! Sealed segments with a disk graph: rows in blocks with their neighbours.
//!
//! 1. [`GraphWriter`] takes rows, builds a Vamana graph over the different vectors (`build/`), puts
//!    neighbours into the same blocks (`layout/`) and writes one file (`format.rs`).
//! 2. [`GraphSegment::open`] reads codes, ids and the navigation graph into memory. Vectors and
//!    edges stay on the disk.
//! 3. [`GraphSegment::search`] reads a few blocks per round and scores every row of each
//!    (`search.rs`). [`Walk::Nodes`] is the same search as DiskANN makes it, for comparison.
//!
//! 4. [`GraphSegment::search_thoroughly`] scans every code, for audits (`thorough.rs`). Walks over all or
//!    some rows are in `walk.rs`.
//!
//! docs/design/graph.md says how the engine uses such segments, and what is missing.
//!
//! A good first change: let the writer say how long each of its steps took (`write.rs`).
#![forbid(unsafe_code)]

mod build;
mod codes;
mod format;
mod layout;
mod list;
mod navigate;
mod read;
mod search;
mod settings;
mod thorough;
mod vectors;
mod walk;
mod write;

pub use layout::Layout;
pub use read::{is_graph, GraphNumbers, GraphSegment};
pub use search::{GraphProbe, GraphScratch, GraphStats, HotNodes, Walk};
pub use settings::{CodeBits, GraphSettings};
pub use write::{GraphSummary, GraphWriter};
