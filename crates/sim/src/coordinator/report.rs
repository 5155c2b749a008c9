//! Tables and JSON of what the cases gave.

use std::fmt::Write as _;

use serde_json::{json, Value};

use super::laws::{Settings, DEFAULT, PASSIVE, STREAM_RAG_HELD};
use super::measured::Measured;
use super::outcome::Outcome;
use super::plan::{ALPHA, BATCHES, BETA, CONTINUOUS, PAPER, PROTOTYPE, STARTS};
use super::study::{factor, play, Case, Row};
use super::traffic::SECOND;

/// Goals: p99 over PassiveRAG's, over that of StreamRAG with a hold, and replica-seconds over the
/// latter's.
const GOALS: [f64; 3] = [1.0 / 4.0, 1.0 / 3.0, 1.1];
/// Seconds of a bin of a course.
const BIN_S: f64 = 0.5;
/// Part of the traffic that a course shows: its first minute.
const COURSE_S: [f64; 2] = [0.0, 60.0];

/// All tables, as people read them.
pub fn tables(measured: &Measured, rows: &[Row], seeds: u64) -> String {
    let mut out = String::new();
    let (service, floor) = (&measured.service, &measured.floor);
    let say = |out: &mut String, text: String| writeln!(out, "{text}").expect("a text takes all");
    say(
        &mut out,
        format!(
            "A query takes {:.3} ms in the mean at recall {}, {:.3} ms at the floor {}; a replica is \
             there after {:.3} s. Rates are {:.2} times the paper's. Cells are p99 in seconds, ± its \
             deviation over {seeds} seeds, @ replicas in the mean.",
            service.mean() * 1e3,
            super::study::TARGET,
            floor.mean() * 1e3,
            measured.floor_recall,
            measured.start_s,
            factor(service)
        ),
    );
    let traffic = |row: &Row| row.case.traffic.name.to_owned();
    say(&mut out, "\n**Each query when a replica is free**\n".to_owned());
    matrix(&mut out, rows, CONTINUOUS, "law", traffic);
    say(&mut out, "\n**In batches, as Spark makes them**\n".to_owned());
    matrix(&mut out, rows, BATCHES, "law", traffic);
    say(&mut out, format!("\n**The default law, `{DEFAULT}`, against the goals**\n"));
    goals(&mut out, rows);
    say(&mut out, "\n**Slower starts, each query when a replica is free**\n".to_owned());
    matrix(&mut out, rows, STARTS, "law", |row| {
        format!("{}, {} s", row.case.traffic.name, row.case.room.start_s)
    });
    say(&mut out, "\n**Replicas of 200 queries/s, log-normal: High**\n".to_owned());
    matrix(&mut out, rows, PROTOTYPE, "law", |row| format!("start {} s", row.case.room.start_s));
    say(&mut out, "\n**StreamRAG's own setting: High, clumped, in batches**\n".to_owned());
    for (table, first) in [(PAPER, "law"), (ALPHA, "α"), (BETA, "β")] {
        longest(&mut out, rows, table, first);
    }
    out
}

fn of<'a>(rows: &'a [Row], table: &str) -> Vec<&'a Row> {
    rows.iter().filter(|row| row.case.table == table).collect()
}

/// Different texts, in the order in which they come first.
fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut found = Vec::new();
    for text in texts {
        if !found.contains(&text) {
            found.push(text);
        }
    }
    found
}

/// Seconds with so many digits as say something.
fn seconds(value: f64) -> String {
    match value {
        value if value < 0.0995 => format!("{value:.3}"),
        value if value < 9.95 => format!("{value:.2}"),
        value => format!("{value:.1}"),
    }
}

/// A line per law and a column per place.
fn matrix(
    out: &mut String,
    rows: &[Row],
    table: &str,
    first: &str,
    place: impl Fn(&Row) -> String,
) {
    let rows = of(rows, table);
    let places = distinct(rows.iter().map(|row| place(row)));
    head(out, first, &places);
    for name in distinct(rows.iter().map(|row| row.case.candidate.name.clone())) {
        let cell = |column: &String| {
            let row =
                rows.iter().find(|row| row.case.candidate.name == name && place(row) == *column);
            row.map_or("-".to_owned(), |row| {
                let (p99, deviation) = (seconds(row.mean.p99_s), seconds(row.p99_deviation));
                format!("{p99} ± {deviation} @ {:.2}", row.mean.replicas)
            })
        };
        line(out, &name, places.iter().map(cell).collect());
    }
}

/// The longest latency of each law.
fn longest(out: &mut String, rows: &[Row], table: &str, first: &str) {
    let columns = ["longest s", "p99 s", "median s", "replicas, mean", "most"].map(str::to_owned);
    head(out, first, &columns);
    for row in of(rows, table) {
        let mean = &row.mean;
        let cells = [mean.max_s, mean.p99_s, mean.p50_s].map(seconds).into_iter();
        let counts = [format!("{:.2}", mean.replicas), row.peak.to_string()];
        line(out, &row.case.candidate.name, cells.chain(counts).collect());
    }
    out.push('\n');
}

