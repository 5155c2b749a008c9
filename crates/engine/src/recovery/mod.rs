//! Reads the files of a durable engine: to open it, to verify it, or to inspect it.

mod fuzzy;
mod inspect;
mod leaf_counts;
mod recover;
mod replay;
mod verify;

pub use self::inspect::{inspect_collection, CollectionSummary, SegmentInfo};
pub use self::leaf_counts::{Distribution, LeafCounts, LeftOver, SegmentLeaves};
pub use self::recover::Change;
pub(crate) use self::recover::{
    first_lsn, insert_image, recover, recover_part, whole_group, Recovered, Replay, SegmentFiles,
};
pub(crate) use self::replay::GroupReplay;
pub use self::verify::{verify, verify_store, Finding, Verified};
