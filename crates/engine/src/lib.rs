//! The engine of one partition: stores, searches and recovers vectors as they stream.
//!
//! [`Engine`] is the one writer. [`Reader`]s answer queries from any thread without a lock. A row
//! is searchable when [`Engine::upsert`] returns. The engine refuses bad input before it changes
//! anything.
//!
//! A good first change: show `Engine::builder` and `Engine::open` in the quickstart
//! (`examples/quickstart.rs`).
#![forbid(unsafe_code)]

mod accept;
mod applied;
mod background;
mod builder;
mod checkpoint;
mod compaction;
mod defect;
mod durability;
mod durable;
mod engine;
mod error;
mod feed;
mod field_bytes;
mod guard;
mod handover;
mod journal;
mod layout;
mod numbered;
mod priority;
mod pushed;
mod read;
mod reader;
mod records;
mod recovery;
mod remembered;
mod remote;
mod row;
mod settings;
mod snapshot;
mod take;
mod translate;
mod tree;
mod version;
mod wal;
mod write;

pub use accept::{check_fields, check_row, NORM_MAX};
pub use applied::Applied;
pub use builder::EngineBuilder;
pub use checkpoint::{SharedFile, SharedState};
#[cfg(feature = "defects")]
pub use defect::{set_defect, set_defect_everywhere, Defect};
pub use durability::{Durability, JournalStats, Journaling};
pub use engine::{Engine, Stats};
pub use error::{Error, ErrorKind};
pub use feed::{read_changes, Feed, FeedRead, FeedReader};
pub use guard::{Evidence, RecallEstimate};
pub use handover::{Adoption, Awaiting, MovedRange};
pub use journal::Commit;
pub use numbered::NumberedWriter;
pub use priority::yield_to_others;
pub use pushed::PushedCollection;
pub use read::{
    Answer, Page, Spread, SpreadAnswer, SpreadOf, StoredRow, With, WithAttributes, READ_ROWS_MAX,
};
pub use reader::{Effort, Query, ReadSnapshot, Reader, Scratch};
pub use recovery::{
    inspect_collection, verify, verify_store, Change, CollectionSummary, Distribution, Finding,
    LeafCounts, LeftOver, SegmentInfo, SegmentLeaves, Verified,
};
pub use remote::RemoteStats;
pub use row::{PayloadChange, Row, RowId, Update};
pub use settings::{
    Ablation, DeleteOrder, IndexKind, SegmentIndex, Settings, DELETES_REMEMBERED_MAX,
    DIMENSION_MAX, K_MAX,
};
pub use snapshot::{inspect, PinnedSnapshot, SnapshotFile, SnapshotSummary};
pub use tree::{Residence, TreeStats};
pub use version::{files_to_push, RemoteLevel};
pub use vstream_attribute::{
    attributes_to_json, Attribute, AttributeKind, Attributes, AttributesBuilder, Fields,
    FieldsBuffer, Filter, Grouping, HashedName, IdKind, NameHash, Names, Range, Refused,
    RefusedKind, Schema, Test, Value, ValueRef, ATTRIBUTES_MAX, GROUP_ATTRIBUTE, PAYLOAD_BYTES_MAX,
};
pub use vstream_index::{answer_soon, share_heaps, take_turns, work_done, SearchStats};
pub use vstream_store::remote::TierCounts;
pub use vstream_store::Syncing;
pub use vstream_vector::{Element, Metric, Neighbor};
pub use write::{Condition, IfVersion};
