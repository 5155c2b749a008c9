//! `vstream inspect` of a collection: the leaves that its segments share.

use serde_json::{json, Value};
use vstream_engine::{CollectionSummary, Distribution, LeafCounts};

use crate::text;

/// Adds the counts to the description of a collection, and to those of its segments.
pub(crate) fn add_json(counts: &LeafCounts, description: &mut Value) {
    let of = |counts: Distribution| json!({ "mean": counts.mean, "p99": counts.p99, "most": counts.most });
    description["leaves"] = json!({
        "defined": counts.defined,
        "runs": counts.runs,
        "runs-per-leaf": of(counts.runs_per_leaf),
        "rows-per-leaf": of(counts.rows_per_leaf),
        "left-over": counts.left_over.leaves,
        "left-over-rows": counts.left_over.rows,
    });
    for (at, segment) in counts.segments.iter().enumerate() {
        if let Some(segment) = segment {
            description["segments"][at]["leaves"] =
                json!({"runs": segment.runs, "defined": segment.defined});
        }
    }
}

/// The counts as a table; empty without a run.
pub(crate) fn as_table(summary: &CollectionSummary, counts: &LeafCounts) -> String {
    if counts.runs == 0 {
        return String::new();
    }
    let of = |counts: Distribution| {
        let (p99, most) = (text::count(counts.p99), text::count(counts.most));
        format!("{:.1} on average, p99 {p99}, at most {most}", counts.mean)
    };
    let left_over = counts.left_over;
    let counted = counts.segments.iter().flatten().count();
    let mut table = format!(
        "\n{} leaves in {counted} of {} segments, {} runs\n\n",
        text::count(counts.defined),
        summary.segments.len(),
        text::count(counts.runs),
    );
    let (leaves, rows) = (text::count(left_over.leaves), text::count(left_over.rows));
    let lines = [
        ("runs per leaf", of(counts.runs_per_leaf)),
        ("rows per leaf", of(counts.rows_per_leaf)),
        ("left over", format!("{leaves} leaves with {rows} rows")),
    ];
    lines.iter().for_each(|(name, value)| table.push_str(&format!("  {name:<20} {value}\n")));
    for (segment, own) in summary.segments.iter().zip(&counts.segments) {
        if let Some(own) = own {
            let (runs, defined) = (text::count(own.runs), text::count(own.defined));
            let line = format!("  {:<20} defines {defined}, {runs} runs\n", segment.name);
            table.push_str(&line);
        }
    }
    table
}
