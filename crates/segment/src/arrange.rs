//! Orders the rows of a leaf so that near rows lie in one block, because a query reads whole
//! blocks.
//!
//! 2-means halves a leaf, at a block boundary, until each half is one block. A query refines the
//! rows of a leaf near to it, and in this order they lie in fewer blocks than in order of arrival.

use vstream_store::codec::BLOCK_ROWS;
use vstream_vector::{kernels, KMeans, KMeansSettings};

use crate::rows::LeafRows;
use crate::yield_to_queries;

/// Steps of one 2-means: the halves need not be the best ones.
const ITERATIONS: usize = 4;

/// An order of the rows, each once, with near rows together. The same seed gives the same order.
///
/// Cost: O(n · dimension · log(blocks)); about 0.3 us per row at 128 dimensions.
pub fn arrange(rows: &LeafRows, seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..rows.len() as u32).collect();
    if rows.len() > BLOCK_ROWS {
        let dimension = rows.dimension;
        let mut vectors = vec![0.0f32; rows.len() * dimension];
        for (row, out) in vectors.chunks_exact_mut(dimension).enumerate() {
            rows.vector(row).read(out);
        }
        halve(&vectors, dimension, seed, &mut order);
    }
    order
}

fn halve(vectors: &[f32], dimension: usize, seed: u64, rows: &mut [u32]) {
    let blocks = rows.len().div_ceil(BLOCK_ROWS);
    if blocks < 2 {
        return;
    }
    yield_to_queries();
    let vector = |row: u32| &vectors[row as usize * dimension..][..dimension];
    let own: Vec<f32> = rows.iter().flat_map(|&row| vector(row)).copied().collect();
    let settings = KMeansSettings { clusters: 2, iterations: ITERATIONS, seed, balance: 0.0 };
    let parts = KMeans::train(&own, dimension, settings);
    let (first, second) = parts.centroids.split_at(dimension);
    let gap = |row: u32| {
        kernels::l2_squared(vector(row), first) - kernels::l2_squared(vector(row), second)
    };
    let mut order: Vec<(f32, u32)> = rows.iter().map(|&row| (gap(row), row)).collect();
    order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    rows.iter_mut().zip(&order).for_each(|(row, &(_, at))| *row = at);
    let natural = order.partition_point(|&(gap, _)| gap < 0.0);
    // Each half gets at least a quarter of the blocks, so that equal rows are not split off one
    // block at a time.
    let least = (blocks / 4).max(1);
    let cut = ((natural + BLOCK_ROWS / 2) / BLOCK_ROWS).clamp(least, blocks - least);
    let (near, far) = rows.split_at_mut(cut * BLOCK_ROWS);
    halve(vectors, dimension, seed, near);
    halve(vectors, dimension, seed, far);
}

#[cfg(test)]
mod tests {
    use vstream_index::{IndexRow, RowKey, VectorRef};
    use vstream_vector::{Element, SplitMix};

    use super::{arrange, LeafRows, BLOCK_ROWS};

    fn leaf(count: u64, vector: &dyn Fn(u64) -> [f32; 2]) -> LeafRows {
        let mut rows = LeafRows::new(Element::F32, 2);
        for id in 0..count {
            let key = RowKey { id, version: 1, code: 0, shard: 0 };
            rows.push(IndexRow::plain(key, VectorRef::F32(&vector(id))));
        }
        rows
    }

    #[test]
    fn every_row_is_there_once_whatever_the_rows_are() {
        let mut random = SplitMix(1);
        for count in [0, 1, 31, 32, 33, 64, 65, 384, 2_000] {
            for spread in [0, 1, 1_000] {
                let salt = random.next();
                let rows = leaf(count, &|id| {
                    let mut random = SplitMix(salt ^ id);
                    [0, 1].map(|_| random.below(spread + 1) as f32)
                });
                let order = arrange(&rows, 7);
                assert_eq!(order, arrange(&rows, 7), "the same seed, the same order");
                let mut sorted = order;
                sorted.sort_unstable();
                assert!(sorted.into_iter().eq(0..count as u32), "{count} rows, spread {spread}");
            }
        }
    }

    #[test]
    fn near_rows_share_blocks() {
        let group = |id: u64| id % 8;
        let rows = leaf(8 * BLOCK_ROWS as u64, &|id| {
            let angle = group(id) as f32;
            [100.0 * angle.cos() + (id % 3) as f32, 100.0 * angle.sin()]
        });
        let order = arrange(&rows, 3);
        let mut groups = 0;
        for block in order.chunks(BLOCK_ROWS) {
            let mut there: Vec<u64> = block.iter().map(|&row| group(u64::from(row))).collect();
            there.sort_unstable();
            there.dedup();
            groups += there.len();
        }
        assert!(groups <= 14, "{groups} groups in 8 blocks, 64 as they came");
    }
}
