//! Chooses the neighbours of a row among candidates.

use vstream_vector::Number;

use super::Near;
use crate::vectors::{Vectors, Wide};

/// Most candidates that are compared with each other.
const POOL_MAX: usize = 750;

/// Buffers and settings of pruning.
pub(super) struct Pruning {
    degree: usize,
    alpha: f32,
    /// Largest `d(row, candidate) / d(chosen, candidate)` over the chosen ones, by candidate.
    shadows: Vec<f32>,
    from: Wide,
    chosen: Vec<u32>,
}

impl Pruning {
    pub(super) fn new(degree: usize, alpha: f32) -> Pruning {
        Pruning { degree, alpha, shadows: Vec::new(), from: Wide::default(), chosen: Vec::new() }
    }

    /// Chooses up to `degree` of the candidates in `pool`, whose distances are those to the row
    /// itself, nearest first. A candidate is passed over if a chosen one is nearer to it than the
    /// row by the factor; the factor is 1 first and `alpha` if places are left.
    ///
    /// Cost: one distance per candidate and chosen one. `pool` is sorted afterwards.
    pub(super) fn choose<N: Number>(
        &mut self,
        vectors: &Vectors<N>,
        pool: &mut Vec<Near>,
        out: &mut Vec<u32>,
    ) {
        pool.sort_unstable_by(Near::order);
        pool.truncate(POOL_MAX);
        self.shadows.clear();
        self.shadows.resize(pool.len(), 0.0);
        out.clear();
        let factors = [1.0, self.alpha];
        let rounds = if self.alpha > 1.0 { 2 } else { 1 };
        for &factor in &factors[..rounds] {
            for at in 0..pool.len() {
                if out.len() >= self.degree {
                    return;
                }
                if self.shadows[at] > factor {
                    continue;
                }
                self.shadows[at] = f32::INFINITY;
                out.push(pool[at].row);
                self.shade(vectors, pool, at);
            }
        }
    }

    /// Raises the shadows of the candidates behind a chosen one.
    fn shade<N: Number>(&mut self, vectors: &Vectors<N>, pool: &[Near], chosen: usize) {
        vectors.widen(pool[chosen].row, &mut self.from);
        for (shadow, near) in self.shadows.iter_mut().zip(pool).skip(chosen + 1) {
            // Beyond the largest factor a candidate is out for good.
            if *shadow <= self.alpha {
                let between = vectors.distance(&self.from, near.row);
                // Two rows may be so near that floats see no distance between them.
                let ratio = if between > 0.0 { near.distance / between } else { f32::INFINITY };
                *shadow = shadow.max(ratio);
            }
        }
    }

    /// Chooses among the neighbours of a row, and one more if given; [`Pruning::kept`] has the
    /// result.
    pub(super) fn shorten<N: Number>(
        &mut self,
        vectors: &Vectors<N>,
        (row, neighbours, also): (u32, &[u32], Option<u32>),
        pool: &mut Vec<Near>,
    ) {
        vectors.widen(row, &mut self.from);
        let from = &self.from;
        let near = |&row: &u32| Near { distance: vectors.distance(from, row), row };
        pool.clear();
        pool.extend(neighbours.iter().chain(also.as_ref()).map(near));
        let mut chosen = std::mem::take(&mut self.chosen);
        self.choose(vectors, pool, &mut chosen);
        self.chosen = chosen;
    }

    /// The neighbours that [`Pruning::shorten`] kept.
    pub(super) fn kept(&self) -> &[u32] {
        &self.chosen
    }
}
