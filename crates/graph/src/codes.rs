//! Codes in memory: what leads a search to the next block.
//!
//! A code refers to the nearest of up to 256 centroids, so that residuals are short. Per vector:
//! `u8 centroid | factors | code`. One bit: both factors as bf16, then the signs. Four bits: the
//! stored form of the extended factors, then the nibbles.

use vstream_index::stages::form_of;
use vstream_quantize::rabitq::extended::{
    code_bytes, encode as encode_four, ExtendedFactors, ExtendedQuery, EXTENDED_FACTOR_BYTES,
};
use vstream_quantize::rabitq::{encode, Rotation};
use vstream_quantize::Form;
use vstream_vector::{kernels, Bf16, KMeans, KMeansSettings, Metric, Number, Widen};

use crate::settings::CodeBits;
use crate::vectors::{Vectors, Wide};

/// Most centroids: a byte says which.
pub(crate) const CENTROIDS_MAX: usize = 256;
/// Rows per centroid, at least.
const ROWS_PER_CENTROID: usize = 64;
/// Rows per centroid on which the centroids are trained.
const TRAINED: usize = 32;

/// Bytes of a code with its factors.
pub(crate) fn stride(bits: CodeBits, padded: usize) -> usize {
    match bits {
        CodeBits::One => 5 + padded / 8,
        CodeBits::Four => 1 + EXTENDED_FACTOR_BYTES + code_bytes(padded),
    }
}

/// Codes of all vectors and their centroids (rotated).
pub(crate) struct Codes {
    pub(crate) bits: CodeBits,
    pub(crate) form: Form,
    pub(crate) padded: usize,
    pub(crate) centroids: Vec<f32>,
    pub(crate) bytes: Vec<u8>,
}

impl Codes {
    /// Trains centroids and codes all rows in the given order.
    pub(crate) fn build<N: Number>(
        vectors: &Vectors<N>,
        order: &[u32],
        (bits, metric): (CodeBits, Metric),
        rotation: &Rotation,
    ) -> Codes {
        let (padded, form) = (rotation.padded(), form_of(metric));
        let clusters = (order.len() / ROWS_PER_CENTROID).clamp(1, CENTROIDS_MAX);
        let step = (order.len() / (clusters * TRAINED)).max(1);
        let mut wide = Wide::default();
        let mut rotate = |row: u32, out: &mut [f32]| {
            vectors.widen(row, &mut wide);
            rotation.apply(&wide.numbers, out);
        };
        let mut trained = Vec::new();
        for &row in order.iter().step_by(step) {
            let from = trained.len();
            trained.resize(from + padded, 0.0);
            rotate(row, &mut trained[from..]);
        }
        let settings =
            KMeansSettings { clusters, iterations: 8, seed: rotation.seed(), balance: 0.0 };
        let centroids = KMeans::train(&trained, padded, settings).centroids;
        let mut codes = Codes { bits, form, padded, centroids, bytes: Vec::new() };
        let mut gaps = vec![0.0; codes.centroids.len() / padded];
        let mut rotated = vec![0.0; padded];
        codes.bytes.reserve_exact(order.len() * codes.stride());
        for &row in order {
            rotate(row, &mut rotated);
            kernels::l2_squared_batch(&rotated, &codes.centroids, &mut gaps);
            let nearest = (0..gaps.len()).min_by(|&a, &b| gaps[a].total_cmp(&gaps[b]));
            codes.push(&rotated, nearest.unwrap_or(0));
        }
        codes
    }

    fn stride(&self) -> usize {
        stride(self.bits, self.padded)
    }

    fn push(&mut self, rotated: &[f32], centroid: usize) {
        let residual = &self.centroids[centroid * self.padded..][..self.padded];
        self.bytes.push(centroid as u8);
        match self.bits {
            CodeBits::One => {
                let mut signs = vec![0; self.padded / 8];
                let factors = encode(self.form, rotated, residual, &mut signs);
                Bf16::narrow(factors.add).put(&mut self.bytes);
                Bf16::narrow(factors.scale).put(&mut self.bytes);
                self.bytes.extend_from_slice(&signs);
            }
            CodeBits::Four => {
                let mut code = vec![0; code_bytes(self.padded)];
                let factors = encode_four(self.form, rotated, residual, &mut code);
                self.bytes.extend_from_slice(&factors.to_bytes());
                self.bytes.extend_from_slice(&code);
            }
        }
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.len() + size_of_val(&*self.centroids)
    }
}

/// What a query needs to estimate distances from codes. Queries reuse it.
#[derive(Default)]
pub(crate) struct CodeQuery {
    rotated: Vec<f32>,
    /// Distance to each centroid.
    bases: Vec<f32>,
    /// For each byte of a code the sum of eight coordinates under its signs.
    sums: Vec<[f32; 256]>,
    four: ExtendedQuery,
}

impl CodeQuery {
    /// Prepares for a query. Cost: O(padded · (centroids + 32)).
    pub(crate) fn build(&mut self, codes: &Codes, rotation: &Rotation, query: &[f32]) {
        self.rotated.resize(codes.padded, 0.0);
        rotation.apply(query, &mut self.rotated);
        let rotated = &self.rotated;
        self.bases.clear();
        let centroids = codes.centroids.chunks_exact(codes.padded);
        self.bases.extend(centroids.map(|centroid| codes.form.base(rotated, centroid)));
        match codes.bits {
            CodeBits::Four => self.four.build(rotated),
            CodeBits::One => {
                self.sums.resize(codes.padded / 8, [0.0; 256]);
                for (sums, eight) in self.sums.iter_mut().zip(rotated.chunks_exact(8)) {
                    sums[0] = -eight.iter().sum::<f32>();
                    for signs in 1usize..256 {
                        let last = signs.trailing_zeros() as usize;
                        sums[signs] = sums[signs & (signs - 1)] + 2.0 * eight[last];
                    }
                }
            }
        }
    }

    /// Estimates the distance of vector `at`: squared Euclidean, or negative inner product.
    #[inline]
    pub(crate) fn estimate(&self, codes: &Codes, at: u32) -> f32 {
        let stride = codes.stride();
        let code = &codes.bytes[at as usize * stride..][..stride];
        let base = self.bases[usize::from(code[0])];
        match codes.bits {
            CodeBits::One => {
                let (factors, signs) = code[1..].split_at(4);
                let pairs = self.sums.iter().zip(signs);
                let sum: f32 = pairs.map(|(sums, &byte)| sums[usize::from(byte)]).sum();
                base + Bf16::take(factors).widen() + Bf16::take(&factors[2..]).widen() * sum
            }
            CodeBits::Four => {
                let (factors, code) = code[1..].split_at(EXTENDED_FACTOR_BYTES);
                let factors = factors.try_into().map(ExtendedFactors::from_bytes);
                self.four.estimate(code, factors.expect("six bytes"), base)
            }
        }
    }
}
