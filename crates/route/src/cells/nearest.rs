//! Finds the cells near a vector and computes in which shards its neighbours are expected.

use super::Cells;
use vstream_vector::kernels;

/// Cells beyond this many temperatures are left out; they weigh less than 1/100 of the nearest.
const REACH: f32 = 5.0;
/// Share of the expectation that is spread evenly over all shards.
const FLOOR: f32 = 0.002;

/// Buffers that calls reuse.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    /// The vector in row form or query form.
    pub(crate) form: Vec<f32>,
    distances: Distances,
    /// Expected share of the neighbours in each shard; sums to 1. [`Cells::expected_shares`] sets
    /// it.
    pub(crate) shares: Vec<f32>,
}

/// The squared distances from one vector to all cells.
#[derive(Clone, Debug, Default)]
pub(super) struct Distances {
    /// Distance to each cell.
    pub(super) cells: Vec<f32>,
    /// Distance to the nearest cell.
    pub(super) least: f32,
    /// The nearest root cell; of equally near ones the one with the lowest number.
    pub(super) root: usize,
    roots: Vec<f32>,
    subcells: Vec<f32>,
}

impl Cells {
    /// The cell of the row form in `scratch.form`: the nearest subcell of the nearest root cell. Of
    /// equally near ones the one with the lowest number.
    ///
    /// Cost: root cells × dimension. It allocates only for the first row.
    pub(crate) fn nearest(&self, scratch: &mut Scratch) -> usize {
        let Scratch { form, distances, .. } = scratch;
        let (root, _) = measure(&self.roots, form, &mut distances.roots);
        self.nearest_of(root, form)
    }

    /// The nearest cell of one root cell.
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

    /// Computes the expected share of the neighbours of a query in each shard. It reads the query
    /// form in `scratch.form`, sets `scratch.shares` and returns the nearest root cell. `None` if
    /// distances overflow; the caller then visits every partition.
    ///
    /// Each cell knows in which shards the neighbours of its queries were found. The result is the
    /// weighted sum over the cells, with weights that fall exponentially with the distance.
    ///
    /// Cost: (root cells + subcells) × dimension + near cells × shards. It allocates only for the
    /// first query.
    pub(crate) fn expected_shares(&self, scratch: &mut Scratch) -> Option<usize> {
        let Scratch { form, distances, shares } = scratch;
        self.measure(form, distances);
        if !distances.least.is_finite() {
            return None;
        }
        self.weigh(distances, self.temperature, shares);
        Some(distances.root)
    }

    /// Measures the distance of every cell to `form`.
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

    /// Computes the shares from distances at one temperature.
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

/// Fills `out` with the squared distances to the row-major `centroids`. Returns the nearest
/// centroid, the lowest number of equally near ones, and its distance.
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
