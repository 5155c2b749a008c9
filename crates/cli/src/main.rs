//! `vstream`: runs stream jobs, shows them, serves collections, looks into snapshots, moves and
//! verifies them.
//!
//! A good first change: say "1 snapshot" instead of "1 snapshots" (`src/pushed.rs`; its test:
//! `tests/it/pushed.rs`).

#![forbid(unsafe_code)]

mod arguments;
mod ask;
mod balance;
mod check;
mod collection;
mod demo;
mod failure;
mod fields;
mod graph;
mod groups;
mod health;
mod inspect;
mod jvm;
mod leaves;
mod matrix;
mod pushed;
mod restore;
mod run;
mod search;
mod segment;
mod serve;
mod snapshot;
mod text;
mod verify;
mod view;
mod words;

use std::process::ExitCode;

use clap::Parser;
use vstream_settings::JobSettings;

use arguments::{Arguments, Command, Snapshot};

fn main() -> ExitCode {
    vstream_engine::share_heaps();
    let result = match Arguments::parse().command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Demo(arguments) => demo::demo(&arguments),
        Command::Ask(arguments) => ask::ask(&arguments),
        Command::Check(arguments) => check::check(&arguments),
        Command::Search(arguments) => search::search(&arguments),
        Command::Inspect(arguments) => inspect::inspect(&arguments),
        Command::Verify(arguments) => verify::verify(&arguments),
        Command::Snapshot(Snapshot::Push(arguments)) => pushed::push(&arguments),
        Command::Snapshot(Snapshot::Pull(arguments)) => pushed::pull(&arguments),
        Command::Serve(arguments) => serve::serve(arguments),
        Command::Balance(arguments) => balance::balance(arguments),
        Command::Health(arguments) => health::health(&arguments),
        Command::Key(arguments) => serve::key(&arguments),
        Command::Reference => text::print_line(JobSettings::reference().trim_end()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            text::note_line(&failure.to_string());
            ExitCode::from(failure.exit_code())
        }
    }
}
