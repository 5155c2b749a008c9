//! Files in an object store: written once, read by ranges, waited for with patience.
//!
//! [`RemoteStore`] is a [`Store`](crate::Store) over [`Objects`]: single requests to some object
//! store, of which S3 is one (feature `remote`) and [`MemoryObjects`] another. [`Location`] reads
//! the address of a store. [`push`] sends the files of a directory there as a snapshot, and a
//! [`Restore`] is a directory that fills up from one while it is used. *Not useful for* knowing
//! what the files mean.

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
mod writer;

pub use contents::{numbers, push, Contents, Pushed, PushedFile};
pub use fetching::Fetching;
pub use location::{Bucket, Location};
pub use objects::{Fault, FaultKind, MemoryObjects, Objects, PutMode, Upload, PART_BYTES};
pub use restore::{Progress, Restore, RestoreSettings};
pub use retry::RetryPolicy;
pub use store::{RemoteCounts, RemoteStore};
