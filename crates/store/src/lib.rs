//! Bytes that outlive a process: immutable files, logs, checksummed blocks and a cache of them.
//!
//! [`Store`] holds write-once files and publishes them whole; [`FileStore`] is the one over a
//! directory, real ([`Disk`]), in memory ([`Memory`]) or simulated: whatever gives the few
//! primitives of [`Files`]. [`ReadAt`] reads ranges of a file, many at once. [`blocks`] binds a
//! checksum to the place where a block belongs. [`codec`] makes
//! vectors shorter without losing a bit. *Not useful for* knowing what the bytes mean.
#![forbid(unsafe_code)]

pub mod blocks;
mod buffer;
mod cache;
mod clock;
pub mod codec;
mod defect;
mod disk;
mod error;
mod file_store;
mod files;
mod log;
mod memory;
mod names;
mod pool;
pub mod remote;
mod store;

pub use buffer::Buffer;
pub use cache::{Cache, CacheKey, CacheStats};
pub use clock::{Clock, SystemClock};
#[cfg(feature = "defects")]
pub use defect::{set_defect, Defect};
pub use disk::Disk;
pub use error::{Error, ErrorKind};
pub use file_store::{FileStore, Syncing};
pub use files::{Access, Files, InFile, OutFile};
pub use log::LogFile;
pub use memory::Memory;
pub use store::{Entry, FileWriter, Range, ReadAt, Store};
