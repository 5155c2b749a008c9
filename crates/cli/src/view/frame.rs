//! One picture of a running job, as lines of text.

use super::meter::Meter;
use super::terminal::{Emphasis, Glyphs, Line};
use crate::jvm::Progress;
use crate::text;

/// Partitions that get a bar of their own; more are summed up.
const BARS_MAX: usize = 16;

/// Draws the picture for a terminal of `width` columns, with `footer` below unless it is empty.
pub(super) fn frame(meter: &Meter, footer: &str, width: usize, glyphs: Glyphs) -> Vec<Line> {
    let now = meter.latest();
    let mut lines = vec![
        Line::default().with(Emphasis::Strong, &meter.scene.title),
        progress_line(meter, &now, width, glyphs),
        Line::default(),
    ];
    let rates = meter.rates();
    let per_second = |rate: f64| format!("{:>7}/s", text::count(rate.round() as u64));
    lines.push(
        row("ingest")
            .plain(format!(
                "{:>11} vectors {}",
                text::count(now.vectors),
                per_second(rates.vectors)
            ))
            .plain(format!(
                "{:>11} deletes {}",
                text::count(now.deletes),
                per_second(rates.deletes)
            )),
    );
    lines.push(
        row("queries")
            .plain(format!(
                "{:>11} answers {}",
                text::count(now.queries),
                per_second(rates.queries)
            ))
            .plain(latencies(&now)),
    );
    lines.push(
        row("recall@10")
            .plain(format!("{:>11}", text::optional(now.recall_at_10, 4)))
            .with(Emphasis::Quiet, checked(&now)),
    );
    let of = meter.scene.parallelism;
    lines.push(
        row("fan-out")
            .plain(format!("{:>11}", text::optional(now.fan_out, 2)))
            .with(Emphasis::Quiet, format!(" of {of} partitions per query"))
            .plain(format!("    copies per vector {}", text::optional(now.copies, 2)))
            .plain(format!("    bad records {}", text::count(now.bad_records))),
    );
    lines.push(Line::default());
    lines.extend(partitions(&now.rows_per_partition, width, glyphs));
    if !footer.is_empty() {
        lines.push(Line::default());
        lines.push(row("answer").plain(footer));
    }
    lines
}

fn progress_line(meter: &Meter, now: &Progress, width: usize, glyphs: Glyphs) -> Line {
    let phase = if now.phase.is_empty() { "starting" } else { &now.phase };
    let bar_width = width.saturating_sub(34).clamp(10, 60);
    let (bar, percent) = match meter.done() {
        Some(done) => (glyphs.bar(done, bar_width, true), format!("{:3.0} %", done * 100.0)),
        None => (glyphs.bar(0.0, bar_width, true), "  - %".to_owned()),
    };
    Line::default()
        .with(Emphasis::Bar, bar)
        .plain(format!(" {percent} {:>5.0} s  ", now.seconds))
        .with(Emphasis::Strong, phase)
}

fn row(label: &str) -> Line {
    Line::default().with(Emphasis::Quiet, format!("  {label:<10}"))
}

fn latencies(now: &Progress) -> String {
    let show = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), text::millis);
    format!("    p50 {}   p99 {}", show(now.query_p50_ms), show(now.query_p99_ms))
}

fn checked(now: &Progress) -> String {
    match now.audits {
        Some(audits) => format!(
            " against an exact search of the live rows, {} queries checked",
            text::count(audits)
        ),
        None => " against an exact search of the live rows, for a sample of queries".to_owned(),
    }
}

fn partitions(rows: &[u64], width: usize, glyphs: Glyphs) -> Vec<Line> {
    let most = rows.iter().copied().max().unwrap_or(0);
    if rows.len() > BARS_MAX {
        let least = rows.iter().copied().min().unwrap_or(0);
        let mean = rows.iter().sum::<u64>() / rows.len() as u64;
        let text = format!(
            "{} partitions, least {}, mean {}, most {}",
            rows.len(),
            text::count(least),
            text::count(mean),
            text::count(most)
        );
        return vec![row("rows").plain(text)];
    }
    let bar_width = width.saturating_sub(34).clamp(10, 60);
    let share = |rows: u64| if most == 0 { 0.0 } else { rows as f64 / most as f64 };
    let line = |(partition, &rows): (usize, &u64)| {
        row(if partition == 0 { "rows" } else { "" })
            .plain(format!("{partition:>3} {:>9} ", text::count(rows)))
            .with(Emphasis::Bar, glyphs.bar(share(rows), bar_width, false))
    };
    rows.iter().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Goal, Scene};
    use super::*;

    fn drawn(progress: &[Progress], width: usize) -> Vec<String> {
        let scene = Scene {
            title: "VStream demo".to_owned(),
            parallelism: 2,
            preload: 0,
            goal: Goal::Records(2_000),
            recall_target: 0.95,
        };
        let mut meter = Meter::new(scene);
        progress.iter().for_each(|progress| meter.take(progress.clone()));
        let lines = frame(&meter, "canadian: quebec 0.25", width, Glyphs::ASCII);
        lines.iter().map(|line| line.render(width, Glyphs::ASCII).trim_end().to_owned()).collect()
    }

    #[test]
    fn a_picture_shows_every_number() {
        let stream = |seconds: f64, vectors: u64| Progress {
            seconds,
            phase: "stream".to_owned(),
            vectors,
            ..Progress::default()
        };
        let last = Progress {
            deletes: 200,
            queries: 200,
            query_p50_ms: Some(1.234),
            query_p99_ms: Some(12.34),
            recall_at_10: Some(0.98765),
            audits: Some(12),
            fan_out: Some(1.4),
            copies: Some(1.0),
            rows_per_partition: vec![300, 150],
            bad_records: 3,
            ..stream(2.0, 600)
        };
        assert_eq!(
            drawn(&[stream(0.0, 0), last], 100),
            [
                "VStream demo",
                "##############################..............................  50 %     2 s  stream",
                "",
                "  ingest            600 vectors     300/s        200 deletes     100/s",
                "  queries           200 answers     100/s    p50 1.23 ms   p99 12.3 ms",
                "  recall@10      0.9877 against an exact search of the live rows, 12 queries checked",
                "  fan-out          1.40 of 2 partitions per query    copies per vector 1.00    bad records 3",
                "",
                "  rows        0       300 ############################################################",
                "              1       150 ##############################",
                "",
                "  answer    canadian: quebec 0.25",
            ]
        );
    }

    #[test]
    fn nothing_known_is_drawn_too_and_nothing_is_too_wide() {
        let lines = drawn(&[], 40);
        assert_eq!(lines[1], "..........   - %     0 s  starting");
        let many = Progress { rows_per_partition: (1..=128).collect(), ..Progress::default() };
        let lines = drawn(&[many], 40);
        assert!(lines.iter().all(|line| line.chars().count() <= 40));
        assert!(lines.iter().any(|line| line.contains("128 partitions, least 1")), "{lines:?}");
    }
}
