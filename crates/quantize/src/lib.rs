//! Lossy codes for vectors, and the kernels that compare a query with many codes at once.
//!
//! * [`rabitq`]: one bit per dimension, unbiased estimates with a known error. For postings.
//! * [`rabitq::extended`]: four bits per dimension, an eighth of that error. For a second look at
//!   the best few candidates.
//! * [`scalar8`]: one byte per dimension, interleaved, nearly exact. For centroids.
//!
//! Tier 1: arithmetic only, no files and no clock. Every SIMD kernel gives exactly the bits of the
//! scalar one, so codes mean the same on every machine.
//!
//! A good first change: measure kernels at 384 and 1,536 dimensions, where text embeddings are
//! (`benches/kernels.rs`).

#![deny(unsafe_code)]

mod form;
mod lanes;
pub mod rabitq;
pub mod scalar8;

pub use form::Form;
pub use lanes::stable_l2_squared;
