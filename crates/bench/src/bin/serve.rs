//! `serve`: what serving over HTTP costs, what writes cost queries, and what replicas are good for.

#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use vstream_bench::runbook::RunbookError;
use vstream_bench::serve::{answer_turns, prepare, run, run_replica, ServeSettings};
use vstream_vector::Metric;

/// Measures a server on one core from a client on another, and an engine in a process.
#[derive(Parser)]
#[command(name = "serve", version)]
struct Arguments {
    /// The vstream command.
    #[arg(long, default_value = "target/release/vstream")]
    command: PathBuf,
    /// Matrix file with the rows.
    #[arg(long, value_name = "FILE.fbin")]
    data: PathBuf,
    /// Matrix file with the queries.
    #[arg(long, value_name = "FILE.fbin")]
    queries: PathBuf,
    /// l2 or cosine.
    #[arg(long, default_value = "cosine")]
    metric: Metric,
    /// Use the first rows only.
    #[arg(long)]
    rows: Option<usize>,
    /// Folder for the collections; what an earlier run left is removed.
    #[arg(long, value_name = "FOLDER")]
    dir: PathBuf,
    /// Length of a phase.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    phase: u64,
    /// Rows per second that arrive beside queries.
    #[arg(long, value_delimiter = ',', default_value = "500,5000")]
    rates: Vec<u64>,
    /// Measure replicas instead.
    #[arg(long)]
    replica: bool,
    /// With --replica: an empty place such as s3://bucket/folder, to which the collection is pushed and where
    /// a reader starts from it.
    #[arg(long, value_name = "ADDRESS", requires = "replica")]
    store: Option<String>,
    /// With --replica: only how soon one answers.
    #[arg(long, requires = "replica")]
    starts: bool,
    /// JSON to write.
    #[arg(long, value_name = "FILE.json")]
    out: PathBuf,
    /// Answer in turns for the collection of this folder: this program calls itself so.
    #[arg(long, value_name = "FOLDER", hide = true)]
    engine: Option<PathBuf>,
}

fn main() -> ExitCode {
    match measure(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &Arguments) -> Result<(), RunbookError> {
    let io = |what: &str, error: std::io::Error| RunbookError::Io(format!("{what}: {error}."));
    if let Some(folder) = &arguments.engine {
        return answer_turns(folder, &arguments.queries, arguments.metric);
    }
    let engine = |folder: &Path| {
        let own = std::env::args_os().skip(1);
        own.chain(["--engine".into(), folder.into()]).collect()
    };
    let data = (arguments.data.as_path(), arguments.rows);
    let (base, queries) = prepare(data, &arguments.queries, arguments.metric, &arguments.dir)?;
    let settings = ServeSettings {
        command: &arguments.command,
        directory: &arguments.dir,
        metric: arguments.metric,
        phase: Duration::from_secs(arguments.phase),
        engine: &engine,
        rates: arguments.rates.clone(),
        store: arguments.store.as_deref(),
        starts_alone: arguments.starts,
    };
    let (table, text) = if arguments.replica {
        let report = run_replica(&base, &queries, &settings)?;
        (report.table(), serde_json::to_string_pretty(&report).unwrap_or_default())
    } else {
        let report = run(&base, &queries, &settings)?;
        (report.table(), serde_json::to_string_pretty(&report).unwrap_or_default())
    };
    fs::write(&arguments.out, text).map_err(|error| io("Cannot write the report", error))?;
    fs::write(arguments.out.with_extension("md"), &table)
        .map_err(|error| io("Cannot write the table", error))?;
    print!("{table}");
    Ok(())
}
