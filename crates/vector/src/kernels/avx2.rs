//! AVX2 and FMA forms: four registers of 8 sums, a masked last step.

use super::lanes::LANES;
use super::tile::{self, Tile, TILE_COLUMNS, TILE_ROWS};
use crate::widen::{Bf16, F16};
use std::arch::x86_64::*;

/// `TAIL[8 - n..]` starts with `n` all-ones lanes: the mask of the first `n` of 8.
static TAIL: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

macro_rules! pair_kernel {
    ($name:ident, $element:ty, $load:ident, $load_tail:ident, $step:ident) => {
        #[target_feature(enable = "avx2,fma,f16c")]
        pub(super) fn $name(query: &[f32], row: &[$element]) -> f32 {
            assert_eq!(query.len(), row.len(), "vectors of different dimension");
            let (q, r, n) = (query.as_ptr(), row.as_ptr(), query.len());
            let mut sums = [_mm256_setzero_ps(); 4];
            let mut at = 0;
            // SAFETY: every load starts at `at` and ends at or before `n`, the length of both;
            // the tail loads touch `n - at` elements only.
            unsafe {
                while at + 32 <= n {
                    for (i, sum) in sums.iter_mut().enumerate() {
                        let from = at + 8 * i;
                        *sum = $step(*sum, _mm256_loadu_ps(q.add(from)), $load(r.add(from)));
                    }
                    at += 32;
                }
                if at + 16 <= n {
                    for (i, sum) in sums[..2].iter_mut().enumerate() {
                        let from = at + 8 * i;
                        *sum = $step(*sum, _mm256_loadu_ps(q.add(from)), $load(r.add(from)));
                    }
                    at += 16;
                }
                if at + 8 <= n {
                    sums[2] = $step(sums[2], _mm256_loadu_ps(q.add(at)), $load(r.add(at)));
                    at += 8;
                }
                if at < n {
                    let x = load_tail(q.add(at), n - at);
                    sums[3] = $step(sums[3], x, $load_tail(r.add(at), n - at));
                }
            }
            let low = _mm256_add_ps(sums[0], sums[1]);
            let high = _mm256_add_ps(sums[2], sums[3]);
            reduce(_mm256_add_ps(low, high))
        }
    };
}

pair_kernel!(l2_squared, f32, _mm256_loadu_ps, load_tail, step_l2);
pair_kernel!(inner_product, f32, _mm256_loadu_ps, load_tail, step_product);
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
        #[target_feature(enable = "avx2,fma,f16c")]
        pub(super) fn $name(query: &[f32], rows: &[f32], out: &mut [f32]) {
            let n = query.len();
            assert_eq!(rows.len(), out.len() * n, "rows must be out.len() × query.len()");
            let q = query.as_ptr();
            let mut fours = out.chunks_exact_mut(4);
            let mut row = 0;
            for four in &mut fours {
                let r = rows[row * n..(row + 4) * n].as_ptr();
                let mut sums = [_mm256_setzero_ps(); 4];
                let mut at = 0;
                // SAFETY: loads end at or before `n` of the query and of each of the four rows
                // that the slice above holds; tail loads touch `n - at` elements only.
                let sums = unsafe {
                    while at + 8 <= n {
                        let x = _mm256_loadu_ps(q.add(at));
                        for (i, sum) in sums.iter_mut().enumerate() {
                            *sum = $step(*sum, x, _mm256_loadu_ps(r.add(i * n + at)));
                        }
                        at += 8;
                    }
                    if at < n {
                        let x = load_tail(q.add(at), n - at);
                        for (i, sum) in sums.iter_mut().enumerate() {
                            *sum = $step(*sum, x, load_tail(r.add(i * n + at), n - at));
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

#[target_feature(enable = "avx2,fma")]
pub(super) fn inner_product_tile(
    rows: [&[f32]; TILE_ROWS],
    columns: &[[f32; TILE_COLUMNS]],
    out: &mut Tile,
) {
    tile::inner_product::<true, 4>(rows, columns, out);
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn step_l2(sum: __m256, x: __m256, y: __m256) -> __m256 {
    let difference = _mm256_sub_ps(x, y);
    _mm256_fmadd_ps(difference, difference, sum)
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn step_product(sum: __m256, x: __m256, y: __m256) -> __m256 {
    _mm256_fmadd_ps(x, y, sum)
}

/// # Safety
/// `at` must be readable for `n < 8` floats.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_tail(at: *const f32, n: usize) -> __m256 {
    // SAFETY: `TAIL` holds 8 lanes from `8 - n`; masked-out lanes of `at` are not touched.
    unsafe {
        let mask = _mm256_loadu_si256(TAIL.as_ptr().add(8 - n).cast());
        _mm256_maskload_ps(at, mask)
    }
}

/// # Safety
/// `at` must be readable for 8 numbers.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn load_f16(at: *const F16) -> __m256 {
    // SAFETY: the caller vouches for 8 readable halves.
    _mm256_cvtph_ps(unsafe { _mm_loadu_si128(at.cast()) })
}

/// # Safety
/// `at` must be readable for 8 numbers.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_bf16(at: *const Bf16) -> __m256 {
    // SAFETY: the caller vouches for 8 readable numbers.
    let halves = unsafe { _mm_loadu_si128(at.cast()) };
    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(halves)))
}

/// # Safety
/// `at` must be readable for 8 numbers.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_u8(at: *const u8) -> __m256 {
    // SAFETY: the caller vouches for 8 readable bytes.
    let bytes = unsafe { _mm_loadl_epi64(at.cast()) };
    _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes))
}

