//! In which root cells the answers to each cell's queries were found, and so in which shards.
//!
//! Root cells, since they stay: where the rows of a root cell are, in which of its subcells and so in which shards,
//! is counted all the time and needs no sample.

use super::neighbors::NeighborList;
use super::Cells;

/// Neighbours of a row that say where answers to its cell's queries are: the k of most queries.
const NEIGHBORS_COUNTED: usize = 10;
/// Weight of where a cell's own rows are against where its neighbours are, in sum.
const OWN_SHARE: f32 = 0.5;
/// Neighbours that every shard of every cell is granted unseen.
const UNSEEN: f32 = 0.02;

/// Share of a root cell's rows that its subcells are granted evenly, whatever they hold: rows to come.
const EVEN_SHARE: f32 = 0.1;

/// For each cell: root cells, and how many answers to the cell's queries they hold. Ascending by root cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NeighborCounts {
    pub(crate) by_cell: Vec<Vec<(u16, u16)>>,
}

/// How the rows of each root cell are spread over shards: `(shard, share)`, the shares of a root cell sum to 1.
pub(super) type ShardShares = Vec<Vec<(u16, f32)>>;

impl NeighborCounts {
    /// Counts what was seen.
    ///
    /// * `number`: new number of each old cell.
    /// * `root_of`: root cell of each row, in the new order.
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

    /// These answers of the cells in `in_split_root`, and half as much what was known of them before; of the
    /// others what was known. All are as they are if nothing was.
    ///
    /// * `was`: older number of each cell.
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
                    Ok(at) => counts[at].1 = counts[at].1.saturating_add(count / 2),
                    Err(at) if count > 1 => counts.insert(at, (root, count / 2)),
                    Err(_) => {}
                }
            }
        }
        self
    }
}

impl Cells {
    /// Where the rows of every root cell are when the cells are cut this way.
    ///
    /// * `rows`: of each cell, any unit.
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

    /// `cells × shards`: how much of the answers to a cell's queries each shard holds when root cells are
    /// spread this way; each row's largest entry is 255.
    ///
    /// * `rows`: of each cell.
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
                // Of a root cell that holds nothing only the answers to its queries matter.
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

/// How often each root cell occurs, ascending.
fn count(mut cells: Vec<u16>) -> Vec<(u16, u16)> {
    cells.sort_unstable();
    let same = cells.chunk_by(|a, b| a == b);
    same.map(|run| (run[0], run.len().min(usize::from(u16::MAX)) as u16)).collect()
}
