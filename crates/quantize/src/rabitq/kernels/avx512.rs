//! AVX-512 kernels: four groups of 16 table entries per shuffle.

use super::super::block::{BLOCK, GROUP_BYTES};
use super::super::encode::Sums;
use super::super::query::Line;
use super::super::rotation::Round;
use super::{plain, Scan, GROUPS_PER_FLUSH};
use std::arch::x86_64::*;

#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn rotate(round: &Round, x: &mut [f32]) {
    plain::scale(round, x);
    let window = &mut x[round.window.clone()];
    hadamard_16(window);
    plain::hadamard_from(16, window);
    plain::walk(round, x);
}

#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn encode(row: &[f32], centroid: &[f32], bits: &mut [u8]) -> Sums {
    signs(row, centroid, bits);
    plain::sums(row, centroid)
}

#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn build(query: &[f32], lines: &mut [Line]) -> (f32, f32) {
    plain::build(query, lines)
}

/// Computes [`plain::signs`], 16 dimensions per comparison.
#[inline]
#[target_feature(enable = "avx512f")]
fn signs(row: &[f32], centroid: &[f32], bits: &mut [u8]) {
    let rows = row.as_chunks::<16>().0.iter().zip(centroid.as_chunks::<16>().0);
    for ((row, centroid), bits) in rows.zip(bits.as_chunks_mut::<2>().0) {
        // SAFETY: both chunks hold 16 floats.
        let (x, c) = unsafe { (_mm512_loadu_ps(row.as_ptr()), _mm512_loadu_ps(centroid.as_ptr())) };
        *bits = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(x, c).to_le_bytes();
    }
}

/// The first four passes of a Hadamard transform, 16 coordinates at a time. A product with ±1 is
/// exact, so fused operations round like separate ones.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn hadamard_16(x: &mut [f32]) {
    let minus_one = _mm512_set1_ps(-1.0);
    let signs = |minus: __mmask16| _mm512_mask_mov_ps(_mm512_set1_ps(1.0), minus, minus_one);
    let (by_1, by_2) = (signs(0b1010_1010_1010_1010), signs(0b1100_1100_1100_1100));
    let (by_4, by_8) = (signs(0b1111_0000_1111_0000), signs(0b1111_1111_0000_0000));
    for chunk in x.chunks_exact_mut(16) {
        // SAFETY: a chunk holds 16 floats.
        unsafe {
            let mut v = _mm512_loadu_ps(chunk.as_ptr());
            v = _mm512_fmadd_ps(v, by_1, _mm512_permute_ps::<0b10_11_00_01>(v));
            v = _mm512_fmadd_ps(v, by_2, _mm512_permute_ps::<0b01_00_11_10>(v));
            v = _mm512_fmadd_ps(v, by_4, _mm512_shuffle_f32x4::<0b10_11_00_01>(v, v));
            v = _mm512_fmadd_ps(v, by_8, _mm512_shuffle_f32x4::<0b01_00_11_10>(v, v));
            _mm512_storeu_ps(chunk.as_mut_ptr(), v);
        }
    }
}

#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn scan(scan: &Scan, out: &mut [f32; BLOCK]) -> u32 {
    let mut sums = [_mm512_setzero_si512(); 2];
    let (codes, factors) = scan.parts();
    let parts = codes.chunks(GROUPS_PER_FLUSH * GROUP_BYTES);
    for (codes, lines) in parts.zip(scan.lines.chunks(GROUPS_PER_FLUSH / 4)) {
        let rows = sum_lines(codes, lines);
        let (low, high) = (_mm512_castsi512_si256(rows), _mm512_extracti64x4_epi64::<1>(rows));
        sums[0] = _mm512_add_epi32(sums[0], _mm512_cvtepu16_epi32(low));
        sums[1] = _mm512_add_epi32(sums[1], _mm512_cvtepu16_epi32(high));
    }
    let (step, bias) = (_mm512_set1_ps(scan.step), _mm512_set1_ps(scan.bias));
    let (base, threshold) = (_mm512_set1_ps(scan.base), _mm512_set1_ps(scan.threshold));
    let mut below = 0;
    for (half, sums) in sums.into_iter().enumerate() {
        let from = 16 * half;
        // SAFETY: `factors` holds 64 numbers of 16 bits, and `from + 16 <= 32`.
        let (add, scale) = unsafe {
            let add = factors.as_ptr().cast::<u16>().add(from);
            (load_bf16(add), load_bf16(add.add(BLOCK)))
        };
        let product = _mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sums), step), bias);
        let estimate = _mm512_add_ps(_mm512_mul_ps(product, scale), _mm512_add_ps(base, add));
        // SAFETY: `out` holds 32 floats.
        unsafe { _mm512_storeu_ps(out.as_mut_ptr().add(from), estimate) };
        let mask = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(estimate, threshold);
        below |= u32::from(mask) << from;
    }
    below
}

/// Sixteen numbers of 16 bits as floats.
///
/// # Safety
/// 32 bytes can be read from `from`, however aligned.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load_bf16(from: *const u16) -> __m512 {
    // SAFETY: the caller vouches for the bytes.
    let bits = unsafe { _mm256_loadu_si256(from.cast()) };
    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(bits)))
}

/// Sums of the 32 rows over at most `GROUPS_PER_FLUSH` groups, 16 bits each, in order.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn sum_lines(codes: &[u8], lines: &[Line]) -> __m512i {
    let nibble = _mm512_set1_epi8(15);
    let mut even = [_mm512_setzero_si512(); 2];
    let mut odd = [_mm512_setzero_si512(); 2];
    for (codes, line) in codes.chunks_exact(64).zip(lines) {
        // SAFETY: `codes` and `line` hold 64 bytes each.
        let (codes, line) = unsafe {
            (_mm512_loadu_si512(codes.as_ptr().cast()), _mm512_load_si512(line.0.as_ptr().cast()))
        };
        let low = _mm512_and_si512(codes, nibble);
        let high = _mm512_and_si512(_mm512_srli_epi16::<4>(codes), nibble);
        for (half, nibbles) in [low, high].into_iter().enumerate() {
            let values = _mm512_shuffle_epi8(line, nibbles);
            even[half] = _mm512_add_epi16(even[half], values);
            odd[half] = _mm512_add_epi16(odd[half], _mm512_srli_epi16::<8>(values));
        }
    }
    // The even sums also contain 256 times the odd ones. All arithmetic is modulo 2¹⁶.
    let rows = |half: usize| {
        let even = _mm512_sub_epi16(even[half], _mm512_slli_epi16::<8>(odd[half]));
        let first = _mm512_shuffle_i64x2::<0b01_00_01_00>(even, odd[half]);
        _mm512_add_epi16(first, _mm512_shuffle_i64x2::<0b11_10_11_10>(even, odd[half]))
    };
    let (low, high) = (rows(0), rows(1));
    let first = _mm512_shuffle_i64x2::<0b10_00_10_00>(low, high);
    _mm512_add_epi16(first, _mm512_shuffle_i64x2::<0b11_01_11_01>(low, high))
}
