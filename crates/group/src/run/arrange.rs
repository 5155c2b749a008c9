//! The order of the rows of a part: which rows make a leaf.

use vstream_vector::{KMeans, KMeansSettings};

/// Rows of a leaf in the order of ids, and most rows of one from clusters.
const LEAF_ROWS: usize = 512;
/// Rows of a cluster on average. A centroid takes three bytes per row at 384 dimensions.
const CLUSTER_ROWS: usize = 128;
/// Rounds of k-means. Leaves only need to be better than none, because bounds make answers exact.
const ROUNDS: usize = 3;
/// Weight of equal sizes.
const BALANCE: f32 = 0.2;

/// Cuts rows `0..n` into leaves in their order.
pub(crate) fn in_order(n: usize) -> Vec<Vec<u32>> {
    let rows: Vec<u32> = (0..n as u32).collect();
    rows.chunks(LEAF_ROWS).map(<[u32]>::to_vec).collect()
}

/// Makes leaves of rows that lie near each other; rows of a leaf ascend.
///
/// * `rows`: rotated, `n × padded`.
///
/// Cost: about 5 µs per row at 384 dimensions and 16,384 rows.
pub(crate) fn by_cluster(rows: &[f32], padded: usize, seed: u64) -> Vec<Vec<u32>> {
    let clusters = (rows.len() / padded).div_ceil(CLUSTER_ROWS);
    let settings = KMeansSettings { clusters, iterations: ROUNDS, seed, balance: BALANCE };
    let trained = KMeans::train(rows, padded, settings);
    let mut leaves = vec![Vec::new(); trained.sizes.len()];
    for (row, &cluster) in trained.assignment.iter().enumerate() {
        leaves[cluster as usize].push(row as u32);
    }
    leaves.iter().flat_map(|leaf| leaf.chunks(LEAF_ROWS).map(<[u32]>::to_vec)).collect()
}
