//! A template: an encoder and the table from its codes to shards, at one epoch.

use crate::cells::{self, Cells, CellsSettings};
use crate::error::RouteError;
use crate::fan_out::Ranking;
use crate::id;
use crate::lsh::{Lsh, LshSettings};
use crate::partition::partition_of_shard;
use crate::ranges::Ranges;
use crate::settings::{EncoderSpec, RouteSettings, SHARDS_MAX};
use crate::space::Space;
use std::cell::RefCell;
use std::sync::Arc;

/// Epoch of the template for the encoder `id`, which needs no training and never changes.
const EPOCH_OF_ID: u64 = 1;

/// The code and the shard of one copy of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Placement {
    /// Position on the line.
    pub code: u64,
    /// Shard of this position.
    pub shard: u16,
}

/// The routing of a collection at one epoch. A template is immutable, and its clones share all
/// memory.
///
/// ```
/// use vstream_route::{EncoderSpec, RouteSettings, Template};
/// use vstream_vector::Metric;
///
/// let encoder = EncoderSpec::Cells { cells: 4, recall_target: 0.98 };
/// let settings =
///     RouteSettings { encoder, dimension: 2, metric: Metric::L2, shards: 4, seed: 42 };
/// let sample: Vec<f32> = (0..200).map(|i| ((i * i) % 97) as f32).collect();
/// let template = Template::train(&settings, &sample, 1)?;
///
/// let (mut places, mut partitions) = (Vec::new(), Vec::new());
/// template.place(7, &[3.0, 4.0], &mut places)?;
/// template.fan_out(&[3.0, 4.0], 2, &mut partitions)?;
/// assert!(partitions.contains(&(u32::from(places[0].shard) * 2 / 4)));
/// # Ok::<(), vstream_route::RouteError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    pub(crate) inner: Arc<Inner>,
}

/// The content of a template.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Inner {
    pub(crate) epoch: u64,
    pub(crate) shards: u16,
    pub(crate) space: Space,
    pub(crate) encoder: Encoder,
    pub(crate) ranges: Ranges,
}

/// A trained encoder, or the rule that stands in for one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Encoder {
    /// Not trained yet: records are placed by their id until a trained template replaces this one.
    Unplaced,
    Id,
    Cells(Cells),
    Lsh(Lsh),
}

/// Buffers of one call. Each thread keeps its own.
#[derive(Default)]
struct Buffers {
    cells: cells::Scratch,
    /// Shards that the query must visit.
    nearest_shards: Vec<u16>,
    ranking: Ranking,
}

thread_local! {
    static BUFFERS: RefCell<Buffers> = RefCell::default();
}

impl Template {
    /// The template before training, with epoch 0. It spreads records over all shards by their id,
    /// and every query visits every partition. For the encoder `id` this is the final template,
    /// with epoch 1.
    ///
    /// `settings` should be valid ([`RouteSettings::validate`]). A number of shards that is out of
    /// range is clamped.
    pub fn unplaced(settings: &RouteSettings) -> Template {
        let shards = settings.shards.clamp(1, SHARDS_MAX);
        let (epoch, encoder) = match settings.encoder {
            EncoderSpec::Id => (EPOCH_OF_ID, Encoder::Id),
            _ => (0, Encoder::Unplaced),
        };
        let space = Space::new(settings.dimension, settings.metric);
        let ranges = Ranges::even(shards);
        Template { inner: Arc::new(Inner { epoch, shards, space, encoder, ranges }) }
    }

    /// True if a trained template has to replace the unplaced one.
    pub fn needs_training(settings: &RouteSettings) -> bool {
        settings.encoder != EncoderSpec::Id
    }

