//! Kernels that are written once. The compiler inlines them into the function of each level and
//! uses that level's registers.
//!
//! No multiply-add is fused and sums have a fixed order, so every level gives the same bits.

use super::super::encode::Sums;
use super::super::query::Line;
use super::super::rotation::Round;
use crate::lanes::{self, LANES, ROUND};

/// Signs of entry `v` for dimension `j` of a group: `SIGNS[j][v]`.
const SIGNS: [[f32; 16]; 4] = {
    let mut signs = [[-1.0; 16]; 4];
    let mut v = 0;
    while v < 16 {
        let mut j = 0;
        while j < 4 {
            if v >> j & 1 == 1 {
                signs[j][v] = 1.0;
            }
            j += 1;
        }
        v += 1;
    }
    signs
};

/// `x ← x · factors`, coordinate by coordinate.
#[inline(always)]
pub(super) fn scale(round: &Round, x: &mut [f32]) {
    for (x, factor) in x.iter_mut().zip(&round.factors) {
        *x *= factor;
    }
}

/// Mixes coordinates `i` and `i + D/2`, if the round has this step.
#[inline(always)]
pub(super) fn walk(round: &Round, x: &mut [f32]) {
    if round.walk {
        let (low, high) = x.split_at_mut(x.len() / 2);
        for (a, b) in low.iter_mut().zip(high) {
            (*a, *b) = (*a + *b, *a - *b);
        }
    }
}

/// The passes of a Hadamard transform from distance `h` on, two at a time.
#[inline(always)]
pub(super) fn hadamard_from(mut h: usize, x: &mut [f32]) {
    while 4 * h <= x.len() {
        for quarters in x.chunks_exact_mut(4 * h) {
            let (low, high) = quarters.split_at_mut(2 * h);
            let (a, b) = low.split_at_mut(h);
            let (c, d) = high.split_at_mut(h);
            for (((a, b), c), d) in a.iter_mut().zip(b).zip(c).zip(d) {
                let (ab, a_b, cd, c_d) = (*a + *b, *a - *b, *c + *d, *c - *d);
                (*a, *b, *c, *d) = (ab + cd, a_b + c_d, ab - cd, a_b - c_d);
            }
        }
        h *= 4;
    }
    if 2 * h <= x.len() {
        for halves in x.chunks_exact_mut(2 * h) {
            let (a, b) = halves.split_at_mut(h);
            for (a, b) in a.iter_mut().zip(b) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
    }
}

/// The signs of `row − centroid`, 16 to a word, the first dimension in the lowest bit.
#[inline(always)]
pub(super) fn signs(row: &[f32], centroid: &[f32], bits: &mut [u8]) {
    let rows = row.as_chunks::<LANES>().0.iter().zip(centroid.as_chunks::<LANES>().0);
    for ((row, centroid), bits) in rows.zip(bits.as_chunks_mut::<2>().0) {
        let mut word = 0u16;
        for lane in 0..LANES {
            word |= u16::from(row[lane] > centroid[lane]) << lane;
        }
        *bits = word.to_le_bytes();
    }
}

/// The sums of a row that [`super::super::encode`] needs beside the signs.
#[inline(always)]
pub(super) fn sums(row: &[f32], centroid: &[f32]) -> Sums {
    Sums {
        squared: lanes::sum(row, centroid, |x, c| (x - c) * (x - c)),
        absolute: lanes::sum(row, centroid, |x, c| (x - c).abs()),
        signed_centroid: lanes::sum(row, centroid, |x, c| if x > c { c } else { -c }),
        residual_centroid: lanes::sum(row, centroid, |x, c| (x - c) * c),
    }
}

#[inline(always)]
pub(super) fn build(query: &[f32], lines: &mut [Line]) -> (f32, f32) {
    let mut largest = 0.0f32;
    for group in query.as_chunks::<4>().0 {
        largest = largest.max(reach(group));
    }
    let per_step = 255.0 / (2.0 * largest);
    let per_step = if per_step.is_finite() { per_step } else { 0.0 };
    let groups = query.as_chunks::<4>().0;
    let tables = lines.iter_mut().flat_map(|line| line.0.as_chunks_mut::<16>().0);
    for (entries, group) in tables.zip(groups) {
        let reach = reach(group);
        for (v, entry) in entries.iter_mut().enumerate() {
            let signed = |j: usize| SIGNS[j][v] * group[j];
            let value = signed(0) + signed(1) + signed(2) + signed(3) + reach;
            *entry = (value * per_step + ROUND).to_bits() as u8;
        }
    }
    (2.0 * largest / 255.0, -lanes::sum(query, query, |x, _| x.abs()))
}

/// Largest entry of a group: `Σ |qⱼ|`.
#[inline(always)]
fn reach(group: &[f32; 4]) -> f32 {
    group[0].abs() + group[1].abs() + group[2].abs() + group[3].abs()
}
