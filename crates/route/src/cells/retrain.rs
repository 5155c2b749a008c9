//! Retraining: learns from live rows where neighbours are now.
//!
//! The input is a sample of the rows that are stored now, each with its code. A tenth of the sample
//! serves as queries whose true neighbours are found. The other rows tell where the neighbours of
//! each cell's queries are, as in training. A row counts for the cell that its *code* names, even
//! if that cell was split later and another subcell is nearer now. That is the cell where a query
//! has to look for the row.

use super::affinity::NeighborCounts;
use super::calibrate::{calibrate_threshold, CalibrationData, NEIGHBORS};
use super::nearest::Scratch;
use super::neighbors::{self, ClusteredRows, NeighborList};
use super::train::{hold_out, Sample};
use super::tree::Rows;
use super::Cells;
use crate::error::RouteError;
use crate::random::seeded;
use crate::space::Space;
use vstream_vector::SplitMix;

/// Purpose of the random numbers of a retraining.
const PURPOSE: u64 = 0x6c65_7373;

/// Calibration looks for this many times the neighbours that the size of the sample calls for,
/// because the result must still be good enough when the next retraining begins.
const NEIGHBORS_FACTOR: usize = 3;

/// An even sample of the stored rows of a collection.
#[derive(Clone, Copy, Debug)]
pub struct LiveSample<'a> {
    /// `rows × dimension` values, as the records bring them or as an engine stores them.
    pub vectors: &'a [f32],
    /// The code that each row is stored under.
    pub codes: &'a [u64],
}

/// A checked sample of live rows and the cell of each.
pub(crate) struct Retraining<'a> {
    held_out: Sample<'a>,
    kept: Sample<'a>,
    /// Codes of the kept rows.
    codes: Vec<u64>,
    /// The cell in which each kept row would be placed now.
    pub(super) nearest: Vec<u32>,
    random: SplitMix,
}

/// The recall to reach, and the number of partitions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) recall_target: f32,
    pub(crate) parallelism: u32,
}

/// Cells after a retraining, before they are assigned to shards.
pub(crate) struct RetrainedCells {
    pub(crate) cells: Cells,
    /// Expected share of the load of each cell.
    loads: Vec<f64>,
    /// Rows of each cell. All older rows of a split cell are in its first subcell.
    rows: Vec<f64>,
}

/// Row forms of some rows.
pub(super) struct Forms {
    values: Vec<f32>,
    dimension: usize,
}

impl Forms {
    pub(super) fn rows(&self) -> Rows<'_> {
        Rows { values: &self.values, dimension: self.dimension }
    }
}

