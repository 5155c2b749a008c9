//! Reductions in 16 lanes, for kernels that are written once and compiled for every level.
//!
//! The lanes are summed in a fixed order and no multiply-add is fused, so every level gives the
//! same bits. Each pass makes one reduction. The compiler vectorises that well and several
//! reductions at once badly, and the data stays in the first-level cache between passes.

/// Width of a reduction.
pub(crate) const LANES: usize = 16;

/// Rounds when added: the sum of this and a number in −2²²..2²² has the nearest integer (ties to
/// even) in the low bits of the float, in two's complement.
pub(crate) const ROUND: f32 = 12_582_912.0;

/// `Σ term(aᵢ, bᵢ)`; both slices have the same length, a multiple of [`LANES`].
#[inline(always)]
pub(crate) fn sum(a: &[f32], b: &[f32], term: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [0.0f32; LANES];
    for (a, b) in a.as_chunks::<LANES>().0.iter().zip(b.as_chunks::<LANES>().0) {
        for lane in 0..LANES {
            lanes[lane] += term(a[lane], b[lane]);
        }
    }
    fold(lanes)
}

/// Squared Euclidean distance with the same bits on every processor, for what is written to files.
///
/// Both have the same length, a multiple of 16. Cost: a pass with the plainest instructions of the target.
pub fn stable_l2_squared(row: &[f32], centroid: &[f32]) -> f32 {
    assert_eq!(row.len(), centroid.len(), "vectors of different dimension");
    assert!(row.len().is_multiple_of(LANES), "rotated vectors have a multiple of 64 dimensions");
    sum(row, centroid, |x, c| (x - c) * (x - c))
}

/// The sum of all lanes; the two halves are added first.
#[inline(always)]
pub(crate) fn fold(lanes: [f32; LANES]) -> f32 {
    // Hides the lanes from the loop. Otherwise the compiler splits the loop into pairs to suit
    // these sums.
    let mut lanes = std::hint::black_box(lanes);
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// `max |aᵢ|`, 0 for an empty slice; its length is a multiple of [`LANES`].
#[inline(always)]
pub(crate) fn reach(a: &[f32]) -> f32 {
    let mut lanes = [0.0f32; LANES];
    for a in a.as_chunks::<LANES>().0 {
        for lane in 0..LANES {
            let size = a[lane].abs();
            lanes[lane] = if size > lanes[lane] { size } else { lanes[lane] };
        }
    }
    lanes.into_iter().fold(0.0, f32::max)
}
