//! In which cells the answers to each cell's queries were found, and so in which shards.

use super::neighbors::Seen;

/// Neighbours of a row that say where answers to its cell's queries are: the k of most queries.
const ANSWERS: usize = 10;
/// Weight of where a cell's own rows are against where its neighbours are, in sum.
const OWN_SHARE: f32 = 0.5;
/// Neighbours that every shard of every cell is granted unseen.
const UNSEEN: f32 = 0.02;

/// For each cell: other cells, or itself, and how many answers to its queries they hold. Ascending
/// by cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answers {
    pub(crate) of_cells: Vec<Vec<(u16, u16)>>,
    /// Likewise where the rows are to which a cell is the nearest; empty where that is the cell
    /// itself. Rows that came before a split are in the part that begins where the cell began.
    pub(crate) homes: Vec<Vec<(u16, u16)>>,
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
        let homes = vec![Vec::new(); number.len()];
        Answers { of_cells: cells.into_iter().map(count).collect(), homes }
    }

    /// The same, with the homes of rows.
    ///
    /// * `nearest`: the cell that each row would be placed in.
    /// * `homes`: the cell that it is in.
    pub(super) fn with_homes(mut self, nearest: &[u32], homes: &[u32]) -> Answers {
        let mut cells: Vec<Vec<u16>> = vec![Vec::new(); self.of_cells.len()];
        for (&cell, &home) in nearest.iter().zip(homes) {
            cells[cell as usize].push(home as u16);
        }
        for (cell, rows) in cells.into_iter().enumerate() {
            let away = rows.iter().any(|&home| usize::from(home) != cell);
            self.homes[cell] = if away { count(rows) } else { Vec::new() };
        }
        self
    }

    /// These answers of the cells in `parted`, and half as much what was known of them before; of the
    /// others what was known. All are as they are if nothing was.
    ///
    /// * `now`: new number of each older cell; its first part's, if it was split.
    /// * `was`: older number of each cell.
    pub(super) fn and_older(
        mut self,
        older: &Answers,
        now: &[u16],
        was: &[usize],
        parted: &[bool],
    ) -> Answers {
        if older.of_cells.is_empty() {
            return self;
        }
        for ((answers, &was), &parted) in self.of_cells.iter_mut().zip(was).zip(parted) {
            let known = older.of_cells[was].iter();
            let known = known.map(|&(cell, count)| (now[usize::from(cell)], count));
            if !parted {
                *answers = known.collect();
                continue;
            }
            for (cell, count) in known {
                match answers.binary_search_by_key(&cell, |answer| answer.0) {
                    Ok(at) => answers[at].1 = answers[at].1.saturating_add(count / 2),
                    Err(at) if count > 1 => answers.insert(at, (cell, count / 2)),
                    Err(_) => {}
                }
            }
        }
        self
    }

    /// `cells × shards`: how much of the answers to a cell's queries each shard holds when the cells
    /// are cut this way; each row's largest entry is 255.
    pub(crate) fn affinity(&self, shard_of_cell: &[u16], shards: u16) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.of_cells.len() * usize::from(shards));
        let mut row = vec![0.0f32; usize::from(shards)];
        let all = self.of_cells.iter().zip(&self.homes).zip(shard_of_cell);
        for ((answers, homes), &own) in all {
            row.fill(UNSEEN);
            for &(cell, count) in answers {
                row[usize::from(shard_of_cell[usize::from(cell)])] += f32::from(count);
            }
            let total: f32 = row.iter().sum();
            row.iter_mut().for_each(|count| *count *= (1.0 - OWN_SHARE) / total);
            if homes.is_empty() {
                row[usize::from(own)] += OWN_SHARE;
            }
            let total: f32 = homes.iter().map(|&(_, count)| f32::from(count)).sum();
            for &(cell, count) in homes {
                let share = OWN_SHARE * f32::from(count) / total;
                row[usize::from(shard_of_cell[usize::from(cell)])] += share;
            }
            let largest = row.iter().copied().fold(0.0, f32::max);
            out.extend(row.iter().map(|share| (share / largest * 255.0).round() as u8));
        }
        out
    }
}

/// How often each cell occurs, ascending by cell.
fn count(mut cells: Vec<u16>) -> Vec<(u16, u16)> {
    cells.sort_unstable();
    let same = cells.chunk_by(|a, b| a == b);
    same.map(|run| (run[0], run.len().min(usize::from(u16::MAX)) as u16)).collect()
}
