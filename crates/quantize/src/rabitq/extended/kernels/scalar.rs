//! The reference kernels, for any target.

use super::super::encode::Sums;
use super::super::query::Planes;
use super::plain;

pub(super) fn encode(row: &[f32], centroid: &[f32], code: &mut [u8]) -> Sums {
    plain::encode(row, centroid, code)
}

pub(super) fn build(query: &[f32], planes: &mut [Planes]) -> (f32, f32) {
    plain::build(query, planes)
}

pub(super) fn product(code: &[u8], planes: &[Planes]) -> i32 {
    let mut sum = 0;
    for (code, planes) in code.chunks(64).zip(planes) {
        for (j, &byte) in code.iter().enumerate() {
            for (half, nibble) in [byte & 15, byte >> 4].into_iter().enumerate() {
                let coarse = i32::from(planes.coarse[half][j]);
                sum += i32::from(nibble) * (128 * coarse + i32::from(planes.fine[half][j]));
            }
        }
    }
    sum
}
