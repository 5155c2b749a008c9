//! Makes every row reachable from the entry.

use vstream_vector::Number;

use super::{Graph, Greedy};
use crate::vectors::{Vectors, Wide};

/// For each row the row before it on a shortest path from the entry; itself for the entry.
/// `u32::MAX` if no path leads to it. Cost: O(edges).
pub(crate) fn reachable(graph: &Graph) -> Vec<u32> {
    let mut before = vec![u32::MAX; graph.len()];
    if graph.len() > 0 {
        before[graph.entry as usize] = graph.entry;
        walk(graph, graph.entry, &mut before);
    }
    before
}

/// Marks what can be reached from `start` and was not marked before.
fn walk(graph: &Graph, start: u32, before: &mut [u32]) {
    let mut queue = std::collections::VecDeque::from([start]);
    while let Some(row) = queue.pop_front() {
        for &to in graph.neighbours(row) {
            if before[to as usize] == u32::MAX {
                before[to as usize] = row;
                queue.push_back(to);
            }
        }
    }
}

/// Adds an edge to every row that no path reaches, from a reached row near to it: in a free place,
/// or in the place of an edge on which no path of the walk depends.
///
/// Cost: one search per such row; usually there are none. The degree must be at least 2, so that a
/// place can always be found.
pub(crate) fn connect<N: Number>(graph: &mut Graph, vectors: &Vectors<N>, width: usize) {
    let mut before = reachable(graph);
    let lost: Vec<u32> = (0..).zip(&before).filter(|(_, &b)| b == u32::MAX).map(|x| x.0).collect();
    if lost.is_empty() {
        return;
    }
    let mut greedy = Greedy::new(graph.len());
    let mut wide = Wide::default();
    for row in lost {
        if before[row as usize] != u32::MAX {
            continue;
        }
        vectors.widen(row, &mut wide);
        greedy.search(graph, vectors, &wide, (width, &[graph.entry]));
        let near: Vec<u32> = greedy.nearest().map(|near| near.row).collect();
        let anywhere = (0..graph.len() as u32).filter(|&at| before[at as usize] != u32::MAX);
        let from = near.into_iter().chain(anywhere).find(|&at| lead(graph, at, row, &before));
        let from = from.expect("a tree has fewer edges than a graph of degree two has places");
        before[row as usize] = from;
        walk(graph, row, &mut before);
    }
}

/// Makes an edge from `at` to `row`; false if every place of `at` is needed.
fn lead(graph: &mut Graph, at: u32, row: u32, before: &[u32]) -> bool {
    let mut neighbours = graph.neighbours(at).to_vec();
    if neighbours.len() < graph.degree() {
        neighbours.push(row);
    } else {
        // The neighbours lie nearest first, so the last ones are missed the least.
        let is_spare = |&to: &u32| before[to as usize] != at;
        let Some(spare) = neighbours.iter().rposition(is_spare) else { return false };
        neighbours[spare] = row;
    }
    graph.set(at, &neighbours);
    true
}
