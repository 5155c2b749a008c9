//! Runs the four steps of training.

use super::affinity::NeighborCounts;
use super::calibrate::{calibrate, CalibrationData, NEIGHBORS};
use super::nearest::measure;
use super::neighbors::{self, ClusteredRows};
use super::order::{order, CellGraph};
use super::tree::{cluster, Rows};
use super::{code, Cells, Children};
use crate::error::RouteError;
use crate::random::{permutation, seeded};
use crate::ranges::Ranges;
use crate::settings::ROWS_PER_CELL;
use crate::space::Space;
use vstream_vector::SplitMix;

/// Purpose of the random numbers of this training.
const PURPOSE: u64 = 0x6365_6c6c;
/// One of this many sample rows is held out for calibration.
const HOLD_OUT_ONE_IN: usize = 10;
/// Largest number of rows that are held out.
const HELD_OUT_MAX: usize = 2000;

/// The settings of the encoder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CellsSettings {
    pub(crate) cells: usize,
    pub(crate) recall_target: f32,
    pub(crate) shards: u16,
    pub(crate) seed: u64,
}

/// Checked rows in row form and query form.
pub(super) struct Sample<'a> {
    pub(super) space: &'a Space,
    pub(super) rows: Vec<f32>,
    /// Empty if rows and queries have the same form.
    queries: Vec<f32>,
}

impl Sample<'_> {
    pub(super) fn rows(&self) -> Rows<'_> {
        Rows { values: &self.rows, dimension: self.space.form_dimension() }
    }

    pub(super) fn queries(&self) -> Rows<'_> {
        let values = if self.space.is_symmetric() { &self.rows } else { &self.queries };
        Rows { values, dimension: self.space.form_dimension() }
    }
}

/// Trains cells on a checked sample (`rows × dimension`) and assigns them to shards.
///
/// Cost: about `rows × dimension × (7 · cells + 1,024) + held out × rows × dimension`
/// multiplications, some seconds for 20,000 rows of 100 dimensions and 1,024 cells. Errors:
/// `Invalid` if the sample is too small.
pub(crate) fn train(
    settings: CellsSettings,
    space: &Space,
    sample: &[f32],
) -> Result<(Cells, Ranges), RouteError> {
    let rows = sample.len() / space.dimension;
    let CellsSettings { cells, shards, seed, .. } = settings;
    if rows < cells * ROWS_PER_CELL {
        return Err(RouteError::invalid(format!(
            "The training sample has {rows} rows, but {cells} cells need at least {}: raise \
             training-sample, or lower cells to {} or less.",
            cells * ROWS_PER_CELL,
            rows / ROWS_PER_CELL
        )));
    }
    let mut random = seeded(seed, PURPOSE);
    let (held_out, kept, _) = hold_out(space, sample, &mut random);

    let (centroids, cell_of) = cluster(kept.rows(), cells, &mut random);
    let (rows, queries) = (kept.rows(), kept.queries());
    let clustered = ClusteredRows { rows, queries, centroids: &centroids, cell_of: &cell_of };
    let lists = neighbors::search_clusters(space, &clustered, 0..rows.len() as u32);
    let loads = loads(&centroids, &cell_of, &kept, &held_out);
    let edges = neighbors::edges(&lists, &cell_of, cells);
    let dimension = space.form_dimension();
    let graph = CellGraph { centroids: &centroids, dimension, loads: &loads, edges: &edges };
    let ordered = order(&graph, shards, &mut random);

    let mut number = vec![0u32; cells];
    for (new, &old) in ordered.cells.iter().enumerate() {
        number[old as usize] = new as u32;
    }
    let shard_of_row: Vec<u16> =
        cell_of.iter().map(|&cell| ordered.shards[number[cell as usize] as usize]).collect();
    let counts =
        NeighborCounts::new(&lists, &number, |row| number[cell_of[row as usize] as usize] as u16);
    let mut trained = Cells {
        roots: permuted(&centroids, dimension, &ordered.cells),
        starts: (0..cells).map(|cell| code(cell, cells)).collect(),
        children: Children::unsplit(cells),
        subcells: Vec::new(),
        dimension,
        shards,
        weights: permuted(&loads, 1, &ordered.cells),
        affinity: Vec::new(),
        neighbor_counts: counts,
        temperature: 1.0,
        thresholds: vec![1.0; usize::from(shards)],
    };
    // No root cell is split yet, so the number of rows does not matter.
    let even = vec![1.0; cells];
    trained.affinity = trained.affinity(&trained.shard_shares(&ordered.shards, &even), &even);
    let per_row = trained.affinity.chunks_exact(usize::from(shards));
    for (weight, row) in trained.weights.iter_mut().zip(per_row) {
        *weight /= row.iter().map(|&a| f32::from(a)).sum::<f32>();
    }
    let data = CalibrationData {
        neighbors: NEIGHBORS,
        held_out: &held_out,
        kept: &kept,
        shard_of_row: &shard_of_row,
        shard_of_cell: &ordered.shards,
    };
    calibrate(&mut trained, settings.recall_target, &data);
    let ranges = ranges(&trained.starts, &ordered.shards, shards)?;
    Ok((trained, ranges))
}

