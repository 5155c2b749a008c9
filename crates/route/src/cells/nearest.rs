//! Near cells of a form, and what they say about where its neighbours are.

use super::Cells;
use vstream_vector::kernels;

/// A cell this many temperatures beyond the nearest weighs less than 1/100 of it: left out.
const REACH: f32 = 5.0;
/// Share of the expectation that is spread over all shards evenly, whatever the sample said.
const FLOOR: f32 = 0.002;

/// Buffers of a query, reused.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    /// The vector in the template's space.
    pub(crate) form: Vec<f32>,
    distances: Vec<f32>,
    /// Expected share of the neighbours in each shard, after [`Cells::expect`]; sums to 1.
    pub(crate) shares: Vec<f32>,
}

impl Cells {
    /// The cell nearest to the row form in `scratch.form`, the lowest of equals.
    ///
    /// Cost: cells × dimension. No allocation after the first row.
    pub(crate) fn nearest(&self, scratch: &mut Scratch) -> usize {
        measure(&self.centroids, &scratch.form, &mut scratch.distances).0
    }

    /// Fills `scratch.shares` for the query form in `scratch.form` and returns the nearest cell;
    /// `None` if distances overflow, when nothing can be said.
    ///
    /// Each cell says where the neighbours of queries in it were found; cells speak with a weight
    /// that falls off exponentially with their distance.
    ///
    /// Cost: cells × dimension + near cells × shards. No allocation after the first query.
    pub(crate) fn expect(&self, scratch: &mut Scratch) -> Option<usize> {
        let Scratch { form, distances, shares } = scratch;
        let (nearest, least) = measure(&self.centroids, form, distances);
        if !least.is_finite() {
            return None;
        }
        self.weigh(distances, least, self.temperature, shares);
        Some(nearest)
    }

    /// The second half of [`Cells::expect`], at a given temperature.
    pub(super) fn weigh(
        &self,
        distances: &[f32],
        least: f32,
        temperature: f32,
        shares: &mut Vec<f32>,
    ) {
        let shards = usize::from(self.shards);
        shares.clear();
        shares.resize(shards, 0.0);
        let reach = least + REACH * temperature;
        for (cell, &distance) in distances.iter().enumerate() {
            if distance <= reach {
                let weight = self.weights[cell] * ((least - distance) / temperature).exp();
                let row = &self.affinity[cell * shards..][..shards];
                for (share, &affinity) in shares.iter_mut().zip(row) {
                    *share += weight * f32::from(affinity);
                }
            }
        }
        let total: f32 = shares.iter().sum();
        let scale = if total > 0.0 { (1.0 - FLOOR) / total } else { 0.0 };
        for share in shares.iter_mut() {
            *share = *share * scale + FLOOR / shards as f32;
        }
    }
}

/// Squared distances to row-major `centroids`; the nearest, the lowest of equals, and its distance.
pub(super) fn measure(centroids: &[f32], form: &[f32], out: &mut Vec<f32>) -> (usize, f32) {
    out.clear();
    out.resize(centroids.len() / form.len(), 0.0);
    kernels::l2_squared_batch(form, centroids, out);
    let (mut best, mut least) = (0, f32::INFINITY);
    for (cell, &distance) in out.iter().enumerate() {
        if distance < least {
            (best, least) = (cell, distance);
        }
    }
    (best, least)
}
