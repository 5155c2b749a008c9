//! `crash-lab`: crashes, kills and damages for as long as it is told, and keeps the ledger.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use vstream_engine::{set_defect_everywhere, Defect};
use vstream_sim::check::{guarded, Violation};
use vstream_sim::crash::Seen;
use vstream_sim::damage::AtRest;
use vstream_sim::defects::{Planted, SEEDS_NEEDED};
use vstream_sim::far::there_and_back;
use vstream_sim::groups::{self, GroupDefect};
use vstream_sim::kill::{self, Killer};
use vstream_sim::ledger::Totals;
use vstream_sim::script::settings;
use vstream_sim::simulation::crash_everywhere;

/// Seeds in which a deliberate defect must be caught.
const DEFECT_SEEDS: u64 = 60;
/// Of each seed: processes that are killed, and changes to bytes at rest.
const KILLS: u64 = 30;
const FLIPS: u64 = 1_000;
const MANGLES: u64 = 200;
/// Seeds that are worked on at the same time.
const WORKERS: usize = 2;

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
        /// How long, about, after every planted defect was looked for.
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
    /// Group stores, for some minutes: crashes at every step, kills, damage; then every planted
    /// defect. The last line is the result as JSON.
    Groups {
        /// How long, about.
        #[arg(long, default_value_t = 1.0)]
        minutes: f64,
        /// First seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Folder for the directories of killed processes.
        #[arg(long, default_value = "/tmp", value_name = "DIR")]
        place: PathBuf,
    },
    /// What a killed process does to a group store.
    #[command(hide = true)]
    GroupChild {
        /// Its directory.
        dir: PathBuf,
        /// The seed of its writes.
        seed: u64,
        /// The write that it begins behind.
        behind: u64,
    },
    /// What a killed process does.
    #[command(hide = true)]
    Child {
        /// Its directory.
        dir: PathBuf,
        /// The seed of its writes.
        seed: u64,
        /// What is wrong with it.
        defect: Option<String>,
    },
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Task::Run { minutes, seed, ledger, place } => {
            run(Duration::from_secs_f64(minutes * 60.0), seed, ledger, &place)
        }
        Task::Replay { seed } => replay(seed),
        Task::Groups { minutes, seed, place } => {
            run_groups(Duration::from_secs_f64(minutes * 60.0), seed, &place)
        }
        Task::GroupChild { dir, seed, behind } => match groups::child(&dir, seed, behind) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        },
        Task::Child { dir, seed, defect } => {
            if let Some(defect) = defect.as_deref().and_then(Defect::from_name) {
                set_defect_everywhere(defect);
            }
            match kill::child(&dir, seed) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("{error}");
                    ExitCode::FAILURE
                }
            }
        }
    }
}

