//! The rows and queries of each case: read from a folder of `make data…`, or drawn.

use std::path::Path;

use clap::ValueEnum;
use serde::Serialize;
use vstream_vector::{Metric, SplitMix};

use crate::runbook::{clusters, Matrix, RunbookError};

/// Seed of whatever is drawn here.
const SEED: u64 = 20_251_122;
/// Queries that no row equals: 300 first ones, 1,000 for the truth, the rest for the stream.
const QUERIES: usize = 3_000;
/// Distinct vectors that half of the rows of `duplicates` are copies of.
const DISTINCT: usize = 100;
/// Clusters whose order is a drift.
const DRIFT_CLUSTERS: usize = 64;

/// The data of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum DataName {
    /// Word vectors, 100 dimensions, cosine.
    Glove,
    /// SIFT descriptors of pictures, 128 dimensions, l2.
    Sift,
    /// Independent normal numbers, 768 dimensions, cosine: no structure at all.
    Gauss768,
    /// Inner product over 128 dimensions, norms exp(N(0, 1)): long rows win every query.
    Lognormal,
    /// Sentence embeddings of a static model, 256 dimensions, cosine.
    Text256,
    /// Sentence embeddings of a transformer, 384 dimensions, cosine.
    Text384,
    /// Word vectors, half of the rows copies of 100 vectors, cosine.
    Duplicates,
}

impl DataName {
    /// The name that is typed and printed.
    pub fn name(self) -> &'static str {
        match self {
            DataName::Glove => "glove",
            DataName::Sift => "sift",
            DataName::Gauss768 => "gauss768",
            DataName::Lognormal => "lognormal",
            DataName::Text256 => "text256",
            DataName::Text384 => "text384",
            DataName::Duplicates => "duplicates",
        }
    }

    /// Rows unless another number is asked for; fewer if the folder holds fewer.
    pub fn rows(self) -> usize {
        match self {
            DataName::Gauss768 | DataName::Text256 => 100_000,
            DataName::Text384 => 60_000,
            _ => 200_000,
        }
    }

    /// Formula of the distance.
    pub fn metric(self) -> Metric {
        match self {
            DataName::Sift => Metric::L2,
            DataName::Lognormal => Metric::InnerProduct,
            _ => Metric::Cosine,
        }
    }

    /// The folder under the data root, and the target that makes it; `None` for drawn data.
    pub fn folder(self) -> Option<(&'static str, &'static str)> {
        match self {
            DataName::Glove | DataName::Duplicates => Some(("glove100", "make data")),
            DataName::Sift => Some(("sift128", "make data-sift")),
            DataName::Text256 => Some(("text256", "make data-text")),
            DataName::Text384 => Some(("text384", "make data-text")),
            DataName::Gauss768 | DataName::Lognormal => None,
        }
    }
}

/// Rows and held-out queries.
pub struct DataSet {
    /// Which.
    pub name: DataName,
    /// Formula of the distance.
    pub metric: Metric,
    /// The rows, normalised under cosine.
    pub base: Matrix,
    /// The queries in a seeded order, likewise.
    pub queries: Matrix,
}

impl DataSet {
    /// Reads or draws `rows` rows (`None`: as many as the table has).
    ///
    /// Cost: for drawn rows some 30 ns per number. Errors: `BadRequest` if the folder is missing,
    /// naming the command that makes it; those of [`Matrix::read`].
    pub fn load(name: DataName, root: &Path, rows: Option<usize>) -> Result<DataSet, RunbookError> {
        let rows = rows.unwrap_or(name.rows());
        let (mut base, mut queries) = match name.folder() {
            Some((folder, make)) => read(&root.join(folder), make, rows)?,
            None => drawn(name, rows),
        };
        let metric = name.metric();
        if metric == Metric::Cosine {
            base.normalise();
            queries.normalise();
        }
        if name == DataName::Duplicates {
            base = with_copies(&base);
        }
        Ok(DataSet { name, metric, base, queries })
    }

    /// The numbers of the rows in the order of a drift: cluster by cluster, each followed by the
    /// nearest one. Cost: k-means over all rows, some seconds.
    pub fn drift(&self) -> Vec<u32> {
        clusters::find(&self.base, DRIFT_CLUSTERS, SEED).order
    }
}

fn read(folder: &Path, make: &str, rows: usize) -> Result<(Matrix, Matrix), RunbookError> {
    let (base, queries) = (folder.join("base.fbin"), folder.join("query.fbin"));
    if !base.exists() || !queries.exists() {
        return Err(RunbookError::BadRequest(format!(
            "There is no data set in {}. Run `{make}` first, or name its parent with --data.",
            folder.display()
        )));
    }
    let base = Matrix::read(&base, Some(rows))?;
    let queries = Matrix::read(&queries, None)?;
    // The file may begin with familiar words, which are easier than the others.
    let mut order: Vec<u32> = (0..queries.rows() as u32).collect();
    let mut chance = SplitMix(SEED);
    for last in (1..order.len()).rev() {
        order.swap(last, chance.below(last + 1));
    }
    order.truncate(QUERIES);
    Ok((base, queries.picked(&order)))
}

fn drawn(name: DataName, rows: usize) -> (Matrix, Matrix) {
    let dimension = if name == DataName::Gauss768 { 768 } else { 128 };
    let mut chance = SplitMix(SEED);
    let mut draw = |rows: usize| {
        let values = (0..rows * dimension).map(|_| chance.normal()).collect();
        Matrix { dimension, values }
    };
    let (mut base, queries) = (draw(rows), draw(QUERIES));
    if name == DataName::Lognormal {
        base.normalise();
        for row in base.values.chunks_exact_mut(dimension) {
            let norm = chance.normal().exp();
            row.iter_mut().for_each(|x| *x *= norm);
        }
    }
    (base, queries)
}

/// The second half of the rows as copies of [`DISTINCT`] of them, in the order of chance.
fn with_copies(base: &Matrix) -> Matrix {
    let rows = base.rows();
    let distinct = rows - rows / 2;
    let mut chance = SplitMix(SEED);
    let mut order: Vec<u32> = (0..distinct as u32).collect();
    order.extend((distinct..rows).map(|_| chance.below(DISTINCT.min(distinct)) as u32));
    for last in (1..order.len()).rev() {
        order.swap(last, chance.below(last + 1));
    }
    base.picked(&order)
}
