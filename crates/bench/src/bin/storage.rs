//! `storage`: what vectors cost at rest, and what a search costs that reads them from there.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser};
use vstream_bench::runbook::{Matrix, RunbookError};
use vstream_bench::storage::{codec_table, leaf_order};

/// Measures codecs and sealed segments.
#[derive(Parser)]
#[command(name = "storage", version)]
enum Arguments {
    /// Prints size and speed of the codecs over matrix files.
    Codecs(Codecs),
}

#[derive(Args)]
struct Codecs {
    /// Matrix files.
    #[arg(required = true, value_name = "FILE.fbin")]
    files: Vec<PathBuf>,
    /// Use the first rows only.
    #[arg(long)]
    rows: Option<usize>,
}

fn main() -> ExitCode {
    let done = match Arguments::parse() {
        Arguments::Codecs(arguments) => codecs(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("storage: {error}");
            ExitCode::FAILURE
        }
    }
}

fn codecs(arguments: &Codecs) -> Result<(), RunbookError> {
    println!(
        "| data | policy | ratio | worst block | encode MB/s | decode MB/s | row ns | chosen |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for file in &arguments.files {
        let matrix = Matrix::read(file, arguments.rows)?;
        print_table(&format!("{}, as it comes", name(file)), &matrix);
        print_table(&format!("{}, in leaf order", name(file)), &leaf_order(&matrix));
    }
    Ok(())
}

fn name(file: &Path) -> String {
    let folder = file.parent().and_then(Path::file_name).unwrap_or_default();
    let stem = file.file_stem().unwrap_or_default();
    format!("{}/{}", folder.to_string_lossy(), stem.to_string_lossy())
}

fn print_table(data: &str, matrix: &Matrix) {
    for row in codec_table(matrix) {
        let chosen: Vec<String> = row
            .chosen
            .iter()
            .map(|(codec, share)| format!("{codec} {:.0} %", 100.0 * share))
            .collect();
        println!(
            "| {data} | {} | {:.4} | {:.4} | {:.0} | {:.0} | {:.0} | {} |",
            row.policy,
            row.ratio,
            row.worst,
            row.encode_mb,
            row.decode_mb,
            row.row_ns,
            chosen.join(", ")
        );
    }
}
