//! A query's lookup table, and the scan of a block with it.

use super::block::{block_bytes, factor, wide, BLOCK, FACTOR_BYTES};
use super::encode::SPREAD;
use super::kernels::{self, Scan};
use crate::Form;

/// Tables of four groups, 16 bytes each, the lookup range of one AVX-512 shuffle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [u8; 64]);

/// Standard deviation of the error of what two factors of one size give, over the sum of both. A factor is rounded to
/// 8 bits, which is an error of 0.0016 of it; what it gives differs in size from the other only where it is small
/// beside the error of the code.
const FACTOR_ERROR: f32 = 0.001_13;

/// Number of dimensions in one [`Line`].
const LINE_DIMENSIONS: usize = 16;

/// Sums of a query's coordinates under every sign pattern, as bytes. Queries reuse the table.
///
/// Group `g` (dimensions `4g..4g + 4`) has 16 entries in the order of the nibbles of a block. Entry
/// `v` is `Σⱼ ±q₄g₊ⱼ`, positive where bit `j` of `v` is set. `Σⱼ |q₄g₊ⱼ|` is added to it, and the
/// sum is rounded to a multiple of one `step` for all groups. The rounding adds a random error of
/// about `step · √(D / 48)` to `⟨s, q⟩`, some hundredths of the error of the code itself.
#[derive(Clone, Debug, Default)]
pub struct QueryTable {
    padded: usize,
    lines: Vec<Line>,
    pub(super) step: f32,
    pub(super) bias: f32,
}

impl QueryTable {
    /// An empty table. Build it before use.
    pub fn new() -> QueryTable {
        QueryTable::default()
    }

    /// Fills the table for a rotated query of `D` finite values, `D` a multiple of 64 up to 2¹⁶.
    ///
    /// Cost: O(D); allocates only when `D` grows. Panics if `D` is no multiple of 64.
    pub fn build(&mut self, query: &[f32]) {
        assert!(query.len().is_multiple_of(64), "a rotated query has a multiple of 64 dimensions");
        assert!(query.len() <= 1 << 16, "sums of more than 65,536 dimensions are not exact");
        self.padded = query.len();
        self.lines.resize(query.len() / LINE_DIMENSIONS, Line([0; 64]));
        (self.step, self.bias) = kernels::build(query, &mut self.lines);
    }

    /// Estimates the distances of a block's 32 rows.
    ///
    /// * `block`: [`block_bytes`] bytes, filled by [`super::clear`] and [`super::pack_lane`].
    /// * `base`: [`crate::Form::base`] of the query and the block's centroid.
    /// * `out`: one estimate per lane; infinite for a lane without a row.
    ///
    /// Cost: about `D / 128` ns per row in cache. Panics if `block` is of another dimension.
    #[inline]
    pub fn scan_block(&self, block: &[u8], base: f32, out: &mut [f32; BLOCK]) {
        self.scan_block_below(block, base, f32::INFINITY, out);
    }

    /// Scans like [`QueryTable::scan_block`]. Bit `i` of the result is set if `out[i] < threshold`.
    #[inline]
    pub fn scan_block_below(
        &self,
        block: &[u8],
        base: f32,
        threshold: f32,
        out: &mut [f32; BLOCK],
    ) -> u32 {
        assert_eq!(block.len(), block_bytes(self.padded), "block of another dimension");
        let scan =
            Scan { lines: &self.lines, block, step: self.step, bias: self.bias, base, threshold };
        kernels::scan(&scan, out)
    }

    /// Scans like [`QueryTable::scan_block_below`], with every estimate lowered by `deviations` standard
    /// deviations of its error: few rows are nearer than such an estimate says.
    ///
    /// The error has three parts: that of the code, in proportion to the distance of query and centroid; that
    /// of this table, in proportion to the query's length; and that of the factors, in proportion to theirs.
    /// The last two are all there is where vectors are long and close together, such as temperatures in Kelvin.
    ///
    /// * `gap`: Euclidean distance of the query to the block's centroid, not squared.
    pub fn scan_block_lowered(
        &self,
        block: &[u8],
        (base, gap): (f32, f32),
        deviations: f32,
        threshold: f32,
        out: &mut [f32; BLOCK],
    ) -> u32 {
        self.scan_block(block, base, out);
        let (_, factors) = block.split_at(block.len() - FACTOR_BYTES);
        // Each part is so much times a standard normal number. The first two are in proportion to `scale`,
        // which is negative.
        let code = SPREAD * gap;
        let table = self.step * (self.padded as f32 / 48.0).sqrt();
        let margin = deviations * (code * code + table * table).sqrt();
        let rounding = deviations * FACTOR_ERROR;
        let (adds, scales) = factors.split_at(FACTOR_BYTES / 2);
        let factors = adds.as_chunks::<2>().0.iter().zip(scales.as_chunks::<2>().0);
        for (estimate, (add, scale)) in out.iter_mut().zip(factors) {
            let (add, scale) = (wide(*add), wide(*scale));
            let signs = *estimate - base - add;
            // An empty lane gives what is not a number, and is never below.
            *estimate += scale * margin - rounding * (add.abs() + signs.abs());
        }
        let below = |lanes: u32, estimate: &f32| lanes << 1 | u32::from(*estimate < threshold);
        out.iter().rev().fold(0, below)
    }

    /// Finds the lanes of a block whose rows may be nearer to another centroid than to their own.
    ///
    /// The table must be built for `d`, the other centroid minus that of the block; `gap` is
    /// `|d|²`. A row is nearer to the other centroid if `|d|² < 2⟨r, d⟩`, and the code estimates
    /// the right side by `2f⟨s, d⟩`. The row counts as nearer if the estimate plus `deviations`
    /// standard deviations exceeds `|d|²`. Bit `i` of the result is lane `i`. The bit of an empty
    /// lane is never set.
    pub fn lanes_nearer(&self, form: Form, block: &[u8], gap: f32, deviations: f32) -> u32 {
        let mut sums = [0.0; BLOCK];
        self.scan_block(block, 0.0, &mut sums);
        let (_, factors) = block.split_at(block.len() - FACTOR_BYTES);
        // `scale` is `−2f` or `−f`.
        let twice = match form {
            Form::L2 => 1.0,
            Form::InnerProduct => 2.0,
        };
        let margin = deviations * SPREAD * gap.sqrt();
        let mut lanes = 0;
        for (lane, sum) in sums.iter().enumerate() {
            let (add, scale) = (factor(factors, 0, lane), factor(factors, 1, lane));
            // An empty lane gives infinity minus infinity, which is NaN and never below.
            let difference = gap + twice * ((sum - add) + scale * margin);
            lanes |= u32::from(difference < 0.0) << lane;
        }
        lanes
    }

    #[cfg(test)]
    pub(super) fn lines(&self) -> &[Line] {
        &self.lines
    }
}
