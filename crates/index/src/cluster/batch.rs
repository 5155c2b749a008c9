//! Rows that move from one leaf to another.

use std::sync::Arc;

use super::leaf::Leaf;
use super::place::{Code, Incoming};
use super::Shared;
use crate::rows::{RowChunk, Sequence};

/// Rows that are appended together, which makes one new code block per chunk instead of one per row.
pub(super) struct Batch {
    rows: Vec<(Arc<RowChunk>, usize, Sequence)>,
    /// `rows × padded`.
    rotated: Vec<f32>,
    padded: usize,
    buffer: Vec<f32>,
}

impl Batch {
    pub(super) fn new(shared: &Shared) -> Batch {
        Batch {
            rows: Vec::new(),
            rotated: Vec::new(),
            padded: shared.rotation.padded(),
            buffer: vec![0.0; shared.index.dimension],
        }
    }

    /// The living rows of a leaf, with their own sequences.
    pub(super) fn of_leaf(shared: &Shared, leaf: &Leaf) -> Batch {
        let mut batch = Batch::new(shared);
        for chunk in leaf.chunks() {
            for lane in alive_lanes(&chunk.rows) {
                batch.push(shared, &chunk.rows, lane, chunk.rows.inserted(lane));
            }
        }
        batch
    }

    /// Adds a row that is visible from `inserted` on.
    pub(super) fn push(
        &mut self,
        shared: &Shared,
        rows: &Arc<RowChunk>,
        lane: usize,
        inserted: Sequence,
    ) {
        rows.vector(lane).read(&mut self.buffer);
        let start = self.rotated.len();
        self.rotated.resize(start + self.padded, 0.0);
        shared.rotation.apply(&self.buffer, &mut self.rotated[start..]);
        self.rows.push((rows.clone(), lane, inserted));
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn rotated(&self, row: usize) -> &[f32] {
        &self.rotated[row * self.padded..][..self.padded]
    }

    /// All rows after the rotation, `rows × padded`.
    pub(super) fn all_rotated(&self) -> &[f32] {
        &self.rotated
    }

    /// Ids of the rows.
    pub(super) fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        self.rows.iter().map(|(rows, lane, _)| rows.key(*lane).id)
    }

    /// The mean of the rows of each side, not rotated; `without` if there are no rows.
    pub(super) fn means(&self, sides: &[u8], without: &[f32]) -> Vec<Vec<f32>> {
        let Some(&last) = sides.iter().max() else { return vec![without.to_vec()] };
        let mut means = vec![vec![0.0f32; without.len()]; usize::from(last) + 1];
        let mut counts = vec![0.0f32; means.len()];
        let mut row = vec![0.0f32; without.len()];
        for ((rows, lane, _), &side) in self.rows.iter().zip(sides) {
            rows.vector(*lane).read(&mut row);
            means[usize::from(side)].iter_mut().zip(&row).for_each(|(m, &x)| *m += x);
            counts[usize::from(side)] += 1.0;
        }
        for (mean, count) in means.iter_mut().zip(counts) {
            mean.iter_mut().for_each(|m| *m /= count.max(1.0));
        }
        means
    }

    /// A row for `Cluster::append`, visible from `inserted` on or, if `None`, from its own sequence on.
    pub(super) fn incoming(&self, row: usize, inserted: Option<Sequence>) -> Incoming<'_> {
        let (rows, lane, own) = &self.rows[row];
        Incoming {
            rows,
            lane: *lane,
            inserted: inserted.unwrap_or(*own),
            code: Code::Rotated(self.rotated(row)),
        }
    }
}

/// Lanes of the living rows of a chunk.
pub(super) fn alive_lanes(rows: &RowChunk) -> impl Iterator<Item = usize> + '_ {
    (0..rows.len()).filter(|&lane| rows.is_alive(lane))
}
