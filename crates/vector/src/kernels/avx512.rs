//! AVX-512 forms: four registers of 16 sums, a masked last step.

use super::lanes::LANES;
use super::tile::{self, Tile, TILE_COLUMNS, TILE_ROWS};
use crate::widen::{Bf16, F16};
use std::arch::x86_64::*;

macro_rules! pair_kernel {
    ($name:ident, $element:ty, $load:ident, $load_tail:ident, $step:ident) => {
        #[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
        pub(super) fn $name(query: &[f32], row: &[$element]) -> f32 {
            assert_eq!(query.len(), row.len(), "vectors of different dimension");
            let (q, r, n) = (query.as_ptr(), row.as_ptr(), query.len());
            let mut sums = [_mm512_setzero_ps(); 4];
            let mut at = 0;
            // SAFETY: every load starts at `at` and ends at or before `n`, the length of both;
            // the masked load touches `n - at` elements only.
            unsafe {
                while at + 64 <= n {
                    for (i, sum) in sums.iter_mut().enumerate() {
                        let from = at + 16 * i;
                        *sum = $step(*sum, _mm512_loadu_ps(q.add(from)), $load(r.add(from)));
                    }
                    at += 64;
                }
                if at + 32 <= n {
                    for (i, sum) in sums[..2].iter_mut().enumerate() {
                        let from = at + 16 * i;
                        *sum = $step(*sum, _mm512_loadu_ps(q.add(from)), $load(r.add(from)));
                    }
                    at += 32;
                }
                if at + 16 <= n {
                    sums[2] = $step(sums[2], _mm512_loadu_ps(q.add(at)), $load(r.add(at)));
                    at += 16;
                }
                if at < n {
                    let mask = (1u16 << (n - at)) - 1;
                    let x = _mm512_maskz_loadu_ps(mask, q.add(at));
                    sums[3] = $step(sums[3], x, $load_tail(mask, r.add(at)));
                }
            }
            let low = _mm512_add_ps(sums[0], sums[1]);
            let high = _mm512_add_ps(sums[2], sums[3]);
            _mm512_reduce_add_ps(_mm512_add_ps(low, high))
        }
    };
}

pair_kernel!(l2_squared, f32, _mm512_loadu_ps, _mm512_maskz_loadu_ps, step_l2);
pair_kernel!(inner_product, f32, _mm512_loadu_ps, _mm512_maskz_loadu_ps, step_product);
pair_kernel!(l2_squared_f16, F16, load_f16, load_f16_tail, step_l2);
pair_kernel!(inner_product_f16, F16, load_f16, load_f16_tail, step_product);
pair_kernel!(l2_squared_bf16, Bf16, load_bf16, load_bf16_tail, step_l2);
pair_kernel!(inner_product_bf16, Bf16, load_bf16, load_bf16_tail, step_product);
pair_kernel!(l2_squared_u8, u8, load_u8, load_u8_tail, step_l2);
pair_kernel!(inner_product_u8, u8, load_u8, load_u8_tail, step_product);
pair_kernel!(l2_squared_i8, i8, load_i8, load_i8_tail, step_l2);
pair_kernel!(inner_product_i8, i8, load_i8, load_i8_tail, step_product);

macro_rules! batch_kernel {
    ($name:ident, $one:ident, $step:ident) => {
        #[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
        pub(super) fn $name(query: &[f32], rows: &[f32], out: &mut [f32]) {
            let n = query.len();
            assert_eq!(rows.len(), out.len() * n, "rows must be out.len() × query.len()");
            let q = query.as_ptr();
            let mut fours = out.chunks_exact_mut(4);
            let mut row = 0;
            for four in &mut fours {
                let r = rows[row * n..(row + 4) * n].as_ptr();
                let mut sums = [_mm512_setzero_ps(); 4];
                let mut at = 0;
                // SAFETY: loads end at or before `n` of the query and of each of the four rows
                // that the slice above holds; masked loads touch `n - at` elements only.
                let sums = unsafe {
                    while at + 16 <= n {
                        let x = _mm512_loadu_ps(q.add(at));
                        for (i, sum) in sums.iter_mut().enumerate() {
                            *sum = $step(*sum, x, _mm512_loadu_ps(r.add(i * n + at)));
                        }
                        at += 16;
                    }
                    if at < n {
                        let mask = (1u16 << (n - at)) - 1;
                        let x = _mm512_maskz_loadu_ps(mask, q.add(at));
                        for (i, sum) in sums.iter_mut().enumerate() {
                            let y = _mm512_maskz_loadu_ps(mask, r.add(i * n + at));
                            *sum = $step(*sum, x, y);
                        }
                    }
                    sums
                };
                // SAFETY: `four` holds four floats.
                unsafe { _mm_storeu_ps(four.as_mut_ptr(), reduce_four(sums)) };
                row += 4;
            }
            for value in fours.into_remainder() {
                *value = $one(query, &rows[row * n..(row + 1) * n]);
                row += 1;
            }
        }
    };
}

