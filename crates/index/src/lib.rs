//! Indexes in memory: they find the nearest vectors of one set while rows stream in. *Not useful for*
//! knowing which set to ask.
//!
//! Two kinds have the same traits ([`Insert`], [`Search`]): [`Flat`] scans every row (the oracle of
//! tests, and small sets), [`Cluster`] is the engine's index, a tree of centroids over leaves of
//! coded rows. [`stages`] holds the parts of a search that segments on disk share with the indexes.
//!
//! # How do readers and the writer meet?
//!
//! There is one writer and any number of readers, and readers take no lock. Every write takes a
//! sequence. A row lives from its `inserted` sequence to its `deleted` sequence. The writer marks
//! rows first, swaps the root if the structure changed, and publishes its sequence last. A reader
//! loads the root, then the published sequence, then checks that the root is still the same. So all
//! marks up to that sequence are on rows that the reader can reach, and it sees exactly the rows that
//! lived at that sequence.
//!
//! A good first change: add a case to the contract of all kinds: delete an id, then insert it
//! again (`src/contract.rs`).

#![deny(unsafe_code)]

#[expect(unsafe_code, reason = "readers take rows as plain slices while the writer appends")]
mod append;
pub mod cluster;
#[cfg(feature = "contract")]
pub mod contract;
mod filter;
mod flat;
#[cfg_attr(
    all(target_os = "linux", target_env = "gnu"),
    expect(unsafe_code, reason = "one call of the C library, which takes no pointer")
)]
mod heap;
mod id_map;
mod least_ids;
mod probe;
mod publish;
mod radius;
mod reach;
mod rows;
mod scratch;
mod settings;
#[expect(unsafe_code, reason = "blocks of huge pages, whose content their owners decide")]
mod slab;
#[cfg_attr(
    all(target_os = "linux", target_env = "gnu"),
    expect(
        unsafe_code,
        reason = "two calls of the system, which take a structure of this module's"
    )
)]
mod slice;
pub mod stages;
mod traits;
mod turns;
mod wanted;

pub use cluster::{Cluster, ClusterLoad, ClusterSettings};
pub use flat::Flat;
pub use heap::{give_back_heap, share_heaps};
pub use least_ids::LeastIds;
pub use probe::{Effort, Probe, SearchStats};
pub use radius::RadiusBound;
pub use reach::{depth_from, depth_in_memory, depth_needed, note, positions_of, CodeRanks, Reach};
pub use rows::{distance, Dictionary, IndexRow, Outlook, RowKey, VectorBuffer, VectorRef};
pub use scratch::Scratch;
pub use slice::answer_soon;
pub use traits::{Applied, IndexSettings, IndexSnapshot, IndexStats, Insert, PinnedRows, Search};
pub use turns::{take_turns, work_done};
