//! What a run found: one record per search step, a summary, and both as a table for people.

use std::fmt::Write;

use serde::Serialize;
use vstream_engine::RecallEstimate;

use super::run::{Amount, RunSettings};
use super::Step;

/// Lines of the table at most; a runbook may have hundreds of search steps.
const TABLE_LINES: usize = 40;

/// Writes between two search steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Writes {
    /// Rows inserted, tags deleted, tags replaced.
    pub inserts: usize,
    /// See `inserts`.
    pub deletes: usize,
    /// See `inserts`.
    pub replaces: usize,
    /// Thread CPU of all of them together, in seconds.
    pub insert_seconds: f64,
    /// See `insert_seconds`.
    pub delete_seconds: f64,
    /// See `insert_seconds`.
    pub replace_seconds: f64,
}

impl Writes {
    pub(super) fn add(&mut self, step: &Step, seconds: f64) {
        let (count, time, records) = match step {
            Step::Insert(rows) => (&mut self.inserts, &mut self.insert_seconds, rows.len()),
            Step::Delete(tags) => (&mut self.deletes, &mut self.delete_seconds, tags.len()),
            Step::Replace { tags, .. } => {
                (&mut self.replaces, &mut self.replace_seconds, tags.len())
            }
            Step::Search => return,
        };
        *count += records;
        *time += seconds;
    }

    fn merge(&mut self, other: &Writes) {
        self.inserts += other.inserts;
        self.deletes += other.deletes;
        self.replaces += other.replaces;
        self.insert_seconds += other.insert_seconds;
        self.delete_seconds += other.delete_seconds;
        self.replace_seconds += other.replace_seconds;
    }
}

/// The live index beside a freshly built one, asked with the same probes and refinement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EqualEffort {
    /// Leaves visited by each.
    pub probes: usize,
    /// Recall@10 of the index that went through the runbook.
    pub live_recall: f64,
    /// Recall@10 of fresh ones: the mean of two that got the rows in different orders.
    pub fresh_recall: f64,
    /// How far those two differ: what is chance.
    pub fresh_spread: f64,
    /// Rows that a query of the one and of the other looks at.
    pub live_rows: f64,
    /// See `live_rows`.
    pub fresh_rows: f64,
    /// Probes with which the live index looks at about `fresh_rows` rows, and its recall@10 then.
    pub same_rows_probes: usize,
    /// See `same_rows_probes`.
    pub same_rows_recall: f64,
    /// Leaves of the fresh one.
    pub fresh_leaves: u64,
    /// Its native memory.
    pub fresh_memory_bytes: u64,
}

/// What the recall guard believes, to be compared with the recall that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Guessed {
    /// Recall of `Amount::Auto`.
    pub recall: f64,
    /// Half width of its 95 % confidence interval.
    pub margin: f64,
    /// Audits that it rests on.
    pub audits: usize,
}

impl From<RecallEstimate> for Guessed {
    fn from(estimate: RecallEstimate) -> Guessed {
        let RecallEstimate { recall, margin, audits, .. } = estimate;
        Guessed { recall, margin, audits }
    }
}

/// What a search step found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SearchReport {
    /// Number of the step.
    pub step: usize,
    /// Rows that live.
    pub live: usize,
    /// Mean recall@10 of the scored queries.
    pub recall: f64,
    /// Answered tags that do not live: must be 0.
    pub dead_answers: usize,
    /// Answered tags whose distance is not that of their row: must be 0.
    pub stale_answers: usize,
    /// Leaves that a query visits.
    pub probes: usize,
    /// Rows whose exact distance it takes, where that is not in proportion to `probes`.
    pub refine: Option<usize>,
    /// Leaves there are.
    pub leaves: u64,
    /// Thread CPU per query, microseconds.
    pub query_us: f64,
    /// Native memory of the index, estimated from capacities.
    pub memory_bytes: u64,
    /// The same per live row.
    pub memory_bytes_per_live: f64,
    /// Dead rows whose place is not yet reclaimed.
    pub unreclaimed: u64,
    /// The guard's estimate, if it has one.
    pub guard: Option<Guessed>,
    /// Writes since the search step before.
    pub writes: Writes,
    /// Comparison with a fresh index, if it was asked for and something lives.
    pub equal_effort: Option<EqualEffort>,
}

/// What a whole run found.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Settings as the output states them.
    header: String,
    /// Every search step.
    pub searches: Vec<SearchReport>,
}