batch_kernel!(l2_squared_batch, l2_squared, step_l2);
batch_kernel!(inner_product_batch, inner_product, step_product);

#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn inner_product_tile(
    rows: [&[f32]; TILE_ROWS],
    columns: &[[f32; TILE_COLUMNS]],
    out: &mut Tile,
) {
    tile::inner_product::<true, 8>(rows, columns, out);
}

#[inline]
#[target_feature(enable = "avx512f")]
fn step_l2(sum: __m512, x: __m512, y: __m512) -> __m512 {
    let difference = _mm512_sub_ps(x, y);
    _mm512_fmadd_ps(difference, difference, sum)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn step_product(sum: __m512, x: __m512, y: __m512) -> __m512 {
    _mm512_fmadd_ps(x, y, sum)
}

macro_rules! loads {
    ($whole:ident, $tail:ident, $element:ty, $load:ident, $load_masked:ident, $widen:expr) => {
        /// # Safety
        /// `at` must be readable for 16 numbers.
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
        unsafe fn $whole(at: *const $element) -> __m512 {
            // SAFETY: the caller vouches for 16 readable numbers.
            $widen(unsafe { $load(at.cast()) })
        }

        /// # Safety
        /// `at` must be readable for as many numbers as `mask` has ones, from its lowest bit on.
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
        unsafe fn $tail(mask: __mmask16, at: *const $element) -> __m512 {
            // SAFETY: the caller vouches for the masked numbers; the others are not touched.
            $widen(unsafe { $load_masked(mask, at.cast()) })
        }
    };
}

loads!(load_f16, load_f16_tail, F16, _mm256_loadu_epi16, _mm256_maskz_loadu_epi16, _mm512_cvtph_ps);
loads!(load_bf16, load_bf16_tail, Bf16, _mm256_loadu_epi16, _mm256_maskz_loadu_epi16, widen_bf16);
loads!(load_u8, load_u8_tail, u8, _mm_loadu_epi8, _mm_maskz_loadu_epi8, widen_u8);
loads!(load_i8, load_i8_tail, i8, _mm_loadu_epi8, _mm_maskz_loadu_epi8, widen_i8);

#[inline]
#[target_feature(enable = "avx512f")]
fn widen_bf16(halves: __m256i) -> __m512 {
    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(halves)))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn widen_u8(bytes: __m128i) -> __m512 {
    _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn widen_i8(bytes: __m128i) -> __m512 {
    _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))
}

/// The four horizontal sums, in order.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn reduce_four([a, b, c, d]: [__m512; 4]) -> __m128 {
    let ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    let cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    let (ab, cd) = (_mm512_castps_pd(ab), _mm512_castps_pd(cd));
    let low = _mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd));
    let high = _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd));
    let lanes = _mm512_add_ps(low, high);
    let half = _mm256_add_ps(_mm512_castps512_ps256(lanes), _mm512_extractf32x8_ps::<1>(lanes));
    _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps::<1>(half))
}

#[target_feature(enable = "avx512f")]
pub(super) fn lanes_equal(values: &[u32; LANES], wanted: u32) -> u32 {
    let wanted = _mm512_set1_epi32(wanted.cast_signed());
    let (halves, _) = values.as_chunks::<16>();
    let mut mask = 0;
    for half in halves.iter().rev() {
        // SAFETY: the 16 values are 64 bytes.
        let half = unsafe { _mm512_loadu_si512(half.as_ptr().cast()) };
        mask = mask << 16 | u32::from(_mm512_cmpeq_epi32_mask(half, wanted));
    }
    mask
}

#[target_feature(enable = "avx512f")]
pub(super) fn lanes_within(values: &[u64; LANES], least: i64, most: i64) -> u32 {
    let (least, most) = (_mm512_set1_epi64(least), _mm512_set1_epi64(most));
    let (parts, _) = values.as_chunks::<8>();
    let mut mask = 0;
    for part in parts.iter().rev() {
        // SAFETY: the 8 values are 64 bytes.
        let part = unsafe { _mm512_loadu_si512(part.as_ptr().cast()) };
        let enough = _mm512_cmpge_epi64_mask(part, least);
        mask = mask << 8 | u32::from(_mm512_mask_cmple_epi64_mask(enough, part, most));
    }
    mask
}
