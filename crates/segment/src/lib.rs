//! Segments: immutable, checksummed files of vectors with an index of their own.
//!
//! 1. [`SegmentWriter`] takes leaves of rows and streams a file to a `Store`; [`write_pinned`]
//!    feeds it from a pinned index.
//! 2. [`Segment::open`] checks header, footer and meta, and keeps the directory in memory:
//!    centroids as bytes, lengths of blocks. Codes are in memory part by part, or all of them if
//!    asked for. A query reads everything else when it needs it, through a cache.
//! 3. A search makes two rounds of reads. The first reads the codes of the nearest leaves, unless
//!    they are in memory. The second reads the blocks with the rows worth an exact distance.
//! 4. Rows may carry names, attributes and payloads (`fields/`). Filters are applied to their columns
//!    while codes are scanned, and [`Segment::fields`] reads them for the rows of an answer.
//! 5. Rows of a segment never change; [`Tombstones`] hold the sequences at which rows were deleted.
//!
//! `format.rs` defines the bytes; docs/design/format.md describes them.
//!
//! A good first change: add f16 and bf16 to the golden segments (`tests/it/golden.rs`).
#![forbid(unsafe_code)]

mod arrange;
mod attached;
mod centroid;
mod codes;
mod column;
mod defect;
mod digest;
mod fields;
mod format;
mod ids;
mod malformed;
mod matches;
mod pinned;
mod points;
mod rank;
mod read;
mod rows;
mod scan;
mod search;
mod select;
mod take;
mod targets;
mod tombstones;
mod verify;
mod write;

pub use arrange::arrange;
pub use attached::{WantedColumns, WantedFields};
pub use centroid::StoredCentroid;
#[cfg(feature = "defects")]
pub use defect::{set_defect, set_defect_everywhere, Defect};
pub use digest::row_digest;
pub use format::rows_max;
pub use ids::FoundRow;
pub use pinned::write_pinned;
pub use points::Points;
pub use read::{Codes, OpenOptions, Segment, SegmentMemory, SharedCentroid};
pub use rows::LeafRows;
pub use search::{SegmentScratch, SegmentSearchState, SegmentView};
pub use targets::{
    divide, drawn_for, suit, write_into, NearTargets, Target, Targets, LEAF_ROWS_MAX,
};
pub use tombstones::Tombstones;
pub use verify::{BlockReport, ColumnReport, FieldsReport};
pub use vstream_store::IoCounts;
pub use write::{
    yield_to_queries, LeafCentroid, SegmentKind, SegmentSettings, SegmentSummary, SegmentWriter,
};
