//! Getting public data and bringing it into one form.

mod folder;
pub mod glove;
pub mod more;
mod npm;
pub mod order;
mod split;

pub use folder::{is_complete, Meta};

use std::fmt;

/// Why a data set could not be made; a full sentence that says what to do.
#[derive(Debug)]
pub struct DatasetError(String);

impl DatasetError {
    /// An error with this sentence.
    pub(crate) fn new(sentence: impl Into<String>) -> DatasetError {
        DatasetError(sentence.into())
    }

    /// Turns an I/O error into one that says what was being done.
    pub(crate) fn during(doing: impl fmt::Display) -> impl FnOnce(std::io::Error) -> DatasetError {
        move |error| DatasetError(format!("{doing} failed: {error}."))
    }
}

impl fmt::Display for DatasetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DatasetError {}
