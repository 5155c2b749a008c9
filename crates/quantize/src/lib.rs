//! Lossy codes for vectors and the kernels that compare a query with many of them at once.
//!
//! * [`rabitq`]: one bit per dimension, unbiased estimates with a known error; for postings.
//! * [`rabitq::extended`]: four bits, an eighth of that error; for a second look at the best few.
//! * [`scalar8`]: one byte per dimension, interleaved, nearly exact; for centroids.
//!
//! Tier 1: arithmetic only, no files, no clock. Every SIMD form gives the scalar form's result to
//! the bit, so codes made on one machine mean the same on any other.

#![deny(unsafe_code)]

mod form;
mod lanes;
pub mod rabitq;
pub mod scalar8;

pub use form::Form;
