//! Edges in both directions.

use crate::build::Graph;

/// For each row its neighbours and the rows whose neighbour it is; twice those that are both.
pub(super) struct Mutual {
    starts: Vec<usize>,
    ends: Vec<u32>,
}

impl Mutual {
    pub(super) fn of(graph: &Graph) -> Mutual {
        let rows = graph.len() as u32;
        let mut starts = vec![0usize; graph.len() + 1];
        for row in 0..rows {
            starts[row as usize + 1] += graph.neighbours(row).len();
            graph.neighbours(row).iter().for_each(|&to| starts[to as usize + 1] += 1);
        }
        for row in 0..graph.len() {
            starts[row + 1] += starts[row];
        }
        let mut free = starts.clone();
        let mut ends = vec![0; starts[graph.len()]];
        let mut put = |row: u32, end: u32| {
            ends[free[row as usize]] = end;
            free[row as usize] += 1;
        };
        for row in 0..rows {
            for &to in graph.neighbours(row) {
                put(row, to);
                put(to, row);
            }
        }
        Mutual { starts, ends }
    }

    pub(super) fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    #[inline]
    pub(super) fn of_row(&self, row: u32) -> &[u32] {
        &self.ends[self.starts[row as usize]..self.starts[row as usize + 1]]
    }
}
