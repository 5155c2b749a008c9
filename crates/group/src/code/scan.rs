//! Bounds on the distances of a query to the rows of a leaf, from their codes.

use vstream_quantize::rabitq::extended::{self, ExtendedFactors, ExtendedQuery};
use vstream_quantize::rabitq::{block_bytes, QueryTable, Rotation, BLOCK};
use vstream_quantize::Form;
use vstream_vector::{kernels, Metric};

use super::{form, nibble_row_bytes, widen_half, CodeKind};

/// Part of the squared magnitude of all vectors involved that rounding may change: sums of up to
/// 4,096 products in single precision, in registers of 8 or 16 partial sums.
const ROUNDING: f32 = 2e-5;

/// A query, rotated, in the forms that scans need.
pub(crate) struct QueryCodes {
    metric: Metric,
    form: Form,
    deviations: f32,
    rotated: Vec<f32>,
    /// Norm of the query.
    length: f32,
    /// Largest coordinate, and largest sum of four, of the rotated query.
    largest: f32,
    largest_group: f32,
    signs: QueryTable,
    nibbles: ExtendedQuery,
}

/// The distance of a row is within these ends, under the bound of the store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Interval {
    pub(crate) least: f32,
    pub(crate) most: f32,
}

/// A query and the centroid of a leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeafQuery {
    /// Distance of the query and the centroid under the form.
    base: f32,
    /// Euclidean distance of the query and the centroid, rounded up.
    gap: f32,
    /// What rounding may add to any estimate or distance.
    rounding: f32,
    /// Largest `add` and `scale` of the leaf's signs.
    factor_max: (f32, f32),
    /// No row of the leaf is nearer than this.
    pub(crate) least: f32,
}

impl QueryCodes {
    /// * `query`: as [`crate::accept::query_vector`] prepares it.
    /// * `deviations`: width of the bound of signs.
    pub(crate) fn new(
        metric: Metric,
        rotation: &Rotation,
        query: &[f32],
        deviations: f32,
    ) -> QueryCodes {
        let mut rotated = vec![0.0; rotation.padded()];
        rotation.apply(query, &mut rotated);
        let group = |group: &[f32]| group.iter().map(|x| x.abs()).sum::<f32>();
        let mut codes = QueryCodes {
            metric,
            form: form(metric),
            deviations,
            length: kernels::norm_squared(query).sqrt() * (1.0 + 1e-5),
            largest: rotated.iter().fold(0.0, |most, x| x.abs().max(most)),
            largest_group: rotated.chunks(4).map(group).fold(0.0, f32::max),
            signs: QueryTable::new(),
            nibbles: ExtendedQuery::new(),
            rotated,
        };
        codes.signs.build(&codes.rotated);
        codes.nibbles.build(&codes.rotated);
        codes
    }

    /// Places the query beside a leaf.
    ///
    /// * `centroid`: rotated, `padded` values.
    /// * `reach`: largest distance of a row of the leaf to it.
    /// * `factor_max`: largest `add` and `scale` of the leaf's signs.
    pub(crate) fn beside(&self, centroid: &[f32], reach: f32, factor_max: (f32, f32)) -> LeafQuery {
        let squared = kernels::l2_squared(&self.rotated, centroid);
        let magnitude = self.length + kernels::norm_squared(centroid).sqrt() + reach;
        let rounding = ROUNDING * magnitude * magnitude;
        let gap = (squared + rounding).sqrt();
        let (base, least) = match self.form {
            Form::L2 => {
                let nearest = ((squared - rounding).max(0.0).sqrt() - reach).max(0.0);
                (squared, nearest * nearest)
            }
            Form::InnerProduct => {
                let product = kernels::inner_product(&self.rotated, centroid);
                (-product, -product - self.length * reach)
            }
        };
        LeafQuery { base, gap, rounding, factor_max, least: self.shifted(least) - rounding }
    }

    /// Cosine counts from 1.
    fn shifted(&self, distance: f32) -> f32 {
        if self.metric == Metric::Cosine {
            1.0 + distance
        } else {
            distance
        }
    }

    /// Appends an interval per row of the leaf to `out`.
    ///
    /// * `codes`: those of the leaf, `kind.leaf_bytes(rows, padded)` bytes.
    pub(crate) fn scan(
        &self,
        kind: CodeKind,
        leaf: LeafQuery,
        codes: &[u8],
        rows: usize,
        out: &mut Vec<Interval>,
    ) {
        match kind {
            CodeKind::Signs => self.scan_signs(leaf, codes, rows, out),
            CodeKind::Nibbles => self.scan_nibbles(leaf, codes, out),
        }
    }

    fn scan_signs(&self, leaf: LeafQuery, codes: &[u8], rows: usize, out: &mut Vec<Interval>) {
        let (add_max, scale_max) = leaf.factor_max;
        let padded = self.rotated.len();
        // Factors are rounded to 8 bits, entries of the table to half a step of a 255th.
        let half_step = self.largest_group / 255.0;
        let table = scale_max * (padded / 4) as f32 * half_step;
        let slack = leaf.rounding + table * 1.01 + add_max / 128.0;
        let (blocks, deviations) = codes.split_at(rows.div_ceil(BLOCK) * block_bytes(padded));
        let mut estimates = [0.0; BLOCK];
        let deviations = deviations.chunks(2 * BLOCK);
        for (block, deviations) in blocks.chunks_exact(block_bytes(padded)).zip(deviations) {
            self.signs.scan_block(block, leaf.base, &mut estimates);
            for (estimate, deviation) in estimates.iter().zip(deviations.chunks_exact(2)) {
                let deviation = widen_half(u16::from_le_bytes([deviation[0], deviation[1]]));
                let product = (estimate - leaf.base).abs() / 128.0;
                let margin = self.deviations * deviation * leaf.gap + slack + product;
                out.push(self.interval(*estimate, margin));
            }
        }
    }

    fn scan_nibbles(&self, leaf: LeafQuery, codes: &[u8], out: &mut Vec<Interval>) {
        let rows = codes.chunks_exact(nibble_row_bytes(self.rotated.len()));
        out.extend(rows.map(|row| self.bound(leaf, row)));
    }

    /// The interval of a row from its nibbles, which the codes of a leaf or a second look have.
    pub(crate) fn bound(&self, leaf: LeafQuery, row: &[u8]) -> Interval {
        let padded = self.rotated.len();
        let twice = if self.form == Form::L2 { 2.0 } else { 1.0 };
        // The query's coordinates are rounded to half a 16,383rd of the largest one, and those of
        // a code are 7.5 at most.
        let rounded = 7.5 * padded as f32 * self.largest / 32_000.0;
        let (code, rest) = row.split_at(extended::code_bytes(padded));
        let (factors, error) = rest.split_at(extended::EXTENDED_FACTOR_BYTES);
        let factors = factors.try_into().expect("six bytes of factors");
        let factors = ExtendedFactors::from_bytes(factors);
        let error = widen_half(u16::from_le_bytes([error[0], error[1]]));
        let estimate = self.nibbles.estimate(code, factors, leaf.base);
        let margin = twice * error * leaf.gap + factors.scale.abs() * rounded + leaf.rounding;
        self.interval(estimate, margin)
    }

    fn interval(&self, estimate: f32, margin: f32) -> Interval {
        let estimate = self.shifted(estimate);
        Interval { least: estimate - margin, most: estimate + margin }
    }
}
