//! Clusters as ranges of permuted rows, and the chance that recipes ask for.

use std::ops::Range;

use vstream_vector::{kernels, KMeans, KMeansSettings, SplitMix};

use crate::runbook::Matrix;

/// Rows that k-means learns from at most, as in the public generator.
const SAMPLE: usize = 100_000;
const ITERATIONS: usize = 12;

/// An order of all rows in which every cluster is contiguous.
pub(crate) struct Clusters {
    /// `order[new] = old` row number.
    pub(crate) order: Vec<u32>,
    /// Places of each cluster in `order`, in a walk that goes from each cluster to the nearest one
    /// not yet visited. None is empty.
    pub(crate) ranges: Vec<Range<usize>>,
}

/// Clusters the rows into `clusters` at most.
pub(crate) fn find(base: &Matrix, clusters: usize, seed: u64) -> Clusters {
    let mut chance = SplitMix(seed);
    let mut rows: Vec<u32> = (0..base.rows() as u32).collect();
    shuffle(&mut rows, &mut chance);
    let sample = base.picked(&rows[..rows.len().min(SAMPLE)]);
    let settings =
        KMeansSettings { clusters, iterations: ITERATIONS, seed: chance.next(), balance: 0.0 };
    let centroids = KMeans::train(&sample.values, base.dimension, settings).centroids;
    let centroids = Matrix { dimension: base.dimension, values: centroids };
    let mut members = vec![Vec::new(); centroids.rows()];
    let mut distances = vec![0.0; centroids.rows()];
    // Rows stay shuffled inside their cluster: the order of the file may mean something.
    for row in rows {
        kernels::l2_squared_batch(base.row(row as usize), &centroids.values, &mut distances);
        members[least(&distances)].push(row);
    }
    let mut order = Vec::with_capacity(base.rows());
    let mut ranges = Vec::with_capacity(members.len());
    for cluster in walk(&centroids) {
        let start = order.len();
        order.append(&mut members[cluster]);
        if order.len() > start {
            ranges.push(start..order.len());
        }
    }
    Clusters { order, ranges }
}

/// Every centroid once, each followed by the nearest of those that are left.
fn walk(centroids: &Matrix) -> Vec<usize> {
    let mut left: Vec<usize> = (1..centroids.rows()).collect();
    let mut walk = vec![0];
    while !left.is_empty() {
        let here = centroids.row(walk[walk.len() - 1]);
        let distance = |&to: &usize| kernels::l2_squared(here, centroids.row(to));
        let distances: Vec<f32> = left.iter().map(distance).collect();
        walk.push(left.swap_remove(least(&distances)));
    }
    walk
}

fn least(distances: &[f32]) -> usize {
    let all = distances.iter().enumerate();
    all.min_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(at, _)| at)
}

pub(super) fn shuffle<T>(items: &mut [T], chance: &mut SplitMix) {
    for last in (1..items.len()).rev() {
        items.swap(last, chance.below(last + 1));
    }
}

/// Shares that sum to 1, drawn from a Dirichlet distribution with these weights, then shuffled.
pub(super) fn shuffled_dirichlet(weights: &[u32], chance: &mut SplitMix) -> Vec<f64> {
    // A gamma variable of a whole weight is a sum of that many exponential ones.
    let mut gamma =
        |weight: u32| -> f64 { (0..weight).map(|_| -f64::from(1.0 - chance.unit()).ln()).sum() };
    let mut shares: Vec<f64> = weights.iter().map(|&weight| gamma(weight)).collect();
    let sum: f64 = shares.iter().sum();
    shares.iter_mut().for_each(|share| *share /= sum);
    shuffle(&mut shares, chance);
    shares
}
