//! Step 2: finds the nearest rows of every row and builds the graph of cells that share neighbours.

use super::nearest::measure;
use super::tree::Rows;
use crate::space::Space;
use vstream_vector::{Neighbor, TopK};

/// Neighbours of each row from which the graph is built. The sample is sparse: its 20 nearest rows
/// represent some hundreds of the stream.
pub(super) const GRAPH_NEIGHBORS: usize = 20;
/// Each row is compared with at least this many rows of its nearest cells.
const CANDIDATES: usize = 1024;

/// The nearest neighbours of one row.
#[derive(Clone, Debug)]
pub(super) struct NeighborList {
    /// Cell nearest to the row's query form.
    pub(super) cell: u32,
    /// Nearest other rows, nearest first.
    pub(super) rows: Vec<u32>,
}

/// The rows to search, by cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClusteredRows<'a> {
    pub(super) rows: Rows<'a>,
    /// Query forms of the same rows.
    pub(super) queries: Rows<'a>,
    /// `cells × dimension`, row-major.
    pub(super) centroids: &'a [f32],
    /// Cell of each row.
    pub(super) cell_of: &'a [u32],
}

/// Finds the approximate nearest rows of each of `query_rows` among the rows of its nearest cells.
///
/// Cost: O(query rows · (cells + candidates) · dimension). The candidates are about 1,024 rows, and
/// at least the rows of one cell.
pub(super) fn search_clusters(
    space: &Space,
    clustered: &ClusteredRows,
    query_rows: impl ExactSizeIterator<Item = u32>,
) -> Vec<NeighborList> {
    let ClusteredRows { rows, queries, centroids, cell_of } = *clustered;
    let cells = centroids.len() / rows.dimension;
    let mut members = vec![Vec::new(); cells];
    for (row, &cell) in cell_of.iter().enumerate() {
        members[cell as usize].push(row as u32);
    }
    let (mut distances, mut order) = (Vec::new(), Vec::with_capacity(cells));
    let mut top = TopK::new(GRAPH_NEIGHBORS);
    let mut found = Vec::new();
    let mut lists = Vec::with_capacity(query_rows.len());
    for row in query_rows {
        let query = queries.row(row);
        let (cell, _) = measure(centroids, query, &mut distances);
        order.clear();
        order.extend(0..cells);
        // Sorts only the nearest cells: four times the mean number of cells that holds the
        // candidates.
        let front = (4 * CANDIDATES * cells / rows.len()).clamp(1, cells);
        let by_distance = |a: &usize, b: &usize| distances[*a].total_cmp(&distances[*b]);
        if front < cells {
            order.select_nth_unstable_by(front, by_distance);
        }
        order[..front].sort_unstable_by(by_distance);
        top.reset(GRAPH_NEIGHBORS);
        let mut compared = 0;
        for &near in &order[..front] {
            for &other in members[near].iter().filter(|&&other| other != row) {
                offer(&mut top, space.distance(query, rows.row(other)), other);
            }
            compared += members[near].len();
            if compared >= CANDIDATES {
                break;
            }
        }
        top.drain_sorted(&mut found);
        lists.push(NeighborList {
            cell: cell as u32,
            rows: found.iter().map(|n| n.id as u32).collect(),
        });
    }
    lists
}

/// Finds the exact `count` nearest of all `rows` to a query form, nearest first.
pub(super) fn search_exact(space: &Space, rows: Rows, query: &[f32], count: usize) -> Vec<u32> {
    let mut top = TopK::new(count);
    for row in 0..rows.len() as u32 {
        offer(&mut top, space.distance(query, rows.row(row)), row);
    }
    let mut found = Vec::new();
    top.drain_sorted(&mut found);
    found.iter().map(|n| n.id as u32).collect()
}

#[inline]
fn offer(top: &mut TopK, distance: f32, row: u32) {
    top.offer(Neighbor { distance, id: u64::from(row), version: 0 });
}

/// An undirected graph of cells: for each cell its edges as `(other end, weight)`, without edges to
/// itself. The weight of an edge is the number of neighbours that its two cells share.
pub(super) type Edges = Vec<Vec<(u32, f32)>>;

/// Counts, for each query, an edge from its nearest cell to the cell of each neighbour.
pub(super) fn edges(lists: &[NeighborList], cell_of: &[u32], cells: usize) -> Edges {
    let mut ends: Vec<(u32, u32)> = Vec::with_capacity(lists.len() * 2 * GRAPH_NEIGHBORS);
    for query in lists {
        for &row in &query.rows {
            let cell = cell_of[row as usize];
            if cell != query.cell {
                ends.push((query.cell, cell));
                ends.push((cell, query.cell));
            }
        }
    }
    ends.sort_unstable();
    let mut edges = vec![Vec::new(); cells];
    for same in ends.chunk_by(|a, b| a == b) {
        edges[same[0].0 as usize].push((same[0].1, same.len() as f32));
    }
    edges
}
