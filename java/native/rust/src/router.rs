//! One routing template behind the border.

use vstream_route::{
    EncoderSpec, LiveSample, Placement, Policy, Rebalance, RetrainSettings, Template,
};
use vstream_settings::CollectionSettings;

use crate::buffer::{matrix, partition_bytes, placement_bytes, vector, Writer};
use crate::failure::{Failure, Poison};
use crate::handover::{bucket, code_of, read_cell_loads, write_ranges, BUCKETS};
use crate::pool::Pool;
use crate::sample;

/// One immutable template, with the buffers that its calls reuse.
pub(crate) struct Router {
    poison: Poison,
    template: Template,
    placements: Pool<Vec<Placement>>,
    partitions: Pool<Vec<u32>>,
}

impl Router {
    /// The template before the first training.
    pub(crate) fn unplaced(settings: &CollectionSettings) -> Router {
        Router::of(Template::unplaced(&settings.route()))
    }

    /// Trains a template on `rows` vectors.
    pub(crate) fn train(
        settings: &CollectionSettings,
        sample: &[u8],
        rows: i32,
        epoch: i64,
    ) -> Result<Router, Failure> {
        let epoch = u64::try_from(epoch).map_err(|_| {
            Failure::invalid(format!("Epoch {epoch} is negative; epochs count up from 0."))
        })?;
        let sample = matrix(sample, rows, settings.dimension)?;
        Ok(Router::of(Template::train(&settings.route(), sample, epoch)?))
    }

    /// Reads what [`Router::to_bytes`] wrote.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Router, Failure> {
        Ok(Router::of(Template::from_bytes(bytes)?))
    }

    fn of(template: Template) -> Router {
        Router {
            poison: Poison::default(),
            template,
            placements: Pool::default(),
            partitions: Pool::default(),
        }
    }

    /// Encodes the template.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, Failure> {
        self.poison.guard(|| Ok(self.template.to_bytes()))
    }

    /// Number of the template.
    pub(crate) fn epoch(&self) -> i64 {
        self.template.epoch() as i64
    }

    /// False before training.
    pub(crate) fn is_placed(&self) -> bool {
        self.template.is_placed()
    }

    /// Writes the placements of a record to `out`; returns their number.
    pub(crate) fn place(&self, id: i64, bytes: &[u8], out: &mut [u8]) -> Result<usize, Failure> {
        self.poison.guard(|| {
            let vector = vector(bytes, self.template.dimension())?;
            self.placements.with(|placements| {
                self.template.place(id as u64, vector, placements)?;
                let mut writer = Writer::new(out, placement_bytes(placements.len()))?;
                for placement in placements.iter() {
                    writer.placement(placement.code, placement.shard);
                }
                Ok(placements.len())
            })
        })
    }

    /// Writes the partitions that may hold an answer to `out`; returns their number.
    pub(crate) fn fan_out(
        &self,
        bytes: &[u8],
        parallelism: i32,
        out: &mut [u8],
    ) -> Result<usize, Failure> {
        self.poison.guard(|| {
            let shards = i32::from(self.template.shards());
            if !(1..=shards).contains(&parallelism) {
                return Err(Failure::invalid(format!(
                    "Parallelism {parallelism} is out of range; use 1 to {shards}."
                )));
            }
            let query = vector(bytes, self.template.dimension())?;
            self.partitions.with(|partitions| {
                self.template.fan_out(query, parallelism as u32, partitions)?;
                let mut writer = Writer::new(out, partition_bytes(partitions.len()))?;
                for partition in partitions.iter() {
                    writer.partition(*partition);
                }
                Ok(partitions.len())
            })
        })
    }

    /// Number of shards.
    pub(crate) fn shards(&self) -> i32 {
        i32::from(self.template.shards())
    }

    /// The shard of a code.
    pub(crate) fn shard_of(&self, code: i64) -> i32 {
        i32::from(self.template.shard_of(code as u64))
    }

    /// Number of cells; 0 with another encoder.
    pub(crate) fn cells(&self) -> usize {
        self.template.cells()
    }

    /// True if ranges can change hands.
    pub(crate) fn is_movable(&self) -> bool {
        self.template.is_movable()
    }

    /// The ranges that change hands from `older` to this template.
    pub(crate) fn moves_since(&self, older: &Router) -> Result<Vec<u8>, Failure> {
        self.poison.guard(|| Ok(write_ranges(&self.template.moves_since(&older.template))))
    }

    /// The bytes of a better template for these loads, `None` if there is no better one.
    ///
    /// Rows and work have the same weight: rows take memory, work takes time.
    pub(crate) fn rebalance(
        &self,
        loads: &[u8],
        limits: &Limits,
    ) -> Result<Option<Vec<u8>>, Failure> {
        self.poison.guard(|| {
            let limits = limits.rebalance()?;
            let plan = if self.template.cells() > 0 {
                let (load, rows) = self.load_of_cells(loads)?;
                self.template.rebalance(&load, &rows, &limits)?
            } else {
                self.template.shift_boundaries(&self.load_of_intervals(loads)?, &limits)?
            };
            Ok(plan.map(|plan| plan.template.to_bytes()))
        })
    }

    /// The bytes of the next template, learned from a sample of the live rows.
    pub(crate) fn retrain(
        &self,
        settings: &CollectionSettings,
        observed: &Observed<'_>,
        limits: &Limits,
    ) -> Result<Vec<u8>, Failure> {
        self.poison.guard(|| {
            let route = settings.route();
            let EncoderSpec::Cells { recall_target, .. } = route.encoder else {
                return Err(Failure::invalid("Only the encoder cells can be learned anew."));
            };
            let (load, rows) = self.load_of_cells(observed.loads)?;
            let dimension = self.template.dimension();
            let (vectors, codes) = sample::read(observed.sample, dimension, observed.share)?;
            let live = LiveSample { vectors: &vectors, codes: &codes };
            let limits = limits.rebalance()?;
            let settings = RetrainSettings { limits, recall_target, seed: route.seed };
            Ok(self.template.retrain(&live, &load, &rows, &settings)?.template.to_bytes())
        })
    }

    /// Load and rows of each cell.
    fn load_of_cells(&self, loads: &[u8]) -> Result<(Vec<f64>, Vec<f64>), Failure> {
        let (rows, work) = read_cell_loads(loads)?;
        let rows = self.by_cell(&rows);
        let work = self.by_cell(&work);
        Ok((loads_of(&rows, &work), rows))
    }

    /// Load of each interval of an `lsh` template. An interval lies in one bucket, whose load its
    /// intervals share by their lengths. Boundaries that a plan has shifted lie between buckets, so
    /// only those of the training divide one.
    fn load_of_intervals(&self, loads: &[u8]) -> Result<Vec<f64>, Failure> {
        let (rows, work) = read_cell_loads(loads)?;
        let buckets = loads_of(&rows, &work);
        let starts = self.template.interval_starts();
        let whole = code_of(1) as f64;
        let load = |(index, &start): (usize, &u64)| {
            let last = starts.get(index + 1).map_or(u64::MAX, |next| next - 1);
            buckets[bucket(start)] * ((last - start) as f64 + 1.0) / whole
        };
        Ok(starts.iter().enumerate().map(load).collect())
    }

    fn by_cell(&self, buckets: &[f64]) -> Vec<f64> {
        let mut cells = vec![0.0; self.template.cells()];
        for (bucket, &value) in buckets.iter().enumerate().take(BUCKETS) {
            if let Some(cell) = cells.get_mut(self.template.cell_of(code_of(bucket))) {
                *cell += value;
            }
        }
        cells
    }
}

