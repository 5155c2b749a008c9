//! `recall`: is recall a setting that holds, on which data, for which k, in which place?

#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use serde_json::json;
use vstream_bench::recall::{
    markdown, moved, run, table, Case, DataName, DataSet, MovedRow, Place, Row, RunSettings,
    Selected,
};
use vstream_bench::runbook::RunbookError;
use vstream_vector::Metric;

/// Runs the cases of the table, or those that are named, and compares truth, target and estimate.
#[derive(Parser)]
#[command(name = "recall", version)]
struct Arguments {
    /// Only this data (several times for more). Alone with defaults: k 10, target 0.95, memory.
    #[arg(long = "case", value_name = "DATA")]
    data_names: Vec<DataName>,
    /// Neighbours asked for.
    #[arg(long)]
    k: Vec<usize>,
    /// Recall asked for.
    #[arg(long)]
    target: Vec<f64>,
    /// Where rows are when queries come.
    #[arg(long)]
    place: Vec<Place>,
    /// Which rows may be in an answer, with --case.
    #[arg(long)]
    filter: Vec<Selected>,
    /// Rows, if not those of the table.
    #[arg(long)]
    rows: Option<usize>,
    /// Folder that holds glove100, sift128, text256 and text384.
    #[arg(long, value_name = "FOLDER", default_value = "data")]
    data: PathBuf,
    /// Folder for truths, to be used again.
    #[arg(long, value_name = "FOLDER", default_value = "run/recall/truth")]
    truth: PathBuf,
    /// Folder for the collections that are larger than memory.
    #[arg(long, value_name = "FOLDER", default_value = "run/recall")]
    dir: PathBuf,
    /// JSON to write.
    #[arg(long, value_name = "FILE.json")]
    out: Option<PathBuf>,
    /// Commit to be named in the JSON.
    #[arg(long, default_value = "")]
    commit: String,
    /// Only the row that moves and must stay the first answer.
    #[arg(long)]
    moved: bool,
    /// Fail if any row does not hold.
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    match measure(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// True unless `--check` found a row that does not hold.
fn measure(arguments: &Arguments) -> Result<bool, RunbookError> {
    let settings =
        RunSettings { dir: arguments.dir.clone(), ground: Some(arguments.truth.clone()) };
    let mut rows: Vec<Row> = Vec::new();
    let mut held: Option<DataSet> = None;
    for case in chosen(arguments) {
        if held.as_ref().is_none_or(|data| data.name != case.data) {
            held = Some(DataSet::load(case.data, &arguments.data, arguments.rows)?);
        }
        let data = held.as_ref().expect("loaded above");
        let row = run(&case, data, &settings)?;
        eprint!("{}", markdown(std::slice::from_ref(&row)).lines().nth(2).unwrap_or_default());
        eprintln!();
        rows.push(row);
    }
    let is_whole = arguments.data_names.is_empty() && arguments.place.is_empty();
    let moves = if arguments.moved || is_whole { all_moves()? } else { Vec::new() };
    if !rows.is_empty() {
        println!("{}", markdown(&rows));
    }
    for found in &moves {
        println!(
            "A row of {} numbers under {} that moved {} times: first for k = 1 {} times, first of \
             ten {}, among ten {}, short answers {}.",
            found.dimension,
            found.metric,
            found.moves,
            found.first_of_one,
            found.first_of_ten,
            found.among_ten,
            found.short
        );
    }
    if let Some(out) = &arguments.out {
        write(out, &rows, &moves, &arguments.commit)?;
    }
    let holds = rows.iter().all(|row| row.misses().is_empty())
        && moves.iter().all(|found| found.first_of_one == found.moves && found.short == 0);
    Ok(holds || !arguments.check)
}

fn all_moves() -> Result<Vec<MovedRow>, RunbookError> {
    [(64, Metric::L2), (256, Metric::L2), (256, Metric::Cosine), (1536, Metric::Cosine)]
        .into_iter()
        .map(|(dimension, metric)| moved(dimension, metric))
        .collect()
}

/// The table's cases that fit what was named; exactly what was named if data was.
fn chosen(arguments: &Arguments) -> Vec<Case> {
    let Arguments { data_names, k, target, place, .. } = arguments;
    if arguments.moved {
        return Vec::new();
    }
    if data_names.is_empty() {
        let mut cases = table();
        cases.retain(|case| {
            (k.is_empty() || k.contains(&case.k))
                && (target.is_empty() || target.contains(&case.target))
                && (place.is_empty() || place.contains(&case.place))
        });
        return cases;
    }
    let or =
        |values: &[usize], default| if values.is_empty() { vec![default] } else { values.into() };
    let ks = or(k, 10);
    let targets = if target.is_empty() { vec![0.95] } else { target.clone() };
    let places = if place.is_empty() { vec![Place::Memory] } else { place.clone() };
    let filters: Vec<Option<Selected>> = match arguments.filter.is_empty() {
        true => vec![None],
        false => arguments.filter.iter().copied().map(Some).collect(),
    };
    let mut cases = Vec::new();
    for &data in data_names {
        for &place in &places {
            for &k in &ks {
                for &filter in &filters {
                    let case = |&target| Case { data, place, k, target, filter };
                    cases.extend(targets.iter().map(case));
                }
            }
        }
    }
    cases
}

fn write(out: &Path, rows: &[Row], moves: &[MovedRow], commit: &str) -> Result<(), RunbookError> {
    let failed = |error: std::io::Error| {
        RunbookError::Io(format!("Cannot write {}: {error}.", out.display()))
    };
    if let Some(folder) = out.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let text = format!("{:#}\n", json!({ "commit": commit, "rows": rows, "moved": moves }));
    fs::write(out, text).map_err(failed)
}
