//! The order of the rows of a part: which rows make a leaf.

use vstream_vector::{KMeans, KMeansSettings};

use super::pending::{CodedRows, Pending};
use crate::code::CodeKind;

/// Rows of a leaf in the order of ids, and most rows of one from clusters.
const LEAF_ROWS: usize = 512;
/// Rows of a cluster on average. A centroid takes three bytes per row at 384 dimensions.
const CLUSTER_ROWS: usize = 128;
/// Fewest rows of a leaf whose codes a merge keeps. Smaller leaves end, so that centroids stay few.
const KEPT_ROWS: usize = 64;
/// Rounds of k-means. Leaves only need to be better than none, because bounds make answers exact.
const ROUNDS: usize = 3;
/// Weight of equal sizes.
const BALANCE: f32 = 0.2;

/// Takes the leaves whose codes stay as they are out of `pending`.
///
/// The bounds of a code hold whichever other rows its leaf has, so a leaf may lose rows. Codes of one
/// bit are packed 32 rows at a time, so those leaves stay whole.
///
/// * `clustered`: rows from which a part is in the order of clusters: it keeps clusters alone.
pub(super) fn kept(pending: &mut Pending, kind: CodeKind, clustered: usize) -> Vec<CodedRows> {
    let in_clusters = pending.rows() >= clustered;
    let mut leaves = std::mem::take(&mut pending.coded);
    leaves.retain(|CodedRows { leaf, rows }| {
        let is_cluster = leaf.part_rows as usize >= clustered && !leaf.is_by_id;
        rows.len() >= KEPT_ROWS
            && (kind == CodeKind::Nibbles || rows.len() == leaf.rows())
            && (is_cluster || !in_clusters)
    });
    leaves
}

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
