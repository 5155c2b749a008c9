//! The id of a request, which its answer repeats.

use serde::{Deserialize, Serialize};

/// Bytes of the longest id.
const BYTES_MAX: usize = 256;

#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(super) enum Id {
    Number(i64),
    Text(String),
}

impl Id {
    /// Reads JSON; `None` unless it is a whole number or a short text.
    pub(super) fn read(json: &str) -> Option<Id> {
        let short = Some(json).filter(|json| json.len() <= BYTES_MAX)?;
        serde_json::from_str(short).ok()
    }
}
