//! I have a set of vectors, which are nearest? *Not useful for* knowing which set to ask.
//!
//! Two kinds behind the same traits: [`Flat`] scans everything (oracle, small sets), [`Cluster`]
//! is the engine's index: a centroid tree over leaves of coded rows.
//!
//! # How readers and the writer meet
//!
//! One writer, any number of readers, no reader lock. Every write takes a sequence; a row lives
//! from its `inserted` to its `deleted` sequence. The writer marks rows first, swaps the root if
//! the structure changed, and publishes its sequence last. A reader takes the root, then the
//! published sequence, then checks that the root is still the same: so all marks up to that
//! sequence are on rows that it can reach, and it sees exactly the rows that lived at it.

#![deny(unsafe_code)]

#[expect(unsafe_code, reason = "rows as plain slices beside a row that is being appended")]
mod append;
pub mod cluster;
#[cfg(feature = "contract")]
pub mod contract;
mod flat;
mod id_map;
mod publish;
mod radius;
mod reach;
mod rows;
mod scratch;
#[expect(unsafe_code, reason = "blocks of huge pages; what is in them is up to their owners")]
mod slab;
pub mod stages;
mod traits;

pub use cluster::{Cluster, ClusterSettings};
pub use flat::Flat;
pub use radius::RadiusBound;
pub use reach::{depth_from, depth_needed, note, positions_of, CodeRanks, Reach};
pub use rows::{distance, RowKey, VectorBuffer, VectorRef};
pub use scratch::Scratch;
pub use traits::{
    Applied, Effort, IndexSettings, IndexSnapshot, IndexStats, Insert, PinnedRows, Probe, Search,
    SearchStats,
};
