//! The public interface of stores: every store passes the same suite, and blocks are bound to their
//! addresses.

mod blocks;
mod cache;
mod contract;
mod faults;
mod files;
mod pointed;
#[cfg(feature = "remote")]
mod proxy;
mod remote;
mod restore;
#[cfg(feature = "remote")]
mod s3;
mod tiered;
