//! NEON kernels: one group of 16 table entries per lookup.

use super::super::block::{BLOCK, GROUP_BYTES};
use super::super::encode::Sums;
use super::super::query::Line;
use super::super::rotation::Round;
use super::{plain, Scan, GROUPS_PER_FLUSH};
use std::arch::aarch64::*;

#[target_feature(enable = "neon")]
pub(super) fn rotate(round: &Round, x: &mut [f32]) {
    plain::scale(round, x);
    plain::hadamard_from(1, &mut x[round.window.clone()]);
    plain::walk(round, x);
}

#[target_feature(enable = "neon")]
pub(super) fn encode(row: &[f32], centroid: &[f32], bits: &mut [u8]) -> Sums {
    plain::signs(row, centroid, bits);
    plain::sums(row, centroid)
}

#[target_feature(enable = "neon")]
pub(super) fn build(query: &[f32], lines: &mut [Line]) -> (f32, f32) {
    plain::build(query, lines)
}

#[target_feature(enable = "neon")]
pub(super) fn scan(scan: &Scan, out: &mut [f32; BLOCK]) -> u32 {
    let mut sums = [vdupq_n_u32(0); 8];
    let (codes, factors) = scan.parts();
    let parts = codes.chunks(GROUPS_PER_FLUSH * GROUP_BYTES);
    for (codes, lines) in parts.zip(scan.lines.chunks(GROUPS_PER_FLUSH / 4)) {
        for (sums, rows) in sums.chunks_exact_mut(2).zip(sum_lines(codes, lines)) {
            sums[0] = vaddq_u32(sums[0], vmovl_u16(vget_low_u16(rows)));
            sums[1] = vaddq_u32(sums[1], vmovl_u16(vget_high_u16(rows)));
        }
    }
    let (step, bias) = (vdupq_n_f32(scan.step), vdupq_n_f32(scan.bias));
    for (eighth, sums) in sums.into_iter().enumerate() {
        let from = 4 * eighth;
        // SAFETY: `factors` holds 64 numbers of 16 bits, and `from + 4 <= 32`.
        let (add, scale) = unsafe {
            let add = factors.as_ptr().add(2 * from);
            (load_bf16(add), load_bf16(add.add(2 * BLOCK)))
        };
        let product = vaddq_f32(vmulq_f32(vcvtq_f32_u32(sums), step), bias);
        let constant = vaddq_f32(vdupq_n_f32(scan.base), add);
        let estimate = vaddq_f32(vmulq_f32(product, scale), constant);
        // SAFETY: `out` holds 32 floats.
        unsafe { vst1q_f32(out.as_mut_ptr().add(from), estimate) };
    }
    let lanes = out.iter().enumerate();
    lanes.fold(0, |below, (lane, &x)| below | u32::from(x < scan.threshold) << lane)
}

/// Four numbers of 16 bits as floats.
///
/// # Safety
/// 8 bytes can be read from `from`, however aligned.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn load_bf16(from: *const u8) -> float32x4_t {
    // SAFETY: the caller vouches for the bytes.
    let bits = vreinterpret_u16_u8(unsafe { vld1_u8(from) });
    vreinterpretq_f32_u32(vshlq_n_u32::<16>(vmovl_u16(bits)))
}

/// Sums of the 32 rows over at most `GROUPS_PER_FLUSH` groups, 16 bits each, 8 rows at a time.
#[inline]
#[target_feature(enable = "neon")]
fn sum_lines(codes: &[u8], lines: &[Line]) -> [uint16x8_t; 4] {
    let nibble = vdupq_n_u8(15);
    let mut even = [vdupq_n_u16(0); 2];
    let mut odd = [vdupq_n_u16(0); 2];
    let tables = lines.iter().flat_map(|line| line.0.chunks_exact(16));
    for (codes, table) in codes.chunks_exact(GROUP_BYTES).zip(tables) {
        // SAFETY: `codes` and `table` hold 16 bytes each.
        let (codes, table) = unsafe { (vld1q_u8(codes.as_ptr()), vld1q_u8(table.as_ptr())) };
        let (low, high) = (vandq_u8(codes, nibble), vshrq_n_u8::<4>(codes));
        for (half, nibbles) in [low, high].into_iter().enumerate() {
            let values = vreinterpretq_u16_u8(vqtbl1q_u8(table, nibbles));
            even[half] = vaddq_u16(even[half], values);
            odd[half] = vsraq_n_u16::<8>(odd[half], values);
        }
    }
    // The even sums also contain 256 times the odd ones. All arithmetic is modulo 2¹⁶.
    let even = |half: usize| vsubq_u16(even[half], vshlq_n_u16::<8>(odd[half]));
    [even(0), odd[0], even(1), odd[1]]
}
