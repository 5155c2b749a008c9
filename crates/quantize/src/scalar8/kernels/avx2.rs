//! AVX2, with and without VNNI.

use super::super::{Centroids, Group, ScanScratch, GROUP, LANES};
use super::plain;
use crate::Form;
use std::arch::x86_64::*;

#[target_feature(enable = "avx2,fma,avxvnni")]
pub(super) fn scan_vnni(
    centroids: &Centroids,
    form: Form,
    query: &[f32],
    scratch: &mut ScanScratch,
    out: &mut [[f32; LANES]],
) {
    plain::scan(centroids, form, query, scratch, out, |codes, words| dot_vnni(codes, words));
}

#[target_feature(enable = "avx2,fma")]
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
#[target_feature(enable = "avx2,avxvnni")]
fn dot_vnni(codes: &[Group], words: &[[i8; GROUP]]) -> [i32; LANES] {
    // Two chains of sums for each half of the lanes.
    let mut sums = [[_mm256_setzero_si256(); 2]; 2];
    for (codes, words) in codes.chunks_exact(2).zip(words.chunks_exact(2)) {
        for ((sums, codes), &word) in sums.iter_mut().zip(codes).zip(words) {
            let word = _mm256_set1_epi32(i32::from_le_bytes(word.map(i8::cast_unsigned)));
            for (sum, codes) in sums.iter_mut().zip(codes.0.chunks_exact(32)) {
                // SAFETY: the half of a group holds 32 bytes.
                let codes = unsafe { _mm256_loadu_si256(codes.as_ptr().cast()) };
                *sum = _mm256_dpbusd_avx_epi32(*sum, codes, word);
            }
        }
    }
    let [first, second] = sums;
    let mut out = [0; LANES];
    for (half, out) in out.chunks_exact_mut(8).enumerate() {
        let sum = _mm256_add_epi32(first[half], second[half]);
        // SAFETY: half of `out` holds 8 integers.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), sum) };
    }
    out
}

/// Without VNNI, products of bytes are summed in 16 bits and would saturate: widen first.
#[inline]
#[target_feature(enable = "avx2")]
fn dot(codes: &[Group], words: &[[i8; GROUP]]) -> [i32; LANES] {
    // Each register holds four lanes, two partial sums apiece.
    let mut sums = [_mm256_setzero_si256(); 4];
    for (codes, &word) in codes.iter().zip(words) {
        let word = _mm_set1_epi32(i32::from_le_bytes(word.map(i8::cast_unsigned)));
        let word = _mm256_cvtepi8_epi16(word);
        for (sum, codes) in sums.iter_mut().zip(codes.0.chunks_exact(16)) {
            // SAFETY: the quarter of a group holds 16 bytes.
            let codes = unsafe { _mm_loadu_si128(codes.as_ptr().cast()) };
            let products = _mm256_madd_epi16(_mm256_cvtepu8_epi16(codes), word);
            *sum = _mm256_add_epi32(*sum, products);
        }
    }
    let mut out = [0; LANES];
    for (pair, out) in sums.chunks_exact(2).zip(out.chunks_exact_mut(8)) {
        // Lanes come out as 0 1 4 5 | 2 3 6 7.
        let mixed = _mm256_hadd_epi32(pair[0], pair[1]);
        let sum = _mm256_permute4x64_epi64::<0b11_01_10_00>(mixed);
        // SAFETY: half of `out` holds 8 integers.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), sum) };
    }
    out
}
