//! Block neighbour padding.

use crate::build::Graph;

/// Each row that has no place yet, then its neighbours that have none, until the block is full.
pub(super) fn order(graph: &Graph, capacity: usize) -> Vec<u32> {
    let mut order = Vec::with_capacity(graph.len());
    let mut placed = vec![false; graph.len()];
    let mut place = |row: u32, order: &mut Vec<u32>| {
        if !std::mem::replace(&mut placed[row as usize], true) {
            order.push(row);
            return true;
        }
        false
    };
    for row in 0..graph.len() as u32 {
        if !place(row, &mut order) {
            continue;
        }
        for &to in graph.neighbours(row) {
            if order.len().is_multiple_of(capacity) {
                break;
            }
            place(to, &mut order);
        }
    }
    order
}
