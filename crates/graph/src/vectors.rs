//! The vectors of a sealed set in memory, and the distance by which a graph over them is built.

use vstream_vector::{kernels, Metric, Number};

/// Rows of equal dimension, row-major, with what the build distance needs beside them.
///
/// The build distance is the squared Euclidean one, which pruning needs because it compares
/// distances of rows to each other. Under inner product every row gets one more coordinate, its
/// *lift* `√(M² − |x|²)` with `M` the largest norm. A query has lift 0, so that the squared
/// distance to it is `|q|² + M² − 2⟨q, x⟩`: the order by inner product.
pub(crate) struct Vectors<N> {
    numbers: Vec<N>,
    dimension: usize,
    /// Empty unless the metric is inner product.
    lifts: Vec<f32>,
}

/// A row or query with the numbers widened to `f32`.
#[derive(Default)]
pub(crate) struct Wide {
    pub(crate) numbers: Vec<f32>,
    pub(crate) lift: f32,
}

impl<N: Number> Vectors<N> {
    /// Takes `numbers` (`n × dimension`, row-major). Cost under inner product: O(n · dimension).
    pub(crate) fn new(numbers: Vec<N>, dimension: usize, metric: Metric) -> Vectors<N> {
        let mut vectors = Vectors { numbers, dimension, lifts: Vec::new() };
        if metric == Metric::InnerProduct {
            vectors.lift();
        }
        vectors
    }

    /// Computes the lifts.
    fn lift(&mut self) {
        let rows = self.numbers.chunks_exact(self.dimension);
        let squares: Vec<f32> =
            rows.map(|row| row.iter().map(|x| x.widen() * x.widen()).sum::<f32>()).collect();
        let most = squares.iter().copied().fold(0.0, f32::max);
        self.lifts = squares.iter().map(|square| (most - square).max(0.0).sqrt()).collect();
    }

    pub(crate) fn len(&self) -> usize {
        self.numbers.len() / self.dimension
    }

    pub(crate) fn dimension(&self) -> usize {
        self.dimension
    }

    #[inline]
    pub(crate) fn row(&self, row: u32) -> &[N] {
        &self.numbers[row as usize * self.dimension..][..self.dimension]
    }

    #[inline]
    fn lift_of(&self, row: u32) -> f32 {
        self.lifts.get(row as usize).copied().unwrap_or(0.0)
    }

    /// Copies a row to `out`.
    pub(crate) fn widen(&self, row: u32, out: &mut Wide) {
        out.numbers.clear();
        out.numbers.extend(self.row(row).iter().map(|x| x.widen()));
        out.lift = self.lift_of(row);
    }

    /// Build distance of a widened row or a query to a row.
    #[inline]
    pub(crate) fn distance(&self, from: &Wide, row: u32) -> f32 {
        let flat = kernels::l2_squared(&from.numbers, self.row(row));
        match self.lifts.get(row as usize) {
            None => flat,
            Some(lift) => flat + (from.lift - lift) * (from.lift - lift),
        }
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.numbers) + size_of_val(&*self.lifts)
    }
}
