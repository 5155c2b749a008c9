//! The reference kernels, for any target.

use super::super::block::{factor, place, BLOCK, GROUP_BYTES};
use super::super::encode::Sums;
use super::super::query::Line;
use super::super::rotation::Round;
use super::{plain, Scan};

pub(super) fn rotate(round: &Round, x: &mut [f32]) {
    plain::scale(round, x);
    plain::hadamard_from(1, &mut x[round.window.clone()]);
    plain::walk(round, x);
}

pub(super) fn encode(row: &[f32], centroid: &[f32], bits: &mut [u8]) -> Sums {
    plain::signs(row, centroid, bits);
    plain::sums(row, centroid)
}

pub(super) fn build(query: &[f32], lines: &mut [Line]) -> (f32, f32) {
    plain::build(query, lines)
}

pub(super) fn scan(scan: &Scan, out: &mut [f32; BLOCK]) -> u32 {
    let (codes, factors) = scan.parts();
    let mut sums = [0u32; BLOCK];
    let tables = scan.lines.iter().flat_map(|line| line.0.chunks_exact(16));
    for (group, table) in codes.chunks_exact(GROUP_BYTES).zip(tables) {
        for (lane, sum) in sums.iter_mut().enumerate() {
            let (index, shift) = place(lane);
            *sum += u32::from(table[usize::from(group[index] >> shift & 15)]);
        }
    }
    let mut below = 0;
    for lane in 0..BLOCK {
        let product = sums[lane] as f32 * scan.step + scan.bias;
        let constant = scan.base + factor(factors, 0, lane);
        out[lane] = product * factor(factors, 1, lane) + constant;
        below |= u32::from(out[lane] < scan.threshold) << lane;
    }
    below
}
