//! Encodes a rotated row as nibbles and factors.

use super::{code_bytes, kernels, GROUP, PADDED_MAX};
use crate::Form;

/// Bytes of the stored form of [`ExtendedFactors`].
pub const EXTENDED_FACTOR_BYTES: usize = 6;

/// The factors of a row, beside its code. The estimate of its distance to `q` is
/// `base + add + scale · ⟨v, q⟩`, where `base` is [`Form::base`] of the query and the centroid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExtendedFactors {
    /// The part that depends only on the row and the centroid.
    pub add: f32,
    /// Factor of the product of code and query. [`encode`] rounds it to 16 bits (bf16) and computes
    /// `add` with the rounded one, so storing two bytes loses nothing more.
    pub scale: f32,
}

impl ExtendedFactors {
    /// The stored form: `add` as f32, then the upper half of `scale`, little-endian.
    pub fn to_bytes(self) -> [u8; EXTENDED_FACTOR_BYTES] {
        let ([a, b, c, d], [_, _, e, f]) = (self.add.to_le_bytes(), self.scale.to_le_bytes());
        [a, b, c, d, e, f]
    }

    /// Standard error of an estimate with these factors.
    ///
    /// * `gap`: Euclidean distance of the query to the centroid.
    ///
    /// The standard error of `⟨r, u⟩` is `0.101 |r| |u| / √(D − 1)`. The length of the residual is
    /// `f` times that of its code, and codes have a length of about `2.98 √D`, from the scale that
    /// fits 16 levels to normal numbers.
    #[inline]
    pub fn error(self, gap: f32) -> f32 {
        0.30 * self.scale.abs() * gap
    }

    /// Reads the stored form. The result is exact for factors of [`encode`].
    #[inline]
    pub fn from_bytes([a, b, c, d, e, f]: [u8; EXTENDED_FACTOR_BYTES]) -> ExtendedFactors {
        ExtendedFactors {
            add: f32::from_le_bytes([a, b, c, d]),
            scale: f32::from_le_bytes([0, 0, e, f]),
        }
    }
}

/// Sums over the coordinates of a row, with `r = row − centroid` and `v` its code.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sums {
    /// `Σ rᵢ²`
    pub(super) squared: f32,
    /// `Σ vᵢ rᵢ`. 0 if there is no code, because `r` is zero or too short for floats.
    pub(super) coded: f32,
    /// `Σ vᵢ cᵢ`
    pub(super) coded_centroid: f32,
    /// `Σ rᵢ cᵢ`
    pub(super) residual_centroid: f32,
}

/// Encodes a row relative to its centroid.
///
/// * `row`, `centroid`: rotated, `D` finite values each, `D` a multiple of 64 up to 8,192.
/// * `code`: [`code_bytes`] bytes in the layout that the module's documentation describes.
///
/// Cost: one pass over row and centroid for each of 8 scales and four more, about 250 ns at 128
/// dimensions with AVX-512; no allocation. Panics if a length is wrong.
pub fn encode(form: Form, row: &[f32], centroid: &[f32], code: &mut [u8]) -> ExtendedFactors {
    let padded = row.len();
    assert!(padded.is_multiple_of(GROUP), "a rotated row has a multiple of 64 dimensions");
    assert!(padded <= PADDED_MAX, "a code has {PADDED_MAX} dimensions at most");
    assert_eq!(centroid.len(), padded, "row and centroid of different dimension");
    assert_eq!(code.len(), code_bytes(padded), "a code has four bits per dimension");
    factors(form, kernels::encode(row, centroid, code))
}

fn factors(form: Form, sums: Sums) -> ExtendedFactors {
    let Sums { squared, coded, coded_centroid, residual_centroid } = sums;
    if coded <= 0.0 {
        return ExtendedFactors { add: 0.0, scale: 0.0 };
    }
    let f = to_upper_half(squared / coded);
    match form {
        Form::L2 => ExtendedFactors { add: squared + 2.0 * f * coded_centroid, scale: -2.0 * f },
        Form::InnerProduct => {
            ExtendedFactors { add: f * coded_centroid - residual_centroid, scale: -f }
        }
    }
}

/// The nearest float whose lower 16 bits are zero; `x` is positive.
fn to_upper_half(x: f32) -> f32 {
    let half_up = x.to_bits().saturating_add(1 << 15);
    f32::from_bits(half_up & 0xffff_0000)
}
