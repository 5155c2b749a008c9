//! The public streaming-track form of a runbook, read and written.
//!
//! ```yaml
//! my-data:
//!   max_pts: 20000
//!   1: {operation: insert, start: 0, end: 20000}       # rows [start, end); the tag is the row
//!   2: {operation: search}                             # all queries, on what lives now
//!   3: {operation: delete, start: 0, end: 5000}        # tags [start, end)
//!   4: {operation: replace, tags_start: 5000, tags_end: 6000, ids_start: 0, ids_end: 1000}
//!   gt_url: "https://example.org/truth"                # optional
//! ```
//!
//! Other keys are passed over, as the public reader does. A gap in the numbers is an error here,
//! while the public reader stops at it without a word.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

use serde_json::{Map, Value};

use super::{LiveSet, RunbookError};

/// One numbered line of a runbook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Rows come; the tag of each is its row number. A tag that lives gets its own row again.
    Insert(Range<usize>),
    /// Tags go.
    Delete(Range<usize>),
    /// Each tag gets the row at the same place of `rows`.
    Replace {
        /// Tags that change.
        tags: Range<usize>,
        /// Their new rows, as many.
        rows: Range<usize>,
    },
    /// Every query is posed.
    Search,
}

/// The steps of one data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runbook {
    /// Name of the data set.
    pub dataset: String,
    /// Most rows that may live at a time.
    pub max_pts: usize,
    /// `steps[0]` is step 1.
    pub steps: Vec<Step>,
    /// Where a published truth lies; not used here.
    pub gt_url: Option<String>,
}

/// What following a runbook without an index says about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// Most rows that lived at a time.
    pub peak: usize,
    /// Rows that live at the end.
    pub last: usize,
    /// Tags that a delete or a replace named and that did not live.
    pub missed: usize,
}

impl Runbook {
    /// Reads the steps of `dataset`, or of the only data set of the file.
    ///
    /// Errors: every kind from `NotYaml` to `UnequalRanges`.
    pub fn parse(text: &str, dataset: Option<&str>) -> Result<Runbook, RunbookError> {
        let sets: BTreeMap<String, Map<String, Value>> = serde_saphyr::from_str(text)
            .map_err(|error| RunbookError::NotYaml(error.to_string()))?;
        let found = || sets.keys().cloned().collect::<Vec<_>>();
        let name = match dataset {
            Some(name) => name.to_owned(),
            None if sets.len() > 1 => return Err(RunbookError::SeveralDatasets(found())),
            None => sets.keys().next().cloned().unwrap_or_default(),
        };
        let Some(entries) = sets.get(&name) else {
            let wanted = dataset.map(str::to_owned);
            return Err(RunbookError::NoDataset { wanted, found: found() });
        };
        let max_pts = number(entries, "max_pts", "the data set")?;
        let gt_url = entries.get("gt_url").and_then(Value::as_str).map(str::to_owned);
        let numbers: Vec<usize> = entries.keys().filter_map(|key| key.parse().ok()).collect();
        let last = numbers.iter().copied().max().unwrap_or(0);
        let mut steps = Vec::with_capacity(numbers.len());
        for step in 1..=last.max(1) {
            let entry = entries.get(&step.to_string());
            let entry = entry.ok_or(RunbookError::MissingStep { missing: step, last })?;
            let fields = entry.as_object().ok_or(RunbookError::NotAStep(step))?;
            steps.push(read_step(step, fields)?);
        }
        Ok(Runbook { dataset: name, max_pts, steps, gt_url })
    }

