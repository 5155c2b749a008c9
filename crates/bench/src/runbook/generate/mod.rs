//! Runbooks over any data.
//!
//! 1. Kinds that speak of clusters permute the rows first, so that a range can mean a cluster.
//! 2. A script notes the steps and follows them, so that `max_pts` is the true peak and no step
//!    names a tag that does not live.
//! 3. All chance comes from one seed.

pub(crate) mod clusters;
mod kinds;

use std::ops::Range;

use clap::ValueEnum;
use vstream_vector::SplitMix;

use super::{LiveSet, Matrix, Runbook, RunbookError, Step};

/// Rows that the data must have: every kind then has work in each of its steps.
const ROWS_MIN: usize = 1000;

/// What happens to the collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// The recipe of the public final runbook: 64 clusters, 5 rounds of uneven inserts and
    /// deletes per cluster, a search after each.
    Clustered64,
    /// Rows leave in the order in which they came.
    SlidingWindow,
    /// Batches live for ever, long or shortly (1, 3 and 15 of 19).
    Expiration,
    /// Every tag of the first half gets a row of the second, a part at a time.
    Replace,
    /// A window over clusters in the order of a walk from neighbour to neighbour.
    Drift,
    /// One cluster takes 90 % of the inserts.
    Hotspot,
    /// Whole clusters go until a tenth of the rows is left; then one comes back.
    DeleteCluster,
    /// The same tags change their rows and change back, again and again.
    UpsertSameIds,
}

/// A runbook, and the data that it speaks of.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The steps.
    pub runbook: Runbook,
    /// The permuted rows, if the kind permutes them; else the data as it was.
    pub permuted: Option<Matrix>,
}

/// Makes a runbook of `kind` over all rows of `base`.
///
/// Cost: at most a k-means with 64 centroids over a sample of 100,000 rows, and one comparison of
/// each row with each. Errors: `BadRequest` for fewer than 1,000 rows.
pub fn generate(
    kind: Kind,
    base: &Matrix,
    dataset: &str,
    seed: u64,
) -> Result<Generated, RunbookError> {
    let rows = base.rows();
    if rows < ROWS_MIN || rows > u32::MAX as usize - 1 {
        return Err(RunbookError::BadRequest(format!(
            "The data has {rows} rows; a runbook needs {ROWS_MIN} at least. Use a larger file or \
             set --rows higher."
        )));
    }
    let mut script =
        Script { steps: Vec::new(), live: LiveSet::new(rows), peak: 0, chance: SplitMix(seed) };
    let order = match kind {
        Kind::SlidingWindow => kinds::sliding_window(&mut script, rows),
        Kind::Expiration => kinds::expiration(&mut script, rows),
        Kind::Replace => kinds::replace(&mut script, rows),
        Kind::UpsertSameIds => kinds::upsert_same_ids(&mut script, rows),
        Kind::Clustered64 => kinds::clustered64(&mut script, base),
        Kind::Drift => kinds::drift(&mut script, base),
        Kind::Hotspot => kinds::hotspot(&mut script, base),
        Kind::DeleteCluster => kinds::delete_cluster(&mut script, base),
    };
    let Script { steps, peak, .. } = script;
    let runbook = Runbook { dataset: dataset.to_owned(), max_pts: peak, steps, gt_url: None };
    Ok(Generated { runbook, permuted: order.map(|order| base.picked(&order)) })
}

/// A runbook in the making.
struct Script {
    steps: Vec<Step>,
    live: LiveSet,
    peak: usize,
    chance: SplitMix,
}

impl Script {
    /// Adds a step; a step with an empty range is left out. Says whether it was added.
    fn push(&mut self, step: Step) -> bool {
        if let Step::Insert(range) | Step::Delete(range) | Step::Replace { tags: range, .. } = &step
        {
            if range.is_empty() {
                return false;
            }
        }
        let missed = self.live.apply(&step);
        assert_eq!(missed, 0, "a generated step names live tags only: {step:?}");
        self.peak = self.peak.max(self.live.len());
        self.steps.push(step);
        true
    }

    fn insert(&mut self, rows: Range<usize>) -> bool {
        self.push(Step::Insert(rows))
    }

    fn delete(&mut self, tags: Range<usize>) -> bool {
        self.push(Step::Delete(tags))
    }

    fn replace(&mut self, tags: Range<usize>, first_row: usize) {
        let rows = first_row..first_row + tags.len();
        self.push(Step::Replace { tags, rows });
    }

    fn search(&mut self) {
        self.push(Step::Search);
    }
}