/// The default law beside the two that it must beat, and beside static numbers.
fn goals(out: &mut String, rows: &[Row]) {
    let place = |row: &Row| match row.case.table {
        STARTS => format!("{}, start {} s", row.case.traffic.name, row.case.room.start_s),
        _ => row.case.traffic.name.to_owned(),
    };
    let columns = [
        "p99 over PassiveRAG's (0.25)",
        "p99 over StreamRAG's with a hold (0.33)",
        "replica-seconds over those (1.1)",
        "goals",
        "a static number that is no slower and no dearer",
    ];
    head(out, "traffic and transport", &columns.map(str::to_owned));
    for (table, ours) in [
        (CONTINUOUS, DEFAULT.to_owned()),
        (STARTS, DEFAULT.to_owned()),
        (BATCHES, DEFAULT.to_owned()),
        (BATCHES, format!("{DEFAULT}, capped")),
    ] {
        let rows = of(rows, table);
        for traffic in distinct(rows.iter().map(|row| place(row))) {
            let here = rows.iter().filter(|row| place(row) == traffic);
            let here: Vec<&&Row> = here.collect();
            let law = |name: &str| here.iter().find(|row| row.case.candidate.name == name);
            let (Some(own), Some(passive), Some(held)) =
                (law(&ours), law(PASSIVE), law(STREAM_RAG_HELD))
            else {
                continue;
            };
            let ratios = [
                own.mean.p99_s / passive.mean.p99_s,
                own.mean.p99_s / held.mean.p99_s,
                own.mean.replica_s / held.mean.replica_s,
            ];
            let is_met = ratios.iter().zip(GOALS).all(|(ratio, goal)| *ratio <= goal);
            let fixed =
                here.iter().filter(|row| matches!(row.case.candidate.law, Settings::Fixed(_)));
            let wins = fixed.filter(|row| {
                row.mean.p99_s <= own.mean.p99_s && row.mean.replica_s <= own.mean.replica_s
            });
            let wins: Vec<&str> = wins.map(|row| row.case.candidate.name.as_str()).collect();
            let mut cells: Vec<String> = ratios.map(|ratio| format!("{ratio:.2}")).to_vec();
            cells.push(if is_met { "met" } else { "**missed**" }.to_owned());
            cells.push(if wins.is_empty() { "-".to_owned() } else { wins.join(", ") });
            line(out, &format!("{traffic}; {table}, {ours}"), cells);
        }
    }
}

fn head(out: &mut String, first: &str, columns: &[String]) {
    line(out, first, columns.to_vec());
    writeln!(out, "|{}", "---|".repeat(columns.len() + 1)).expect("a text takes all");
}

fn line(out: &mut String, first: &str, cells: Vec<String>) {
    writeln!(out, "| {first} | {} |", cells.join(" | ")).expect("a text takes all");
}

/// All that was measured and found.
pub fn json(measured: &Measured, rows: &[Row], seeds: u64) -> Value {
    let row = |row: &Row| {
        let mean = &row.mean;
        json!({
            "table": row.case.table,
            "traffic": row.case.traffic.name,
            "law": row.case.candidate.name,
            "start_s": row.case.room.start_s,
            "p50_s": rounded(mean.p50_s),
            "p99_s": rounded(mean.p99_s),
            "p99_deviation_s": rounded(row.p99_deviation),
            "max_s": rounded(mean.max_s),
            "replicas": rounded(mean.replicas),
            "replica_s": rounded(mean.replica_s),
            "peak": row.peak,
            "at_floor": rounded(mean.at_floor),
        })
    };
    json!({
        "measured": measured.about,
        "seeds": seeds,
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// How a minute went, law by law, in bins of half a second: for pictures.
pub fn courses(cases: &[Case]) -> Value {
    let laws = ["PassiveRAG", STREAM_RAG_HELD, "forecast", DEFAULT];
    let shown = cases.iter().filter(|case| {
        let is_high = case.traffic.name.starts_with("High");
        case.table == CONTINUOUS && is_high && laws.contains(&case.candidate.name.as_str())
    });
    let course = |case: &Case| {
        let bins = course(&play(case, 1));
        json!({"traffic": case.traffic.name, "law": case.candidate.name, "bins": bins})
    };
    shown.map(course).collect()
}

/// Per bin: seconds since the minute began, replicas, queries that wait, and the longest latency of the
/// queries that arrived.
fn course(outcome: &Outcome) -> Vec<(f64, u32, u64, f64)> {
    let count = ((COURSE_S[1] - COURSE_S[0]) / BIN_S) as usize;
    let mut bins: Vec<(f64, u32, u64, f64)> =
        (0..count).map(|at| (at as f64 * BIN_S, 0, 0, 0.0)).collect();
    let bin = |time: u64| {
        let at = (time as f64 / SECOND - COURSE_S[0]) / BIN_S;
        (at >= 0.0 && at < count as f64).then_some(at as usize)
    };
    for &(time, replicas, backlog) in &outcome.course {
        if let Some(at) = bin(time) {
            bins[at].1 = bins[at].1.max(replicas);
            bins[at].2 = bins[at].2.max(backlog);
        }
    }
    for &(arrived, answered) in &outcome.answers {
        if let Some(at) = bin(arrived) {
            bins[at].3 = bins[at].3.max(rounded((answered - arrived) as f64 / SECOND));
        }
    }
    bins
}
