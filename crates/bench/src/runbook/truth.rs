//! Exact answers over the live set, and scores against them.
//!
//! 1. Live rows are gathered in blocks that stay in the cache.
//! 2. Each query is compared with a whole block by one kernel call.
//! 3. An answered tag counts if it is a true neighbour, or not farther than the k-th one by more
//!    than 1e-6, as in the public benchmark: rows at equal distance are equally right.

use vstream_vector::{kernels, Metric, Neighbor, TopK};

use super::{LiveSet, Matrix};

/// Rows of one block: 200 kB at 100 dimensions.
const BLOCK: usize = 512;
/// Distances this close, per unit of `1 + |distance|`, are a tie.
const TIE: f32 = 1e-6;
/// Difference of a reported distance from the true one, per unit of `1 + |distance|`, that
/// rounding explains.
const ROUNDING: f32 = 1e-3;

/// The data that answers are judged by: rows and queries, normalised under cosine.
pub(crate) struct Ground<'a> {
    pub(crate) metric: Metric,
    pub(crate) base: &'a Matrix,
}

/// What one query's answer is worth.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Score {
    /// Share of the true neighbours that were found; 1 if nothing lives.
    pub(crate) recall: f64,
    /// Answered tags that do not live.
    pub(super) dead: usize,
    /// Answered tags whose distance is not that of the row they have now.
    pub(super) stale: usize,
}

impl Ground<'_> {
    /// The `k` nearest live tags of each query, nearest first.
    ///
    /// Cost: O(queries · live · dimension); the distances of one block are the only buffer.
    pub(crate) fn nearest(
        &self,
        live: &LiveSet,
        queries: &[&[f32]],
        k: usize,
    ) -> Vec<Vec<Neighbor>> {
        let mut tops: Vec<TopK> = queries.iter().map(|_| TopK::new(k)).collect();
        let mut tags = Vec::with_capacity(BLOCK);
        let mut block: Vec<f32> = Vec::with_capacity(BLOCK * self.base.dimension);
        let mut all = live.iter();
        loop {
            tags.clear();
            block.clear();
            for (tag, row) in all.by_ref().take(BLOCK) {
                tags.push(tag);
                block.extend_from_slice(self.base.row(row));
            }
            if tags.is_empty() {
                break;
            }
            let mut distances = vec![0.0; tags.len()];
            for (query, top) in queries.iter().zip(&mut tops) {
                self.distances(query, &block, &mut distances);
                for (&id, &distance) in tags.iter().zip(&distances) {
                    if distance <= top.bound() {
                        top.offer(Neighbor { distance, id, version: 0 });
                    }
                }
            }
        }
        let sorted = |mut top: TopK| {
            let mut rows = Vec::new();
            top.drain_sorted(&mut rows);
            rows
        };
        tops.into_iter().map(sorted).collect()
    }

    /// Judges one answer; `truth` is what [`Ground::nearest`] says of the same query and `live`.
    pub(crate) fn score(
        &self,
        live: &LiveSet,
        query: &[f32],
        truth: &[Neighbor],
        answer: &[Neighbor],
    ) -> Score {
        let Some(last) = truth.last() else {
            return Score { recall: 1.0, dead: answer.len(), stale: 0 };
        };
        let mut score = Score::default();
        let mut hits = 0;
        for found in answer {
            let Some(row) = live.row(found.id) else {
                score.dead += 1;
                continue;
            };
            let mut distance = [0.0];
            self.distances(query, self.base.row(row), &mut distance);
            let distance = distance[0];
            let error = (distance - found.distance).abs();
            score.stale += usize::from(error > ROUNDING * (1.0 + distance.abs()));
            // One row and a block of rows round differently, so a true neighbour is known by name.
            let is_tied = distance <= last.distance + TIE * (1.0 + last.distance.abs());
            hits += usize::from(is_tied || truth.iter().any(|row| row.id == found.id));
        }
        score.recall = hits.min(truth.len()) as f64 / truth.len() as f64;
        score
    }

    fn distances(&self, query: &[f32], rows: &[f32], out: &mut [f32]) {
        match self.metric {
            Metric::L2 => kernels::l2_squared_batch(query, rows, out),
            Metric::Cosine => {
                kernels::inner_product_batch(query, rows, out);
                out.iter_mut().for_each(|x| *x = 1.0 - *x);
            }
            Metric::InnerProduct => {
                kernels::inner_product_batch(query, rows, out);
                out.iter_mut().for_each(|x| *x = -*x);
            }
        }
    }
}
