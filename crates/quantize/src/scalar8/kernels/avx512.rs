//! AVX-512 VNNI: 64 byte products and their sums by fours in one instruction.

use super::super::{Centroids, Group, ScanScratch, GROUP, LANES};
use super::plain;
use crate::Form;
use std::arch::x86_64::*;

#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
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
#[target_feature(enable = "avx512f,avx512vnni")]
fn dot(codes: &[Group], words: &[[i8; GROUP]]) -> [i32; LANES] {
    // Four chains of sums, since one instruction takes as long as four can be started in.
    let mut sums = [_mm512_setzero_si512(); 4];
    for (codes, words) in codes.chunks_exact(4).zip(words.chunks_exact(4)) {
        for ((sum, codes), &word) in sums.iter_mut().zip(codes).zip(words) {
            // SAFETY: a group holds 64 bytes and is aligned to them.
            let codes = unsafe { _mm512_load_si512(codes.0.as_ptr().cast()) };
            let word = i32::from_le_bytes(word.map(i8::cast_unsigned));
            *sum = _mm512_dpbusd_epi32(*sum, codes, _mm512_set1_epi32(word));
        }
    }
    let low = _mm512_add_epi32(sums[0], sums[1]);
    let high = _mm512_add_epi32(sums[2], sums[3]);
    let mut out = [0; LANES];
    // SAFETY: `out` holds 16 integers.
    unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), _mm512_add_epi32(low, high)) };
    out
}
