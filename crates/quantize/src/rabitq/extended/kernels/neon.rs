//! NEON: 16 bytes of code at a time, products widened to 16 bits and summed in 32.

use super::super::encode::Sums;
use super::super::query::Planes;
use super::plain;
use std::arch::aarch64::*;

#[target_feature(enable = "neon")]
pub(super) fn encode(row: &[f32], centroid: &[f32], code: &mut [u8]) -> Sums {
    plain::encode(row, centroid, code)
}

#[target_feature(enable = "neon")]
pub(super) fn build(query: &[f32], planes: &mut [Planes]) -> (f32, f32) {
    plain::build(query, planes)
}

#[target_feature(enable = "neon")]
pub(super) fn product(code: &[u8], planes: &[Planes]) -> i32 {
    let nibble = vdupq_n_u8(15);
    let mut sums = [vdupq_n_s32(0); 2];
    for (code, planes) in code.chunks(64).zip(planes) {
        for (part, code) in code.as_chunks::<16>().0.iter().enumerate() {
            // SAFETY: `code` holds 16 bytes.
            let code = unsafe { vld1q_u8(code.as_ptr()) };
            let nibbles = [vandq_u8(code, nibble), vshrq_n_u8::<4>(code)];
            for (sum, planes) in sums.iter_mut().zip([&planes.coarse, &planes.fine]) {
                for (nibbles, plane) in nibbles.into_iter().zip(planes) {
                    // SAFETY: a plane holds 64 bytes, and there are at most four parts in them.
                    let plane = unsafe { vld1q_s8(plane.as_ptr().add(16 * part)) };
                    let nibbles = vreinterpretq_s8_u8(nibbles);
                    let low = vmull_s8(vget_low_s8(nibbles), vget_low_s8(plane));
                    *sum = vpadalq_s16(vpadalq_s16(*sum, low), vmull_high_s8(nibbles, plane));
                }
            }
        }
    }
    128 * vaddvq_s32(sums[0]) + vaddvq_s32(sums[1])
}