/// # Safety
/// `at` must be readable for 8 numbers.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_i8(at: *const i8) -> __m256 {
    // SAFETY: the caller vouches for 8 readable bytes.
    let bytes = unsafe { _mm_loadl_epi64(at.cast()) };
    _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes))
}

macro_rules! load_tail {
    ($name:ident, $element:ty, $load:ident) => {
        /// # Safety
        /// `at` must be readable for `n < 8` numbers.
        #[inline]
        #[target_feature(enable = "avx2,f16c")]
        unsafe fn $name(at: *const $element, n: usize) -> __m256 {
            let mut numbers = [<$element>::default(); 8];
            // SAFETY: the caller vouches for `n` readable numbers, and `n < 8`.
            unsafe {
                std::ptr::copy_nonoverlapping(at, numbers.as_mut_ptr(), n);
                $load(numbers.as_ptr())
            }
        }
    };
}

load_tail!(load_f16_tail, F16, load_f16);
load_tail!(load_bf16_tail, Bf16, load_bf16);
load_tail!(load_u8_tail, u8, load_u8);
load_tail!(load_i8_tail, i8, load_i8);

#[inline]
#[target_feature(enable = "avx2")]
fn reduce(sums: __m256) -> f32 {
    let four = _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps::<1>(sums));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
}

/// The four horizontal sums, in order.
#[inline]
#[target_feature(enable = "avx2")]
fn reduce_four([a, b, c, d]: [__m256; 4]) -> __m128 {
    let lanes = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps::<1>(lanes))
}

#[target_feature(enable = "avx2")]
pub(super) fn lanes_equal(values: &[u32; LANES], wanted: u32) -> u32 {
    let wanted = _mm256_set1_epi32(wanted.cast_signed());
    let (parts, _) = values.as_chunks::<8>();
    let mut mask = 0;
    for part in parts.iter().rev() {
        // SAFETY: the 8 values are 32 bytes.
        let part = unsafe { _mm256_loadu_si256(part.as_ptr().cast()) };
        let equal = _mm256_castsi256_ps(_mm256_cmpeq_epi32(part, wanted));
        mask = mask << 8 | _mm256_movemask_ps(equal).cast_unsigned();
    }
    mask
}

#[target_feature(enable = "avx2")]
pub(super) fn lanes_within(values: &[u64; LANES], least: i64, most: i64) -> u32 {
    let (least, most) = (_mm256_set1_epi64x(least), _mm256_set1_epi64x(most));
    let (parts, _) = values.as_chunks::<4>();
    let mut mask = 0;
    for part in parts.iter().rev() {
        // SAFETY: the 4 values are 32 bytes.
        let part = unsafe { _mm256_loadu_si256(part.as_ptr().cast()) };
        let beyond =
            _mm256_or_si256(_mm256_cmpgt_epi64(least, part), _mm256_cmpgt_epi64(part, most));
        mask = mask << 4 | (_mm256_movemask_pd(_mm256_castsi256_pd(beyond)).cast_unsigned() ^ 0xf);
    }
    mask
}
