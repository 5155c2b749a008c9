//! `crash-lab`: crashes, kills and damages for as long as it is told, and keeps the ledger.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use vstream_engine::Defect;
use vstream_sim::damage::AtRest;
use vstream_sim::far::there_and_back;
use vstream_sim::kill;
use vstream_sim::ledger::{caught, Totals};
use vstream_sim::simulation::crash_everywhere;

/// Seeds in which a deliberate defect must be caught.
const DEFECT_SEEDS: u64 = 40;
/// Kills and changes between two looks at the clock.
const KILLS: u64 = 50;
const FLIPS: u64 = 40_000;
const MANGLES: u64 = 4_000;

#[derive(Parser)]
#[command(about = "Crashes, kills and damages a durable engine, against an oracle.")]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Everything, for some minutes; the last line is the result as JSON.
    Run {
        /// How long, about.
        #[arg(long, default_value_t = 5.0)]
        minutes: f64,
        /// First seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// File whose table gets a row.
        #[arg(long, value_name = "FILE")]
        ledger: Option<PathBuf>,
        /// Folder for the directories of killed processes.
        #[arg(long, default_value = "/tmp", value_name = "DIR")]
        place: PathBuf,
    },
    /// One seed: crashes at every step, an object store and back, then damage.
    Replay {
        /// The seed.
        seed: u64,
    },
    /// What a killed process does.
    #[command(hide = true)]
    Child {
        /// Its directory.
        dir: PathBuf,
        /// The seed of its writes.
        seed: u64,
    },
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Task::Run { minutes, seed, ledger, place } => {
            let end = Instant::now() + Duration::from_secs_f64(minutes * 60.0);
            run(end, seed, ledger, &place)
        }
        Task::Replay { seed } => replay(seed),
        Task::Child { dir, seed } => match kill::child(&dir, seed) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        },
    }
}

fn run(end: Instant, seed: u64, ledger: Option<PathBuf>, place: &std::path::Path) -> ExitCode {
    let start = Instant::now();
    eprintln!("crash-lab: seeds from {seed} on");
    // A defect that is caught panics now and then; that is no news.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut found = 0;
    for defect in Defect::ALL {
        match caught(defect, seed, DEFECT_SEEDS) {
            Some((seed, violation)) => {
                found += 1;
                eprintln!("caught {defect:?} with seed {seed}: {}", violation.what);
            }
            None => eprintln!("NOT caught: {defect:?}"),
        }
    }
    std::panic::set_hook(hook);
    let mut totals = Totals::default();
    let crashes = std::thread::spawn(move || crashes(end, seed));
    let rest = rest(end, seed, place);
    totals.merge(&rest);
    match crashes.join() {
        Ok(crashes) => totals.merge(&crashes),
        Err(_) => return ExitCode::FAILURE,
    }
    let defects = (found, Defect::ALL.len());
    let line = totals.to_json(defects, start.elapsed().as_secs());
    if let Some(path) = ledger {
        if let Err(error) = totals.append_to(&path, seed, &line) {
            eprintln!("cannot write {}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    }
    println!("{line}");
    if totals.violations() == 0 && found == Defect::ALL.len() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Simulated crashes, and ways to an object store and back, until the end.
fn crashes(end: Instant, first: u64) -> Totals {
    let mut totals = Totals::default();
    for seed in first.. {
        if Instant::now() >= end {
            break;
        }
        match crash_everywhere(seed) {
            Ok(crashed) => totals.add(crashed),
            Err(violation) => totals.note(&violation, &format!("replay {seed}")),
        }
        match there_and_back(seed) {
            Ok(travelled) => totals.travel(travelled),
            Err(violation) => totals.note(&violation, &format!("replay {seed}")),
        }
    }
    totals
}

/// Kills and damage in turns until the end.
fn rest(end: Instant, first: u64, place: &std::path::Path) -> Totals {
    let mut totals = Totals::default();
    let program = std::env::current_exe().expect("the path of this program");
    for seed in first.. {
        if Instant::now() >= end {
            break;
        }
        match kill::kill(&program, place, seed, KILLS) {
            Ok(kills) => totals.kills += kills,
            Err(violation) => totals.note(&violation, &format!("run --seed {seed}")),
        }
        let damaged = AtRest::new(seed).and_then(|at_rest| {
            let flips = at_rest.flip_bits((seed - first) * FLIPS, FLIPS)?;
            let flips = flips + at_rest.flip_unclosed(seed, MANGLES)?;
            Ok(flips + at_rest.mangle(seed, MANGLES)?)
        });
        match damaged {
            Ok(changes) => totals.corruptions += changes,
            Err(violation) => totals.note(&violation, &format!("replay {seed}")),
        }
    }
    totals
}

fn replay(seed: u64) -> ExitCode {
    let mut totals = Totals::default();
    let done = crash_everywhere(seed).and_then(|crashed| {
        totals.add(crashed);
        totals.travel(there_and_back(seed)?);
        let at_rest = AtRest::new(seed)?;
        totals.corruptions = at_rest.flip_bits(0, FLIPS)?
            + at_rest.flip_unclosed(seed, MANGLES)?
            + at_rest.mangle(seed, MANGLES)?;
        Ok(())
    });
    match done {
        Ok(()) => {
            println!("{}", totals.to_json((0, 0), 0));
            ExitCode::SUCCESS
        }
        Err(violation) => {
            totals.note(&violation, &format!("replay {seed}"));
            ExitCode::FAILURE
        }
    }
}
