//! One routing template as Java sees it.

use vstream_route::{Placement, Template};
use vstream_settings::CollectionSettings;

use crate::buffer::{matrix, partition_bytes, placement_bytes, vector, Writer};
use crate::failure::{Failure, Poison};
use crate::pool::Pool;

/// Most partitions of a collection: one shard each.
const PARALLELISM_MAX: i32 = 128;

/// One immutable template with the buffers that its calls reuse.
pub(crate) struct Router {
    poison: Poison,
    template: Template,
    placements: Pool<Vec<Placement>>,
    partitions: Pool<Vec<u32>>,
}

impl Router {
    /// The template before training.
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

    /// The template as bytes.
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

    /// Writes where a record goes to `out`; returns how many placements that are.
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

    /// Writes the partitions that may hold an answer to `out`; returns how many that are.
    pub(crate) fn fan_out(
        &self,
        bytes: &[u8],
        parallelism: i32,
        out: &mut [u8],
    ) -> Result<usize, Failure> {
        self.poison.guard(|| {
            if !(1..=PARALLELISM_MAX).contains(&parallelism) {
                return Err(Failure::invalid(format!(
                    "Parallelism {parallelism} is out of range; use 1 to {PARALLELISM_MAX}."
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
}
