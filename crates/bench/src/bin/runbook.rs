//! `runbook`: makes runbooks over a data set and follows them on the engine.

#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Parser};
use vstream_bench::runbook::{
    generate, run, svg, Amount, Kind, Matrix, RunSettings, Runbook, RunbookError,
};
use vstream_vector::Metric;

/// Makes runbooks in the public streaming-track form, and runs them.
#[derive(Parser)]
#[command(name = "runbook", version)]
enum Arguments {
    /// Writes a runbook, and beside it the rows in the order that it speaks of.
    Generate(Generate),
    /// Follows a runbook and measures recall@10 at each search step.
    Run(Run),
}

#[derive(Args)]
struct Generate {
    /// What happens to the collection.
    kind: Kind,
    /// Matrix file with the rows.
    #[arg(long, value_name = "FILE.fbin")]
    data: PathBuf,
    /// Runbook to write. A kind that permutes the rows writes FILE.fbin too.
    #[arg(long, value_name = "FILE.yaml")]
    out: PathBuf,
    /// Use the first rows only.
    #[arg(long)]
    rows: Option<usize>,
    #[arg(long, default_value_t = 42)]
    seed: u64,
}

#[derive(Args)]
struct Run {
    /// The runbook.
    file: PathBuf,
    /// Matrix file with the rows that the runbook speaks of.
    #[arg(long, value_name = "FILE.fbin")]
    data: PathBuf,
    /// Matrix file with the queries.
    #[arg(long, value_name = "FILE.fbin")]
    queries: PathBuf,
    /// Data set of the runbook, if it has several.
    #[arg(long, value_name = "NAME")]
    dataset: Option<String>,
    /// l2, cosine or inner_product.
    #[arg(long, default_value = "cosine")]
    metric: Metric,
    /// Recall@10 that `--effort auto` is steered to.
    #[arg(long, default_value_t = 0.95)]
    recall_target: f64,
    /// auto, or probes=N for a fixed number of leaves without the recall guard.
    #[arg(long, default_value = "auto", value_parser = effort)]
    effort: Amount,
    /// With `--effort auto`: pose queries for so long before a step is scored, so that the recall
    /// guard, which takes 3 % of a core, can follow.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 0)]
    settle_ms: u64,
    /// With `--effort auto`: let the guard ask all queries it knows before a step is scored, so that
    /// the result does not depend on how much time its thread had.
    #[arg(long)]
    catch_up: bool,
    /// Build a fresh index at every search step and compare at equal effort.
    #[arg(long)]
    fresh: bool,
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// JSON lines to write; a plot goes to the same name with `.svg`.
    #[arg(long, value_name = "FILE.json")]
    out: PathBuf,
}

fn effort(text: &str) -> Result<Amount, String> {
    if text == "auto" {
        return Ok(Amount::Auto);
    }
    let probes = text.strip_prefix("probes=").and_then(|number| usize::from_str(number).ok());
    match probes {
        Some(probes) if probes > 0 => Ok(Amount::Probes(probes)),
        _ => Err("write auto, or probes=N with N from 1 on".to_owned()),
    }
}

fn main() -> ExitCode {
    let done = match Arguments::parse() {
        Arguments::Generate(arguments) => make(&arguments),
        Arguments::Run(arguments) => follow(&arguments),
    };
    done.unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::FAILURE
    })
}

fn make(arguments: &Generate) -> Result<ExitCode, RunbookError> {
    let Generate { kind, data, out, rows, seed } = arguments;
    let base = Matrix::read(data, *rows)?;
    let folder = data.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    let dataset = format!("{}-{}", folder.unwrap_or("data"), base.rows());
    let made = generate(*kind, &base, &dataset, *seed)?;
    let mut matrix = data.clone();
    if let Some(permuted) = &made.permuted {
        matrix = out.with_extension("fbin");
        permuted.write(&matrix)?;
    }
    fs::write(out, made.runbook.to_yaml()).map_err(|error| cannot("write", out, &error))?;
    println!(
        "{}: {} steps, at most {} live rows. Run it with --data {}",
        out.display(),
        made.runbook.steps.len(),
        made.runbook.max_pts,
        matrix.display()
    );
    Ok(ExitCode::SUCCESS)
}

fn follow(arguments: &Run) -> Result<ExitCode, RunbookError> {
    let file = &arguments.file;
    let text = fs::read_to_string(file).map_err(|error| cannot("read", file, &error))?;
    let runbook = Runbook::parse(&text, arguments.dataset.as_deref())?;
    let base = Matrix::read(&arguments.data, None)?;
    let queries = Matrix::read(&arguments.queries, None)?;
    let missed = runbook.walk(base.rows())?.missed;
    if missed > 0 {
        eprintln!("note: the runbook deletes or replaces {missed} tags that do not live");
    }
    let settings = RunSettings {
        metric: arguments.metric,
        recall_target: arguments.recall_target,
        effort: arguments.effort,
        fresh: arguments.fresh,
        settle: Duration::from_millis(arguments.settle_ms),
        catch_up: arguments.catch_up,
        seed: arguments.seed,
    };
    let summary = run(&runbook, base, queries, &settings, &mut |search| {
        eprintln!("step {}: {} live, recall {:.4}", search.step, search.live, search.recall);
    })?;
    let (out, plot) = (&arguments.out, arguments.out.with_extension("svg"));
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let title = format!("{name} on {}", runbook.dataset);
    let picture = svg(&title, settings.recall_target, &summary.searches);
    fs::write(out, summary.to_json_lines()).map_err(|error| cannot("write", out, &error))?;
    fs::write(&plot, picture).map_err(|error| cannot("write", &plot, &error))?;
    print!("{title}: {}", summary.table());
    println!("written: {} and {}", out.display(), plot.display());
    Ok(if summary.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn cannot(doing: &str, path: &Path, error: &std::io::Error) -> RunbookError {
    RunbookError::Io(format!("Cannot {doing} {}: {error}.", path.display()))
}