/// Memory at one step.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Footprint {
    step: usize,
    live: usize,
    memory_bytes: u64,
}

#[derive(Serialize)]
struct Totals {
    searches: usize,
    recall_min: f64,
    recall_mean: f64,
    fresh_difference_mean: Option<f64>,
    fresh_difference_worst: Option<f64>,
    same_rows_difference_mean: Option<f64>,
    same_rows_difference_worst: Option<f64>,
    guard_error_mean: Option<f64>,
    dead_answers: usize,
    stale_answers: usize,
    query_us: f64,
    insert_us: Option<f64>,
    delete_us: Option<f64>,
    replace_us: Option<f64>,
    memory_at_peak: Footprint,
    memory_at_fewest_after_peak: Footprint,
}

impl Summary {
    pub(super) fn new(settings: &RunSettings, scored: usize) -> Summary {
        let effort = match settings.effort {
            Amount::Auto => format!("auto, recall target {}", settings.recall_target),
            Amount::Probes(probes) => format!("probes={probes}, without recall guard"),
        };
        let header = format!(
            "recall@10 on a sample of {scored} queries per search step; {}; effort {effort}; seed \
             {}; times are CPU of one thread",
            settings.metric, settings.seed
        );
        Summary { header, searches: Vec::new() }
    }

    pub(super) fn add(&mut self, report: SearchReport) {
        self.searches.push(report);
    }

    /// True if every answer held live tags at their true distances.
    pub fn is_sound(&self) -> bool {
        self.searches.iter().all(|search| search.dead_answers + search.stale_answers == 0)
    }

    /// Lowest and mean recall@10 over the search steps; 1 if there is none.
    pub fn recall(&self) -> (f64, f64) {
        let recalls = || self.searches.iter().map(|search| search.recall);
        let count = self.searches.len();
        let mean = if count == 0 { 1.0 } else { recalls().sum::<f64>() / count as f64 };
        (recalls().fold(1.0, f64::min), mean)
    }

    /// Recall@10 of the fresh index less that of the live one, with the same probes: mean and
    /// largest over the steps.
    pub fn fresh_difference(&self) -> Option<(f64, f64)> {
        self.difference(|both| both.fresh_recall - both.live_recall)
    }

    /// As [`Summary::fresh_difference`], when the live index looks at as many rows.
    pub fn same_rows_difference(&self) -> Option<(f64, f64)> {
        self.difference(|both| both.fresh_recall - both.same_rows_recall)
    }

    fn difference(&self, of: fn(EqualEffort) -> f64) -> Option<(f64, f64)> {
        let compared = self.searches.iter().filter_map(|search| search.equal_effort);
        let differences: Vec<f64> = compared.map(of).collect();
        let worst = differences.iter().copied().reduce(f64::max)?;
        Some((differences.iter().sum::<f64>() / differences.len() as f64, worst))
    }

    /// Mean of the guard's estimate less the measured recall, where it had one.
    pub fn guard_error(&self) -> Option<f64> {
        let error = |search: &SearchReport| Some(search.guard?.recall - search.recall);
        let errors: Vec<f64> = self.searches.iter().filter_map(error).collect();
        (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64)
    }

    /// JSON lines: one of type `search` per search step, then one of type `summary`.
    pub fn to_json_lines(&self) -> String {
        let mut text = String::new();
        for search in &self.searches {
            text += &line("search", search);
        }
        text + &line("summary", &self.totals())
    }

    /// A table of the search steps, evenly thinned if there are many, and the summary in words.
    pub fn table(&self) -> String {
        let mut text = format!("{}\n\n", self.header);
        text += "  step     live  recall   guard  equal   fresh   =rows   probes/leaves    query  \
                 insert  delete  bytes/row\n";
        let shown = self.searches.len().min(TABLE_LINES);
        for i in 0..shown {
            // From the first to the last step, both included.
            let at = i * (self.searches.len() - 1) / (shown - 1).max(1);
            row(&mut text, &self.searches[at]);
        }
        if shown < self.searches.len() {
            let _ = writeln!(text, "  ({shown} of {} search steps)", self.searches.len());
        }
        let (lowest, mean) = self.recall();
        let _ = write!(text, "\nrecall@10: lowest {lowest:.4}, mean {mean:.4}");
        if let Some(error) = self.guard_error() {
            let _ = write!(text, "; the guard's estimate is {error:+.4} off (mean)");
        }
        let differences = [
            ("with the same probes", self.fresh_difference()),
            ("if both look at as many rows", self.same_rows_difference()),
        ];
        for (when, difference) in differences {
            if let Some((mean, worst)) = difference {
                let _ = write!(
                    text,
                    "\na fresh index finds {mean:+.4} (mean), {worst:+.4} (most) {when}"
                );
            }
        }
        text.push('\n');
        self.describe_memory(&mut text);
        text
    }

