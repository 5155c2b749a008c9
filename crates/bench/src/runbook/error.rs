//! What can be wrong with a runbook, its data or its run; full sentences that say what to change.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why a runbook could not be read, made or run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunbookError {
    /// The text is no YAML mapping.
    NotYaml(String),
    /// The file holds no data set of this name, or none at all.
    NoDataset {
        /// The name asked for, if one was.
        wanted: Option<String>,
        /// The names there are.
        found: Vec<String>,
    },
    /// The file holds several data sets and none was named.
    SeveralDatasets(Vec<String>),
    /// A key that must be there is not.
    MissingKey {
        /// `the data set` or `step N`.
        place: String,
        /// The key.
        key: &'static str,
    },
    /// A value is not a whole number from 0 on.
    NotANumber {
        /// `the data set` or `step N`.
        place: String,
        /// The key.
        key: &'static str,
        /// The value as it stands there.
        value: String,
    },
    /// The steps are not numbered 1, 2, 3, ...
    MissingStep {
        /// First number that is not there.
        missing: usize,
        /// Largest number there is; 0 for a runbook without steps.
        last: usize,
    },
    /// A step is not a mapping.
    NotAStep(usize),
    /// A step's operation is none of the four.
    UnknownOperation {
        /// The step.
        step: usize,
        /// The operation's name.
        operation: String,
    },
    /// A range ends before or where it starts.
    EmptyRange {
        /// The step.
        step: usize,
        /// Start and end.
        range: (usize, usize),
    },
    /// A replace step names other numbers of tags and of rows.
    UnequalRanges {
        /// The step.
        step: usize,
        /// Number of tags.
        tags: usize,
        /// Number of rows.
        rows: usize,
    },
    /// A range reaches beyond the data.
    OutsideData {
        /// The step.
        step: usize,
        /// Start and end.
        range: (usize, usize),
        /// Rows of the data.
        rows: usize,
    },
    /// More rows live than `max_pts` allows.
    TooManyLive {
        /// The step.
        step: usize,
        /// Rows that live after it.
        live: usize,
        /// The limit.
        max_pts: usize,
    },
    /// A matrix file is not what its header says.
    BadMatrix {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// What was asked of the generator or of the run cannot be done.
    BadRequest(String),
    /// The operating system refused.
    Io(String),
    /// The engine refused a row or a query.
    Engine {
        /// The step; 0 before the first.
        step: usize,
        /// Its sentence.
        message: String,
    },
}

impl RunbookError {
    /// An I/O error at `path` while `doing` ("read", "write").
    pub(crate) fn io<'a>(
        doing: &'a str,
        path: &'a Path,
    ) -> impl FnOnce(std::io::Error) -> RunbookError + 'a {
        move |error| RunbookError::Io(format!("Cannot {doing} {}: {error}.", path.display()))
    }

    /// An error of the engine in `step`.
    pub(crate) fn engine(step: usize) -> impl Fn(vstream_engine::Error) -> RunbookError {
        move |error| RunbookError::Engine { step, message: error.to_string() }
    }
}

impl RunbookError {
    /// The sentence of an error in the steps.
    fn describe_step(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use RunbookError as E;
        match self {
            E::MissingStep { last: 0, .. } => {
                f.write_str("The runbook has no steps. Number them 1, 2, 3 and so on.")
            }
            E::MissingStep { missing, last } => write!(
                f,
                "Step {missing} is missing, but there is a step {last}. Number the steps from 1 \
                 on without gaps."
            ),
            E::NotAStep(step) => write!(
                f,
                "Step {step} is not a mapping. Write it as {{operation: search}}, for example."
            ),
            E::UnknownOperation { step, operation } => write!(
                f,
                "Step {step} has the unknown operation '{operation}'. Choose insert, delete, \
                 replace or search."
            ),
            E::EmptyRange { step, range: (start, end) } => write!(
                f,
                "Step {step} has the empty range from {start} to {end}. The end must be larger \
                 than the start."
            ),
            E::UnequalRanges { step, tags, rows } => write!(
                f,
                "Step {step} replaces {tags} tags by {rows} rows. Make both ranges equally long."
            ),
            E::OutsideData { step, range: (start, end), rows } => write!(
                f,
                "Step {step} uses the range from {start} to {end}, but there are {rows} rows. \
                 Shorten the range or give --data a larger file."
            ),
            E::TooManyLive { step, live, max_pts } => write!(
                f,
                "After step {step} there are {live} live rows, more than max_pts, which is \
                 {max_pts}. Set max_pts higher or delete rows earlier."
            ),
            _ => unreachable!("the others are described where this is called"),
        }
    }
}

impl fmt::Display for RunbookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use RunbookError as E;
        match self {
            E::NotYaml(what) => write!(
                f,
                "The runbook is not a YAML mapping from data sets to steps: {what}. Correct that \
                 place."
            ),
            E::NoDataset { wanted: Some(wanted), found } => write!(
                f,
                "The runbook has no data set '{wanted}'. Give --dataset one of: {}.",
                found.join(", ")
            ),
            E::NoDataset { wanted: None, .. } => {
                f.write_str("The runbook is empty. Write one data set with its steps into it.")
            }
            E::SeveralDatasets(found) => write!(
                f,
                "The runbook has several data sets. Choose one with --dataset: {}.",
                found.join(", ")
            ),
            E::MissingKey { place, key } => {
                write!(f, "The key '{key}' is missing in {place}. Add it.")
            }
            E::NotANumber { place, key, value } => {
                write!(f, "The key '{key}' in {place} is {value}. Write a whole number from 0 on.")
            }
            E::BadMatrix { path, what } => write!(
                f,
                "{} is not a matrix file (u32 rows, u32 dimension, then rows of f32): {what}.",
                path.display()
            ),
            E::BadRequest(sentence) | E::Io(sentence) => f.write_str(sentence),
            E::Engine { step, message } => {
                write!(f, "The engine refused something in step {step}: {message}.")
            }
            _ => self.describe_step(f),
        }
    }
}

impl std::error::Error for RunbookError {}
