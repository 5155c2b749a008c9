//! Reads the files of a durable engine: to open it, to verify it, or to inspect it.

mod fuzzy;
mod inspect;
mod leaf_counts;
mod recover;
mod verify;

pub use self::inspect::{inspect_collection, CollectionSummary, SegmentInfo};
pub use self::leaf_counts::{Distribution, LeafCounts, LeftOver, SegmentLeaves};
pub(crate) use self::recover::{insert_image, recover, Change, Recovered, Replay, SegmentFiles};
pub use self::verify::{verify, verify_store, Finding, Verified};