fn run(length: Duration, seed: u64, ledger: Option<PathBuf>, place: &Path) -> ExitCode {
    let start = Instant::now();
    eprintln!("crash-lab: seeds from {seed} on");
    let program = std::env::current_exe().expect("the path of this program");
    let (found, planted) = catch(seed, &program);
    let end = Instant::now() + length;
    let lab = Lab { end, next: AtomicU64::new(seed), seen: Seen::default(), program, place };
    let mut totals = Totals::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(|| lab.work())).collect();
        for worker in workers {
            totals.merge(&worker.join().expect("violations are counted, not thrown"));
        }
    });
    if let Err(violation) = totals.judge_kills(settings(seed).recall_target) {
        totals.note(&violation, &format!("run --seed {seed}"));
    }
    let line = totals.to_json((found, planted), start.elapsed().as_secs());
    if let Some(path) = ledger {
        if let Err(error) = totals.append_to(&path, seed, &line) {
            eprintln!("cannot write {}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    }
    println!("{line}");
    if totals.violations() == 0 && found == planted {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Plants every defect; returns how many were caught, and how many there are.
fn catch(seed: u64, program: &Path) -> (usize, usize) {
    // A defect that is caught panics now and then; that is no news.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let all = Planted::all();
    let mut found = 0;
    for planted in &all {
        let caught = planted.caught(seed, DEFECT_SEEDS, program);
        for (seed, violation) in &caught {
            eprintln!("caught {planted:?} with seed {seed}: {}", violation.what);
        }
        if caught.len() == SEEDS_NEEDED {
            found += 1;
        } else {
            eprintln!("NOT caught by {SEEDS_NEEDED} seeds: {planted:?}");
        }
    }
    std::panic::set_hook(hook);
    (found, all.len())
}

/// Seeds, one after the other, until the end.
struct Lab<'a> {
    end: Instant,
    next: AtomicU64,
    seen: Seen,
    program: PathBuf,
    place: &'a Path,
}

impl Lab<'_> {
    fn work(&self) -> Totals {
        let mut totals = Totals::default();
        while Instant::now() < self.end {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            match everything(seed, &self.seen, &mut totals) {
                Ok(()) => {}
                Err(violation) => totals.note(&violation, &format!("replay {seed}")),
            }
            let killer = Killer { program: &self.program, place: self.place, seed, defect: None };
            match killer.run(KILLS) {
                Ok(killed) => totals.bury(killed),
                Err(violation) => totals.note(&violation, &format!("run --seed {seed}")),
            }
        }
        totals
    }
}

/// Seeds of group stores until the end; then each planted defect.
fn run_groups(length: Duration, first: u64, place: &Path) -> ExitCode {
    let (start, mut seed) = (Instant::now(), first);
    let program = std::env::current_exe().expect("the path of this program");
    let (mut states, mut faults, mut kills, mut changes, mut violations) = (0, 0, 0, 0, 0);
    let seen = Seen::default();
    while start.elapsed() < length {
        let mut one = || -> Result<(), Violation> {
            let crashed = groups::crash_everywhere(seed, &seen)?;
            (states, faults) = (states + crashed.states, faults + crashed.faults);
            changes += groups::change_bytes(seed, FLIPS / 5)?.changes;
            groups::Killer { program: &program, place, seed }.run(KILLS)?;
            kills += KILLS;
            Ok(())
        };
        if let Err(violation) = one() {
            violations += 1;
            eprintln!("seed {seed}, {:?}: {}", violation.breach, violation.what);
        }
        seed += 1;
    }
    let caught = |defect: &&GroupDefect| {
        let shown = |seed| defect.planted(|| groups::crash_everywhere(seed, &Seen::default()));
        let is_caught = (first..first + DEFECT_SEEDS).any(|seed| shown(seed).is_err());
        if !is_caught {
            eprintln!("NOT caught: {defect:?}");
        }
        is_caught
    };
    let (planted, found) = (GroupDefect::ALL.len(), GroupDefect::ALL.iter().filter(caught).count());
    let line = serde_json::json!({
        "crash_states": states, "faults": faults, "kills": kills, "corruptions": changes,
        "seeds": seed - first, "violations": violations,
        "defects_caught": format!("{found}/{planted}"), "seconds": start.elapsed().as_secs(),
    });
    println!("{line}");
    match violations == 0 && found == planted {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// What is simulated of a seed.
fn everything(seed: u64, seen: &Seen, totals: &mut Totals) -> Result<(), Violation> {
    guarded(|| {
        totals.add(crash_everywhere(seed, seen)?);
        totals.travel(there_and_back(seed, seen)?);
        let at_rest = AtRest::new(seed)?;
        totals.corruptions += at_rest.flip_bits(seed * FLIPS, FLIPS)?
            + at_rest.flip_unclosed(seed, MANGLES)?
            + at_rest.mangle(seed, MANGLES)?;
        Ok(())
    })
}

fn replay(seed: u64) -> ExitCode {
    let mut totals = Totals::default();
    let start = Instant::now();
    match everything(seed, &Seen::default(), &mut totals) {
        Ok(()) => {
            println!("{}", totals.to_json((0, 0), start.elapsed().as_secs()));
            ExitCode::SUCCESS
        }
        Err(violation) => {
            totals.note(&violation, &format!("replay {seed}"));
            ExitCode::FAILURE
        }
    }
}
