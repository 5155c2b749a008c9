//! One byte per dimension for centroids. A query is compared with 16 of them at once, without
//! horizontal sums.
//!
//! 1. Build: subtract the mean `m` of the centroids. In blocks of 16, map the range of the block's
//!    values to 0..=255 (`ĉᵢ ≈ middle + step · (uᵢ − 128)`). Interleave four dimensions of 16
//!    centroids in 64 bytes, as the instruction needs them that sums four byte products.
//! 2. Scan: map the query's values `q̂ = q − m` to −127..=127 (`q̂ᵢ ≈ step_q · vᵢ`), add up the
//!    integer products, and compute the distance with exact norms:
//!
//! ```text
//! ⟨q̂, ĉ⟩   ≈ middle · Σ q̂ᵢ + step · step_q · (Σ vᵢuᵢ − 128 · Σ vᵢ)
//! |q − c|² = |q̂|² + |ĉ|² − 2⟨q̂, ĉ⟩
//! −⟨q, c⟩  = −⟨q, m⟩ − ⟨m, ĉ⟩ − ⟨q̂, ĉ⟩
//! ```
//!
//! The error of the product is at most
//! `(step · Σ|q̂ᵢ| + step_q · Σ|ĉᵢ − middle| + D·step·step_q/2) / 2` plus float rounding, and
//! typically about `√(step²·|q̂|² + step_q²·|ĉ|²) / √12`. The error of an L2 distance is twice
//! that. Rotated vectors have no outlying coordinates, which keeps the steps small.
//!
//! Rejected: seven-bit codes. AVX2 without VNNI could sum them in 16 bits, twice as fast, but they
//! would double the error on every machine for the sake of old ones.

#[expect(unsafe_code, reason = "SIMD forms load through pointers and are called after detection")]
mod kernels;
#[cfg(test)]
mod tests;

use crate::Form;
use vstream_vector::kernels as vector;

/// Number of centroids in one block.
const LANES: usize = 16;

/// Number of dimensions in one group, which one 32-bit sum of byte products covers.
const GROUP: usize = 4;

/// Dimensions are padded with zeros to whole steps of four groups.
const PADDING: usize = 4 * GROUP;

/// The code of `middle`.
const ZERO: u8 = 128;

/// Four dimensions of 16 centroids: byte `4 · lane + j` is dimension `4 · group + j`.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Group([u8; 64]);

/// The values of a block of 16 centroids beside its codes.
#[derive(Clone, Debug)]
struct BlockFactors {
    middle: f32,
    step: f32,
    /// `|ĉ|²` of each lane.
    norms: [f32; LANES],
    /// `⟨m, ĉ⟩` of each lane.
    mean_products: [f32; LANES],
}

/// An immutable set of centroids, coded for scans. It takes about `dimension + 8` bytes per
/// centroid.
#[derive(Clone, Debug)]
pub struct Centroids {
    len: usize,
    dimension: usize,
    /// `m`, padded with zeros.
    mean: Vec<f32>,
    /// Blocks one after another, `groups` groups each.
    codes: Vec<Group>,
    groups: usize,
    blocks: Vec<BlockFactors>,
}

/// The buffers of a scan. Queries reuse them, so that nothing is allocated.
#[derive(Clone, Debug, Default)]
pub struct ScanScratch {
    /// `q̂`, padded with zeros.
    centred: Vec<f32>,
    /// `v`, four dimensions each.
    words: Vec<[i8; GROUP]>,
}

impl Centroids {
    /// Codes `rows` (`n × dimension`, row-major, finite), for any n.
    ///
    /// Cost: O(n · dimension). Panics if `dimension` is 0 or `rows` is not a whole number of rows.
    pub fn build(rows: &[f32], dimension: usize) -> Centroids {
        assert!(dimension > 0, "a centroid has at least one dimension");
        assert!(rows.len().is_multiple_of(dimension), "rows must be n × dimension");
        let row =
            |at: usize, out: &mut [f32]| out.copy_from_slice(&rows[at * dimension..][..dimension]);
        Centroids::of(rows.len() / dimension, dimension, &mut &row)
    }

