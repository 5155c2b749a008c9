//! NEON forms: four registers of 4 sums, a scalar last step.

pub(super) use super::lanes::{equal as lanes_equal, within as lanes_within};
use super::tile::{self, Tile, TILE_COLUMNS, TILE_ROWS};
use crate::widen::{Bf16, Widen, F16};
use std::arch::aarch64::*;

macro_rules! pair_kernel {
    ($name:ident, $element:ty, $load:ident, $step:ident, $term:expr) => {
        #[target_feature(enable = "neon")]
        pub(super) fn $name(query: &[f32], row: &[$element]) -> f32 {
            assert_eq!(query.len(), row.len(), "vectors of different dimension");
            let (q, r, n) = (query.as_ptr(), row.as_ptr(), query.len());
            let mut sums = [vdupq_n_f32(0.0); 4];
            let mut at = 0;
            while at + 16 <= n {
                // SAFETY: 16 elements from `at` are inside both slices.
                let y = unsafe { $load(r.add(at)) };
                for (i, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: as above.
                    let x = unsafe { vld1q_f32(q.add(at + 4 * i)) };
                    *sum = $step(*sum, x, y[i]);
                }
                at += 16;
            }
            let low = vaddq_f32(sums[0], sums[1]);
            let high = vaddq_f32(sums[2], sums[3]);
            let mut sum = vaddvq_f32(vaddq_f32(low, high));
            for (&x, &y) in query[at..].iter().zip(&row[at..]) {
                sum += $term(x, y.widen());
            }
            sum
        }
    };
}

const L2: fn(f32, f32) -> f32 = |x, y| (x - y) * (x - y);
const PRODUCT: fn(f32, f32) -> f32 = |x, y| x * y;

pair_kernel!(l2_squared, f32, load_f32, step_l2, L2);
pair_kernel!(inner_product, f32, load_f32, step_product, PRODUCT);
pair_kernel!(l2_squared_f16, F16, load_f16, step_l2, L2);
pair_kernel!(inner_product_f16, F16, load_f16, step_product, PRODUCT);
pair_kernel!(l2_squared_bf16, Bf16, load_bf16, step_l2, L2);
pair_kernel!(inner_product_bf16, Bf16, load_bf16, step_product, PRODUCT);
pair_kernel!(l2_squared_u8, u8, load_u8, step_l2, L2);
pair_kernel!(inner_product_u8, u8, load_u8, step_product, PRODUCT);
pair_kernel!(l2_squared_i8, i8, load_i8, step_l2, L2);
pair_kernel!(inner_product_i8, i8, load_i8, step_product, PRODUCT);

macro_rules! batch_kernel {
    ($name:ident, $one:ident) => {
        #[target_feature(enable = "neon")]
        pub(super) fn $name(query: &[f32], rows: &[f32], out: &mut [f32]) {
            let n = query.len();
            assert_eq!(rows.len(), out.len() * n, "rows must be out.len() × query.len()");
            for (i, value) in out.iter_mut().enumerate() {
                *value = $one(query, &rows[i * n..(i + 1) * n]);
            }
        }
    };
}

batch_kernel!(l2_squared_batch, l2_squared);
batch_kernel!(inner_product_batch, inner_product);

#[target_feature(enable = "neon")]
pub(super) fn inner_product_tile(
    rows: [&[f32]; TILE_ROWS],
    columns: &[[f32; TILE_COLUMNS]],
    out: &mut Tile,
) {
    tile::inner_product::<true, 4>(rows, columns, out);
}

#[inline]
#[target_feature(enable = "neon")]
fn step_l2(sum: float32x4_t, x: float32x4_t, y: float32x4_t) -> float32x4_t {
    let difference = vsubq_f32(x, y);
    vfmaq_f32(sum, difference, difference)
}

#[inline]
#[target_feature(enable = "neon")]
fn step_product(sum: float32x4_t, x: float32x4_t, y: float32x4_t) -> float32x4_t {
    vfmaq_f32(sum, x, y)
}

/// # Safety
/// `at` must be readable for 16 floats.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn load_f32(at: *const f32) -> [float32x4_t; 4] {
    // SAFETY: the caller vouches for 16 readable floats.
    unsafe { [vld1q_f32(at), vld1q_f32(at.add(4)), vld1q_f32(at.add(8)), vld1q_f32(at.add(12))] }
}

/// # Safety
/// `at` must be readable for 16 bytes.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn load_u8(at: *const u8) -> [float32x4_t; 4] {
    // SAFETY: the caller vouches for 16 readable bytes.
    let bytes = unsafe { vld1q_u8(at) };
    let low = vmovl_u8(vget_low_u8(bytes));
    let high = vmovl_u8(vget_high_u8(bytes));
    [
        vcvtq_f32_u32(vmovl_u16(vget_low_u16(low))),
        vcvtq_f32_u32(vmovl_u16(vget_high_u16(low))),
        vcvtq_f32_u32(vmovl_u16(vget_low_u16(high))),
        vcvtq_f32_u32(vmovl_u16(vget_high_u16(high))),
    ]
}

/// # Safety
/// `at` must be readable for 16 bytes.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn load_i8(at: *const i8) -> [float32x4_t; 4] {
    // SAFETY: the caller vouches for 16 readable bytes.
    let bytes = unsafe { vld1q_s8(at) };
    let low = vmovl_s8(vget_low_s8(bytes));
    let high = vmovl_s8(vget_high_s8(bytes));
    [
        vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))),
        vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
        vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))),
        vcvtq_f32_s32(vmovl_s16(vget_high_s16(high))),
    ]
}

/// # Safety
/// `at` must be readable for 16 halves.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn load_bf16(at: *const Bf16) -> [float32x4_t; 4] {
    // SAFETY: the caller vouches for 16 readable halves.
    let (low, high) = unsafe { (vld1q_u16(at.cast()), vld1q_u16(at.add(8).cast())) };
    let widen = |halves| vreinterpretq_f32_u32(vshll_n_u16::<16>(halves));
    [
        widen(vget_low_u16(low)),
        widen(vget_high_u16(low)),
        widen(vget_low_u16(high)),
        widen(vget_high_u16(high)),
    ]
}

/// # Safety
/// `at` must be readable for 16 halves.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn load_f16(at: *const F16) -> [float32x4_t; 4] {
    // SAFETY: the caller vouches for 16 readable halves, 4 of them from each address.
    let load =
        |from: usize| vcvt_f32_f16(vreinterpret_f16_u16(unsafe { vld1_u16(at.add(from).cast()) }));
    [load(0), load(4), load(8), load(12)]
}
