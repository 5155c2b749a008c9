//! Distance kernels. The scalar kernels define the result. SIMD kernels are chosen at run time and
//! must agree with them.
//!
//! 1. The first call detects the processor's features and stores the best set of kernels.
//! 2. Every later call is one load and one predicted indirect call, about 1 ns.
//!
//! A SIMD kernel sums in another order than the scalar one, so the results differ by rounding: by
//! less than `1e-5 · Σ |termᵢ|` for any length in use (see `tests.rs`).

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod bits;
mod lanes;
#[cfg(target_arch = "aarch64")]
mod neon;
mod prefetch;
pub mod scalar;
mod set;
#[cfg(test)]
mod tests;
mod tile;

pub use bits::{Fields, CODES, RARE_MAX, WIDTH_MAX};
pub use lanes::LANES;
pub use prefetch::prefetch;
pub use set::Kernels;
pub use tile::{Tile, TILE_COLUMNS, TILE_ROWS};

use set::active;

/// Instruction sets, from the plainest to the widest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// No instruction beyond the target's baseline.
    Scalar,
    /// x86-64 with AVX2, FMA, F16C and POPCNT.
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ and VL (and the above).
    Avx512,
    /// aarch64 with NEON.
    Neon,
}

impl Level {
    /// The name in logs and statistics.
    pub fn name(self) -> &'static str {
        match self {
            Level::Scalar => "scalar",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
            Level::Neon => "neon",
        }
    }

    /// True if this machine can run the kernels of this level.
    pub fn is_available(self) -> bool {
        match self {
            Level::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
                    && is_x86_feature_detected!("popcnt")
            }
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => {
                Level::Avx2.is_available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
            #[cfg(target_arch = "aarch64")]
            Level::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            _ => false,
        }
    }
}

/// The level in use: the widest one that this machine supports. Detected once.
#[inline]
pub fn level() -> Level {
    active().level
}

/// Squared Euclidean distance of an `f32` query and a row of equal length. The kernel converts the
/// row's numbers to `f32`. Panics if the lengths differ.
#[inline]
pub fn l2_squared<N: Kernels>(query: &[f32], row: &[N]) -> f32 {
    // SAFETY: the active set's level was found on this machine.
    unsafe { (N::pair(active()).l2_squared)(query, row) }
}

/// Inner product of an `f32` query and a row of equal length. Panics if lengths differ.
#[inline]
pub fn inner_product<N: Kernels>(query: &[f32], row: &[N]) -> f32 {
    // SAFETY: the active set's level was found on this machine.
    unsafe { (N::pair(active()).inner_product)(query, row) }
}

/// Bit `i` is set if value `i` equals `wanted`. Cost: some nanoseconds.
#[inline]
pub fn lanes_equal(values: &[u32; LANES], wanted: u32) -> u32 {
    // SAFETY: the active set's level was found on this machine.
    unsafe { (active().lanes_equal)(values, wanted) }
}

/// Bit `i` is set if value `i`, read as a signed number, is in the range, both ends included. Cost: some
/// nanoseconds.
#[inline]
pub fn lanes_within(values: &[u64; LANES], least: i64, most: i64) -> u32 {
    // SAFETY: the active set's level was found on this machine.
    unsafe { (active().lanes_within)(values, least, most) }
}

/// Reads numbers of `width` bits that follow each other, lowest bit first, and adds `least` to each.
///
/// * `bytes`: where they are, from bit `bit` of its first byte on. Bits beyond its end are zeros.
/// * `width`: at most [`WIDTH_MAX`]; it panics above.
///
/// Sums wrap. Cost: below a nanosecond per number.
#[inline]
pub fn unpack(bytes: &[u8], bit: usize, width: u32, least: u32, out: &mut [u32]) {
    assert!(width <= WIDTH_MAX, "numbers of more than {WIDTH_MAX} bits");
    // SAFETY: the active set's level was found on this machine.
    unsafe { (active().unpack)(bytes, bit, width, least, out) }
}

/// As [`unpack`], of numbers of different widths. Panics if `out` has room for another number of them.
///
/// Cost: a nanosecond per number or less.
#[inline]
pub fn unpack_fields(bytes: &[u8], bit: usize, fields: &Fields, out: &mut [u32]) {
    assert_eq!(fields.len(), out.len(), "room for another number of numbers");
    // SAFETY: the active set's level was found on this machine.
    unsafe { (active().unpack_fields)(bytes, bit, fields, out) }
}

/// Replaces the code above the `lower` lowest bits of each word by the byte it stands for.
///
/// * `lower`: at most 24, and no code has more than four bits; other words give other words.
/// * `upper`: the byte of each code.
/// * `code`, `rare`: the code of words whose bytes are these instead, in order: at most
///   [`RARE_MAX`], it panics above. A word too many gets zero.
///
/// Cost: below a nanosecond per word.
#[inline]
pub fn join(words: &mut [u32], lower: u32, upper: &[u8; CODES], code: u32, rare: &[u8]) {
    assert!(lower <= 24, "no room for a byte above {lower} bits");
    assert!(rare.len() <= RARE_MAX, "more than {RARE_MAX} rare words");
    // SAFETY: the active set's level was found on this machine.
    unsafe { (active().join)(words, lower, upper, code, rare) }
}

/// Squared Euclidean norm, `Σ aᵢ²`.
#[inline]
pub fn norm_squared(a: &[f32]) -> f32 {
    inner_product(a, a)
}

/// Squared Euclidean distances of `query` to `rows`, one per entry of `out`.
///
/// * `rows`: `out.len() × query.len()`, row-major. Panics if it has another length.
///
/// Faster than a loop over [`l2_squared`], because four rows share each load of the query.
#[inline]
pub fn l2_squared_batch(query: &[f32], rows: &[f32], out: &mut [f32]) {
    // SAFETY: the active set's level was found on this machine.
    unsafe { (active().l2_squared_batch)(query, rows, out) }
}

/// Inner products of `query` with `rows`, one per entry of `out`; shapes as in
/// [`l2_squared_batch`].
#[inline]
pub fn inner_product_batch(query: &[f32], rows: &[f32], out: &mut [f32]) {
    // SAFETY: the active set's level was found on this machine.
    unsafe { (active().inner_product_batch)(query, rows, out) }
}

/// Inner products of [`TILE_ROWS`] rows with [`TILE_COLUMNS`] columns:
/// `out[r][c] = ⟨rowᵣ, columnᴄ⟩`.
///
/// * `rows`: each has `columns.len()` values. Panics if one has another length.
/// * `columns`: `columns[d][c]` is dimension `d` of column `c`.
///
/// The fastest way to compare many rows with many centroids, because it needs no horizontal sums.
#[inline]
pub fn inner_product_tile(
    rows: [&[f32]; TILE_ROWS],
    columns: &[[f32; TILE_COLUMNS]],
    out: &mut Tile,
) {
    // SAFETY: the active set's level was found on this machine.
    unsafe { (active().inner_product_tile)(rows, columns, out) }
}
