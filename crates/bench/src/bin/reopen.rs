//! `reopen`: how long until a collection answers again, as it was or divided over more partitions?

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use vstream_bench::disk::reopen::{self, ReopenSettings};
use vstream_bench::disk::RowFile;
use vstream_bench::runbook::RunbookError;
use vstream_engine::{Element, Metric, Settings};

/// Fills a collection, opens it again, and divides it over partitions.
#[derive(Parser)]
#[command(name = "reopen", version)]
struct Arguments {
    /// Matrix file with the rows; seeded neighbours of them stand in for those that it lacks.
    #[arg(long, value_name = "FILE.fbin")]
    data: PathBuf,
    /// Rows.
    #[arg(long)]
    rows: usize,
    /// Element type.
    #[arg(long, default_value = "f32")]
    element: Element,
    /// l2, cosine or inner_product.
    #[arg(long, default_value = "cosine")]
    metric: Metric,
    /// Memory for rows in no segment and for blocks, in MiB; without it all rows are in memory.
    #[arg(long)]
    memory_mib: Option<u64>,
    /// Memory for codes, in MiB; without it all are in memory.
    #[arg(long)]
    code_memory_mib: Option<u64>,
    /// Share of the rows that is written once more at the end, and so is in logs.
    #[arg(long, default_value_t = 0.01)]
    rewritten: f64,
    /// Partitions that take the collection over.
    #[arg(long, default_value_t = 2)]
    parts: usize,
    /// Also insert the first part, row by row.
    #[arg(long)]
    inserts: bool,
    /// Folder for the collections; it must not exist yet, and is removed.
    #[arg(long, value_name = "FOLDER")]
    dir: PathBuf,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), RunbookError> {
    let data = RowFile::open(&arguments.data)?;
    let Arguments { rows, parts, inserts, dir, .. } = arguments;
    let engine = Settings {
        memory: arguments.memory_mib.map(|mib| mib << 20),
        code_memory: arguments.code_memory_mib.map(|mib| mib << 20),
        ..Settings::new(data.dimension(), arguments.metric, arguments.element)
    };
    let (rows, parts, inserts) = (*rows, *parts, *inserts);
    let rewritten = (arguments.rewritten * rows as f64) as usize;
    let found =
        reopen::run(&data, &ReopenSettings { engine, dir, rows, rewritten, parts, inserts })?;
    println!("{found:#}");
    Ok(())
}
