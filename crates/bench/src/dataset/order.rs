//! The rows of a data set in an order that a stream job finds hard: drift, or one hot spot.

use std::path::Path;

use clap::ValueEnum;

use super::DatasetError;
use crate::runbook::{clusters, Matrix};

/// Clusters that a drift goes through, and those of which one is hot.
const DRIFT_CLUSTERS: usize = 64;
const HOT_CLUSTERS: usize = 16;
/// Of the rows after the head so many in ten are of the hot cluster, while it lasts.
const HOT_IN_TEN: usize = 7;

/// In which order rows come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// Cluster by cluster, each followed by the nearest one.
    Drift,
    /// Seven of ten rows from one cluster, as long as there are.
    Hot,
}

/// Writes the rows of `base` in another order.
///
/// * `head`: so many rows stay in front as they are, to be trained on.
///
/// Cost: k-means over all rows, some seconds for 300,000. Errors: a file that cannot be read or
/// written, or is too short.
pub fn reorder(
    base: &Path,
    out: &Path,
    head: usize,
    order: Order,
    seed: u64,
) -> Result<(), DatasetError> {
    let failed = |error: crate::runbook::RunbookError| DatasetError::new(error.to_string());
    let matrix = Matrix::read(base, None).map_err(failed)?;
    if matrix.rows() < head + HOT_CLUSTERS * HOT_CLUSTERS {
        return Err(DatasetError::new(format!(
            "{} has {} rows, which are too few behind a head of {head}. Take a smaller head.",
            base.display(),
            matrix.rows()
        )));
    }
    let rest: Vec<u32> = (head as u32..matrix.rows() as u32).collect();
    let mut directions = matrix.picked(&rest);
    directions.normalise();
    let tail = match order {
        Order::Drift => clusters::find(&directions, DRIFT_CLUSTERS, seed).order,
        Order::Hot => hot(&clusters::find(&directions, HOT_CLUSTERS, seed)),
    };
    let head: Vec<u32> = (0..head as u32).collect();
    let tail: Vec<u32> = tail.into_iter().map(|row| rest[row as usize]).collect();
    matrix.picked(&[head, tail].concat()).write(out).map_err(failed)
}

/// The largest cluster among the others.
fn hot(found: &clusters::Clusters) -> Vec<u32> {
    let largest = found.ranges.iter().max_by_key(|range| range.len()).cloned();
    let hot = largest.unwrap_or(0..0);
    let mut cold = [&found.order[..hot.start], &found.order[hot.end..]].concat();
    // Rows are shuffled inside their clusters; a stride over all of them mixes the clusters.
    let stride = found.ranges.len();
    cold = (0..stride).flat_map(|from| cold.iter().skip(from).step_by(stride).copied()).collect();
    let mut cold = cold.into_iter();
    let mut out = Vec::with_capacity(found.order.len());
    for (at, &row) in found.order[hot].iter().enumerate() {
        out.push(row);
        if at % HOT_IN_TEN == HOT_IN_TEN - 1 {
            out.extend(cold.by_ref().take(10 - HOT_IN_TEN));
        }
    }
    out.extend(cold);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_there_once_and_the_head_is_as_it_was() {
        let dir = tempfile::tempdir().expect("a folder");
        let (base, out) = (dir.path().join("base.fbin"), dir.path().join("out.fbin"));
        let values: Vec<f32> = (0..2_000).map(|i| ((i * 37) % 2_003) as f32 + 1.0).collect();
        let matrix = Matrix { dimension: 2, values };
        matrix.write(&base).expect("written");
        for order in [Order::Drift, Order::Hot] {
            reorder(&base, &out, 100, order, 7).expect("reordered");
            let made = Matrix::read(&out, None).expect("read");
            assert_eq!(made.values[..200], matrix.values[..200]);
            assert_ne!(made.values, matrix.values);
            let sorted = |matrix: &Matrix| {
                let mut rows: Vec<Vec<u32>> = (0..matrix.rows())
                    .map(|row| matrix.row(row).iter().map(|x| x.to_bits()).collect())
                    .collect();
                rows.sort_unstable();
                rows
            };
            assert_eq!(sorted(&made), sorted(&matrix));
        }
        assert!(reorder(&base, &out, 999, Order::Hot, 7).is_err());
    }
}