impl<'a> Retraining<'a> {
    /// Checks the sample and finds the cell of each row. Cost: O(rows · root cells · dimension).
    ///
    /// Errors: `Invalid` if there are fewer than two rows for each cell, if a row has no code, or
    /// if a vector could not be stored.
    pub(crate) fn new(
        cells: &Cells,
        space: &'a Space,
        live: &LiveSample,
        seed: u64,
    ) -> Result<Retraining<'a>, RouteError> {
        let rows = live.codes.len();
        if live.vectors.len() != rows * space.dimension {
            return Err(RouteError::invalid(format!(
                "The live rows have {} values and {rows} codes: send {} values for each code.",
                live.vectors.len(),
                space.dimension
            )));
        }
        if rows < 2 * cells.len() {
            return Err(RouteError::invalid(format!(
                "The sample of live rows has {rows} rows, but {} cells need at least {}: send more.",
                cells.len(),
                2 * cells.len()
            )));
        }
        for (row, vector) in live.vectors.chunks_exact(space.dimension).enumerate() {
            space.check(vector).map_err(|error| {
                RouteError::invalid(format!("Row {row} of the live rows: {error}"))
            })?;
        }
        let mut random = seeded(seed, PURPOSE);
        let (held_out, kept, order) = hold_out(space, live.vectors, &mut random);
        let codes = order.iter().map(|&row| live.codes[row as usize]).collect();
        let mut retraining = Retraining { held_out, kept, codes, nearest: Vec::new(), random };
        retraining.assign(cells);
        Ok(retraining)
    }

    /// Finds the cell of each kept row.
    fn assign(&mut self, cells: &Cells) {
        let mut scratch = Scratch::default();
        let rows = self.kept.rows();
        let nearest = (0..rows.len() as u32).map(|row| {
            scratch.form.clear();
            scratch.form.extend_from_slice(rows.row(row));
            cells.nearest(&mut scratch) as u32
        });
        self.nearest = nearest.collect();
    }

    /// The row forms of some kept rows.
    pub(super) fn forms_of(&self, rows: &[u32]) -> Forms {
        let kept = self.kept.rows();
        let values = rows.iter().flat_map(|&row| kept.row(row)).copied().collect();
        Forms { values, dimension: kept.dimension }
    }

    /// Splits cells that have grown too large and counts anew where neighbours are.
    ///
    /// * `cells`: the cells of the present template.
    /// * `shard_of_code`: the present assignment to shards.
    /// * `rows`: rows of each present cell.
    /// * `parallelism`: number of partitions of the job.
    ///
    /// Cost: O(rows of split root cells · (cells + candidates) · dimension), as step 2 of training.
    pub(crate) fn run(
        &mut self,
        cells: &Cells,
        shard_of_code: impl Fn(u64) -> u16,
        rows: &[f64],
        parallelism: u32,
    ) -> RetrainedCells {
        let old = cells;
        let mut random = SplitMix(self.random.next());
        let mut cells = match cells.split(self, parallelism, &mut random) {
            Some(split) => {
                self.assign(&split);
                split
            }
            None => cells.clone(),
        };
        cells.neighbor_counts = self.counts(&cells, old);
        let loads = self.loads(&cells, old, rows);
        let shards: Vec<u16> = cells.starts.iter().map(|&code| shard_of_code(code)).collect();
        let held: Vec<f64> =
            cells.starts.iter().map(|code| old.value_at_start(*code, rows)).collect();
        RetrainedCells {
            cells: cells.with_shards_and_loads(&shards, &held, &loads),
            loads,
            rows: held,
        }
    }

    /// Counts where neighbours are. A root cell that was never split keeps the counts of its
    /// training, which saw more rows than this sample has. The subcells of the others get new
    /// counts, and half the former ones.
    fn counts(&self, cells: &Cells, old: &Cells) -> NeighborCounts {
        let (rows, queries) = (self.kept.rows(), self.kept.queries());
        let in_split_root: Vec<bool> = cells.in_split_root().collect();
        let unknown = old.neighbor_counts.by_cell.is_empty();
        let query_rows: Vec<u32> = (0..rows.len() as u32)
            .filter(|&row| unknown || in_split_root[self.nearest[row as usize] as usize])
            .collect();
        let centroids = cells.centroids();
        let clustered =
            ClusteredRows { rows, queries, centroids: &centroids, cell_of: &self.nearest };
        let lists = neighbors::search_clusters(self.kept.space, &clustered, query_rows.into_iter());
        let numbers: Vec<u32> = (0..cells.len() as u32).collect();
        let root_of = |row| cells.root_of(self.nearest[row as usize] as usize) as u16;
        let fresh = NeighborCounts::new(&lists, &numbers, root_of);
        let was: Vec<usize> = cells.starts.iter().map(|&code| old.cell_of(code)).collect();
        let mut counts = fresh.merged_with(&old.neighbor_counts, &was, &in_split_root);
        // The neighbours of queries in an empty root cell are far away now, so its former counts
        // are dropped.
        let mut held = vec![false; cells.root_count()];
        (0..self.nearest.len() as u32).for_each(|row| held[usize::from(root_of(row))] = true);
        for root in (0..cells.root_count()).filter(|&root| !held[root]) {
            let far = self.around(cells, root, NEIGHBORS);
            let lists = [NeighborList { cell: 0, rows: far }];
            let found = NeighborCounts::new(&lists, &[0], root_of);
            for cell in cells.cells_of(root) {
                counts.by_cell[cell].clone_from(&found.by_cell[0]);
            }
        }
        counts
    }

    /// The rows nearest to the centroid of a root cell.
    fn around(&self, cells: &Cells, root: usize, count: usize) -> Vec<u32> {
        let centroid = &cells.roots[root * cells.dimension..][..cells.dimension];
        neighbors::search_exact(self.kept.space, self.kept.rows(), centroid, count)
    }

    /// Expected share of the load of each cell. The rows of a root cell are known, and the sample
    /// tells how they divide over its subcells.
    fn loads(&self, cells: &Cells, old: &Cells, rows: &[f64]) -> Vec<f64> {
        // Adds half a row to every cell, since a query may be near an empty cell too.
        let mut near = vec![0.5f64; cells.len()];
        self.nearest.iter().for_each(|&cell| near[cell as usize] += 1.0);
        let mut loads = Vec::with_capacity(cells.len());
        for root in 0..cells.root_count() {
            let held: f64 = rows[old.cells_of(root)].iter().map(|rows| rows + 0.5).sum();
            let near = &near[cells.cells_of(root)];
            let sum: f64 = near.iter().sum();
            loads.extend(near.iter().map(|near| held * near / sum));
        }
        let total: f64 = loads.iter().sum();
        loads.iter().map(|load| load / total).collect()
    }

    /// Assigns the cells to shards and calibrates the threshold at the parallelism of the job. A
    /// job that is restored at another parallelism retrains.
    ///
    /// The sample holds only a share of all rows, and so only a share of a query's ten neighbours.
    /// That share decides how many neighbours calibration looks for.
    ///
    /// Cost: O(held out · rows · dimension).
    pub(crate) fn calibrate(
        &self,
        retrained: &RetrainedCells,
        shard_of_cell: &[u16],
        target: Target,
    ) -> Cells {
        let RetrainedCells { cells, loads, rows } = retrained;
        let mut cut = cells.with_shards_and_loads(shard_of_cell, rows, loads);
        let shard = |&code: &u64| shard_of_cell[cut.cell_of(code)];
        let shard_of_row: Vec<u16> = self.codes.iter().map(shard).collect();
        let live_rows: f64 = rows.iter().sum();
        let share = self.codes.len() as f64 / live_rows.max(1.0);
        let neighbors = (share * (NEIGHBORS_FACTOR * NEIGHBORS) as f64).ceil() as usize;
        let data = CalibrationData {
            neighbors: neighbors.clamp(2, NEIGHBORS),
            held_out: &self.held_out,
            kept: &self.kept,
            shard_of_row: &shard_of_row,
            shard_of_cell,
        };
        calibrate_threshold(&mut cut, target.recall_target, target.parallelism, &data);
        cut
    }
}

impl Cells {
    /// The entry of `numbers` for the cell that begins at `start`; 0 if no cell does.
    pub(crate) fn value_at_start(&self, start: u64, numbers: &[f64]) -> f64 {
        self.starts.binary_search(&start).map_or(0.0, |cell| numbers[cell])
    }

    /// The root cell of a cell.
    fn root_of(&self, cell: usize) -> usize {
        self.children.cells.partition_point(|&first| first as usize <= cell) - 1
    }

    /// Centroids of all cells, row-major.
    fn centroids(&self) -> Vec<f32> {
        let mut out = Vec::with_capacity(self.len() * self.dimension);
        for (root, centroid) in self.roots.chunks_exact(self.dimension).enumerate() {
            match self.subcells_of(root) {
                [] => out.extend_from_slice(centroid),
                subcells => out.extend_from_slice(subcells),
            }
        }
        out
    }
}
