//! Step 1: divides the sample by a balanced tree. The means of its leaves are the centroids.
//!
//! 1. Split the rows at the median of their projection on the principal direction.
//! 2. Improve the split by balanced 2-means: project the rows on the line through the two means and
//!    split at the median, some rounds.
//! 3. Recurse. Each side gets leaves in proportion to its rows.
//! 4. Refine the means by a few rounds of Lloyd's algorithm over all leaves. The sizes become
//!    slightly unequal, and the cells fit the data better.

use super::nearest::measure;
use vstream_vector::{kernels, SplitMix};

/// Rounds of power iteration for the principal direction.
const POWER_ROUNDS: usize = 12;
/// Rounds of balanced 2-means in one split.
const SPLIT_ROUNDS: usize = 8;
/// Rounds of Lloyd's algorithm over all leaves.
const LLOYD_ROUNDS: usize = 3;

/// A view of `n × dimension` values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows<'a> {
    pub(super) values: &'a [f32],
    pub(super) dimension: usize,
}

impl<'a> Rows<'a> {
    pub(super) fn len(&self) -> usize {
        self.values.len() / self.dimension
    }

    #[inline]
    pub(super) fn row(&self, index: u32) -> &'a [f32] {
        &self.values[index as usize * self.dimension..][..self.dimension]
    }

    /// Mean of some rows. It is summed in double precision, so it is finite if the rows are.
    fn mean(&self, indices: &[u32]) -> Vec<f32> {
        let mut sum = vec![0.0f64; self.dimension];
        for &index in indices {
            sum.iter_mut().zip(self.row(index)).for_each(|(s, &x)| *s += f64::from(x));
        }
        sum.iter().map(|s| (s / indices.len().max(1) as f64) as f32).collect()
    }
}

/// Computes the centroids of `cells` cells of `rows`, row-major, and the cell of each row.
/// `cells ≤ rows`.
///
/// Cost: O(rows · dimension · (log cells + cells)), nearly all of it in Lloyd's algorithm.
pub(super) fn cluster(rows: Rows, cells: usize, random: &mut SplitMix) -> (Vec<f32>, Vec<u32>) {
    let mut centroids = Vec::with_capacity(cells * rows.dimension);
    let mut order: Vec<u32> = (0..rows.len() as u32).collect();
    split(rows, &mut order, cells, random, &mut centroids);
    let mut cell_of = assign(rows, &centroids);
    for _ in 0..LLOYD_ROUNDS {
        update_centroids(rows, &cell_of, &mut centroids);
        cell_of = assign(rows, &centroids);
    }
    (centroids, cell_of)
}

/// Appends the means of `leaves` leaves of the rows `indices`.
fn split(
    rows: Rows,
    indices: &mut [u32],
    leaves: usize,
    random: &mut SplitMix,
    out: &mut Vec<f32>,
) {
    if leaves == 1 {
        out.extend(rows.mean(indices));
        return;
    }
    let left_leaves = leaves / 2;
    let left_rows = indices.len() * left_leaves / leaves;
    let mut direction = principal(rows, indices, random);
    partition(rows, indices, left_rows, &direction);
    for _ in 0..SPLIT_ROUNDS {
        let (left, right) = indices.split_at(left_rows);
        let (left, right) = (rows.mean(left), rows.mean(right));
        let next: Vec<f32> = right.iter().zip(&left).map(|(r, l)| r - l).collect();
        if next == direction {
            break;
        }
        direction = next;
        partition(rows, indices, left_rows, &direction);
    }
    let (left, right) = indices.split_at_mut(left_rows);
    split(rows, left, left_leaves, random, out);
    split(rows, right, leaves - left_leaves, random, out);
}

/// Moves the `left_rows` rows that lie lowest along `direction` to the front. Ties go by row
/// number.
fn partition(rows: Rows, indices: &mut [u32], left_rows: usize, direction: &[f32]) {
    let mut keys: Vec<(f32, u32)> = indices
        .iter()
        .map(|&index| (kernels::inner_product(rows.row(index), direction), index))
        .collect();
    let order = |a: &(f32, u32), b: &(f32, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
    keys.select_nth_unstable_by(left_rows, order);
    indices.iter_mut().zip(&keys).for_each(|(index, key)| *index = key.1);
}

/// Direction of the largest variance of some rows, of length 1 or zero.
fn principal(rows: Rows, indices: &[u32], random: &mut SplitMix) -> Vec<f32> {
    let mean = rows.mean(indices);
    let mut direction: Vec<f32> = (0..rows.dimension).map(|_| random.normal()).collect();
    for _ in 0..POWER_ROUNDS {
        let mut next = vec![0.0f64; rows.dimension];
        let shift = kernels::inner_product(&mean, &direction);
        for &index in indices {
            let row = rows.row(index);
            let along = f64::from(kernels::inner_product(row, &direction) - shift);
            for ((n, &x), &m) in next.iter_mut().zip(row).zip(&mean) {
                *n += along * f64::from(x - m);
            }
        }
        let norm = next.iter().map(|x| x * x).sum::<f64>().sqrt();
        if !(norm > 0.0 && norm.is_finite()) {
            break;
        }
        direction = next.iter().map(|x| (x / norm) as f32).collect();
    }
    direction
}

/// The nearest centroid of each row.
fn assign(rows: Rows, centroids: &[f32]) -> Vec<u32> {
    let mut distances = Vec::new();
    let mut nearest = |index| measure(centroids, rows.row(index), &mut distances).0 as u32;
    (0..rows.len() as u32).map(&mut nearest).collect()
}

/// Moves each centroid to the mean of its rows. A centroid without rows stays.
fn update_centroids(rows: Rows, cell_of: &[u32], centroids: &mut [f32]) {
    let dimension = rows.dimension;
    let mut sums = vec![0.0f64; centroids.len()];
    let mut counts = vec![0u32; centroids.len() / dimension];
    for (index, &cell) in cell_of.iter().enumerate() {
        let sum = &mut sums[cell as usize * dimension..][..dimension];
        sum.iter_mut().zip(rows.row(index as u32)).for_each(|(s, &x)| *s += f64::from(x));
        counts[cell as usize] += 1;
    }
    for ((centroid, sum), &count) in
        centroids.chunks_exact_mut(dimension).zip(sums.chunks_exact(dimension)).zip(&counts)
    {
        if count > 0 {
            for (c, s) in centroid.iter_mut().zip(sum) {
                *c = (s / f64::from(count)) as f32;
            }
        }
    }
}
