//! In which cells the answers to each cell's queries were found, and so in which shards.

use super::neighbors::Seen;

/// Neighbours of a row that say where answers to its cell's queries are: the k of most queries.
const ANSWERS: usize = 10;
/// Weight of a cell's own shard against that of its neighbours' shards, in sum.
const OWN_SHARE: f32 = 0.5;
/// Neighbours that every shard of every cell is granted unseen.
const UNSEEN: f32 = 0.02;

/// For each cell: other cells, or itself, and how many answers to its queries they hold. Ascending
/// by cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answers {
    pub(crate) of_cells: Vec<Vec<(u16, u16)>>,
}

impl Answers {
    /// Counts what training saw.
    ///
    /// * `number`: new number of each old cell.
    /// * `cell_of`: old cell of each row.
    pub(super) fn of(seen: &[Seen], number: &[u32], cell_of: &[u32]) -> Answers {
        let mut cells: Vec<Vec<u16>> = vec![Vec::new(); number.len()];
        for query in seen {
            let rows = query.rows.iter().take(ANSWERS);
            let answers = rows.map(|&row| number[cell_of[row as usize] as usize] as u16);
            cells[number[query.cell as usize] as usize].extend(answers);
        }
        let count = |mut cells: Vec<u16>| {
            cells.sort_unstable();
            let same = cells.chunk_by(|a, b| a == b);
            same.map(|run| (run[0], run.len().min(usize::from(u16::MAX)) as u16)).collect()
        };
        Answers { of_cells: cells.into_iter().map(count).collect() }
    }

    /// `cells × shards`: how much of the answers to a cell's queries each shard holds when the cells
    /// are cut this way; each row's largest entry is 255.
    pub(crate) fn affinity(&self, shard_of_cell: &[u16], shards: u16) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.of_cells.len() * usize::from(shards));
        let mut row = vec![0.0f32; usize::from(shards)];
        for (answers, &own) in self.of_cells.iter().zip(shard_of_cell) {
            row.fill(UNSEEN);
            for &(cell, count) in answers {
                row[usize::from(shard_of_cell[usize::from(cell)])] += f32::from(count);
            }
            let total: f32 = row.iter().sum();
            row.iter_mut().for_each(|count| *count *= (1.0 - OWN_SHARE) / total);
            row[usize::from(own)] += OWN_SHARE;
            let largest = row.iter().copied().fold(0.0, f32::max);
            out.extend(row.iter().map(|share| (share / largest * 255.0).round() as u8));
        }
        out
    }
}
