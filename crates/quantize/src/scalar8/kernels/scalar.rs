//! The reference kernel, for any target.

use super::super::{Centroids, Group, ScanScratch, GROUP, LANES};
use super::plain;
use crate::Form;

pub(super) fn scan(
    centroids: &Centroids,
    form: Form,
    query: &[f32],
    scratch: &mut ScanScratch,
    out: &mut [[f32; LANES]],
) {
    plain::scan(centroids, form, query, scratch, out, dot);
}

pub(super) fn dot(codes: &[Group], words: &[[i8; GROUP]]) -> [i32; LANES] {
    let mut sums = [0i32; LANES];
    for (codes, word) in codes.iter().zip(words) {
        for (sum, codes) in sums.iter_mut().zip(codes.0.chunks_exact(GROUP)) {
            for (&code, &value) in codes.iter().zip(word) {
                *sum += i32::from(code) * i32::from(value);
            }
        }
    }
    sums
}
