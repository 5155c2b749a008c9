//! `scale`: prints what a job needs at 16 to 1,024 partitions, the tables of `docs/design/scale.md`.

#![forbid(unsafe_code)]

use clap::Parser;
use vstream_sim::scale::report::tables;

#[derive(Parser)]
#[command(about = "Prints what a job of 16 to 1,024 partitions needs, from measured constants.")]
struct Arguments {
    /// Seed of the waits.
    #[arg(long, default_value_t = 42)]
    seed: u64,
}

fn main() {
    print!("{}", tables(Arguments::parse().seed));
}
