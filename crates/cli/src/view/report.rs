//! The result of a job as a table.

use crate::jvm::Progress;
use crate::text;

/// One line per measurement, label and value.
pub(crate) fn report(result: &Progress, parallelism: u32) -> String {
    let count = text::count;
    let millis = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), text::millis);
    let rows: Vec<String> = result.rows_per_partition.iter().map(|&rows| count(rows)).collect();
    let audits = result.audits.map_or_else(String::new, |audits| {
        format!("   ({} queries checked against an exact search)", count(audits))
    });
    let rate = result.records_per_s.map_or_else(|| "-".to_owned(), |r| count(r.round() as u64));
    let mut lines = vec![
        ("measured for", format!("{:.1} s", result.seconds)),
        ("vectors", count(result.vectors)),
        ("deletes", count(result.deletes)),
        ("queries", count(result.queries)),
        ("records per second", rate),
        (
            "query latency",
            format!(
                "p50 {}   p99 {}   p99.9 {}",
                millis(result.query_p50_ms),
                millis(result.query_p99_ms),
                millis(result.query_p999_ms)
            ),
        ),
        ("recall@10", format!("{}{audits}", text::optional(result.recall_at_10, 4))),
        (
            "fan-out",
            format!("{} of {parallelism} partitions per query", text::optional(result.fan_out, 2)),
        ),
        ("copies per vector", text::optional(result.copies, 2)),
        ("rows per partition", if rows.is_empty() { "-".to_owned() } else { rows.join("  ") }),
        ("bad records", count(result.bad_records)),
    ];
    for (reason, &number) in &result.bad_by_reason {
        lines.push(("", format!("{} {reason}", count(number))));
    }
    lines.iter().map(|(label, value)| format!("  {label:<19} {value}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_records_are_told_by_reason() {
        let result = Progress {
            bad_records: 2,
            bad_by_reason: [("wrong dimension".to_owned(), 2)].into(),
            rows_per_partition: vec![1_000, 2],
            ..Progress::default()
        };
        let text = report(&result, 2);
        assert!(text.contains("  bad records         2\n                      2 wrong dimension\n"));
        assert!(text.contains("1,000  2\n"), "{text}");
    }
}
