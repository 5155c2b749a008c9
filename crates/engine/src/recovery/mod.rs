//! What the files of a durable engine say: when it is opened, verified or looked into.

mod inspect;
mod recover;
mod verify;

pub use self::inspect::{inspect_collection, CollectionSummary, SegmentInfo};
pub(crate) use self::recover::{recover, Change, Recovered, Replay};
pub use self::verify::{verify, verify_store, Finding, Verified};
