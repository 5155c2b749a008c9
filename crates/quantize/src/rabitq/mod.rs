//! RaBitQ: one bit per dimension and three numbers per row.
//!
//! 1. [`Rotation`]: every row, centroid and query is padded to `D` dimensions and turned by the
//!    same random rotation, which spreads any vector evenly over its coordinates.
//! 2. [`encode`]: a row `x` is kept as the signs `s` of its residual `r = x − c` to its centroid,
//!    with [`Factors`] that make the estimate below unbiased.
//! 3. [`pack_lane`]: the signs of [`BLOCK`] rows are interleaved, so that one shuffle instruction
//!    looks up four dimensions of 16 rows or more; their factors follow.
//! 4. [`QueryTable`]: once per query, sums of every four of its dimensions under all 16 sign
//!    patterns, as bytes; a scan adds up bytes and finishes with one multiply-add per row.
//!
//! The estimate rests on `⟨r, u⟩ ≈ f · ⟨s, u⟩` with `f = |r|² / |r|₁`, unbiased over the rotation
//! for every `u` independent of it. It is applied to `u = q − c`, since its error grows with `|u|`
//! and a query is nearer to the centroids it visits than to the origin. With `S = ⟨s, q⟩`:
//!
//! ```text
//! |q − x|² = |q − c|² + |r|² − 2⟨r, q − c⟩ ≈ |q − c|² + (|r|² + 2f⟨s, c⟩)        + (−2f) · S
//! −⟨q, x⟩  = −⟨q, c⟩ − ⟨r, c⟩ − ⟨r, q − c⟩ ≈ −⟨q, c⟩  + (f⟨s, c⟩ − ⟨r, c⟩)       + (−f)  · S
//!            `base`: query and centroid      `add`: row                          `scale`: row
//! ```
//!
//! Thus one table per query serves every centroid. [`extended`] does the same with four bits per
//! dimension, row by row. Gao and Long, "RaBitQ: Quantizing
//! High-Dimensional Vectors with a Theoretical Error Bound", SIGMOD 2024.

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
pub use encode::{encode, Factors};
pub use query::QueryTable;
pub use rotation::Rotation;
