//! NEON: bytes widened to 16 bits, one register of four partial sums per centroid.

use super::super::{Centroids, Group, ScanScratch, GROUP, LANES};
use super::plain;
use crate::Form;
use std::arch::aarch64::*;

#[target_feature(enable = "neon")]
pub(super) fn scan(
    centroids: &Centroids,
    form: Form,
    query: &[f32],
    scratch: &mut ScanScratch,
    out: &mut [[f32; LANES]],
) {
    plain::scan(centroids, form, query, scratch, out, |codes, words| dot(codes, words));
}

#[inline]
#[target_feature(enable = "neon")]
fn dot(codes: &[Group], words: &[[i8; GROUP]]) -> [i32; LANES] {
    let mut sums = [vdupq_n_s32(0); LANES];
    for (codes, &word) in codes.iter().zip(words) {
        let word = u32::from_le_bytes(word.map(i8::cast_unsigned));
        let word = vget_low_s16(vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(word))));
        for (sums, codes) in sums.chunks_exact_mut(4).zip(codes.0.chunks_exact(16)) {
            // SAFETY: the quarter of a group holds 16 bytes.
            let codes = unsafe { vld1q_u8(codes.as_ptr()) };
            let low = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(codes)));
            let high = vreinterpretq_s16_u16(vmovl_u8(vget_high_u8(codes)));
            sums[0] = vmlal_s16(sums[0], vget_low_s16(low), word);
            sums[1] = vmlal_s16(sums[1], vget_high_s16(low), word);
            sums[2] = vmlal_s16(sums[2], vget_low_s16(high), word);
            sums[3] = vmlal_s16(sums[3], vget_high_s16(high), word);
        }
    }
    sums.map(|sum| vaddvq_s32(sum))
}
