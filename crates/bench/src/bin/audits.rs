//! `audits`: the recall guard's estimate beside the true recall, and what it costs.

#![forbid(unsafe_code)]

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use vstream_bench::audits::{run, AuditSettings};
use vstream_bench::runbook::{Matrix, RunbookError};
use vstream_vector::Metric;

/// Streams rows, lets the recall guard audit, and compares with queries that it never sees.
#[derive(Parser)]
#[command(name = "audits", version)]
struct Arguments {
    /// Matrix file with the rows.
    #[arg(long, value_name = "FILE.fbin")]
    data: PathBuf,
    /// Matrix file with the queries: the stream's, and as many for the truth.
    #[arg(long, value_name = "FILE.fbin")]
    queries: PathBuf,
    /// l2, cosine or inner_product.
    #[arg(long, default_value = "cosine")]
    metric: Metric,
    /// Use the first rows only.
    #[arg(long)]
    rows: Option<usize>,
    /// Use the first queries only.
    #[arg(long, default_value_t = 2000)]
    queries_max: usize,
    /// Rows before the stream begins.
    #[arg(long, default_value_t = 150_000)]
    preload: usize,
    /// Records per second.
    #[arg(long, default_value_t = 800.0)]
    rate: f64,
    /// Recall@10 that the guard steers to.
    #[arg(long, default_value_t = 0.95)]
    target: f64,
    /// Audits after which the stream ends.
    #[arg(long, default_value_t = 500)]
    audits: usize,
    #[arg(long, default_value_t = 42)]
    seed: u64,
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
    let queries = Matrix::read(&arguments.queries, Some(arguments.queries_max))?;
    let settings = AuditSettings {
        metric: arguments.metric,
        target: arguments.target,
        preloaded: arguments.preload,
        rate: arguments.rate,
        audits: arguments.audits,
        seed: arguments.seed,
    };
    let report = run(base, queries, &settings, &mut |moment| {
        let (audits, live) = (moment.audits, moment.live);
        let (estimate, truth) = (moment.estimate, moment.truth);
        eprintln!("{audits} audits, {live} live: estimate {estimate:.4}, true {truth:.4}");
    })?;
    let (out, text) = (&arguments.out, format!("{:#}\n", report.to_json()));
    fs::write(out, text)
        .map_err(|error| RunbookError::Io(format!("Cannot write {}: {error}.", out.display())))?;
    print!("{}", report.table());
    println!("\nwritten: {}", out.display());
    Ok(())
}
