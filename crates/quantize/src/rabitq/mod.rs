//! RaBitQ: one bit per dimension and three numbers per row.
//!
//! 1. [`Rotation`] pads every row, centroid and query to `D` dimensions and applies the same random
//!    rotation to all. It spreads any vector evenly over its coordinates.
//! 2. [`encode`] stores a row `x` as the signs `s` of its residual `r = x − c` to its centroid,
//!    with [`Factors`] that make the estimate below unbiased.
//! 3. [`pack_lane`] interleaves the signs of [`BLOCK`] rows, so that one shuffle instruction looks
//!    up four dimensions of 16 rows or more. The factors follow the signs.
//! 4. [`QueryTable`] holds, once per query, the sums of every four of its dimensions under all 16
//!    sign patterns, as bytes. A scan adds up bytes and finishes with one multiply-add per row.
//!
//! The estimate is based on `⟨r, u⟩ ≈ f · ⟨s, u⟩` with `f = |r|² / |r|₁`. Over the random rotation
//! it is unbiased for every `u` that is independent of the rotation. It is applied to `u = q − c`,
//! because its error grows with `|u|` and a query is nearer to the centroids that it visits than to
//! the origin. With `S = ⟨s, q⟩`:
//!
//! ```text
//! |q − x|² = |q − c|² + |r|² − 2⟨r, q − c⟩ ≈ |q − c|² + (|r|² + 2f⟨s, c⟩)        + (−2f) · S
//! −⟨q, x⟩  = −⟨q, c⟩ − ⟨r, c⟩ − ⟨r, q − c⟩ ≈ −⟨q, c⟩  + (f⟨s, c⟩ − ⟨r, c⟩)       + (−f)  · S
//!            `base`: query and centroid      `add`: row                          `scale`: row
//! ```
//!
//! So one table per query serves every centroid. [`extended`] does the same with four bits per
//! dimension, row by row. Source: Gao and Long, "RaBitQ: Quantizing High-Dimensional Vectors with a
//! Theoretical Error Bound", SIGMOD 2024.

mod block;
mod encode;
pub mod extended;
#[expect(unsafe_code, reason = "SIMD forms load through pointers and are called after detection")]
mod kernels;
mod query;
mod rotation;
#[cfg(test)]
mod tests;

pub use crate::Form;
pub use block::{block_bytes, clear, copy_lane, pack_lane, unpack_lane, BLOCK};
pub use encode::{encode, encode_measured, Factors};
pub use query::QueryTable;
pub use rotation::Rotation;
