//! AVX2 kernels: two groups of 16 table entries per shuffle.

use super::super::block::{BLOCK, GROUP_BYTES};
use super::super::encode::Sums;
use super::super::query::Line;
use super::super::rotation::Round;
use super::{plain, Scan, GROUPS_PER_FLUSH};
use std::arch::x86_64::*;

#[target_feature(enable = "avx2,fma")]
pub(super) fn rotate(round: &Round, x: &mut [f32]) {
    plain::scale(round, x);
    let window = &mut x[round.window.clone()];
    hadamard_8(window);
    plain::hadamard_from(8, window);
    plain::walk(round, x);
}

#[target_feature(enable = "avx2,fma")]
pub(super) fn encode(row: &[f32], centroid: &[f32], bits: &mut [u8]) -> Sums {
    signs(row, centroid, bits);
    plain::sums(row, centroid)
}

#[target_feature(enable = "avx2,fma")]
pub(super) fn build(query: &[f32], lines: &mut [Line]) -> (f32, f32) {
    plain::build(query, lines)
}

/// Computes [`plain::signs`], 8 dimensions per comparison.
#[inline]
#[target_feature(enable = "avx2")]
fn signs(row: &[f32], centroid: &[f32], bits: &mut [u8]) {
    let rows = row.as_chunks::<8>().0.iter().zip(centroid.as_chunks::<8>().0);
    for ((row, centroid), bits) in rows.zip(bits) {
        // SAFETY: both chunks hold 8 floats.
        let (x, c) = unsafe { (_mm256_loadu_ps(row.as_ptr()), _mm256_loadu_ps(centroid.as_ptr())) };
        *bits = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(x, c)) as u8;
    }
}

/// The first three passes of a Hadamard transform, 8 coordinates at a time. A product with ±1 is
/// exact, so fused operations round like separate ones.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn hadamard_8(x: &mut [f32]) {
    let by_1 = _mm256_setr_ps(1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0);
    let by_2 = _mm256_setr_ps(1.0, 1.0, -1.0, -1.0, 1.0, 1.0, -1.0, -1.0);
    let by_4 = _mm256_setr_ps(1.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0, -1.0);
    for chunk in x.chunks_exact_mut(8) {
        // SAFETY: a chunk holds 8 floats.
        unsafe {
            let mut v = _mm256_loadu_ps(chunk.as_ptr());
            v = _mm256_fmadd_ps(v, by_1, _mm256_permute_ps::<0b10_11_00_01>(v));
            v = _mm256_fmadd_ps(v, by_2, _mm256_permute_ps::<0b01_00_11_10>(v));
            v = _mm256_fmadd_ps(v, by_4, _mm256_permute2f128_ps::<0b0000_0001>(v, v));
            _mm256_storeu_ps(chunk.as_mut_ptr(), v);
        }
    }
}

#[target_feature(enable = "avx2,fma")]
pub(super) fn scan(scan: &Scan, out: &mut [f32; BLOCK]) -> u32 {
    let mut sums = [_mm256_setzero_si256(); 4];
    let (codes, factors) = scan.parts();
    let parts = codes.chunks(GROUPS_PER_FLUSH * GROUP_BYTES);
    for (codes, lines) in parts.zip(scan.lines.chunks(GROUPS_PER_FLUSH / 4)) {
        for (sum, rows) in sums.iter_mut().zip(sum_lines(codes, lines)) {
            *sum = _mm256_add_epi32(*sum, _mm256_cvtepu16_epi32(rows));
        }
    }
    let (step, bias) = (_mm256_set1_ps(scan.step), _mm256_set1_ps(scan.bias));
    let (base, threshold) = (_mm256_set1_ps(scan.base), _mm256_set1_ps(scan.threshold));
    let mut below = 0;
    for (quarter, sums) in sums.into_iter().enumerate() {
        let from = 8 * quarter;
        // SAFETY: `factors` holds 64 numbers of 16 bits, and `from + 8 <= 32`.
        let (add, scale) = unsafe {
            let add = factors.as_ptr().cast::<u16>().add(from);
            (load_bf16(add), load_bf16(add.add(BLOCK)))
        };
        let product = _mm256_add_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sums), step), bias);
        let estimate = _mm256_add_ps(_mm256_mul_ps(product, scale), _mm256_add_ps(base, add));
        // SAFETY: `out` holds 32 floats.
        unsafe { _mm256_storeu_ps(out.as_mut_ptr().add(from), estimate) };
        let mask = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LT_OQ>(estimate, threshold));
        below |= (mask as u32) << from;
    }
    below
}

/// Eight numbers of 16 bits as floats.
///
/// # Safety
/// 16 bytes can be read from `from`, however aligned.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_bf16(from: *const u16) -> __m256 {
    // SAFETY: the caller vouches for the bytes.
    let bits = unsafe { _mm_loadu_si128(from.cast()) };
    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(bits)))
}

/// Sums of the 32 rows over at most `GROUPS_PER_FLUSH` groups, 16 bits each, 8 rows at a time.
#[inline]
#[target_feature(enable = "avx2")]
fn sum_lines(codes: &[u8], lines: &[Line]) -> [__m128i; 4] {
    let nibble = _mm256_set1_epi8(15);
    let mut even = [_mm256_setzero_si256(); 2];
    let mut odd = [_mm256_setzero_si256(); 2];
    let tables = lines.iter().flat_map(|line| line.0.chunks_exact(32));
    for (codes, table) in codes.chunks_exact(32).zip(tables) {
        // SAFETY: `codes` and `table` hold 32 bytes each.
        let (codes, table) = unsafe {
            (_mm256_loadu_si256(codes.as_ptr().cast()), _mm256_loadu_si256(table.as_ptr().cast()))
        };
        let low = _mm256_and_si256(codes, nibble);
        let high = _mm256_and_si256(_mm256_srli_epi16::<4>(codes), nibble);
        for (half, nibbles) in [low, high].into_iter().enumerate() {
            let values = _mm256_shuffle_epi8(table, nibbles);
            even[half] = _mm256_add_epi16(even[half], values);
            odd[half] = _mm256_add_epi16(odd[half], _mm256_srli_epi16::<8>(values));
        }
    }
    // The even sums also contain 256 times the odd ones. All arithmetic is modulo 2¹⁶.
    let rows = |sums: __m256i| {
        _mm_add_epi16(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums))
    };
    let even = |half: usize| _mm256_sub_epi16(even[half], _mm256_slli_epi16::<8>(odd[half]));
    [rows(even(0)), rows(odd[0]), rows(even(1)), rows(odd[1])]
}
