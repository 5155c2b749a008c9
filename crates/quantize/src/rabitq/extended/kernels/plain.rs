//! Kernels that are written once. The compiler inlines them into the function of each level and
//! uses that level's registers.
//!
//! No multiply-add is fused and sums have a fixed order, so every level gives the same bits.

use super::super::encode::Sums;
use super::super::query::Planes;
use super::super::GROUP;
use crate::lanes::{self, LANES, ROUND};

/// Step widths to try, in standard deviations of the residual's coordinates. A rotated residual
/// looks normal, and for normal numbers 0.335 is the best on average. For one row of 128
/// dimensions, the best of these 8 has an error within 0.3 % of that of the best possible scale;
/// 0.335 alone is within 6 %.
const STEPS: [f32; 8] = [0.28, 0.297, 0.314, 0.331, 0.349, 0.366, 0.383, 0.40];

/// The integers of a query have 14 bits and a sign.
const INTEGER_MAX: f32 = 16_383.0;

/// Coordinate `r` under a scale, as a code: half an odd integer in −7.5..=7.5.
#[inline(always)]
fn coded(r: f32, per_step: f32) -> f32 {
    let x = (r * per_step).floor();
    let x = if x < -8.0 { -8.0 } else { x };
    let x = if x > 7.0 { 7.0 } else { x };
    x + 0.5
}

#[inline(always)]
pub(super) fn encode(row: &[f32], centroid: &[f32], code: &mut [u8]) -> Sums {
    let squared = lanes::sum(row, centroid, |x, c| (x - c) * (x - c));
    let per_deviation = 1.0 / (squared / row.len() as f32).sqrt();
    if !per_deviation.is_finite() {
        code.fill(0x88);
        return Sums { squared, coded: 0.0, coded_centroid: 0.0, residual_centroid: 0.0 };
    }
    // Computes all scales first, so that the processor works on several of them at once.
    let mut fits = [(0.0, 0.0, 0.0); STEPS.len()];
    for (found, step) in fits.iter_mut().zip(STEPS) {
        let per_step = per_deviation / step;
        let (product, length) = fit(row, centroid, per_step);
        *found = (product * product / length, per_step, product);
    }
    let (mut best, mut per_step, mut along) = fits[0];
    for fit in fits {
        let better = fit.0 > best;
        best = if better { fit.0 } else { best };
        per_step = if better { fit.1 } else { per_step };
        along = if better { fit.2 } else { along };
    }
    pack(row, centroid, per_step, code);
    Sums {
        squared,
        coded: along,
        coded_centroid: lanes::sum(row, centroid, |x, c| coded(x - c, per_step) * c),
        residual_centroid: lanes::sum(row, centroid, |x, c| (x - c) * c),
    }
}

/// `⟨v, r⟩` and `|v|²` for the code `v` of a scale.
#[inline(always)]
fn fit(row: &[f32], centroid: &[f32], per_step: f32) -> (f32, f32) {
    let mut sums = [[0.0f32; LANES]; 2];
    let rows = row.as_chunks::<LANES>().0.iter().zip(centroid.as_chunks::<LANES>().0);
    for (row, centroid) in rows {
        for lane in 0..LANES {
            let r = row[lane] - centroid[lane];
            let v = coded(r, per_step);
            sums[0][lane] += v * r;
            sums[1][lane] += v * v;
        }
    }
    let [products, lengths] = sums;
    (lanes::fold(products), lanes::fold(lengths))
}

/// Writes the nibbles.
#[inline(always)]
fn pack(row: &[f32], centroid: &[f32], per_step: f32, code: &mut [u8]) {
    const HALF: usize = GROUP / 2;
    let groups = row.as_chunks::<GROUP>().0.iter().zip(centroid.as_chunks::<GROUP>().0);
    for ((row, centroid), code) in groups.zip(code.as_chunks_mut::<HALF>().0) {
        for (j, byte) in code.iter_mut().enumerate() {
            // An integer plus ROUND leaves the integer in the float's low bits.
            let nibble = |i: usize| (coded(row[i] - centroid[i], per_step) + 7.5 + ROUND).to_bits();
            *byte = (nibble(j) | nibble(j + HALF) << 4) as u8;
        }
    }
}

#[inline(always)]
pub(super) fn build(query: &[f32], planes: &mut [Planes]) -> (f32, f32) {
    const HALF: usize = GROUP / 2;
    let reach = lanes::reach(query);
    let per_step = INTEGER_MAX / reach;
    let per_step = if per_step.is_finite() { per_step } else { 0.0 };
    let mut sums = [0i32; HALF];
    for (g, group) in query.as_chunks::<GROUP>().0.iter().enumerate() {
        let (planes, from) = (&mut planes[g / 2], g % 2 * HALF);
        for half in 0..2 {
            let coarse = &mut planes.coarse[half][from..from + HALF];
            let fine = &mut planes.fine[half][from..from + HALF];
            let values = &group[half * HALF..(half + 1) * HALF];
            for j in 0..HALF {
                let integer =
                    (values[j] * per_step + ROUND).to_bits() as i32 - ROUND.to_bits() as i32;
                coarse[j] = (integer >> 7) as i8;
                fine[j] = (integer & 127) as i8;
                sums[j] += integer;
            }
        }
    }
    let step = if per_step > 0.0 { reach / INTEGER_MAX } else { 0.0 };
    (step, -7.5 * (sums.iter().sum::<i32>() as f32 * step))
}
