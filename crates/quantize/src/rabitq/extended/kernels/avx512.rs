//! AVX-512 VNNI: 128 dimensions per load of a code.

use super::super::encode::Sums;
use super::super::query::Planes;
use super::plain;
use std::arch::x86_64::*;

#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) fn encode(row: &[f32], centroid: &[f32], code: &mut [u8]) -> Sums {
    plain::encode(row, centroid, code)
}

#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) fn build(query: &[f32], planes: &mut [Planes]) -> (f32, f32) {
    plain::build(query, planes)
}

#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) fn product(code: &[u8], planes: &[Planes]) -> i32 {
    let nibble = _mm512_set1_epi8(15);
    let mut sums = [[_mm512_setzero_si512(); 2]; 2];
    for (code, planes) in code.chunks(64).zip(planes) {
        let code = match code.as_chunks::<64>().0.first() {
            // SAFETY: `code` holds 64 bytes.
            Some(code) => unsafe { _mm512_loadu_si512(code.as_ptr().cast()) },
            // SAFETY: the mask has as many bits as the rest has bytes, less than 64.
            None => unsafe { _mm512_maskz_loadu_epi8((1 << code.len()) - 1, code.as_ptr().cast()) },
        };
        let high = _mm512_and_si512(_mm512_srli_epi16::<4>(code), nibble);
        let nibbles = [_mm512_and_si512(code, nibble), high];
        for (sums, planes) in sums.iter_mut().zip([&planes.coarse, &planes.fine]) {
            for ((sum, nibbles), plane) in sums.iter_mut().zip(nibbles).zip(planes) {
                // SAFETY: a plane holds 64 bytes and is aligned to them.
                let plane = unsafe { _mm512_load_si512(plane.as_ptr().cast()) };
                *sum = _mm512_dpbusd_epi32(*sum, nibbles, plane);
            }
        }
    }
    let [coarse, fine] = sums.map(|halves| _mm512_add_epi32(halves[0], halves[1]));
    _mm512_reduce_add_epi32(_mm512_add_epi32(_mm512_slli_epi32::<7>(coarse), fine))
}
