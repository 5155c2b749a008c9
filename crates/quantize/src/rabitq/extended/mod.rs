//! Extended RaBitQ: four bits per dimension of one row, for a second look at the best few.
//!
//! 1. [`encode`]: the residual `r = x − c` of a rotated row becomes `v`, whose coordinates are
//!    `uᵢ − 7.5` with `uᵢ` in 0..=15. Of several scales the one is taken that turns `v` nearest to
//!    `r`. The highest bit of `uᵢ` is the sign that [`super::encode`] keeps.
//! 2. [`ExtendedQuery`]: once per query, its coordinates as 15-bit integers, in two planes of bytes.
//! 3. [`ExtendedQuery::estimate`]: one row at a time, wherever it lies, as [`super::QueryTable`]
//!    does it for blocks: the row's centroid comes in with the query's `base` alone.
//!
//! The estimate rests on `⟨r, u⟩ ≈ f · ⟨v, u⟩` with `f = |r|² / ⟨v, r⟩`, unbiased over the rotation
//! for every `u` independent of it, and is applied to `u = q − c`:
//!
//! ```text
//! |q − x|² ≈ |q − c|² + (|r|² + 2f⟨v, c⟩)     + (−2f) · ⟨v, q⟩
//! −⟨q, x⟩  ≈ −⟨q, c⟩  + (f⟨v, c⟩ − ⟨r, c⟩)    + (−f)  · ⟨v, q⟩
//!            `base`     `add`                   `scale`
//! ```
//!
//! It strays by about `|r| · |u| · 0.101 / √(D − 1)` (by 0.755 in place of 0.101 with one bit), an
//! L2 distance by twice that.
//!
//! **Layout.** 64 dimensions take 32 bytes: byte `j` of group `g` holds dimension `64g + j` in its
//! low nibble and dimension `64g + 32 + j` in its high one, so that every register width reads
//! whole runs of bytes. With the factors ([`ExtendedFactors::to_bytes`]) a row takes `D/2 + 6`
//! bytes: 70 at 128 dimensions, of which the code is one cache line.
//!
//! Gao et al., "Practical and Asymptotically Optimal Quantization of High-Dimensional Vectors in
//! Euclidean Space for Approximate Nearest Neighbor Search", SIGMOD 2025.
//!
//! Rejected: three more bits beside the one of the block (16 bytes less at 128 dimensions), since
//! the signs of one row lie in 32 places of a block.

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

/// Dimensions at most: above it the integer sums of an estimate would not fit 32 bits.
const PADDED_MAX: usize = 8192;

/// Bytes of an extended code of `padded` dimensions, a multiple of 64.
pub const fn code_bytes(padded: usize) -> usize {
    padded / 2
}
