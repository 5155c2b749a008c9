//! `serve-lab`: many connections to a server that is killed again and again, and what they find.

#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use vstream_sim::serve::{child, run, Plan};

#[derive(Parser)]
#[command(
    about = "Kills a server under load, and compares every point with what was acknowledged."
)]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Connections, kills and hostile requests; the last line is the result as JSON.
    Run {
        /// How long.
        #[arg(long, default_value_t = 600.0)]
        seconds: f64,
        /// Connections at the same time.
        #[arg(long, default_value_t = 1_000)]
        connections: usize,
        /// How often the server is killed.
        #[arg(long, default_value_t = 10)]
        kills: u32,
        /// Requests per second; without it 80 % of what the server takes at most.
        #[arg(long)]
        rate: Option<f64>,
        /// Of requests and moments.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Folder for the collections.
        #[arg(long, default_value = "/tmp", value_name = "DIR")]
        place: PathBuf,
    },
    /// The process that is killed.
    #[command(hide = true)]
    Child { directory: PathBuf, address: SocketAddr, keys: PathBuf },
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Task::Child { directory, address, keys } => {
            child(&directory, address, &keys).map(|()| true)
        }
        Task::Run { seconds, connections, kills, rate, seed, place } => {
            std::env::current_exe().map_err(|error| error.to_string()).and_then(|program| {
                let time = Duration::from_secs_f64(seconds);
                labour(&Plan { program, place, seed, time, connections, kills, rate })
            })
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Follows a plan and prints what came of it; true if nothing went wrong.
fn labour(plan: &Plan) -> Result<bool, String> {
    let outcome = run(plan)?;
    println!("{}", outcome.json());
    Ok(outcome.is_clean())
}
