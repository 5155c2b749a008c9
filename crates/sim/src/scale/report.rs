//! The tables of `docs/design/scale.md`, as Markdown.

use std::fmt::Write;

use super::deployment::{Deployment, GBIT};
use super::fan_out::fan_out;
use super::{load, sizes, slowest, walls};

/// Numbers of partitions in the tables.
pub const PARTITIONS: [u64; 4] = [16, 64, 256, 1024];
/// Rows in the tables.
pub const ROWS: [(&str, f64); 3] = [("10 M", 1e7), ("1 B", 1e9), ("100 B", 1e11)];
/// Queries that are drawn for a wait.
const DRAWN: usize = 20_000;

/// All tables. `seed` is that of the waits.
pub fn tables(seed: u64) -> String {
    let mut out = String::new();
    growing(&mut out);
    falling(&mut out);
    queries(&mut out, seed);
    hops(&mut out);
    checkpoints(&mut out);
    partitions(&mut out);
    out
}

fn growing(out: &mut String) {
    heading(out, "Met at", "| part | limit | 100 dimensions | 768 dimensions |", 4);
    for wall in walls::growing() {
        let at = |dimension| {
            let job = |p| Deployment { dimension, ..Deployment::of(p, 1e9) };
            wall.met_at(job).map_or("-".into(), thousands)
        };
        row(out, &[wall.part.into(), wall.limit_words.into(), at(100), at(768)]);
    }
}

fn falling(out: &mut String) {
    heading(out, "Fits from", "| part | limit | 10 M rows | 1 B | 100 B |", 5);
    for wall in walls::falling() {
        let mut cells = vec![wall.part.to_string(), wall.limit_words.to_string()];
        for (_, rows) in ROWS {
            let from = wall.fits_from(|p| Deployment::of(p, rows));
            cells.push(from.map_or("-".into(), thousands));
        }
        row(out, &cells);
    }
}

fn queries(out: &mut String, seed: u64) {
    let head = "| partitions | visited | messages | KB of copies | KB of answers | \
                without offsets | KB in merge | wait p50 / p99 ms | in flight per merge task |";
    heading(out, "One query", head, 9);
    for p in PARTITIONS {
        let job = Deployment::of(p, 1e9);
        let visited = fan_out(p);
        let (with, without) = load::answers_of_query(&job);
        let waits = slowest::waits(visited, DRAWN, seed);
        let in_flight = job.queries_per_s / p as f64 * waits.mean / 1e3;
        row(
            out,
            &[
                thousands(p),
                format!("{visited:.1}"),
                format!("{:.0}", 2.0 + 2.0 * visited),
                kilo(visited * sizes::copy(&job) as f64),
                kilo(with),
                kilo(without),
                kilo(sizes::gathering(&job, visited)),
                format!("{:.1} / {:.1}", waits.p50, waits.p99),
                format!("{in_flight:.2}"),
            ],
        );
    }
}

fn hops(out: &mut String) {
    let head = "| hop | 16 | 64 | 256 | 1,024 |";
    heading(out, "Thousand messages/s, MB/s of the whole job", head, 5);
    let jobs = PARTITIONS.map(|p| load::hops(&Deployment::of(p, 1e9)));
    for hop in 0..jobs[0].len() {
        let mut cells = vec![jobs[0][hop].name.to_string()];
        cells.extend(
            jobs.iter().map(|hops| {
                format!("{:.1}, {:.1}", hops[hop].messages / 1e3, hops[hop].bytes / 1e6)
            }),
        );
        row(out, &cells);
    }
}

fn checkpoints(out: &mut String) {
    let head = "| partitions | template KB, 100 / 768 dimensions | copies | templates MB | \
                upload MB | files, 1 B / 100 B rows | cores for minima |";
    heading(out, "A checkpoint", head, 7);
    for p in PARTITIONS {
        let job = Deployment::of(p, 1e9);
        let wide = Deployment { dimension: 768, ..job.clone() };
        let large = Deployment { rows: 1e11, ..job.clone() };
        let pair = |one: f64, other: f64| format!("{one:.0} / {other:.0}");
        row(
            out,
            &[
                thousands(p),
                pair(load::template_bytes(&job) / 1e3, load::template_bytes(&wide) / 1e3),
                load::TEMPLATE_COPIES.to_string(),
                pair(load::templates_bytes(&job) / 1e6, load::templates_bytes(&wide) / 1e6),
                pair(load::upload_bytes(&job) / 1e6, load::upload_bytes(&wide) / 1e6),
                pair(load::files(&job), load::files(&large)),
                format!("{:.4}", load::minimum_cores(&job)),
            ],
        );
    }
}

fn partitions(out: &mut String) {
    let head = "| rows | partitions | M rows each | GB in memory | GB in segments | \
                GB of state | restore s, same / other | queries/s held, a core each |";
    heading(out, "A partition", head, 8);
    for (words, rows) in ROWS {
        for p in PARTITIONS {
            let job = Deployment::of(p, rows);
            row(
                out,
                &[
                    words.into(),
                    thousands(p),
                    format!("{:.3}", job.rows_of_partition() / 1e6),
                    format!("{:.2}", load::memory_bytes(&job) / 1e9),
                    format!("{:.2}", load::memory_segments_bytes(&job) / 1e9),
                    format!("{:.2}", load::state_bytes(&job) / 1e9),
                    format!(
                        "{:.0} / {:.0}",
                        load::restore_same_s(&job, GBIT),
                        load::restore_other_s(&job, GBIT)
                    ),
                    thousands(load::queries_held(&job).round() as u64),
                ],
            );
        }
    }
}

/// A whole number with a comma before each three digits.
fn thousands(number: u64) -> String {
    match number / 1000 {
        0 => format!("{number}"),
        more => format!("{},{:03}", thousands(more), number % 1000),
    }
}

fn kilo(bytes: f64) -> String {
    format!("{:.1}", bytes / 1e3)
}

fn heading(out: &mut String, title: &str, head: &str, columns: usize) {
    writeln!(out, "\n{title}\n\n{head}\n|{}", "---|".repeat(columns)).expect("a text takes all");
}

fn row(out: &mut String, cells: &[String]) {
    writeln!(out, "| {} |", cells.join(" | ")).expect("a text takes all");
}
