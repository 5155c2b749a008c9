//! AVX2, with and without VNNI: one group of 64 dimensions per load of a code.

use super::super::encode::Sums;
use super::super::query::Planes;
use super::plain;
use std::arch::x86_64::*;

#[target_feature(enable = "avx2,fma")]
pub(super) fn encode(row: &[f32], centroid: &[f32], code: &mut [u8]) -> Sums {
    plain::encode(row, centroid, code)
}

#[target_feature(enable = "avx2,fma")]
pub(super) fn build(query: &[f32], planes: &mut [Planes]) -> (f32, f32) {
    plain::build(query, planes)
}

#[target_feature(enable = "avx2,fma,avxvnni")]
pub(super) fn product_vnni(code: &[u8], planes: &[Planes]) -> i32 {
    let mut sums = [[_mm256_setzero_si256(); 2]; 2];
    for_each_group(code, planes, |nibbles, coarse, fine| {
        for half in 0..2 {
            sums[0][half] = _mm256_dpbusd_avx_epi32(sums[0][half], nibbles[half], coarse[half]);
            sums[1][half] = _mm256_dpbusd_avx_epi32(sums[1][half], nibbles[half], fine[half]);
        }
    });
    let [coarse, fine] = sums.map(|halves| _mm256_add_epi32(halves[0], halves[1]));
    total(coarse, fine)
}

#[target_feature(enable = "avx2,fma")]
pub(super) fn product(code: &[u8], planes: &[Planes]) -> i32 {
    let ones = _mm256_set1_epi16(1);
    let mut sums = [_mm256_setzero_si256(); 2];
    for_each_group(code, planes, |nibbles, coarse, fine| {
        for (sum, plane) in sums.iter_mut().zip([coarse, fine]) {
            // Four products of at most 15 · 128 each fit 16 bits.
            let low = _mm256_maddubs_epi16(nibbles[0], plane[0]);
            let high = _mm256_maddubs_epi16(nibbles[1], plane[1]);
            let fours = _mm256_madd_epi16(_mm256_add_epi16(low, high), ones);
            *sum = _mm256_add_epi32(*sum, fours);
        }
    });
    total(sums[0], sums[1])
}

/// Gives the low and high nibbles of each 32 bytes of code, and the planes for both.
#[inline]
#[target_feature(enable = "avx2")]
fn for_each_group(
    code: &[u8],
    planes: &[Planes],
    mut visit: impl FnMut([__m256i; 2], [__m256i; 2], [__m256i; 2]),
) {
    let nibble = _mm256_set1_epi8(15);
    for (code, planes) in code.chunks(64).zip(planes) {
        for (g, code) in code.as_chunks::<32>().0.iter().enumerate() {
            // SAFETY: `code` holds 32 bytes.
            let code = unsafe { _mm256_loadu_si256(code.as_ptr().cast()) };
            let high = _mm256_and_si256(_mm256_srli_epi16::<4>(code), nibble);
            // SAFETY: a plane holds 64 bytes, and there are at most two chunks in 64 bytes.
            let load =
                |plane: &[i8; 64]| unsafe { _mm256_loadu_si256(plane.as_ptr().add(32 * g).cast()) };
            let coarse = [load(&planes.coarse[0]), load(&planes.coarse[1])];
            let fine = [load(&planes.fine[0]), load(&planes.fine[1])];
            visit([_mm256_and_si256(code, nibble), high], coarse, fine);
        }
    }
}

/// `Σ 128 · coarse + fine`.
#[inline]
#[target_feature(enable = "avx2")]
fn total(coarse: __m256i, fine: __m256i) -> i32 {
    let sums = _mm256_add_epi32(_mm256_slli_epi32::<7>(coarse), fine);
    let four = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
    let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
    _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32::<0b10_11_00_01>(two)))
}
