//! One row per case, and the table of all.

use std::fmt::Write;

use serde::Serialize;

use super::{Case, DataSet, Place, Selected};
use crate::times::mean_and_margin;

/// Recall may be so much below the target, that of the first queries so much more.
const BELOW_MAX: f64 = 0.01;
const FIRST_BELOW_MAX: f64 = 0.03;
/// As `BELOW_MAX`, for a query with a filter.
const FILTERED_BELOW_MAX: f64 = 0.02;
/// The estimate may differ so much from the truth.
const OFF_MAX: f64 = 0.015;

/// What one case found.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Row {
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// Formula of the distance.
    pub metric: &'static str,
    /// Numbers per row.
    pub dimension: usize,
    /// Rows that live and match.
    pub live: usize,
    /// Mean recall of the held-out queries, and half its 95 % confidence interval.
    pub truth: f64,
    /// See `truth`.
    pub truth_margin: f64,
    /// Mean recall of the first queries.
    pub first: f64,
    /// What the engine says of its recall, and half of the interval that it states.
    pub estimate: Option<(f64, f64)>,
    /// Audits behind the estimate.
    pub audits: usize,
    /// Held-out queries per second of the asking thread's CPU time.
    pub queries_per_second: f64,
    /// Leaves visited per query.
    pub leaves: f64,
    /// Rows whose code or vector was looked at, per query.
    pub rows_scanned: f64,
    /// Exact distances per query.
    pub exact: f64,
    /// CPU time of the writing thread per row, settling between writes included.
    pub insert_us: f64,
    /// Segments at the end.
    pub segments: u64,
}

impl Row {
    pub(super) fn new(
        case: &Case,
        data: &DataSet,
        live: usize,
        found: &[f64],
        first: &[f64],
    ) -> Row {
        let (truth, truth_margin) = mean_and_margin(found);
        Row {
            case: *case,
            metric: data.metric.name(),
            dimension: data.base.dimension,
            live,
            truth,
            truth_margin,
            first: mean_and_margin(first).0,
            estimate: None,
            audits: 0,
            queries_per_second: 0.0,
            leaves: 0.0,
            rows_scanned: 0.0,
            exact: 0.0,
            insert_us: 0.0,
            segments: 0,
        }
    }

    /// What does not hold, in words; empty if everything does.
    pub fn misses(&self) -> Vec<&'static str> {
        let mut misses = Vec::new();
        let is_filtered = self.case.filter.is_some();
        let below = if is_filtered { FILTERED_BELOW_MAX } else { BELOW_MAX };
        if self.truth < self.case.target - below {
            misses.push("recall");
        }
        let is_off = match self.estimate {
            Some((estimate, _)) => (estimate - self.truth).abs() > OFF_MAX,
            // Nobody had audited a query there, or filtered answers were exact.
            None => self.case.place != Place::Fresh && !is_filtered,
        };
        if is_off {
            misses.push("estimate");
        }
        if self.first < self.case.target - FIRST_BELOW_MAX {
            misses.push("first");
        }
        misses
    }
}

/// The table that people read, with a line of sums.
pub fn markdown(rows: &[Row]) -> String {
    let mut text = String::from(
        "| data | metric | rows | place | filter | k | target | recall | estimate | first 300 | \
         queries per CPU second | rows looked at | missed |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        line(&mut text, row);
    }
    let missed = |what: &str| rows.iter().filter(|row| row.misses().contains(&what)).count();
    let holds = rows.iter().filter(|row| row.misses().is_empty()).count();
    writeln!(
        text,
        "\n{holds} of {} rows hold; recall is too low in {}, the estimate too far off or \
         missing in {}, the first 300 queries too low in {}.",
        rows.len(),
        missed("recall"),
        missed("estimate"),
        missed("first"),
    )
    .expect("a string takes all");
    text
}

fn line(text: &mut String, row: &Row) {
    let estimate = row.estimate.map_or("-".to_owned(), |(recall, margin)| {
        format!("{recall:.3} ± {margin:.3} ({})", row.audits)
    });
    let place = format!("{:?}", row.case.place).to_lowercase();
    let misses = row.misses();
    writeln!(
        text,
        "| {} {}-d | {} | {} | {place} | {} | {} | {} | {:.3} ± {:.3} | {estimate} | {:.3} | {:.0} | \
         {:.0} | {} |",
        row.case.data.name(),
        row.dimension,
        row.metric,
        row.live,
        row.case.filter.map_or("-", Selected::name),
        row.case.k,
        row.case.target,
        row.truth,
        row.truth_margin,
        row.first,
        row.queries_per_second,
        row.rows_scanned,
        if misses.is_empty() { "-".to_owned() } else { misses.join(", ") },
    )
    .expect("a string takes all");
}
