//! The centroid of a leaf as a segment stores it: a byte per coordinate.

use vstream_vector::kernels;

/// A rotated centroid, of which coordinate `i` is `low + step · steps[i]`. Codes refer to it.
///
/// Runs of one leaf in several segments hold it once (`Segment::share_centroids`), so what belongs to it alone is
/// here and not beside each run.
#[derive(Debug, Default, PartialEq)]
pub struct StoredCentroid {
    pub(crate) low: f32,
    pub(crate) step: f32,
    /// Euclidean norm.
    pub(crate) length: f32,
    /// A step per coordinate, padded; none in a flat segment.
    pub(crate) steps: Box<[u8]>,
}

impl StoredCentroid {
    pub(crate) fn new(low: f32, step: f32, steps: Box<[u8]>) -> StoredCentroid {
        let mut centroid = StoredCentroid { low, step, length: 0.0, steps };
        let mut written = vec![0.0; centroid.steps.len()];
        centroid.write(&mut written);
        centroid.length = kernels::norm_squared(&written).sqrt();
        centroid
    }

    /// `mean`, rounded to 256 steps between its extremes.
    pub(crate) fn round(mean: &[f32]) -> StoredCentroid {
        let low = mean.iter().copied().fold(f32::INFINITY, f32::min);
        let high = mean.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let step = (high - low) / 255.0;
        let step = if step.is_normal() { step } else { 0.0 };
        // Rotation overflows numbers near the largest. Then any centroid is correct, but none is
        // good.
        let low = if low.is_finite() { low } else { 0.0 };
        let to_steps = |x: f32| if step > 0.0 { ((x - low) / step).round() as u8 } else { 0 };
        StoredCentroid::new(low, step, mean.iter().map(|&x| to_steps(x)).collect())
    }

    /// Writes the centroid to `out`, which has as many places.
    pub fn write(&self, out: &mut [f32]) {
        let pairs = out.iter_mut().zip(&self.steps);
        pairs.for_each(|(x, &steps)| *x = self.low + self.step * f32::from(steps));
    }

    /// Bytes of memory, with the counts of who holds it.
    pub fn memory_bytes(&self) -> usize {
        StoredCentroid::memory_bytes_of(self.steps.len())
    }

    /// As [`StoredCentroid::memory_bytes`], of one with so many coordinates.
    pub fn memory_bytes_of(dimension: usize) -> usize {
        size_of::<StoredCentroid>() + 2 * size_of::<usize>() + dimension
    }
}
