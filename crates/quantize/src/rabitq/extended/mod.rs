//! Extended RaBitQ: four bits per dimension, for a second look at the best few candidates.
//!
//! 1. [`encode`]: the residual `r = x − c` of a rotated row becomes the code `v`, whose coordinates
//!    are `uᵢ − 7.5` with `uᵢ` in 0..=15. It tries several scales and takes the one with the `v`
//!    nearest in direction to `r`. The highest bit of `uᵢ` is the sign that [`super::encode`]
//!    stores.
//! 2. [`ExtendedQuery`]: rounds the coordinates of a query to 15-bit integers, once per query, in
//!    two planes of bytes.
//! 3. [`ExtendedQuery::estimate`]: estimates one row at a time, anywhere in memory, as
//!    [`super::QueryTable`] does for blocks. The row's centroid enters only through the query's
//!    `base`.
//!
//! The estimate is based on `⟨r, u⟩ ≈ f · ⟨v, u⟩` with `f = |r|² / ⟨v, r⟩`. Over the random
//! rotation it is unbiased for every `u` that is independent of the rotation. It is applied to
//! `u = q − c`:
//!
//! ```text
//! |q − x|² ≈ |q − c|² + (|r|² + 2f⟨v, c⟩)     + (−2f) · ⟨v, q⟩
//! −⟨q, x⟩  ≈ −⟨q, c⟩  + (f⟨v, c⟩ − ⟨r, c⟩)    + (−f)  · ⟨v, q⟩
//!            `base`     `add`                   `scale`
//! ```
//!
//! Its standard error is about `|r| · |u| · 0.101 / √(D − 1)` (with one bit, 0.755 instead of
//! 0.101), and twice that for an L2 distance.
//!
//! **Layout.** 64 dimensions take 32 bytes: byte `j` of group `g` holds dimension `64g + j` in its
//! low nibble and dimension `64g + 32 + j` in its high one. So registers of every width read
//! contiguous bytes. With the factors ([`ExtendedFactors::to_bytes`]) a row takes `D/2 + 6` bytes:
//! 70 at 128 dimensions, of which the code is one cache line.
//!
//! Gao et al., "Practical and Asymptotically Optimal Quantization of High-Dimensional Vectors in
//! Euclidean Space for Approximate Nearest Neighbor Search", SIGMOD 2025.
//!
//! Rejected: three more bits beside the one of the block (16 bytes less at 128 dimensions), because
//! the signs of one row are in 32 places of a block.

mod encode;
#[expect(unsafe_code, reason = "SIMD forms load through pointers and are called after detection")]
mod kernels;
mod query;
#[cfg(test)]
mod tests;

pub use encode::{encode, ExtendedFactors, EXTENDED_FACTOR_BYTES};
pub use query::ExtendedQuery;

/// Dimensions of one group of 32 bytes.
const GROUP: usize = 64;

/// Largest number of dimensions. Beyond it the integer sums of an estimate would not fit 32 bits.
const PADDED_MAX: usize = 8192;

/// Bytes of an extended code of `padded` dimensions, which is a multiple of 64.
pub const fn code_bytes(padded: usize) -> usize {
    padded / 2
}