    /// Trains a template on a sample of the stream. The same input gives the same template.
    ///
    /// * `sample`: `rows × dimension` finite values in any order, not normalised. `cells` needs
    ///   [`crate::ROWS_PER_CELL`] rows for each cell, `lsh` needs one for each shard.
    /// * `epoch`: above 0, and above that of every earlier template.
    ///
    /// Cost: some seconds for `cells`; O(rows · hashes · families · dimension) for `lsh`. Errors:
    /// `Invalid` for wrong settings, a wrong sample or epoch 0.
    pub fn train(
        settings: &RouteSettings,
        sample: &[f32],
        epoch: u64,
    ) -> Result<Template, RouteError> {
        settings.validate()?;
        if epoch == 0 {
            return Err(RouteError::invalid(
                "Epoch 0 is that of the unplaced template: number trained templates from 1.",
            ));
        }
        let RouteSettings { dimension, metric, shards, seed, .. } = *settings;
        if !sample.len().is_multiple_of(dimension) {
            return Err(RouteError::invalid(format!(
                "The training sample has {} values, which is no multiple of the dimension \
                 {dimension}: send whole rows.",
                sample.len()
            )));
        }
        let checked = Space::new(dimension, metric);
        for (row, vector) in sample.chunks_exact(dimension).enumerate() {
            checked.check(vector).map_err(|error| {
                RouteError::invalid(format!("Row {row} of the training sample: {error}"))
            })?;
        }
        let space = Space::fit(dimension, metric, sample);
        let (encoder, ranges) = match settings.encoder {
            EncoderSpec::Id => (Encoder::Id, Ranges::even(shards)),
            EncoderSpec::Cells { cells, recall_target } => {
                let settings = CellsSettings { cells, recall_target, shards, seed };
                let (cells, ranges) = cells::train(settings, &space, sample)?;
                (Encoder::Cells(cells), ranges)
            }
            EncoderSpec::Lsh { curve, families, hashes, width, bits } => {
                let settings = LshSettings { curve, families, hashes, width, bits, seed };
                let rows = rows_for_lsh(&space, sample, shards)?;
                let (lsh, ranges) = Lsh::train(settings, &space, &rows, shards)?;
                (Encoder::Lsh(lsh), ranges)
            }
        };
        Ok(Template { inner: Arc::new(Inner { epoch, shards, space, encoder, ranges }) })
    }

    /// Number of this template. A larger number is newer, and 0 means unplaced.
    pub fn epoch(&self) -> u64 {
        self.inner.epoch
    }

    /// True if a trained encoder places records, or one that needs no training.
    pub fn is_placed(&self) -> bool {
        self.inner.encoder != Encoder::Unplaced
    }

    /// Number of shards.
    pub fn shards(&self) -> u16 {
        self.inner.shards
    }

    /// Dimensions of every vector and query.
    pub fn dimension(&self) -> usize {
        self.inner.space.dimension
    }

    /// Largest number of copies that [`Template::place`] makes of one record.
    pub fn copies_max(&self) -> usize {
        match &self.inner.encoder {
            Encoder::Lsh(lsh) => lsh.families.len(),
            _ => 1,
        }
    }

    /// Computes the code and the shard of each copy of a record. `cells`, `id` and the unplaced
    /// template make one copy. `lsh` makes one copy for each distinct shard that its families name,
    /// with the code of the first family that names it.
    ///
    /// * `vector`: `dimension` finite values, not all zero under cosine.
    /// * `out`: cleared and filled.
    ///
    /// Cost: cells × dimension, or families × hashes × dimension. It allocates nothing beyond `out`
    /// and the buffers that each thread keeps. Errors: `Invalid` for a wrong vector; `out` is then
    /// unchanged.
    pub fn place(
        &self,
        id: u64,
        vector: &[f32],
        out: &mut Vec<Placement>,
    ) -> Result<(), RouteError> {
        let inner = &*self.inner;
        inner.space.check(vector)?;
        out.clear();
        let place = |code| Placement { code, shard: inner.ranges.shard_of(code) };
        BUFFERS.with_borrow_mut(|Buffers { cells: scratch, .. }| {
            scratch.form.clear();
            match &inner.encoder {
                Encoder::Unplaced | Encoder::Id => out.push(place(id::code(id))),
                Encoder::Cells(cells) => {
                    inner.space.push_row(vector, &mut scratch.form);
                    out.push(place(cells.code(cells.nearest(scratch))));
                }
                Encoder::Lsh(lsh) => {
                    inner.space.push_row(vector, &mut scratch.form);
                    for family in 0..lsh.families.len() {
                        let placement = place(lsh.code(family, &scratch.form));
                        if out.iter().all(|other| other.shard != placement.shard) {
                            out.push(placement);
                        }
                    }
                }
            }
        });
        Ok(())
    }

