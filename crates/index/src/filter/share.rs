//! How many rows match a filter: a bound, and an estimate.
//!
//! Counts of living rows per code are exact for one keyword. For two conditions at once they give a
//! bound and no more, and numbers have no counts. There the estimate takes conditions as independent
//! of one another, and asks a sample of the rows how many meet a condition on numbers. It may err;
//! whoever plans by it looks at what it finds (`stages/filtered.rs`).

use super::{Check, Compiled};
use crate::rows::CodeCounts;

/// Counts that shares are taken from.
pub(crate) struct Counts<'a> {
    /// Living rows.
    pub(crate) rows: u64,
    /// Living rows per code.
    pub(crate) living: &'a CodeCounts,
    /// Share of a sample of the rows that matches.
    pub(crate) sample: &'a dyn Fn(&Compiled) -> f64,
}

impl Compiled {
    /// Most rows that match, of an index with `rows` living ones.
    ///
    /// * `living`: living rows per code.
    pub(crate) fn at_most(&self, rows: u64, living: &CodeCounts) -> u64 {
        let sum = |codes: &[u32]| codes.iter().map(|&code| u64::from(living.get(code))).sum();
        let parts = |of: &[Compiled]| -> u64 { of.iter().map(|p| p.at_most(rows, living)).sum() };
        let most: u64 = match self {
            Compiled::All | Compiled::Not(_) => rows,
            Compiled::Nothing => 0,
            Compiled::And(all) => {
                all.iter().map(|part| part.at_most(rows, living)).min().unwrap_or(rows)
            }
            Compiled::Or(any) => parts(any),
            // A row that matches counts `least` times in the sum.
            Compiled::AtLeast(least, of) => parts(of) / (*least as u64).max(1),
            Compiled::Column(_, Check::Keyword(codes) | Check::Any(codes)) => sum(codes.list()),
            Compiled::Column(_, Check::All(codes)) => {
                codes.iter().map(|&code| u64::from(living.get(code))).min().unwrap_or(rows)
            }
            Compiled::Column(..) => rows,
            Compiled::Ids(ids) => ids.len() as u64,
        };
        most.min(rows)
    }

    /// Share of the rows that probably matches, from 0 to 1.
    pub(crate) fn likely_share(&self, counts: &Counts<'_>) -> f64 {
        let of = |rows: u64| (rows as f64 / counts.rows.max(1) as f64).min(1.0);
        let each = |parts: &[Compiled], share: fn(f64) -> f64| -> f64 {
            parts.iter().map(|part| share(part.likely_share(counts))).product()
        };
        match self {
            Compiled::All => 1.0,
            Compiled::Nothing => 0.0,
            Compiled::And(all) => each(all, |share| share),
            Compiled::Or(any) => 1.0 - each(any, |share| 1.0 - share),
            Compiled::Not(part) => 1.0 - part.likely_share(counts),
            Compiled::Column(_, Check::Keyword(_) | Check::Any(_)) | Compiled::Ids(_) => {
                of(self.at_most(counts.rows, counts.living))
            }
            Compiled::Column(_, Check::All(codes)) => {
                codes.iter().map(|&code| of(u64::from(counts.living.get(code)))).product()
            }
            Compiled::Column(..) | Compiled::AtLeast(..) => (counts.sample)(self),
        }
    }
}
