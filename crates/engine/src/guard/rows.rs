//! Audits of rows of the collection, which stand in for queries until there are enough of these.

use std::sync::atomic::Ordering;

use vstream_index::Reach;
use vstream_vector::Neighbor;

use super::classes::{class_of, CLASSES};
use super::window::{Audit, WINDOW_MIN};
use super::{moment, Auditor, Guard, AUDITS_PER_CONCLUSION, AUDIT_K_MIN};
use crate::tree::Tree;

/// Neighbours that an audit of a row asks for before the first query: one audit then serves each smaller k.
const ROW_K: usize = 112;
/// Number of tries to draw a live row.
const SAMPLE_TRIES: usize = 64;
/// Most rows with copies passed over in succession: where all rows have copies there are no others.
const COPIES_MAX: usize = 8;

impl Guard {
    /// Audits a row and concludes from it; false if there is none that can be read.
    pub(super) fn step_row(&self, search: &Tree, auditor: &mut Auditor) -> bool {
        let Some((id, row)) = self.sample(search, auditor) else { return false };
        let k = self.row_k();
        let Ok(audit) = self.audit(search, row, k, Some(id), auditor) else { return false };
        // Audits of fewer neighbours say nothing about more.
        auditor.rows.audits.retain(|audit| audit.k >= k);
        if audit.is_of_copy && auditor.copies < COPIES_MAX {
            // Users ask for vectors like a row, hardly ever for copies of it.
            auditor.copies += 1;
            return true;
        }
        auditor.copies = 0;
        self.push_filtered_row(&audit, &mut auditor.filtered);
        auditor.rows.push(audit);
        auditor.since_conclusion += 1;
        if auditor.since_conclusion >= AUDITS_PER_CONCLUSION {
            auditor.since_conclusion = 0;
            let now = moment(search);
            (0..CLASSES.len()).for_each(|class| {
                self.conclude(class, auditor, &now);
                self.conclude_filtered(class, auditor);
            });
        }
        true
    }

    /// Neighbours that an audit of a row asks for. In memory that is enough for each usual k. Over segments more
    /// than were asked for cost many times as much: among 1.5 million rows an audit of 112 measures 18,000, one
    /// of ten 2,048. So before the first query they ask for ten there, and the guard makes as many more while
    /// rows come. Filters need as many as in memory: few of them match.
    fn row_k(&self) -> usize {
        let most = self.most_asked.load(Ordering::Relaxed);
        let is_dear = self.costs.is_read() && self.filtered.seen() == 0;
        match most {
            _ if is_dear => CLASSES[class_of(most)].max(AUDIT_K_MIN),
            0 => ROW_K,
            _ if most > ROW_K => CLASSES[CLASSES.len() - 1],
            _ => ROW_K,
        }
    }

    /// True if the queries asked last need rows beside them, and these are too few to decide.
    pub(super) fn lacks_rows(&self, auditor: &Auditor) -> bool {
        let class = self.last_class.load(Ordering::Relaxed);
        let is_deep = |audit: &&Audit| audit.k >= CLASSES[class];
        let deep = auditor.rows.audits.iter().filter(is_deep).count();
        deep < WINDOW_MIN && !auditor.queries[class].is_fair()
    }

    /// True if audits of rows are needed: few are known, and some class has no queries.
    pub(super) fn wants_rows(&self, auditor: &Auditor) -> bool {
        let is_asked = self.is_asked();
        let last = &auditor.queries[self.last_class.load(Ordering::Relaxed)];
        let is_short = match is_asked && last.len() >= WINDOW_MIN {
            true => auditor.rows.len() < WINDOW_MIN,
            false => auditor.rows.is_short(),
        };
        // Audits of fewer neighbours say nothing about more.
        let k = self.row_k();
        let is_shallow = auditor.rows.audits.iter().any(|audit| audit.k < k);
        is_short || (is_shallow && !auditor.queries[class_of(k)].is_fair())
    }

    /// Draws a live row as a query; returns its id and vector.
    fn sample(&self, search: &Tree, auditor: &mut Auditor) -> Option<(u64, Vec<f32>)> {
        let mut row = Vec::new();
        let mut tries = (0..SAMPLE_TRIES).map(|_| search.sample(auditor.random.next(), &mut row));
        let id = tries.find_map(|tried| tried.ok().flatten())?;
        Some((id, row))
    }
}

/// Removes the audited row from its own neighbours.
pub(super) fn leave_out(own: Option<u64>, reach: &mut Vec<Reach>) {
    let Some(at) = reach.iter().position(|hit| Some(hit.id) == own) else { return };
    // An entry with a weight above 1 speaks for others too: it keeps one less.
    let next = if reach[at].weight > 1 {
        reach[at].weight -= 1;
        at + 1
    } else {
        reach.remove(at);
        at
    };
    let after = reach[next..].iter_mut().filter(|hit| hit.nth > 0);
    after.for_each(|hit| hit.nth -= 1);
}

/// True if another row is at the place of `own`, within 1e-6 of the width of `rows`, which are
/// sorted nearest first.
pub(super) fn has_copy(own: u64, rows: &[Neighbor]) -> bool {
    let Some(own) = rows.iter().find(|row| row.id == own) else { return false };
    let width = rows[rows.len() - 1].distance - rows[0].distance;
    let near = |row: &&Neighbor| (row.distance - own.distance).abs() <= 1e-6 * width;
    rows.iter().filter(near).count() > 1
}
