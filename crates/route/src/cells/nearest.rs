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
    distances: Distances,
    /// Expected share of the neighbours in each shard, after [`Cells::expected_shares`]; sums to 1.
    pub(crate) shares: Vec<f32>,
}

/// How far all cells are from one form.
#[derive(Clone, Debug, Default)]
pub(super) struct Distances {
    /// Of each cell.
    pub(super) cells: Vec<f32>,
    /// The least of them.
    pub(super) least: f32,
    /// The nearest root cell, the lowest of equals.
    pub(super) root: usize,
    roots: Vec<f32>,
    subcells: Vec<f32>,
}

impl Cells {
    /// The cell of the row form in `scratch.form`: of the nearest root cell the nearest subcell, the lowest
    /// of equals.
    ///
    /// Cost: root cells × dimension. No allocation after the first row.
    pub(crate) fn nearest(&self, scratch: &mut Scratch) -> usize {
        let Scratch { form, distances, .. } = scratch;
        let (root, _) = measure(&self.roots, form, &mut distances.roots);
        self.nearest_of(root, form)
    }

    /// The nearest cell of a root cell.
    pub(super) fn nearest_of(&self, root: usize, form: &[f32]) -> usize {
        let cells = self.cells_of(root);
        let (mut best, mut least) = (cells.start, f32::INFINITY);
        for (cell, centroid) in cells.zip(self.subcells_of(root).chunks_exact(form.len())) {
            let distance = kernels::l2_squared(form, centroid);
            if distance < least {
                (best, least) = (cell, distance);
            }
        }
        best
    }

    /// Fills `scratch.shares` for the query form in `scratch.form` and returns the nearest root cell;
    /// `None` if distances overflow, when nothing can be said.
    ///
    /// Each cell says where the neighbours of queries in it were found; cells speak with a weight
    /// that falls off exponentially with their distance.
    ///
    /// Cost: (root cells + subcells) × dimension + near cells × shards. No allocation after the first query.
    pub(crate) fn expected_shares(&self, scratch: &mut Scratch) -> Option<usize> {
        let Scratch { form, distances, shares } = scratch;
        self.measure(form, distances);
        if !distances.least.is_finite() {
            return None;
        }
        self.weigh(distances, self.temperature, shares);
        Some(distances.root)
    }

    /// How far every cell is from `form`.
    pub(super) fn measure(&self, form: &[f32], out: &mut Distances) {
        let (root, least) = measure(&self.roots, form, &mut out.roots);
        (out.root, out.least) = (root, least);
        out.cells.clear();
        if self.subcells.is_empty() {
            out.cells.extend_from_slice(&out.roots);
            return;
        }
        measure(&self.subcells, form, &mut out.subcells);
        let mut subcells = out.subcells.iter();
        for (root, &distance) in out.roots.iter().enumerate() {
            match self.cells_of(root).len() {
                1 => out.cells.push(distance),
                count => out.cells.extend(subcells.by_ref().take(count)),
            }
        }
        out.least = out.cells.iter().copied().fold(f32::INFINITY, f32::min);
    }

    /// The second half of [`Cells::expected_shares`], at a given temperature.
    pub(super) fn weigh(&self, distances: &Distances, temperature: f32, shares: &mut Vec<f32>) {
        let shards = usize::from(self.shards);
        shares.clear();
        shares.resize(shards, 0.0);
        let least = distances.least;
        let reach = least + REACH * temperature;
        for (cell, &distance) in distances.cells.iter().enumerate() {
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
