//! Durable bytes: immutable files, logs, checksummed blocks and a block cache.
//!
//! [`Store`] holds write-once files and publishes each one whole. [`FileStore`] implements it over
//! a directory: a real one ([`Disk`]), one in memory ([`Memory`]) or a simulated one. A directory
//! needs only the few primitives of [`Files`]. [`ReadAt`] reads ranges of a file, several at once.
//! [`blocks`] binds the checksum of a block to the block's address. [`codec`] compresses vectors
//! without loss. *Not useful for* interpreting the bytes.
//!
//! A good first change: ask every store what a read that ends exactly at the end gives
//! (`tests/it/contract.rs`).
#![deny(unsafe_code)]

pub mod blocks;
mod buffer;
mod cache;
mod clock;
pub mod codec;
mod counted;
mod defect;
mod disk;
mod error;
mod file_store;
mod files;
mod lock;
mod log;
mod memory;
mod names;
mod pool;
pub mod remote;
#[expect(unsafe_code, reason = "the kernel writes to buffers while the caller waits")]
mod ring;
mod store;

pub use buffer::Buffer;
pub use cache::{Cache, CacheKey, CacheStats};
pub use clock::{Clock, SystemClock};
pub use counted::{Counted, IoCounts};
#[cfg(feature = "defects")]
pub use defect::{set_defect, Defect};
pub use disk::Disk;
pub use error::{Error, ErrorKind};
pub use file_store::{FileStore, Syncing};
pub use files::{Access, Files, InFile, OutFile};
pub use lock::DirectoryLock;
pub use log::LogFile;
pub use memory::Memory;
pub use ring::{read_few_at_once, PlannedRead};
pub use store::{Entry, FileWriter, Range, ReadAt, Store};
