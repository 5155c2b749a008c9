//! Stores as their users see them: every store passes the same suite; blocks know their place.

mod blocks;
mod cache;
mod contract;
mod faults;
mod files;
#[cfg(feature = "remote")]
mod proxy;
mod remote;
mod restore;
#[cfg(feature = "remote")]
mod s3;
