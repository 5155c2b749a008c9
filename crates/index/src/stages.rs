//! The parts of an approximate search that rows in memory and rows in segments share.
//!
//! 1. Rotate the query ([`RotatedQuery`]).
//! 2. Rank the leaves by what a visit costs and promises ([`LeafCost`]).
//! 3. Scan the codes of the nearest leaves and keep the least estimates ([`BestCandidates`]).
//! 4. Take the exact distances of the best [`Candidate`]s.

use vstream_quantize::rabitq::{QueryTable, Rotation};
use vstream_quantize::Form;
use vstream_vector::{kernels, Metric};

/// A query as the codes of every place with the same rotation see it. Reused from query to query.
#[derive(Default)]
pub struct RotatedQuery {
    vector: Vec<f32>,
    table: QueryTable,
    norm_squared: f32,
}

impl RotatedQuery {
    /// Rotates `query` (`dimension` values) and builds the lookup table of its scans.
    ///
    /// Cost: O(D log D); allocates only when `D` grows.
    pub fn rotate(&mut self, rotation: &Rotation, query: &[f32]) {
        self.vector.resize(rotation.padded(), 0.0);
        rotation.apply(query, &mut self.vector);
        self.table.build(&self.vector);
        self.norm_squared = kernels::norm_squared(&self.vector);
    }

    /// The rotated query, `padded` values.
    pub fn vector(&self) -> &[f32] {
        &self.vector
    }

    /// The lookup table with which code blocks are scanned.
    pub fn table(&self) -> &QueryTable {
        &self.table
    }

    /// The squared norm of the query.
    pub fn norm_squared(&self) -> f32 {
        self.norm_squared
    }

    /// The norm of the query.
    pub fn norm(&self) -> f32 {
        self.norm_squared.sqrt()
    }
}

/// The form in which codes estimate distances of a metric.
pub fn form_of(metric: Metric) -> Form {
    match metric {
        Metric::L2 | Metric::Cosine => Form::L2,
        Metric::InnerProduct => Form::InnerProduct,
    }
}

/// Orders leaves for one query: a search visits leaves in ascending order of cost.
#[derive(Clone, Copy, Debug)]
pub struct LeafCost {
    /// By inner product, how much a leaf's best row is credited per unit of the leaf's reach.
    credit: Option<f32>,
}

impl LeafCost {
    /// By inner product, a leaf is credited what its best row may add to the product of the centroid.
    ///
    /// A row `x = c + r` has the product `<q, c> + <q, r>`. Over residuals of one length in random
    /// directions `<q, r>` has the deviation `|q| |r| / sqrt(D)`, and the largest of `n` of them is
    /// about `sqrt(2 ln n)` deviations.
    ///
    /// * `dimension`: dimensions of the vectors, ≥ 1.
    /// * `norm`: norm of the query.
    pub fn new(form: Form, dimension: usize, norm: f32) -> LeafCost {
        /// `sqrt(2 ln 256)`: a leaf has some 256 rows.
        const LARGEST: f32 = 3.33;
        let credit = match form {
            Form::L2 => None,
            Form::InnerProduct => Some(norm * LARGEST / (dimension as f32).sqrt().max(LARGEST)),
        };
        LeafCost { credit }
    }

    /// The cost of a leaf.
    ///
    /// * `base`: [`Form::base`] of the query and the centroid, exact or estimated.
    /// * `reach`: largest Euclidean distance of a row to the centroid; read by inner product alone.
    #[inline]
    pub fn of_leaf(&self, base: f32, reach: impl FnOnce() -> f32) -> f32 {
        match self.credit {
            None => base,
            Some(credit) => base - credit * reach().min(f32::MAX),
        }
    }
}

/// A row that a scan of codes found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Distance to the query as its code estimates it.
    pub estimate: f32,
    /// Rank of its leaf among the ranked leaves of its place, from 0.
    pub leaf: u32,
    /// Position in its leaf: `block · 32 + lane`.
    pub row: u32,
}

/// Keeps the candidates with the least estimates while codes are scanned.
///
/// A threshold says which estimates are still of use. It is lowered whenever four times as many
/// candidates as wanted have passed it, so that each candidate costs O(1) on average.
pub struct BestCandidates<'a> {
    keep: usize,
    threshold: f32,
    is_cut: bool,
    candidates: &'a mut Vec<Candidate>,
}

impl<'a> BestCandidates<'a> {
    /// Continues with the candidates of earlier scans.
    ///
    /// * `keep`: candidates wanted, ≥ 1.
    /// * `below`: a bound that candidates of other places set; infinite without one.
    /// * `candidates`: empty, or the best `keep` so far, best first.
    pub fn new(keep: usize, below: f32, candidates: &'a mut Vec<Candidate>) -> BestCandidates<'a> {
        let last = candidates.get(keep - 1).map_or(f32::INFINITY, |last| last.estimate);
        BestCandidates { keep, threshold: below.min(last), is_cut: false, candidates }
    }

    /// Only candidates with estimates below it can be among the best.
    #[inline]
    pub fn threshold(&self) -> f32 {
        self.threshold
    }

    /// Adds a candidate with an estimate below the threshold.
    #[inline]
    pub fn push(&mut self, candidate: Candidate) {
        self.candidates.push(candidate);
    }

    /// Lowers the threshold if enough candidates have passed it; called once per block of codes.
    #[inline]
    pub fn lower(&mut self) {
        if self.candidates.len() >= self.keep.saturating_mul(4) {
            self.cut();
        }
    }

    /// Cuts the candidates to the best `keep`, in no order; true if any candidate was dropped.
    pub fn finish(mut self) -> bool {
        if self.candidates.len() > self.keep {
            self.cut();
        }
        self.is_cut
    }

    fn cut(&mut self) {
        let by_estimate = |a: &Candidate, b: &Candidate| a.estimate.total_cmp(&b.estimate);
        let (_, last, _) = self.candidates.select_nth_unstable_by(self.keep - 1, by_estimate);
        self.threshold = last.estimate;
        self.candidates.truncate(self.keep);
        self.is_cut = true;
    }
}

/// Sorts candidates, best first.
pub fn sort_candidates(candidates: &mut [Candidate]) {
    candidates.sort_unstable_by(|a, b| a.estimate.total_cmp(&b.estimate));
}

#[cfg(test)]
mod tests;
