//! Files in an object store: written once, read by ranges, with retries.
//!
//! [`RemoteStore`] is a [`Store`](crate::Store) over [`Objects`], the single requests of an object
//! store. S3 implements them (feature `remote`), and so does [`MemoryObjects`]. [`Location`] parses
//! the address of a store. [`push`] sends the files of a directory to a store as a snapshot. A
//! [`Restore`] is a directory that is usable while its files are fetched from a snapshot, [`Tiered`]
//! one whose files come and go as there is room. *Not useful for* interpreting the files.

mod contents;
mod fetching;
mod file;
mod location;
mod objects;
mod pending;
mod restore;
mod retry;
#[cfg(feature = "remote")]
mod s3;
mod store;
mod tiered;
mod writer;

pub use contents::{numbers, push, push_above, Contents, Pushed, PushedFile};
pub use fetching::Fetching;
pub use location::{Bucket, Location};
pub use objects::{Fault, FaultKind, MemoryObjects, Objects, PutMode, Upload, PART_BYTES};
pub use restore::{Progress, Restore, RestoreSettings};
pub use retry::RetryPolicy;
pub use store::{RemoteCounts, RemoteStore};
pub use tiered::{PlacedFile, TierCounts, Tiered};
