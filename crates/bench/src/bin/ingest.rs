//! `ingest`: latency of queries beside a writer at full rate, with controls.

#![forbid(unsafe_code)]

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use vstream_bench::ingest::{run, IngestSettings};
use vstream_bench::runbook::{Matrix, RunbookError};
use vstream_vector::Metric;

/// Measures queries while a collection is idle, while it is written to, and beside other threads.
#[derive(Parser)]
#[command(name = "ingest", version)]
struct Arguments {
    /// Matrix file with the rows.
    #[arg(long, value_name = "FILE.fbin")]
    data: PathBuf,
    /// Matrix file with the queries.
    #[arg(long, value_name = "FILE.fbin")]
    queries: PathBuf,
    /// l2, cosine or inner_product.
    #[arg(long, default_value = "cosine")]
    metric: Metric,
    /// Use the first rows only.
    #[arg(long)]
    rows: Option<usize>,
    /// Recall@10 that the probes are tuned to.
    #[arg(long, default_value_t = 0.95)]
    target: f64,
    /// Leaves that a query visits; 0: tuned to the target.
    #[arg(long, default_value_t = 0)]
    probes: usize,
    /// New collections.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Length of the phases without writes.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 1000)]
    phase_ms: u64,
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
    let base = Matrix::read(&arguments.data, arguments.rows)?;
    let queries = Matrix::read(&arguments.queries, None)?;
    let settings = IngestSettings {
        metric: arguments.metric,
        target: arguments.target,
        probes: arguments.probes,
        rounds: arguments.rounds,
        phase: Duration::from_millis(arguments.phase_ms),
    };
    let report = run(&base, &queries, &settings)?;
    let (out, text) = (&arguments.out, format!("{:#}\n", report.to_json()));
    fs::write(out, text)
        .map_err(|error| RunbookError::Io(format!("Cannot write {}: {error}.", out.display())))?;
    print!("{}", report.table());
    println!("\nwritten: {}", out.display());
    Ok(())
}
