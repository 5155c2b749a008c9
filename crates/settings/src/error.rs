//! All problems of one settings file, found in one pass.

use std::fmt;

/// Invalid settings, with every problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError {
    problems: Vec<String>,
}

impl SettingsError {
    /// An error with these problems. Each problem is one or more full sentences.
    pub(crate) fn new(problems: Vec<String>) -> SettingsError {
        debug_assert!(!problems.is_empty(), "an error without a problem");
        SettingsError { problems }
    }

    /// An error with one problem.
    pub(crate) fn one(problem: impl Into<String>) -> SettingsError {
        SettingsError::new(vec![problem.into()])
    }

    /// The problems; never empty. Each names a key, its value and the remedy.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

impl fmt::Display for SettingsError {
    /// One problem per line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join("\n"))
    }
}

impl std::error::Error for SettingsError {}
