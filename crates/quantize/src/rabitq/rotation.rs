//! A random rotation in O(D log D) from random signs and fast Hadamard transforms.
//!
//! 1. Pad with zeros to `D`, the next multiple of 64.
//! 2. In each round, flip signs at random, then transform a window of `2ᵏ ≤ D` coordinates.
//! 3. If `D` is no power of two, the windows alternate between the two ends, and each round ends
//!    with one step that mixes coordinate `i` with `i + D/2` (as `FhtKac` of the RaBitQ library).
//!
//! Each step is orthogonal, so norms and inner products change only by rounding.

use super::kernels;
use std::ops::Range;
use vstream_vector::SplitMix;

/// Codes have whole 64-bit words.
const PADDING: usize = 64;

/// An orthonormal map from `dimension` to `padded` coordinates. It is the same on every machine.
#[derive(Clone, Debug)]
pub struct Rotation {
    seed: u64,
    dimension: usize,
    padded: usize,
    rounds: Vec<Round>,
}

/// One round: `x ← walk(hadamard(x · factors))`.
#[derive(Clone, Debug)]
pub(super) struct Round {
    /// Random signs, multiplied by the scale that makes the round orthonormal.
    pub(super) factors: Vec<f32>,
    /// The range of the coordinates to transform, a power of two of them.
    pub(super) window: Range<usize>,
    /// Whether coordinates `i` and `i + D/2` are mixed after the transform.
    pub(super) walk: bool,
}

impl Rotation {
    /// The rotation of `seed` for vectors of `dimension` ≥ 1. Panics if `dimension` is 0.
    pub fn new(dimension: usize, seed: u64) -> Rotation {
        assert!(dimension > 0, "a vector has at least one dimension");
        let padded = dimension.next_multiple_of(PADDING);
        let width = 1usize << padded.ilog2();
        let walk = width != padded;
        let mut random = SplitMix(seed);
        let rounds = (0..if walk { 4 } else { 3 })
            .map(|round| {
                let from = if round % 2 == 0 { 0 } else { padded - width };
                let window = from..from + width;
                let outside = if walk { std::f32::consts::FRAC_1_SQRT_2 } else { 1.0 };
                let inside = outside / (width as f32).sqrt();
                let factors = (0..padded)
                    .map(|i| if window.contains(&i) { inside } else { outside })
                    .map(|scale| if random.next() >> 63 == 1 { -scale } else { scale })
                    .collect();
                Round { factors, window, walk }
            })
            .collect();
        Rotation { seed, dimension, padded, rounds }
    }

    /// The seed: rotations of one seed and dimension are equal.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Dimensions of the input.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Dimensions `D` of the output: a multiple of 64, ≥ `dimension`.
    pub fn padded(&self) -> usize {
        self.padded
    }

    /// Writes the rotated `x` (`dimension` values) to `out` (`padded` values).
    ///
    /// Cost: O(D log D), no allocation. Panics if a length is wrong.
    pub fn apply(&self, x: &[f32], out: &mut [f32]) {
        assert_eq!(x.len(), self.dimension, "vector of another dimension");
        assert_eq!(out.len(), self.padded, "room for another dimension");
        out[..x.len()].copy_from_slice(x);
        out[x.len()..].fill(0.0);
        for round in &self.rounds {
            kernels::rotate(round, out);
        }
    }

    #[cfg(test)]
    pub(super) fn rounds(&self) -> &[Round] {
        &self.rounds
    }
}