/// Load of each cell or bucket: its share of the rows and its share of the work.
fn loads_of(rows: &[f64], work: &[f64]) -> Vec<f64> {
    let (all_rows, all_work): (f64, f64) = (rows.iter().sum(), work.iter().sum());
    let share = |part: f64, all: f64| if all > 0.0 { part / all } else { 0.0 };
    rows.iter().zip(work).map(|(r, w)| share(*r, all_rows) + share(*w, all_work)).collect()
}

/// Messages about the job that the control task has received.
pub(crate) struct Observed<'a> {
    /// Rows and work of all buckets.
    pub(crate) loads: &'a [u8],
    /// Sampled rows, see [`sample`].
    pub(crate) sample: &'a [u8],
    /// Least share of all rows that the sample of every partition holds.
    pub(crate) share: f64,
}

/// Limits that Java sets to a plan.
pub(crate) struct Limits {
    pub(crate) parallelism: i32,
    /// True for the policy of the VStream paper.
    pub(crate) boundary: bool,
    pub(crate) trigger: f64,
    pub(crate) target: f64,
    pub(crate) moved_max: f64,
}

impl Limits {
    fn rebalance(&self) -> Result<Rebalance, Failure> {
        let parallelism = u32::try_from(self.parallelism).map_err(|_| {
            Failure::invalid(format!("A parallelism of {} cannot be.", self.parallelism))
        })?;
        let policy = if self.boundary { Policy::Boundary } else { Policy::Cells };
        let Limits { trigger, target, moved_max, .. } = *self;
        Ok(Rebalance { parallelism, policy, trigger, target, moved_max })
    }
}
