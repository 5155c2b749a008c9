//! The encoder `lsh`: p-stable hash families whose values lie along a space-filling curve.
//!
//! 1. Hash j of a family is ⌊(a·v + b) / width⌋, with a standard normal and b uniform in
//!    `[0, width)` (Datar, Immorlica, Indyk, Mirrokni, SCG 2004).
//! 2. Its value is scaled to the side of the grid between two quantiles of the sample. A value
//!    outside goes to the first or last cell of its axis. Quantiles replace the extremes because a
//!    single far row would otherwise squeeze all others into one cell.
//! 3. The code is the number of the family, followed by the position of the grid cell on the curve.
//! 4. Each family cuts its own part of the line into ranges that hold equal shares of the sample.
//!
//! A vector is stored in the shard that each family names, and a query visits the shards of its own
//! codes. The query visits no further shard for its neighbours. More families raise both the recall
//! and the number of copies.

mod curve;

pub use curve::{Curve, Grid};

use crate::error::RouteError;
use crate::random::seeded;
use crate::ranges::Ranges;
use crate::space::Space;
use vstream_vector::kernels;

/// Largest number of hashes in one family. Each hash needs at least one bit of the code.
pub const HASHES_MAX: usize = 58;

/// Share of the sample below the start of an axis, and share above its end.
const TAIL: f64 = 0.01;
/// Purpose of the random numbers of family 0. Family f uses this number plus f.
const PURPOSE_FAMILY: u64 = 0x6c73_6800;

/// The settings of the encoder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LshSettings {
    pub(crate) curve: Curve,
    pub(crate) families: usize,
    pub(crate) hashes: usize,
    pub(crate) width: f32,
    pub(crate) bits: u32,
    pub(crate) seed: u64,
}

/// Trained hash families.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lsh {
    pub(crate) settings: LshSettings,
    pub(crate) grid: Grid,
    /// One per family.
    pub(crate) families: Vec<Family>,
}

/// One hash family: its projections and the scale of its axes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Family {
    /// `hashes × form dimension`, row-major.
    pub(crate) projections: Vec<f32>,
    /// One per hash, in `[0, width)`.
    pub(crate) offsets: Vec<f32>,
    /// Value of each hash at the start of its axis.
    pub(crate) starts: Vec<f32>,
    /// Length of each axis in hash values, ≥ 0. With length 0 all rows are in the first cell of the
    /// axis.
    pub(crate) lengths: Vec<f32>,
}

impl Lsh {
    /// Draws the families, scales them to `rows` (row forms) and cuts the line into ranges.
    ///
    /// Errors: `Invalid` if the buckets are so wide that a hash hardly distinguishes the rows.
    pub(crate) fn train(
        settings: LshSettings,
        space: &Space,
        rows: &[f32],
        shards: u16,
    ) -> Result<(Lsh, Ranges), RouteError> {
        let LshSettings { curve, families, hashes, bits, .. } = settings;
        let grid = Grid::for_code(curve, hashes, bits, families)?;
        let mut lsh = Lsh { settings, grid, families: Vec::with_capacity(families) };
        let mut pairs = Vec::with_capacity(families * usize::from(shards));
        for number in 0..families {
            let family = Family::draw(&settings, space, number).scaled(&settings, rows)?;
            lsh.families.push(family);
            let mut codes: Vec<u64> = rows
                .chunks_exact(space.form_dimension())
                .map(|row| lsh.code(number, row))
                .collect();
            codes.sort_unstable();
            let first = lsh.grid.code(0, number, families);
            cut(&codes, first, shards, &mut pairs);
        }
        let ranges = Ranges::from_pairs(&pairs, shards)?;
        Ok((lsh, ranges))
    }

    /// The code of a row form or query form in family `number`. Cost: O(hashes · dimension +
    /// curve). No allocation.
    pub(crate) fn code(&self, number: usize, form: &[f32]) -> u64 {
        let family = &self.families[number];
        let mut cell = [0u32; HASHES_MAX];
        let cell = &mut cell[..self.settings.hashes];
        let last = self.grid.side() - 1;
        for (j, x) in cell.iter_mut().enumerate() {
            let hash = family.hash(j, form, self.settings.width);
            let share = (hash - family.starts[j]) / family.lengths[j];
            // On an axis of length 0 the share may be NaN, which this conversion turns into 0.
            *x = ((share * self.grid.side() as f32) as u32).min(last);
        }
        self.grid.code(self.grid.position(cell), number, self.settings.families)
    }
}

impl Family {
    fn draw(settings: &LshSettings, space: &Space, number: usize) -> Family {
        let mut random = seeded(settings.seed, PURPOSE_FAMILY + number as u64);
        let values = settings.hashes * space.form_dimension();
        let projections = (0..values).map(|_| random.normal()).collect();
        let offset = |_| random.unit() * settings.width;
        let offsets = (0..settings.hashes).map(offset).collect();
        Family { projections, offsets, starts: Vec::new(), lengths: Vec::new() }
    }

    fn scaled(mut self, settings: &LshSettings, rows: &[f32]) -> Result<Family, RouteError> {
        let dimension = self.projections.len() / settings.hashes;
        for j in 0..settings.hashes {
            let quantiles = |width: f32| {
                let hash = |row| self.hash(j, row, width);
                let mut hashes: Vec<f32> = rows.chunks_exact(dimension).map(hash).collect();
                hashes.sort_unstable_by(f32::total_cmp);
                let tail = (hashes.len() as f64 * TAIL) as usize;
                (hashes[tail], hashes[hashes.len() - 1 - tail])
            };
            let (start, end) = quantiles(settings.width);
            let length = end - start + 1.0;
            // Buckets that are 1,024 times finer show whether the rows differ on this axis at all.
            let fine = quantiles(settings.width / 1024.0);
            if length < 4.0 && fine.1 - fine.0 > length {
                return Err(RouteError::invalid(format!(
                    "Buckets of width {} are too wide: hash {j} has only {length} values in the \
                     sample. Set the width to {} or less.",
                    settings.width,
                    settings.width * (fine.1 - fine.0) / 1024.0 / 16.0
                )));
            }
            let axis = if length.is_finite() { (start, length) } else { (0.0, 0.0) };
            self.starts.push(axis.0);
            self.lengths.push(axis.1);
        }
        Ok(self)
    }

    #[inline]
    fn hash(&self, j: usize, form: &[f32], width: f32) -> f32 {
        let projection = &self.projections[j * form.len()..][..form.len()];
        ((kernels::inner_product(projection, form) + self.offsets[j]) / width).floor()
    }
}

/// Appends the ranges of one family: cuts its sorted `codes` into `shards` runs of equal length. It
/// leaves out a run that would start at the same code as the one before, so the starts ascend.
fn cut(codes: &[u64], first: u64, shards: u16, pairs: &mut Vec<(u64, u16)>) {
    pairs.push((first, 0));
    for shard in 1..shards {
        let index = codes.len() * usize::from(shard) / usize::from(shards);
        let start = codes[index.min(codes.len() - 1)];
        if pairs.last().is_some_and(|last| last.0 < start) {
            pairs.push((start, shard));
        }
    }
}
