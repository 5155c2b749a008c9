//! `coordinator`: the laws of a coordinator over the same traffic, with measured times.

#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use vstream_sim::coordinator::measured::Measured;
use vstream_sim::coordinator::{plan, report, study};

#[derive(Parser)]
#[command(about = "Runs the laws of a coordinator in a simulator, with times of a real replica.")]
struct Arguments {
    /// Times of a replica, as `replica` of crates/bench writes them.
    #[arg(long, value_name = "FILE.json")]
    measured: PathBuf,
    /// Runs of each case.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    seeds: u64,
    /// JSON of all cases; beside it the tables (.md) and the courses that are drawn (.courses.json).
    #[arg(long, value_name = "FILE.json")]
    out: PathBuf,
}

fn main() -> ExitCode {
    match simulate(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn simulate(arguments: &Arguments) -> Result<(), String> {
    let measured = Measured::read(&arguments.measured)?;
    let cases = plan::cases(&measured);
    let rows = study::rows(&cases, arguments.seeds);
    let table = report::tables(&measured, &rows, arguments.seeds);
    let json = report::json(&measured, &rows, arguments.seeds);
    write(&arguments.out, &json.to_string())?;
    write(&arguments.out.with_extension("courses.json"), &report::courses(&cases).to_string())?;
    write(&arguments.out.with_extension("md"), &table)?;
    print!("{table}");
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
