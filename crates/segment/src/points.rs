//! Points to which rows of a merge go before they are leaves.

use vstream_quantize::rabitq::Rotation;
use vstream_vector::{kernels, KMeans, KMeansSettings};

/// Points in the space of rotated vectors, to the nearest of which rows go.
pub struct Points {
    rotation: Rotation,
    /// Rotated, row-major.
    points: Vec<f32>,
}

impl Points {
    /// No points, for vectors of segments with this dimension and seed.
    pub fn new(dimension: usize, seed: u64) -> Points {
        Points { rotation: Rotation::new(dimension, seed), points: Vec::new() }
    }

    /// Adds a point, given without rotation.
    pub fn push(&mut self, point: &[f32]) {
        let at = self.points.len();
        self.points.resize(at + self.rotation.padded(), 0.0);
        self.rotation.apply(point, &mut self.points[at..]);
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        self.points.len() / self.rotation.padded()
    }

    /// True if there is no point.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    fn point(&self, at: u32) -> &[f32] {
        let padded = self.rotation.padded();
        &self.points[at as usize * padded..][..padded]
    }

    /// The `count` points nearest to a rotated vector, in no order. Cost: O(points · dimension).
    pub fn near(&self, rotated: &[f32], count: usize) -> Vec<u32> {
        let points = self.points.chunks_exact(self.rotation.padded());
        least(points.map(|of| kernels::l2_squared(rotated, of)), count)
    }

    /// Divides some points in two by 2-means, each part with at least a quarter of their weight.
    ///
    /// * `weights`: of every point.
    pub fn halves(&self, among: &[u32], weights: &[u32], seed: u64) -> (Vec<u32>, Vec<u32>) {
        let padded = self.rotation.padded();
        let vectors: Vec<f32> = among.iter().flat_map(|&at| self.point(at)).copied().collect();
        let settings = KMeansSettings { clusters: 2, iterations: 8, seed, balance: 0.0 };
        let means = KMeans::train(&vectors, padded, settings).centroids;
        let (first, second) = means.split_at(padded);
        let gap = |at: u32| {
            let point = self.point(at);
            kernels::l2_squared(point, first) - kernels::l2_squared(point, second)
        };
        let mut order: Vec<(f32, u32)> = among.iter().map(|&at| (gap(at), at)).collect();
        order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let all: u64 = among.iter().map(|&at| u64::from(weights[at as usize])).sum();
        let mut before = 0;
        let cut = order.iter().position(|&(gap, at)| {
            let is_cut = before >= all - all / 4 || (gap >= 0.0 && before >= all / 4);
            before += u64::from(weights[at as usize]);
            is_cut
        });
        let cut = cut.unwrap_or(order.len()).clamp(1, order.len() - 1);
        let points = |part: &[(f32, u32)]| part.iter().map(|&(_, at)| at).collect();
        (points(&order[..cut]), points(&order[cut..]))
    }

    /// The nearest of some points to a vector, and its squared distance. Panics if there is none.
    ///
    /// * `rotated`: a buffer.
    pub fn nearest(&self, vector: &[f32], among: &[u32], rotated: &mut Vec<f32>) -> (u32, f32) {
        rotated.resize(self.rotation.padded(), 0.0);
        self.rotation.apply(vector, rotated);
        let gaps = among.iter().map(|&at| (kernels::l2_squared(rotated, self.point(at)), at));
        let (gap, at) = gaps.min_by(|a, b| a.0.total_cmp(&b.0)).expect("a point");
        (at, gap)
    }
}

/// The positions of the `count` least values, in no order.
pub(crate) fn least(values: impl Iterator<Item = f32>, count: usize) -> Vec<u32> {
    let mut least: Vec<(f32, u32)> = values.zip(0..).collect();
    if least.len() > count {
        least.select_nth_unstable_by(count - 1, |a, b| a.0.total_cmp(&b.0));
        least.truncate(count);
    }
    // By reference: the list of all values must not live on as the result's.
    least.iter().map(|&(_, at)| at).collect()
}

#[cfg(test)]
mod tests {
    use vstream_vector::SplitMix;

    use super::*;

    #[test]
    fn a_list_of_near_points_takes_no_more_memory_than_it_needs() {
        let (mut points, mut random) = (Points::new(64, 1), SplitMix(1));
        let mut draw = || -> Vec<f32> { (0..64).map(|_| random.normal()).collect() };
        (0..2_000).for_each(|_| points.push(&draw()));
        let query = draw();
        let near = points.near(&query, 64);
        assert_eq!(near.len(), 64);
        assert!(near.capacity() <= 128, "{}", near.capacity());
        let worst = |at: &u32| kernels::l2_squared(&query, points.point(*at));
        let bound = near.iter().map(worst).fold(0.0, f32::max);
        let nearer = (0..2_000).filter(|at| worst(at) < bound).count();
        assert_eq!(nearer, 63);
    }
}
