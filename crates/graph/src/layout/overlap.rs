//! The overlap ratio of a layout.

use crate::build::Graph;

/// OR(G): the mean over all rows of `|(B(u) \ {u}) ∩ N(u)| / (|B(u)| − 1)`, with `B(u)` the rows of
/// the block of `u` and `N(u)` its neighbours; 0 for a row alone in its block. Cost: O(edges).
///
/// * `order`: the rows by place; every `capacity` of them are a block.
pub(crate) fn overlap(graph: &Graph, order: &[u32], capacity: usize) -> f64 {
    let mut block_of = vec![0u32; graph.len()];
    for (block, rows) in (0..).zip(order.chunks(capacity)) {
        rows.iter().for_each(|&row| block_of[row as usize] = block);
    }
    let mut sum = 0.0;
    for (block, rows) in (0..).zip(order.chunks(capacity)).filter(|(_, rows)| rows.len() > 1) {
        for &row in rows {
            let beside = graph.neighbours(row).iter();
            let beside = beside.filter(|&&to| to != row && block_of[to as usize] == block).count();
            sum += beside as f64 / (rows.len() - 1) as f64;
        }
    }
    sum / graph.len().max(1) as f64
}
