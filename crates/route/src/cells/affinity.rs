//! Counts where the neighbours of each cell's queries are: first by root cell, then by shard.
//!
//! The counts are kept by root cell because root cells never change. The job always counts the rows
//! of each subcell, so the share of a root cell's rows in each shard needs no sample.

use super::neighbors::NeighborList;
use super::Cells;

/// Neighbours of each row that are counted. Most queries ask for this many.
const NEIGHBORS_COUNTED: usize = 10;
/// Weight of the shards of a cell's own rows; its neighbours' shards have the rest.
const OWN_SHARE: f32 = 0.5;
/// Neighbours that every shard is granted although none was seen.
const UNSEEN: f32 = 0.02;

/// Share of a root cell's rows that is spread evenly over its subcells, for rows that will come.
const EVEN_SHARE: f32 = 0.1;

/// For each cell, the root cells that hold neighbours of its queries, with their number. Ascending
/// by root cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NeighborCounts {
    pub(crate) by_cell: Vec<Vec<(u16, u16)>>,
}

/// For each root cell, how its rows are spread over shards, as `(shard, share)`. The shares of one
/// root cell add up to 1.
pub(super) type ShardShares = Vec<Vec<(u16, f32)>>;

impl NeighborCounts {
    /// Counts the neighbours of these lists.
    ///
    /// * `number`: new number of each old cell.
    /// * `root_of`: the root cell of each row, in the new order.
    pub(super) fn new(
        lists: &[NeighborList],
        number: &[u32],
        root_of: impl Fn(u32) -> u16,
    ) -> NeighborCounts {
        let mut cells: Vec<Vec<u16>> = vec![Vec::new(); number.len()];
        for query in lists {
            let counts = query.rows.iter().take(NEIGHBORS_COUNTED).map(|&row| root_of(row));
            cells[number[query.cell as usize] as usize].extend(counts);
        }
        NeighborCounts { by_cell: cells.into_iter().map(count).collect() }
    }

    /// Merges new counts with older ones. A cell of a split root cell gets its new counts and half
    /// the older ones; any other cell gets the older ones. If there are no older counts, the new
    /// ones stay as they are.
    ///
    /// * `was`: number that each cell has in `older`.
    pub(super) fn merged_with(
        mut self,
        older: &NeighborCounts,
        was: &[usize],
        in_split_root: &[bool],
    ) -> NeighborCounts {
        if older.by_cell.is_empty() {
            return self;
        }
        for ((counts, &was), &in_split_root) in self.by_cell.iter_mut().zip(was).zip(in_split_root)
        {
            let known = &older.by_cell[was];
            if !in_split_root {
                counts.clone_from(known);
                continue;
            }
            for &(root, count) in known {
                match counts.binary_search_by_key(&root, |answer| answer.0) {
                    Ok(index) => counts[index].1 = counts[index].1.saturating_add(count / 2),
                    Err(index) if count > 1 => counts.insert(index, (root, count / 2)),
                    Err(_) => {}
                }
            }
        }
        self
    }
}

impl Cells {
    /// Computes how the rows of every root cell are spread over shards.
    ///
    /// * `rows`: rows of each cell, in any unit.
    pub(super) fn shard_shares(&self, shard_of_cell: &[u16], rows: &[f64]) -> ShardShares {
        let shares_of_root = |root| {
            let cells = self.cells_of(root);
            let held: f64 = rows[cells.clone()].iter().sum();
            let even = 1.0 / cells.len() as f32;
            let share = |cell: usize| match held > 0.0 {
                true => EVEN_SHARE * even + (1.0 - EVEN_SHARE) * (rows[cell] / held) as f32,
                false => even,
            };
            cells.map(|cell| (shard_of_cell[cell], share(cell))).collect()
        };
        (0..self.root_count()).map(shares_of_root).collect()
    }

    /// Computes `affinity`, `cells × shards`: how many neighbours of a cell's queries each shard
    /// holds when root cells are spread this way. The largest entry of each row is 255.
    ///
    /// * `rows`: rows of each cell, in any unit.
    pub(super) fn affinity(&self, shard_shares: &ShardShares, rows: &[f64]) -> Vec<u8> {
        let held = |root| rows[self.cells_of(root)].iter().any(|&rows| rows > 0.0);
        let shards = usize::from(self.shards);
        let mut out = Vec::with_capacity(self.len() * shards);
        let mut row = vec![0.0f32; shards];
        for root in 0..self.root_count() {
            for counts in &self.neighbor_counts.by_cell[self.cells_of(root)] {
                row.fill(UNSEEN);
                for &(answer, count) in counts {
                    for &(shard, share) in &shard_shares[usize::from(answer)] {
                        row[usize::from(shard)] += f32::from(count) * share;
                    }
                }
                let total: f32 = row.iter().sum();
                row.iter_mut().for_each(|count| *count *= (1.0 - OWN_SHARE) / total);
                // An empty root cell has no rows of its own to find, only neighbours in other root
                // cells.
                for &(shard, share) in shard_shares[root].iter().filter(|_| held(root)) {
                    row[usize::from(shard)] += OWN_SHARE * share;
                }
                let largest = row.iter().copied().fold(0.0, f32::max);
                out.extend(row.iter().map(|share| (share / largest * 255.0).round() as u8));
            }
        }
        out
    }
}

/// Counts how often each root cell occurs, ascending by root cell.
fn count(mut cells: Vec<u16>) -> Vec<(u16, u16)> {
    cells.sort_unstable();
    let same = cells.chunk_by(|a, b| a == b);
    same.map(|run| (run[0], run.len().min(usize::from(u16::MAX)) as u16)).collect()
}