    /// The file that [`Runbook::parse`] reads, one line per step.
    pub fn to_yaml(&self) -> String {
        let mut text = format!("{}:\n  max_pts: {}\n", quoted(&self.dataset), self.max_pts);
        for (step, number) in self.steps.iter().zip(1..) {
            let fields = match step {
                Step::Search => "operation: search".to_owned(),
                Step::Insert(Range { start, end }) => {
                    format!("operation: insert, start: {start}, end: {end}")
                }
                Step::Delete(Range { start, end }) => {
                    format!("operation: delete, start: {start}, end: {end}")
                }
                Step::Replace { tags, rows } => format!(
                    "operation: replace, tags_start: {}, tags_end: {}, ids_start: {}, ids_end: {}",
                    tags.start, tags.end, rows.start, rows.end
                ),
            };
            let _ = writeln!(text, "  {number}: {{{fields}}}");
        }
        if let Some(url) = &self.gt_url {
            let _ = writeln!(text, "  gt_url: {}", quoted(url));
        }
        text
    }

    /// Follows the steps over data of `rows` rows, without an index.
    ///
    /// Errors: `OutsideData`, `TooManyLive`.
    pub fn walk(&self, rows: usize) -> Result<Walk, RunbookError> {
        let mut live = LiveSet::new(rows);
        let mut walk = Walk::default();
        for (step, number) in self.steps.iter().zip(1..) {
            let mut ranges = step.ranges().into_iter().flatten();
            if let Some(range) = ranges.find(|range| range.end > rows) {
                let range = (range.start, range.end);
                return Err(RunbookError::OutsideData { step: number, range, rows });
            }
            walk.missed += live.apply(step);
            walk.peak = walk.peak.max(live.len());
            if live.len() > self.max_pts {
                let (live, max_pts) = (live.len(), self.max_pts);
                return Err(RunbookError::TooManyLive { step: number, live, max_pts });
            }
        }
        walk.last = live.len();
        Ok(walk)
    }
}

impl Step {
    /// The ranges of rows and of tags that it names.
    fn ranges(&self) -> [Option<&Range<usize>>; 2] {
        match self {
            Step::Insert(range) | Step::Delete(range) => [Some(range), None],
            Step::Replace { tags, rows } => [Some(tags), Some(rows)],
            Step::Search => [None, None],
        }
    }
}

fn read_step(step: usize, fields: &Map<String, Value>) -> Result<Step, RunbookError> {
    let place = format!("step {step}");
    let operation = fields.get("operation");
    let operation =
        operation.ok_or(RunbookError::MissingKey { place: place.clone(), key: "operation" })?;
    let range = |start, end| -> Result<Range<usize>, RunbookError> {
        let (start, end) = (number(fields, start, &place)?, number(fields, end, &place)?);
        if start >= end {
            return Err(RunbookError::EmptyRange { step, range: (start, end) });
        }
        Ok(start..end)
    };
    match operation.as_str() {
        Some("search") => Ok(Step::Search),
        Some("insert") => Ok(Step::Insert(range("start", "end")?)),
        Some("delete") => Ok(Step::Delete(range("start", "end")?)),
        Some("replace") => {
            let (tags, rows) = (range("tags_start", "tags_end")?, range("ids_start", "ids_end")?);
            if tags.len() != rows.len() {
                let (tags, rows) = (tags.len(), rows.len());
                return Err(RunbookError::UnequalRanges { step, tags, rows });
            }
            Ok(Step::Replace { tags, rows })
        }
        _ => {
            let operation = operation.as_str().map_or(operation.to_string(), str::to_owned);
            Err(RunbookError::UnknownOperation { step, operation })
        }
    }
}

fn number(
    fields: &Map<String, Value>,
    key: &'static str,
    place: &str,
) -> Result<usize, RunbookError> {
    let place = || place.to_owned();
    let value = fields.get(key).ok_or(RunbookError::MissingKey { place: place(), key })?;
    let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(|| RunbookError::NotANumber { place: place(), key, value: value.to_string() })
}

/// A plain word as it is, anything else in quotes: JSON strings are YAML.
fn quoted(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let is_word = text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic());
    if is_word && text.bytes().all(plain) && text.contains('-') {
        return text.to_owned();
    }
    Value::String(text.to_owned()).to_string()
}