    fn describe_memory(&self, text: &mut String) {
        let totals = self.totals();
        let (peak, fewest) = (totals.memory_at_peak, totals.memory_at_fewest_after_peak);
        let percent = |part: f64, whole: f64| 100.0 * (1.0 - part / whole.max(1.0));
        let _ = writeln!(
            text,
            "memory: {} bytes at the peak of {} rows (step {}), {} bytes at {} rows (step {}): \
             {:.1} % less for {:.1} % fewer rows",
            peak.memory_bytes,
            peak.live,
            peak.step,
            fewest.memory_bytes,
            fewest.live,
            fewest.step,
            percent(fewest.memory_bytes as f64, peak.memory_bytes as f64),
            percent(fewest.live as f64, peak.live as f64),
        );
        if !self.is_sound() {
            let _ = writeln!(
                text,
                "WRONG: {} answers held dead tags, {} had a distance that is not that of their row",
                totals.dead_answers, totals.stale_answers
            );
        }
    }

    fn totals(&self) -> Totals {
        let mut writes = Writes::default();
        self.searches.iter().for_each(|search| writes.merge(&search.writes));
        let (recall_min, recall_mean) = self.recall();
        let (difference, same_rows) = (self.fresh_difference(), self.same_rows_difference());
        let footprint = |search: &SearchReport| Footprint {
            step: search.step,
            live: search.live,
            memory_bytes: search.memory_bytes,
        };
        let peak = self.searches.iter().max_by_key(|search| search.live);
        let peak = peak.map(footprint).unwrap_or_default();
        let after = self.searches.iter().filter(|search| search.step >= peak.step);
        let fewest = after.min_by_key(|search| search.live).map(footprint).unwrap_or_default();
        let count = self.searches.len();
        let sum = |of: fn(&SearchReport) -> usize| self.searches.iter().map(of).sum();
        let query_us = self.searches.iter().map(|search| search.query_us).sum::<f64>();
        Totals {
            searches: count,
            recall_min,
            recall_mean,
            fresh_difference_mean: difference.map(|(mean, _)| mean),
            fresh_difference_worst: difference.map(|(_, worst)| worst),
            same_rows_difference_mean: same_rows.map(|(mean, _)| mean),
            same_rows_difference_worst: same_rows.map(|(_, worst)| worst),
            guard_error_mean: self.guard_error(),
            dead_answers: sum(|search| search.dead_answers),
            stale_answers: sum(|search| search.stale_answers),
            query_us: query_us / count.max(1) as f64,
            insert_us: micros(writes.insert_seconds, writes.inserts),
            delete_us: micros(writes.delete_seconds, writes.deletes),
            replace_us: micros(writes.replace_seconds, writes.replaces),
            memory_at_peak: peak,
            memory_at_fewest_after_peak: fewest,
        }
    }
}

fn line(kind: &str, record: &impl Serialize) -> String {
    let mut record = serde_json::to_value(record).expect("plain numbers");
    record["type"] = kind.into();
    format!("{record}\n")
}

fn row(text: &mut String, search: &SearchReport) {
    let optional = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    let both = search.equal_effort;
    let writes = &search.writes;
    let put = (writes.insert_seconds + writes.replace_seconds, writes.inserts + writes.replaces);
    let _ = writeln!(
        text,
        "{:>6} {:>8}  {:.4}  {:>6}  {:<6}  {:<6}  {:<6}  {:>6}/{:<6}  {:>5.1}us {:>5}us {:>5}us  {:>9.0}",
        search.step,
        search.live,
        search.recall,
        optional(search.guard.map(|guard| guard.recall), 4),
        optional(both.map(|both| both.live_recall), 4),
        optional(both.map(|both| both.fresh_recall), 4),
        optional(both.map(|both| both.same_rows_recall), 4),
        search.probes,
        search.leaves,
        search.query_us,
        optional(micros(put.0, put.1), 1),
        optional(micros(writes.delete_seconds, writes.deletes), 1),
        search.memory_bytes_per_live,
    );
}

/// Microseconds per record.
fn micros(seconds: f64, records: usize) -> Option<f64> {
    (records > 0).then(|| seconds * 1e6 / records as f64)
}
