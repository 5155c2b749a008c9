//! `service`: how long a query takes on a server of one core, and how long such a server takes to start.

#![forbid(unsafe_code)]

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use vstream_bench::runbook::RunbookError;
use vstream_bench::serve::{measure_service, prepare, ServiceSettings};
use vstream_vector::Metric;

/// Recall that queries ask for when nothing waits.
const TARGET: f64 = 0.95;

/// Measures service and start times of a server on one core, for the simulation of a coordinator.
#[derive(Parser)]
#[command(name = "service", version)]
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
    /// Recall that queries ask for when much waits.
    #[arg(long, default_value_t = 0.8)]
    floor: f64,
    /// Queries of a round; of a hundred rounds for each of the two the fastest ten count.
    #[arg(long, default_value_t = 500)]
    timed: usize,
    /// Starts that are timed.
    #[arg(long, default_value_t = 9)]
    starts: usize,
    /// Also let a coordinator run real replicas.
    #[arg(long)]
    real: bool,
    /// Folder for the collections; what an earlier run left is removed.
    #[arg(long, value_name = "FOLDER")]
    dir: PathBuf,
    /// JSON to write.
    #[arg(long, value_name = "FILE.json")]
    out: PathBuf,
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
    let data = (arguments.data.as_path(), arguments.rows);
    let (base, queries) = prepare(data, &arguments.queries, arguments.metric, &arguments.dir)?;
    let settings = ServiceSettings {
        command: &arguments.command,
        directory: &arguments.dir,
        metric: arguments.metric,
        recalls: [TARGET, arguments.floor],
        queries: arguments.timed.max(1),
        starts: arguments.starts.max(1),
        is_real: arguments.real,
    };
    let report = measure_service(&base, &queries, &settings)?;
    let text = serde_json::to_string(&report).unwrap_or_default();
    fs::write(&arguments.out, text).map_err(|error| io("Cannot write the report", error))?;
    let table = report.table();
    print!("{table}");
    fs::write(arguments.out.with_extension("md"), &table)
        .map_err(|error| io("Cannot write the table", error))
}
