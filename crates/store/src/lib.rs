//! Bytes at rest: lossless codecs for vectors.
//!
//! Tier 1: knows no index and no collection.

#![forbid(unsafe_code)]

pub mod codec;
