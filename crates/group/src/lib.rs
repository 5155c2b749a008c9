//! Isolated groups of rows: a mailbox per user, a catalogue per tenant. A query names one group and
//! is answered from all of its rows, exactly. The rows lie together on the disk; memory holds the
//! new rows, a cache, and a fraction of a byte per stored row.
//!
//! 1. [`GroupStore`] is the one writer: a log, a memtable, and runs, which are immutable files in
//!    the order of (group, id). Merges keep the number of runs small.
//! 2. [`GroupReader`] answers from any thread. A search by distance reads codes first, and whole
//!    rows only where the codes leave a doubt. Words and rank expressions ([`GroupQuery`]) are
//!    evaluated over all rows of the group.
//! 3. The newest version of an id counts; deletions and dropped groups are records that hide older
//!    rows until a merge forgets both.
//!
//! *Not useful for* a search over all groups, nor for groups spread over several directories.
//!
//! A good first change: let `stats` tell how many rows wait in runs that adopted files have beyond
//! their shards (`src/checkpoint.rs`).
#![forbid(unsafe_code)]

mod accept;
mod checkpoint;
mod code;
mod compaction;
mod error;
mod inspect;
mod log;
mod manifest;
mod memtable;
mod query;
mod run;
mod settings;
mod shard;
mod store;
mod view;

pub use accept::{RowRef, GROUP_BYTES_MAX, K_MAX};
pub use checkpoint::{SharedGroups, SharedRun};
pub use error::Error;
pub use inspect::{inspect_groups, verify_groups, RunInfo, StoreSummary, VerifiedGroups};
pub use query::{
    Diversity, GroupAnswer, GroupBy, GroupHit, GroupQuery, GroupReader, GroupSummary, OwnedRow,
    QueryStats, RankBy, TextSearch, With, GROUPED_ROWS_MAX, GROUPS_PAGE_MAX,
};
pub use settings::{Bound, GroupSettings, DIMENSION_MAX};
pub use shard::{shard_of, ShardRange, SHARDS, SHARDS_MAX};
pub use store::{Applied, Compacted, Compaction, Condition, GroupStats, GroupStore, IfVersion};
pub use vstream_attribute::{PayloadChange, RowId, Update};
/// What texts and rank expressions are made of.
pub use vstream_rank::{
    grouping_column, AnswerGroup, Bm25Constants, Bm25Settings, Expression, Language, PlainTerms,
    QueryError, QueryErrorKind, TextQuery,
};
