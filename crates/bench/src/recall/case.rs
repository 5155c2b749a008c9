//! The cases of the table.

use clap::ValueEnum;
use serde::Serialize;

use super::{DataName, Selected};

/// Where the rows are, and what happened to them, when queries come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// In memory, in the order of the file.
    Memory,
    /// In memory; all queries come right after the last row, before any was audited.
    Fresh,
    /// In an engine whose memory holds a fifth of the rows; the rest is in segments on disk.
    Disk,
    /// In memory; 30 % of the rows, drawn at random, were deleted after the engine had settled.
    Tombstones,
    /// In memory; rows come cluster by cluster, and the engine had settled when the last two fifths
    /// began.
    Drift,
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Case {
    /// The rows and the queries.
    pub data: DataName,
    /// Where they are.
    pub place: Place,
    /// Neighbours asked for.
    pub k: usize,
    /// Recall that is asked for.
    pub target: f64,
    /// Which rows may be in an answer; `None` for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Selected>,
}

/// Every case of `make bench-recall`.
pub fn table() -> Vec<Case> {
    use DataName as D;
    let mut cases = Vec::new();
    let mut add = |data: &[DataName], place: Place, pairs: &[(usize, f64)]| {
        for &data in data {
            cases.extend(pairs.iter().map(|&(k, target)| Case {
                data,
                place,
                k,
                target,
                filter: None,
            }));
        }
    };
    let all = D::value_variants();
    add(all, Place::Memory, &[(1, 0.95), (10, 0.8), (10, 0.95), (10, 0.99), (100, 0.95)]);
    add(&[D::Glove, D::Sift, D::Text384, D::Lognormal], Place::Memory, &[(1000, 0.95)]);
    add(all, Place::Fresh, &[(10, 0.95)]);
    add(&[D::Glove, D::Text384], Place::Fresh, &[(100, 0.95)]);
    add(all, Place::Disk, &[(10, 0.95)]);
    add(&[D::Glove, D::Text384], Place::Disk, &[(1, 0.95), (100, 0.95)]);
    add(all, Place::Tombstones, &[(10, 0.95)]);
    add(&[D::Glove], Place::Tombstones, &[(100, 0.95)]);
    add(&[D::Glove, D::Sift, D::Lognormal, D::Text256, D::Text384], Place::Drift, &[(10, 0.95)]);
    add(&[D::Glove], Place::Drift, &[(100, 0.95)]);
    cases.extend(Selected::value_variants().iter().map(|&one| Case {
        data: D::Glove,
        place: Place::Memory,
        k: 10,
        target: 0.95,
        filter: Some(one),
    }));
    // Rows of one data set stand together, so that it is read once.
    cases.sort_by_key(|case| (case.data as usize, case.place as usize));
    cases
}