    /// Codes `len` rows that are nowhere together: `row` writes the one of a number to a slice. It is called twice
    /// for each.
    ///
    /// Cost: as [`Centroids::build`]. Panics if `dimension` is 0.
    pub fn of(len: usize, dimension: usize, row: &mut dyn FnMut(usize, &mut [f32])) -> Centroids {
        assert!(dimension > 0, "a centroid has at least one dimension");
        let mut rows = vec![0.0f32; LANES.min(len) * dimension];
        let mut sums = vec![0.0f64; dimension];
        for at in 0..len {
            row(at, &mut rows[..dimension]);
            sums.iter_mut().zip(&rows).for_each(|(sum, &x)| *sum += f64::from(x));
        }
        let mut mean: Vec<f32> = sums.iter().map(|sum| (sum / len.max(1) as f64) as f32).collect();
        mean.resize(dimension.next_multiple_of(PADDING), 0.0);
        let groups = mean.len() / GROUP;
        let mut centroids = Centroids {
            len,
            dimension,
            mean,
            codes: Vec::with_capacity(len.div_ceil(LANES) * groups),
            groups,
            blocks: Vec::with_capacity(len.div_ceil(LANES)),
        };
        for from in (0..len).step_by(LANES) {
            let together = LANES.min(len - from);
            for (at, out) in rows.chunks_exact_mut(dimension).take(together).enumerate() {
                row(from + at, out);
            }
            centroids.push_block(&rows[..together * dimension]);
        }
        centroids
    }

    /// Number of centroids.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there is no centroid.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Dimensions of the centroids and queries.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Writes the approximate distances of `query` to all centroids to `out`, in their order, and
    /// replaces its former content.
    ///
    /// * `query`: `dimension` finite values.
    ///
    /// Cost: about `D / 130` ns per centroid and `D / 2` ns for the query; allocates only while the
    /// buffers grow. Panics if `query` has another dimension.
    pub fn scan(&self, form: Form, query: &[f32], scratch: &mut ScanScratch, out: &mut Vec<f32>) {
        assert_eq!(query.len(), self.dimension(), "query of another dimension");
        scratch.centred.resize(self.groups * GROUP, 0.0);
        scratch.words.resize(self.groups, [0; GROUP]);
        // The kernel writes empty lanes too, which are then cut off.
        out.resize(self.blocks.len() * LANES, 0.0);
        kernels::scan(self, form, query, scratch, out.as_chunks_mut().0);
        out.truncate(self.len);
    }

    /// Adds a block of up to 16 rows. Empty lanes code the mean.
    fn push_block(&mut self, rows: &[f32]) {
        let dimension = self.dimension;
        let mean = &self.mean[..dimension];
        let centred: Vec<f32> = rows.iter().zip(mean.iter().cycle()).map(|(x, m)| x - m).collect();
        let (low, high) = centred
            .iter()
            .fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), &x| (low.min(x), high.max(x)));
        let step = (high - low) / 255.0;
        let per_step = if step > 0.0 && (1.0 / step).is_finite() { 1.0 / step } else { 0.0 };
        let mut block = BlockFactors {
            middle: if per_step > 0.0 { low + f32::from(ZERO) * step } else { (low + high) / 2.0 },
            step: if per_step > 0.0 { step } else { 0.0 },
            norms: [0.0; LANES],
            mean_products: [0.0; LANES],
        };
        let from = self.codes.len();
        self.codes.resize(from + self.groups, Group([ZERO; 64]));
        for (lane, row) in centred.chunks_exact(dimension).enumerate() {
            block.norms[lane] = vector::norm_squared(row);
            block.mean_products[lane] = vector::inner_product(row, mean);
            for (d, x) in row.iter().enumerate() {
                let code = ((x - low) * per_step).round_ties_even() as u8;
                let code = if per_step > 0.0 { code } else { ZERO };
                self.codes[from + d / GROUP].0[GROUP * lane + d % GROUP] = code;
            }
        }
        self.blocks.push(block);
    }
}