/// Divides the sample at random into held-out rows and kept rows. Also returns the sample's number
/// of each kept row.
pub(super) fn hold_out<'a>(
    space: &'a Space,
    sample: &[f32],
    random: &mut SplitMix,
) -> (Sample<'a>, Sample<'a>, Vec<u32>) {
    let rows = sample.len() / space.dimension;
    let held_out = (rows / HOLD_OUT_ONE_IN).clamp(1, HELD_OUT_MAX);
    let order = permutation(random, rows);
    let forms = |of: &[u32]| {
        let mut part = Sample { space, rows: Vec::new(), queries: Vec::new() };
        for &at in of {
            let vector = &sample[at as usize * space.dimension..][..space.dimension];
            space.push_row(vector, &mut part.rows);
            if !space.is_symmetric() {
                space.push_query(vector, &mut part.queries);
            }
        }
        part
    };
    (forms(&order[..held_out]), forms(&order[held_out..]), order[held_out..].to_vec())
}

/// Expected share of the stream in each cell, > 0, summing to 1.
///
/// A row that contributed to a centroid is nearer to it than a new row would be, especially in a
/// small cell. So small cells look fuller than they will be. A row of a cell of n rows is therefore
/// measured against the mean of the other n − 1: its distance grows by (n / (n − 1))².
fn loads(centroids: &[f32], cell_of: &[u32], kept: &Sample, held_out: &Sample) -> Vec<f32> {
    let rows = kept.rows();
    let cells = centroids.len() / rows.dimension;
    let mut sizes = vec![0u32; cells];
    cell_of.iter().for_each(|&cell| sizes[cell as usize] += 1);
    // Adds half a row to every cell, since a query may be near an empty cell too.
    let mut counts = vec![0.5f32; cells];
    let mut distances = Vec::new();
    for (at, &own) in cell_of.iter().enumerate() {
        measure(centroids, rows.row(at as u32), &mut distances);
        let own = own as usize;
        let size = sizes[own] as f32;
        let others = if size > 1.0 { size / (size - 1.0) } else { f32::INFINITY };
        distances[own] *= others * others;
        let least = (0..cells).min_by(|&a, &b| distances[a].total_cmp(&distances[b]));
        counts[least.unwrap_or(own)] += 1.0;
    }
    for at in 0..held_out.rows().len() as u32 {
        counts[measure(centroids, held_out.rows().row(at), &mut distances).0] += 1.0;
    }
    let total: f32 = counts.iter().sum();
    counts.iter().map(|count| count / total).collect()
}

fn permuted(values: &[f32], width: usize, order: &[u32]) -> Vec<f32> {
    order.iter().flat_map(|&old| &values[old as usize * width..][..width]).copied().collect()
}

/// Builds the table of ranges: one range for each run of cells in the same shard.
///
/// * `starts`: first code of each cell.
pub(crate) fn ranges(
    starts: &[u64],
    shard_of_cell: &[u16],
    shards: u16,
) -> Result<Ranges, RouteError> {
    let mut pairs: Vec<(u64, u16)> = Vec::new();
    for (&start, &shard) in starts.iter().zip(shard_of_cell) {
        if pairs.last().is_none_or(|last| last.1 != shard) {
            pairs.push((start, shard));
        }
    }
    Ranges::from_pairs(&pairs, shards)
}