    /// Computes the partitions that a query visits, ascending.
    ///
    /// * `query`: `dimension` finite values, not all zero under cosine.
    /// * `parallelism`: number of partitions, `1..=shards`.
    /// * `out`: cleared and filled.
    ///
    /// Cost: cells × dimension + near cells × shards + parallelism · log parallelism. It allocates
    /// nothing beyond `out` and the buffers that each thread keeps. Errors: `Invalid` for a wrong
    /// query or parallelism; `out` is then unchanged.
    pub fn fan_out(
        &self,
        query: &[f32],
        parallelism: u32,
        out: &mut Vec<u32>,
    ) -> Result<(), RouteError> {
        let inner = &*self.inner;
        inner.space.check(query)?;
        if !(1..=u32::from(inner.shards)).contains(&parallelism) {
            return Err(RouteError::invalid(format!(
                "The parallelism is {parallelism}: set it between 1 and the number of shards, {}.",
                inner.shards
            )));
        }
        out.clear();
        BUFFERS.with_borrow_mut(|Buffers { cells: scratch, nearest_shards, ranking }| {
            scratch.form.clear();
            match &inner.encoder {
                Encoder::Unplaced | Encoder::Id => out.extend(0..parallelism),
                Encoder::Cells(cells) => {
                    inner.space.push_query(query, &mut scratch.form);
                    let Some(root) = cells.expected_shares(scratch) else {
                        out.extend(0..parallelism);
                        return;
                    };
                    // A row that equals the query may be in any cell of the nearest root cell.
                    nearest_shards.clear();
                    nearest_shards
                        .extend(cells.cells_of(root).map(|c| inner.ranges.shard_of(cells.code(c))));
                    ranking.rank(&scratch.shares, nearest_shards, parallelism);
                    let threshold = cells.thresholds[parallelism as usize - 1];
                    out.extend_from_slice(ranking.visited(threshold));
                }
                Encoder::Lsh(lsh) => {
                    inner.space.push_query(query, &mut scratch.form);
                    for family in 0..lsh.families.len() {
                        let shard = inner.ranges.shard_of(lsh.code(family, &scratch.form));
                        out.push(partition_of_shard(shard, inner.shards, parallelism));
                    }
                }
            }
        });
        out.sort_unstable();
        out.dedup();
        Ok(())
    }

    /// Number of cells, the units in which load is counted and moved. 0 for another encoder and
    /// before training. With `lsh`, [`Template::interval_starts`] are these units.
    pub fn cells(&self) -> usize {
        match &self.inner.encoder {
            Encoder::Cells(cells) => cells.len(),
            _ => 0,
        }
    }

    /// The cell that holds a code, below [`Template::cells`]; 0 if there are no cells.
    pub fn cell_of(&self, code: u64) -> usize {
        match &self.inner.encoder {
            Encoder::Cells(cells) => cells.cell_of(code),
            _ => 0,
        }
    }

    /// True if ranges of codes can change their shard: with `cells`, and with `lsh` of one family.
    /// A stored row then has one copy, so its code alone says who owns it.
    pub fn is_movable(&self) -> bool {
        match &self.inner.encoder {
            Encoder::Cells(_) => true,
            Encoder::Lsh(lsh) => lsh.families.len() == 1,
            Encoder::Unplaced | Encoder::Id => false,
        }
    }

    /// The shard of any code. Cost: O(log ranges).
    pub fn shard_of(&self, code: u64) -> u16 {
        self.inner.ranges.shard_of(code)
    }
}

/// The row forms of a sample. Errors: `Invalid` if it has fewer rows than there are shards.
fn rows_for_lsh(space: &Space, sample: &[f32], shards: u16) -> Result<Vec<f32>, RouteError> {
    let count = sample.len() / space.dimension;
    if count < usize::from(shards) {
        return Err(RouteError::invalid(format!(
            "The training sample has {count} rows, but {shards} shards need at least one each: \
             raise training-sample."
        )));
    }
    let mut rows = Vec::with_capacity(count * space.form_dimension());
    for vector in sample.chunks_exact(space.dimension) {
        space.push_row(vector, &mut rows);
    }
    Ok(rows)
}
