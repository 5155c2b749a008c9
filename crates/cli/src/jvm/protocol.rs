//! What the job says on its standard output: one JSON object per line, told apart by `type`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One line of the job.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Message {
    /// How far the job is; twice a second.
    Progress(Progress),
    /// The measured phase as a whole; once, at the end.
    Result(Progress),
    /// One answer for display.
    Sample(Answer),
    /// Every answer, when results go to the console; the line itself is what the user wants.
    Answer {},
    /// Why the job is about to end without a result.
    Error {
        /// Full sentences.
        message: String,
    },
}

impl Message {
    /// The message of a line, or `None` for a line that is not part of the protocol.
    pub(crate) fn parse(line: &str) -> Option<Message> {
        if !line.trim_start().starts_with('{') {
            return None;
        }
        serde_json::from_str(line).ok()
    }
}

/// Totals and measurements; what is not known yet is absent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Progress {
    /// Since the job began; of a result, the length of the measured phase.
    pub(crate) seconds: f64,
    /// `preload`, `training`, `stream`...
    pub(crate) phase: String,
    /// Vectors accepted.
    pub(crate) vectors: u64,
    /// Deletes of live ids.
    pub(crate) deletes: u64,
    /// Queries answered.
    pub(crate) queries: u64,
    /// All records per second.
    pub(crate) records_per_s: Option<f64>,
    /// Median time from the intended send to the merged answer, milliseconds.
    pub(crate) query_p50_ms: Option<f64>,
    /// The 99th percentile of the same.
    pub(crate) query_p99_ms: Option<f64>,
    /// The 99.9th percentile of the same.
    pub(crate) query_p999_ms: Option<f64>,
    /// Share of the true ten neighbours that answers held, over the audited queries.
    pub(crate) recall_at_10: Option<f64>,
    /// Queries that were audited.
    pub(crate) audits: Option<u64>,
    /// Partitions that a query visited on average.
    pub(crate) fan_out: Option<f64>,
    /// Copies that a vector was written as on average.
    pub(crate) copies: Option<f64>,
    /// Live rows by partition.
    pub(crate) rows_per_partition: Vec<u64>,
    /// Time that searches and writes took since the last line, by partition, microseconds.
    pub(crate) work_us_per_partition: Vec<u64>,
    /// As `recall_at_10`, over the audits since the last line.
    pub(crate) recall_recent: Option<f64>,
    /// Writes that wait for the partitions.
    pub(crate) writes_waiting: Option<u64>,
    /// Searches under way.
    pub(crate) searches_in_flight: Option<u64>,
    /// How far the slowest partition is behind the time of events, milliseconds.
    pub(crate) freshness_lag_ms: Option<u64>,
    /// Epoch of the template.
    pub(crate) epoch: Option<u64>,
    /// Step of the hand-over that is under way; 4 if none is.
    pub(crate) hand_over_step: Option<u64>,
    /// Rows that partitions have adopted from others.
    pub(crate) rows_adopted: Option<u64>,
    /// Records refused.
    pub(crate) bad_records: u64,
    /// Records refused, by reason.
    pub(crate) bad_by_reason: BTreeMap<String, u64>,
}

/// The result of a job as the command prints it: one line, these keys, this order.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    vectors: u64,
    queries: u64,
    recall_at_10: Option<f64>,
    records_per_s: Option<f64>,
    query_p50_ms: Option<f64>,
    query_p99_ms: Option<f64>,
    fan_out: Option<f64>,
    copies: Option<f64>,
    bad_records: u64,
}

impl From<&Progress> for Summary {
    fn from(result: &Progress) -> Summary {
        let rounded = |value: Option<f64>, digits: i32| {
            let scale = 10f64.powi(digits);
            value.filter(|value| value.is_finite()).map(|value| (value * scale).round() / scale)
        };
        Summary {
            vectors: result.vectors,
            queries: result.queries,
            recall_at_10: rounded(result.recall_at_10, 4),
            records_per_s: rounded(result.records_per_s, 1),
            query_p50_ms: rounded(result.query_p50_ms, 3),
            query_p99_ms: rounded(result.query_p99_ms, 3),
            fan_out: rounded(result.fan_out, 3),
            copies: rounded(result.copies, 3),
            bad_records: result.bad_records,
        }
    }
}

/// One answer: ids and distances, nearest first.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Answer {
    /// The user's id of the query.
    pub(crate) query_id: u64,
    /// Ids of the neighbours.
    pub(crate) ids: Vec<u64>,
    /// Their distances.
    pub(crate) distances: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_other_kinds_are_not_messages() {
        for line in ["", "WARN something", "{", "{\"type\":\"x\"}", "{\"type\":\"sample\"}", "[1]"]
        {
            assert!(Message::parse(line).is_none(), "{line}");
        }
    }

    #[test]
    fn what_is_absent_is_unknown_and_what_is_new_is_ignored() {
        let line = r#"{"type":"progress","vectors":5,"recall_at_10":null,"later":{"x":1}}"#;
        let Some(Message::Progress(progress)) = Message::parse(line) else { panic!("progress") };
        assert_eq!((progress.vectors, progress.recall_at_10), (5, None));
    }

    #[test]
    fn the_summary_has_its_keys_in_order() {
        let result = Progress { vectors: 3, recall_at_10: Some(0.98765), ..Progress::default() };
        let line = serde_json::to_string(&Summary::from(&result)).expect("JSON");
        assert_eq!(
            line,
            r#"{"vectors":3,"queries":0,"recall_at_10":0.9877,"records_per_s":null,"query_p50_ms":null,"query_p99_ms":null,"fan_out":null,"copies":null,"bad_records":0}"#
        );
    }
}
