//! The exact answers after every epoch, by brute force over the rows that live then.
//!
//! 1. A scan of all live rows gives each query its 64 nearest: every live row nearer than the last of
//!    them is in the list.
//! 2. Rows that end leave the lists; a row that comes enters those whose last row it is nearer than.
//! 3. Where fewer than 10 are left the query scans all live rows again.

use vstream_vector::{kernels, Neighbor, TopK};

use super::{Plan, RowFile, K};
use crate::runbook::{Matrix, RunbookError};

/// Nearest rows that a scan notes.
const NOTED: usize = 64;

/// The true ten of each query at one moment: (row, distance), nearest first.
pub type Truth = Vec<Vec<(u32, f32)>>;

/// The nearest live rows of one query.
struct Near {
    /// Every live row nearer than this is in `rows`.
    bound: f32,
    /// Nearest first.
    rows: Vec<(u32, f32)>,
}

/// Visits the truth of `queries` at the beginning and after every epoch of `plan`.
///
/// Memory: all rows of the plan, as `f32`. Cost: queries x rows distances, and again per epoch queries
/// x replaced rows. Errors: those of reading; `BadRequest` for queries of another dimension.
pub fn visit(
    data: &RowFile,
    plan: &Plan,
    queries: &Matrix,
    seen: &mut dyn FnMut(&Truth) -> Result<(), RunbookError>,
) -> Result<(), RunbookError> {
    if queries.dimension != data.dimension() {
        return Err(RunbookError::BadRequest(format!(
            "The rows have {} dimensions, the queries {}. Give --queries the file that belongs to \
             --data.",
            data.dimension(),
            queries.dimension
        )));
    }
    let total = plan.first.len() + plan.epochs.iter().map(|(_, came)| came.len()).sum::<usize>();
    let mut rows =
        Matrix { dimension: data.dimension(), values: vec![0.0; total * data.dimension()] };
    for (at, row) in rows.values.chunks_exact_mut(data.dimension()).enumerate() {
        data.read(at, row)?;
    }
    let mut is_live = vec![false; total];
    plan.first.iter().for_each(|&row| is_live[row as usize] = true);
    let mut every = scanned(&rows, queries, &is_live);
    seen(&answers(&every))?;
    for (ended, came) in &plan.epochs {
        ended.iter().for_each(|&row| is_live[row as usize] = false);
        came.iter().for_each(|&row| is_live[row as usize] = true);
        for (query, near) in every.iter_mut().enumerate() {
            near.rows.retain(|&(row, _)| is_live[row as usize]);
            for &row in came {
                let distance = kernels::l2_squared(queries.row(query), rows.row(row as usize));
                near.offer(row, distance);
            }
            if near.rows.len() < K && near.bound < f32::INFINITY {
                let one =
                    Matrix { dimension: queries.dimension, values: queries.row(query).to_vec() };
                *near = scanned(&rows, &one, &is_live).remove(0);
            }
        }
        seen(&answers(&every))?;
    }
    Ok(())
}

impl Near {
    fn offer(&mut self, row: u32, distance: f32) {
        if distance < self.bound {
            let at = self.rows.partition_point(|other| other.1 <= distance);
            self.rows.insert(at, (row, distance));
            if self.rows.len() > 2 * NOTED {
                self.rows.truncate(NOTED);
                self.bound = self.rows[NOTED - 1].1;
            }
        }
    }
}

fn answers(every: &[Near]) -> Truth {
    every.iter().map(|near| near.rows[..near.rows.len().min(K)].to_vec()).collect()
}

fn scanned(rows: &Matrix, queries: &Matrix, is_live: &[bool]) -> Vec<Near> {
    // Rows that stay in the cache while all queries pass over them.
    const TOGETHER: usize = 1024;
    let mut tops: Vec<TopK> = (0..queries.rows()).map(|_| TopK::new(NOTED)).collect();
    for first in (0..is_live.len()).step_by(TOGETHER) {
        for (query, top) in tops.iter_mut().enumerate() {
            for id in (first..is_live.len().min(first + TOGETHER)).filter(|&id| is_live[id]) {
                let distance = kernels::l2_squared(queries.row(query), rows.row(id));
                if distance <= top.bound() {
                    top.offer(Neighbor { distance, id: id as u64, version: 1 });
                }
            }
        }
    }
    let mut sorted = Vec::new();
    let near = |top: &mut TopK| {
        let is_full = top.len() == NOTED;
        top.drain_sorted(&mut sorted);
        let rows: Vec<_> = sorted.iter().map(|row| (row.id as u32, row.distance)).collect();
        let last = rows.last().map_or(f32::INFINITY, |row| row.1);
        Near { bound: if is_full { last } else { f32::INFINITY }, rows }
    };
    tops.iter_mut().map(near).collect()
}
